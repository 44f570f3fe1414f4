package relay

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sourcegraph/conc"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/worker"
	"github.com/tidegate/tidegate/pkg/api"
)

// service names the relays' group and their dead letters.
const service = api.ServiceRelay

// Config holds the settings of a relay.
type Config struct {
	NATS      *nats.Conn // the relay's own: it is closed when Run ends
	DynamoDB  aws.Config
	Table     string
	Member    string // unique among the running relays
	Version   string // semantic, for the list of services; 0.0.0 where empty
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Retention feed.Retention // of the feed; the relay that starts last sets it
	// Expects names services. Their changes wait in the feed also before the first of
	// their processes has registered.
	Expects []string
	Tuning  Tuning
}

// Tuning are the sizes and times of a relay. Zero values mean the defaults.
type Tuning struct {
	Page           int           // records in a read and a batch at most. Default and maximum 999
	Poll           time.Duration // between two reads of a stream shard that has no more. Default 200 ms: DynamoDB allows 5 a second
	Survey         time.Duration // between two looks at the stream shards and the running relays; each is a heartbeat. Default 1 s
	MemberTTL      time.Duration // how long it is believed to. Default 3 s
	StoreTimeout   time.Duration // of a call to DynamoDB. Default 5 s
	PublishTimeout time.Duration // of a request to NATS. Default 5 s
	MaxBackoff     time.Duration // the longest pause before a retry. Default 5 s
	Checkpoint     time.Duration // how old a place may get that only records outside of the feed were read since. Default 1 min
	Purge          time.Duration // between two purges of changes that all services have seen; far longer than a consumer takes to learn of a message. Default 30 s
	Quarantine     time.Duration // in a new term of the feed, how long the services' members have to look for forgotten records before the feed is purged. Default a third of Purge
}

func (t Tuning) withDefaults() Tuning {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&t.Poll, 200 * time.Millisecond},
		{&t.Survey, time.Second},
		{&t.MemberTTL, 3 * time.Second},
		{&t.StoreTimeout, 5 * time.Second},
		{&t.PublishTimeout, 5 * time.Second},
		{&t.MaxBackoff, 5 * time.Second},
		{&t.Checkpoint, time.Minute},
		{&t.Purge, 30 * time.Second},
	} {
		if *d.of <= 0 {
			*d.of = d.value
		}
	}
	if t.Quarantine <= 0 {
		t.Quarantine = t.Purge / 3
	}
	if t.Page <= 0 || t.Page >= maxBatch {
		t.Page = maxBatch - 1
	}
	return t
}

// parallelBatches is how many batches a relay publishes at once: enough to keep
// the server busy, and few enough for its queue.
const parallelBatches = 4

// Relay is a relay of a table.
type Relay struct {
	cfg     Config
	tuning  Tuning
	worker  *worker.Worker
	store   *streamStore
	metrics *metrics
	room    room
	js      jetstream.JetStream
	dead    *feed.DeadLetters
	feed    jetstream.Stream // set by open before anything reads it
	members *feed.Members    // set by open
	history *history
	batches chan struct{} // holds an element for each batch that is being published
	ended   chan struct{} // says that a reader has come to a shard's end
	ready   chan struct{}
}

// New makes a relay. It does nothing until Run.
func New(cfg Config) (*Relay, error) {
	w, err := worker.New(worker.Config{
		Service: service, Description: "Tidegate relay: changes of the table, into the change feed",
		NATS: cfg.NATS, Member: cfg.Member, Version: cfg.Version, Now: cfg.Now, Log: cfg.Log, Metrics: cfg.Metrics,
		Required: map[string]bool{"Table": cfg.Table != ""},
	})
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Metrics, cfg.Now)
	if err != nil {
		return nil, fmt.Errorf("relay: metrics: %w", err)
	}
	watched, err := store.Watch(cfg.DynamoDB, store.WatchOptions{Service: "relay", Metrics: cfg.Metrics, Mono: store.Monotonic(cfg.Now)})
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	tuning := cfg.Tuning.withDefaults()
	r := &Relay{
		cfg: cfg, tuning: tuning, worker: w, store: newStore(watched, cfg.Table, tuning.StoreTimeout), metrics: m,
		js: w.JetStream(), dead: feed.NewDeadLetters(w.JetStream()), batches: make(chan struct{}, parallelBatches),
		ended: make(chan struct{}, 1), ready: make(chan struct{}),
	}
	r.history = &history{relay: r}
	return r, nil
}

// Ready is closed once the relay has seen the table's streams and reads its part
// of them.
func (r *Relay) Ready() <-chan struct{} { return r.ready }

// Run relays until ctx ends, then publishes the records that it has read, leaves the group
// and closes the connection. Failures of DynamoDB and NATS are waited out; an
// error means that the feed could not be opened to begin with. It returns when all
// it started has ended.
func (r *Relay) Run(ctx context.Context) error {
	return r.worker.Run(ctx, worker.Work{Open: r.open, Run: r.run, Status: r.status})
}

func (r *Relay) run(ctx context.Context) error {
	var replays conc.WaitGroup
	replays.Go(func() { r.tryAgain(ctx) })
	newWatch(r).run(ctx)
	replays.Wait()
	return nil
}

// open opens the feed and joins the group.
func (r *Relay) open(ctx context.Context) (err error) {
	if r.feed, err = feed.EnsureFeed(ctx, r.js, r.cfg.Retention); err != nil {
		return err
	}
	if _, err := r.openReplays(ctx); err != nil { // before a caller asks whether replays are followed
		return err
	}
	r.members, err = feed.Join(ctx, r.js, feed.Membership{
		Service: service, Member: r.cfg.Member, TTL: r.tuning.MemberTTL, Replicas: r.cfg.Retention.Replicas,
	})
	return err
}

// status returns the relay's number of stream shards, lag and dead letters.
func (r *Relay) status(ctx context.Context) api.ServiceStatus {
	shards, lag := int64(r.metrics.lags.reads()), r.metrics.lags.worst()
	s := api.ServiceStatus{Lanes: &shards, LagSeconds: &lag}
	dead, err := r.dead.Count(ctx, service)
	if err != nil {
		s.Warning = "NATS does not tell: " + err.Error()
		return s
	}
	s.DeadLetters = &dead
	return s
}

// lost counts and tells that changes of a stream shard are gone.
func (r *Relay) lost(ctx context.Context, shard, behind string, cause error) {
	r.metrics.trimmed.Inc()
	r.cfg.Log.ErrorContext(process.Unsampled(ctx), "changes were lost: no relay read them while DynamoDB kept them; the relay goes on with the oldest there are",
		"stream_shard", shard, "behind", behind, "error", cause)
}

// request bounds a request to NATS.
func (r *Relay) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.tuning.PublishTimeout)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
