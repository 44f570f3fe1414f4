package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/internal/outage"
	"github.com/tidegate/tidegate/pkg/events"
)

// Config holds the settings of a member of a group.
type Config struct {
	JetStream jetstream.JetStream
	Service   string        // names the group: its consumers, members and dead letters
	Member    string        // unique among the group's running members
	Kinds     []events.Kind // kinds of events that the service follows
	// Handle applies a batch. After an error it is given the same records again,
	// and everything behind them waits. Its context ends only when the member has
	// been told to stop and DrainTimeout is over.
	Handle func(context.Context, *Batch) error
	// Forgetful says that the service has no use for records that it could not read at once:
	// such records are left out instead of put among the dead letters, and are not given
	// again. Its handler refuses no record.
	Forgetful bool
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   prometheus.Registerer
	Retention Retention // of the feed, where this member is the first to come and makes it
	Tuning    Tuning
}

// Tuning are the sizes and times of a member, the same for all of a group: the
// member that started last sets the lanes' consumers. Zero values mean
// the defaults.
type Tuning struct {
	Batch        int           // records in a batch at most. Default 256
	Heartbeat    time.Duration // between two heartbeats; each also reads the list of members. Default 1 s
	MemberTTL    time.Duration // how long it is believed to. Default 3 s
	PinTTL       time.Duration // how long the server keeps others out of a lane that is not pulled any more. Default 2 s
	AckWait      time.Duration // after which the server gives the batch of a crashed member again. Default 3 s
	Poll         time.Duration // duration of a pull that finds no records. Default 1 s
	Linger       time.Duration // how long the first record of a batch waits for more, until there are Batch. Default 0: a batch holds the records that are there
	MaxBackoff   time.Duration // the longest pause before a failed batch is tried again. Default 5 s
	DrainTimeout time.Duration // how long a member that stops waits for the batches under way. Default 10 s
}

func (t Tuning) withDefaults() Tuning {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&t.Heartbeat, time.Second},
		{&t.MemberTTL, 3 * time.Second},
		{&t.PinTTL, 2 * time.Second},
		{&t.AckWait, 3 * time.Second},
		{&t.Poll, time.Second},
		{&t.MaxBackoff, 5 * time.Second},
		{&t.DrainTimeout, 10 * time.Second},
	} {
		if *d.of <= 0 {
			*d.of = d.value
		}
	}
	if t.Batch <= 0 {
		t.Batch = 256
	}
	return t
}

// abortTime is the time that aborted handlers have to end, before the
// router says that they hang.
const abortTime = 5 * time.Second

// Group is a member of a group.
type Group struct {
	cfg     Config
	tuning  Tuning
	metrics *metrics
	dead    *DeadLetters
	decode  func([]byte) (*events.Event, error)
	ready   chan struct{}

	progress *progress
	history  *history
}

// New makes a member. It does nothing until Run.
func New(cfg Config) (*Group, error) {
	if cfg.JetStream == nil || cfg.Service == "" || cfg.Member == "" || len(cfg.Kinds) == 0 ||
		cfg.Handle == nil || cfg.Now == nil || cfg.Log == nil || cfg.Metrics == nil {
		return nil, errors.New("feed: JetStream, Service, Member, Kinds, Handle, Now, Log and Metrics are required")
	}
	g := &Group{
		cfg: cfg, tuning: cfg.Tuning.withDefaults(),
		dead: NewDeadLetters(cfg.JetStream), decode: events.Decode, ready: make(chan struct{}),
		progress: newProgress(),
	}
	g.history = &history{g: g, nats: cfg.JetStream.Conn(), last: map[int]place{}, looking: make(chan struct{}, 1)}
	var err error
	if g.metrics, err = newMetrics(cfg.Metrics, cfg.Service, g.lag); err != nil {
		return nil, fmt.Errorf("feed: metrics: %w", err)
	}
	return g, nil
}

// Ready is closed once the member has joined its group.
func (g *Group) Ready() <-chan struct{} { return g.ready }

// Owns reports whether a lane is the member's, as far as it knows: its view of
// others may be a heartbeat old.
func (g *Group) Owns(lane int) bool { return g.progress.owned(lane) }

// Run consumes until ctx ends, then lets the batches under way come to their end
// (for DrainTimeout at most) and hands its lanes over. It waits for a feed that cannot be
// opened yet.
func (g *Group) Run(ctx context.Context) error {
	var feed jetstream.Stream
	var members *Members
	err := outage.Await(ctx, g.cfg.Log, g.cfg.Service+": the change feed", func(ctx context.Context) (err error) {
		if feed, err = FollowFeed(ctx, g.cfg.JetStream, g.cfg.Retention); err != nil {
			return err
		}
		if err := g.history.look(ctx); err != nil { // it makes the consumers
			return err
		}
		members, err = Join(ctx, g.cfg.JetStream, Membership{
			Service: g.cfg.Service, Member: g.cfg.Member, TTL: g.tuning.MemberTTL, Replicas: feed.CachedInfo().Config.Replicas,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: g.tuning.DrainTimeout + abortTime}, watermill.NewSlogLogger(quiet(g.cfg.Log)))
	if err != nil {
		return fmt.Errorf("feed: %w", err)
	}
	router.AddMiddleware(middleware.Recoverer)
	s := newSubscriber(g, feed, members)
	router.AddConsumerHandler(g.cfg.Service, events.StreamName, s, g.handle)
	err = router.Run(ctx)
	if err = errors.Join(err, s.Close()); err != nil { // Run does not wait for it
		return fmt.Errorf("feed: %w", err)
	}
	return nil
}

// quiet returns the log without Watermill's lines about every start and stop.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(errorsOnly{log.Handler()}) }

type errorsOnly struct{ slog.Handler }

func (errorsOnly) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (h errorsOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return errorsOnly{h.Handler.WithAttrs(attrs)}
}

func (h errorsOnly) WithGroup(name string) slog.Handler { return errorsOnly{h.Handler.WithGroup(name)} }

func consumerName(service string, lane int) string { return fmt.Sprintf("%s-%02d", service, lane) }

// ensureConsumers makes the durable consumers of all lanes unless another member of the group
// comes first.
func (g *Group) ensureConsumers(ctx context.Context, feed jetstream.Stream) error {
	p := pool.New().WithErrors().WithContext(ctx).WithMaxGoroutines(8)
	for lane := range events.Lanes {
		var subjects []string
		if !g.cfg.Forgetful {
			subjects = append(subjects, events.ReplaySubject(g.cfg.Service, lane))
		}
		for _, kind := range g.cfg.Kinds {
			subjects = append(subjects, events.Subject(kind, lane))
		}
		p.Go(func(ctx context.Context) error {
			_, err := feed.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
				Durable:        consumerName(g.cfg.Service, lane),
				FilterSubjects: subjects,
				AckPolicy:      jetstream.AckExplicitPolicy,
				AckWait:        g.tuning.AckWait,
				MaxAckPending:  g.tuning.Batch, // a single batch in flight
				MaxDeliver:     -1,
				PriorityPolicy: jetstream.PriorityPolicyPinned,
				PriorityGroups: []string{pinGroup},
				PinnedTTL:      g.tuning.PinTTL,
			})
			if err != nil {
				return fmt.Errorf("make the consumer of lane %d: %w", lane, err)
			}
			return nil
		})
	}
	return p.Wait()
}
