package rollback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
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

// Guard is a node's part in noticing that a stream was rolled back. All writes that
// must not be forgotten go through it.
type Guard struct {
	cfg     Config
	tuning  Tuning
	link    *link
	node    string // random, of this start
	metrics *metrics
	ready   chan struct{}

	// owned by run
	beats    *beats
	verifier *verifier
	epoch    *epochSync

	peers *peers
	queue *queue

	silent atomic.Pointer[time.Time] // when the first look that failed began, if none has succeeded since
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
	tuning := cfg.Tuning.withDefaults()
	g := &Guard{
		cfg: cfg, tuning: tuning, node: nuid.Next(), metrics: m, ready: make(chan struct{}),
		link:  &link{nats: cfg.NATS, js: js, bucket: cfg.Bucket, stream: streamOf(cfg.Bucket), timeout: tuning.Timeout},
		epoch: &epochSync{epochs: cfg.Epochs, now: cfg.Now},
		queue: newQueue(),
	}
	g.peers = &peers{
		nats: cfg.NATS, subject: cfg.Subject, node: g.node, epochs: cfg.Epochs, now: cfg.Now, quarantine: tuning.Quarantine,
		others: map[string]peer{}, changed: make(chan struct{}),
	}
	g.beats = &beats{link: g.link, epochs: cfg.Epochs, now: cfg.Now, node: g.node}
	g.beats.fresh()
	g.verifier = &verifier{
		link: g.link, beats: g.beats, peers: g.peers, epoch: g.epoch, now: cfg.Now, log: cfg.Log, metrics: m,
		renew: tuning.Renew, ready: g.ready,
	}
	return g, nil
}

// Ready is closed once the guard has looked at the stream for the first time.
func (g *Guard) Ready() <-chan struct{} { return g.ready }

// Run writes and looks until ctx ends, then writes the waiting records and leaves. It
// returns when all it started has ended. Failures of NATS and of the store are
// waited out.
func (g *Guard) Run(ctx context.Context) error {
	heard, err := g.cfg.NATS.Subscribe(g.cfg.Subject, func(m *nats.Msg) { g.peers.hear(m.Data) })
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
		if !g.wait(ctx, ticker.C) {
			g.leave(context.WithoutCancel(ctx))
			return nil
		}
	}
}

// wait writes the waiting records, or waits for records or the next look. It reports false
// if ctx has ended. If several are due, the order is always the same, so that a simulation
// can run a history again.
func (g *Guard) wait(ctx context.Context, look <-chan time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case <-g.queue.wake:
	default:
		select {
		case <-ctx.Done():
			return false
		case <-look:
			return true
		case <-g.queue.wake:
		}
	}
	g.write(context.WithoutCancel(ctx))
	return true
}

// meet finds the nodes that live by their beats, so that a node that has just
// started waits for them too.
func (g *Guard) meet(ctx context.Context) error {
	call, cancel := g.link.request(ctx)
	defer cancel()
	info, err := leader.Info(call, g.cfg.NATS, g.link.stream)
	if err != nil {
		return g.fails(ctx, err)
	}
	g.verifier.maxAge = info.Config.MaxAge
	prefix := beatPrefix(g.cfg.Bucket)
	subjects, err := leader.Subjects(call, g.cfg.NATS, g.link.stream, prefix+">")
	if err != nil {
		return g.fails(ctx, err)
	}
	for _, subject := range subjects {
		m, err := leader.Last(call, g.cfg.NATS, g.link.stream, subject)
		if errors.Is(err, leader.ErrNone) {
			continue
		}
		if err != nil {
			return g.fails(ctx, err)
		}
		node, _, _ := strings.Cut(strings.TrimPrefix(subject, prefix), ".")
		if isAlive := m.Header.Get(headerOperation) == "" && info.TimeStamp.Sub(m.Time) < 2*g.tuning.Renew; isAlive && node != g.node {
			g.peers.meets(node)
		}
	}
	return nil
}

// tick looks at the stream and tells the others.
func (g *Guard) tick(ctx context.Context) {
	began := g.cfg.Now()
	if err := g.verifier.look(ctx); err != nil {
		_ = g.fails(ctx, err)
		g.silent.CompareAndSwap(nil, &began)
	} else {
		g.silent.Store(nil)
	}
	call, cancel := g.link.request(ctx)
	defer cancel()
	if err := g.epoch.store(call); err != nil {
		_ = g.fails(ctx, err)
	}
	g.peers.tell(false)
	g.peers.forget()
}

// Silence returns for how long the stream's leader has not answered; 0 if it answered the
// last look.
func (g *Guard) Silence() time.Duration {
	if since := g.silent.Load(); since != nil {
		return g.cfg.Now().Sub(*since)
	}
	return 0
}

// fails counts and logs a failure that is tried again at the next tick.
func (g *Guard) fails(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		g.metrics.failures.Inc()
		g.cfg.Log.WarnContext(ctx, "it is unknown whether NATS has forgotten settlements: looking again", "stream", g.link.stream, "error", err)
	}
	return err
}

// Certain waits until this node, and every other that was known to live, has looked
// at the stream since it last changed its leader. It returns the epoch: a lease of
// an older epoch gets no credit. The error is ctx's.
func (g *Guard) Certain(ctx context.Context) (epoch int64, err error) {
	for {
		certain, changed := g.peers.certain()
		if certain {
			return g.cfg.Epochs.Current(), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for all nodes to look at the stream %s: %w", g.link.stream, ctx.Err())
		}
	}
}
