package rollback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/internal/leader"
)

// Config holds the settings of a guard.
type Config struct {
	NATS    *nats.Conn
	Bucket  string           // the key-value bucket of OpenBucket, with the records that must not be forgotten
	Subject string           // where the nodes tell each other of themselves, over core NATS
	Epochs  *Epochs          // of the table
	Now     func() time.Time // only differences count
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Tuning  Tuning
}

// Tuning are the times of a guard. Zero values mean the defaults.
type Tuning struct {
	Look       time.Duration // how often a node tells of itself and looks at its beat. Default 500 ms
	Quarantine time.Duration // how long a node waits for others to look at a new term. Default 5 s
	Renew      time.Duration // how often a node that writes nothing renews its beat. Default 10 s
	Timeout    time.Duration // of a request to NATS. Default 1 s
}

func (t Tuning) withDefaults() Tuning {
	for _, d := range []struct {
		of    *time.Duration
		value time.Duration
	}{
		{&t.Look, 500 * time.Millisecond},
		{&t.Quarantine, 5 * time.Second},
		{&t.Renew, 10 * time.Second},
		{&t.Timeout, time.Second},
	} {
		if *d.of <= 0 {
			*d.of = d.value
		}
	}
	return t
}

// refreshEvery is how often the epoch is read from the table though nothing
// happens. Broadcasts report the changes of other nodes.
const refreshEvery = 30 * time.Second

// Guard is a node's part in noticing that a stream was rolled back. All writes that
// must not be forgotten go through it.
type Guard struct {
	cfg     Config
	js      jetstream.JetStream
	tuning  Tuning
	stream  string
	node    string // random, of this start
	metrics *metrics
	ready   chan struct{}
	stopped chan struct{}

	// owned by run
	beat      beat
	pending   map[string]bool // nonces of beats that were written without an answer
	beats     int             // beat keys so far
	maxAge    time.Duration   // of the stream's messages; 0: they do not expire
	owed      int64           // the epoch that the table must still get; 0: the table has the epoch
	refreshed time.Time       // when the epoch was last read

	queue  queue
	awaits atomic.Bool // the connection has the subscription for acknowledgements

	mu      sync.Mutex
	seen    leader.Term     // as last heard, zero while unknown; guarded by mu
	looked  leader.Term     // in which this node last found its beat; guarded by mu
	since   time.Time       // when looked was seen first; guarded by mu
	peers   map[string]peer // the other nodes; guarded by mu
	changed chan struct{}   // is closed and replaced when a guarded field changes; guarded by mu
}

// beat is the last message of the key that only this node writes.
type beat struct {
	subject  string
	sequence uint64 // 0: the bucket has no beat yet
	nonce    string
	at       time.Time // when it was acknowledged, at the latest
	epoch    int64     // that held then
}

// New makes a guard. It does nothing until Run.
func New(cfg Config) (*Guard, error) {
	if cfg.NATS == nil || cfg.Bucket == "" || cfg.Subject == "" || cfg.Epochs == nil || cfg.Now == nil || cfg.Log == nil || cfg.Metrics == nil {
		return nil, errors.New("rollback: NATS, Bucket, Subject, Epochs, Now, Log and Metrics are required")
	}
	if err := leader.CheckConnection(cfg.NATS); err != nil {
		return nil, fmt.Errorf("rollback: %w", err)
	}
	js, err := jetstream.New(cfg.NATS)
	if err != nil {
		return nil, fmt.Errorf("rollback: %w", err)
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("rollback: metrics: %w", err)
	}
	g := &Guard{
		cfg: cfg, js: js, tuning: cfg.Tuning.withDefaults(), stream: streamOf(cfg.Bucket), node: nuid.Next(), metrics: m,
		ready: make(chan struct{}), stopped: make(chan struct{}),
		pending: map[string]bool{}, peers: map[string]peer{}, changed: make(chan struct{}),
		queue: queue{wake: make(chan struct{}, 1)},
	}
	g.fresh()
	return g, nil
}

// Ready is closed once the guard has looked at the stream for the first time.
func (g *Guard) Ready() <-chan struct{} { return g.ready }

// Run writes and looks until ctx ends, then writes the waiting records and leaves. It
// returns when all it started has ended. Failures of NATS and of the store are
// waited out.
func (g *Guard) Run(ctx context.Context) error {
	defer close(g.stopped)
	heard, err := g.cfg.NATS.Subscribe(g.cfg.Subject, func(m *nats.Msg) { g.hear(m.Data) })
	if err != nil {
		return fmt.Errorf("rollback: listen to %s: %w", g.cfg.Subject, err)
	}
	defer func() { _ = heard.Unsubscribe() }() // the connection may be closed
	ticker := time.NewTicker(g.tuning.Look)
	defer ticker.Stop()
	for met := false; ; {
		if !met {
			met = g.meet(ctx) == nil
		}
		if met {
			g.tick(ctx)
		}
		select {
		case <-ctx.Done():
			g.leave(context.WithoutCancel(ctx))
			return nil
		case <-g.queue.wake:
			g.write(context.WithoutCancel(ctx))
		case <-ticker.C:
		}
	}
}

// Subscriptions returns how many subscriptions the guard has added to its connection
// since it was ready: that for acknowledgements, which the first write makes.
func (g *Guard) Subscriptions() int {
	if g.awaits.Load() {
		return 1
	}
	return 0
}

// Certain waits until this node, and every other that was known to live, has looked
// at the stream since it last changed its leader. It returns the epoch: a lease of
// an older epoch gets no credit. The error is ctx's.
func (g *Guard) Certain(ctx context.Context) (epoch int64, err error) {
	for {
		certain, changed := g.certain()
		if certain {
			return g.cfg.Epochs.Current(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for all nodes to look at the stream %s: %w", g.stream, ctx.Err())
		}
	}
}

func (g *Guard) certain() (bool, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.certainLocked(), g.changed
}

func (g *Guard) certainLocked() bool {
	none := leader.Term{}
	if g.seen == none || g.seen != g.looked {
		return false
	}
	// The connection to a single server knows sooner than the next look.
	if g.looked.Server != "" && g.cfg.NATS.ConnectedServerId() != g.looked.Server {
		return false
	}
	if g.cfg.Now().Sub(g.since) >= g.tuning.Quarantine {
		return true
	}
	for _, p := range g.peers {
		if p.term != g.looked {
			return false
		}
	}
	return true
}

// signal wakes all that wait for a change. The caller holds mu.
func (g *Guard) signal() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// request bounds a request to NATS.
func (g *Guard) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, g.tuning.Timeout)
}
