package duty

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidegate/tidegate/pkg/api"
)

const (
	defaultTick = 500 * time.Millisecond
	// heardTime is the age of a report from which its node counts as silent: three reports.
	heardTime = 3 * defaultTick
	// moveTime bounds the departure from a NATS server that shuts down.
	moveTime = 5 * time.Second
	// turnTime bounds the wait for a turn to leave such a server, within the grace period of
	// deploy/nats, 5 s; turnPause bounds a pause between two attempts.
	turnTime  = 2500 * time.Millisecond
	turnPause = 300 * time.Millisecond
	// announceTime is longer than a report takes to reach all nodes.
	announceTime = 50 * time.Millisecond
)

// Signal measures progress.
type Signal struct {
	Name     string                                // for logs, such as "the store does not answer"
	Stalled  func(now time.Duration) time.Duration // for how long the node has made no progress; 0 if it has
	Patience time.Duration                         // above which the node is stuck
	Probe    func(context.Context)                 // tries to make progress, since there may be no requests that would; may be nil
}

// Group is the node's part in the queue group. Its methods are called by Run only.
type Group interface {
	// Leave takes the node out of the group and returns once all requests that it has
	// received are answered, or ctx ends. After an error the node may be in the group.
	Leave(ctx context.Context, cause string) error
	// Return brings the node back.
	Return() error
}

// Config configures a Watch. All fields but Draining are required.
type Config struct {
	NATS     *nats.Conn
	Node     string // unique among the nodes
	Group    Group
	Signals  []Signal
	Draining <-chan struct{} // gets a value when the connected NATS server is about to shut down
	Mono     func() time.Duration
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Tick     time.Duration // between two looks at the signals. Default 500 ms
}

// Watch keeps a node on duty while it makes progress.
type Watch struct {
	cfg       Config
	peers     *peers
	scheduler *scheduler
	gauge     prometheus.Gauge
	departed  prometheus.Counter
	away      atomic.Pointer[string] // why the node is away; nil: it is on duty

	state state // owned by Run
}

// New makes a Watch. It does nothing until Run.
func New(cfg Config) (*Watch, error) {
	if cfg.Tick <= 0 {
		cfg.Tick = defaultTick
	}
	w := &Watch{
		cfg:       cfg,
		peers:     &peers{node: cfg.Node, now: cfg.Mono, able: map[string]time.Duration{}},
		scheduler: &scheduler{tick: cfg.Tick},
		gauge: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidegate_admission_on_duty", Help: "1 while this node takes requests; at 0 it makes no progress and another node serves.",
		}),
		departed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidegate_admission_departures_total", Help: "Departures of this node from the queue group because it made no progress, or because its NATS server was about to shut down.",
		}),
	}
	if err := errors.Join(cfg.Metrics.Register(w.gauge), cfg.Metrics.Register(w.departed)); err != nil {
		return nil, fmt.Errorf("duty: metrics: %w", err)
	}
	w.gauge.Set(1)
	return w, nil
}

// Away returns why the node is away, or "" on duty.
func (w *Watch) Away() string {
	if cause := w.away.Load(); cause != nil {
		return *cause
	}
	return ""
}

// AnotherIsAble reports whether another node was able a moment ago.
func (w *Watch) AnotherIsAble() bool { return w.peers.anyAble() }

// Listen subscribes to the reports of the other nodes.
func (w *Watch) Listen() error {
	if _, err := w.cfg.NATS.Subscribe(api.DutySubject, func(m *nats.Msg) { w.peers.hear(m.Data) }); err != nil {
		return fmt.Errorf("listen to the other nodes: %w", err)
	}
	return nil
}

// Run watches until ctx ends, and reports then that the node is not able any more.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Tick)
	defer ticker.Stop()
	w.tell(true)
	for {
		select {
		case <-ctx.Done():
			w.tell(false)
			return
		case <-w.cfg.Draining:
			w.move(ctx)
		case <-ticker.C:
			w.runOnce(ctx)
		}
		w.scheduler.last = w.cfg.Mono() // the work since the tick is no lost time
	}
}

// runOnce looks at the signals, leaves or returns, and reports.
func (w *Watch) runOnce(ctx context.Context) {
	now := w.cfg.Mono()
	w.scheduler.note(now)
	w.probe(ctx, now)
	next := w.state.step(now, w.cause(now), w.peers.anyAble())
	switch {
	case next.away && !w.state.away:
		w.tell(false) // the next node must not rely on this node
		if err := w.leave(ctx, next.cause); err != nil {
			w.cfg.Log.ErrorContext(ctx, "the node makes no progress, and cannot leave the queue group", "cause", next.cause, "error", err)
			return
		}
		w.cfg.Log.WarnContext(ctx, "the node makes no progress: it takes no requests until it does", "cause", next.cause)
	case !next.away && w.state.away:
		if err := w.comeBack(); err != nil {
			w.cfg.Log.ErrorContext(ctx, "the node cannot take requests again: it tries again", "error", err)
			return
		}
		w.cfg.Log.InfoContext(ctx, "the node takes requests again", "away", now-w.state.since, "cause", next.cause)
	}
	w.state = next
	w.tell(next.able())
}

// cause returns the name of the first stuck signal, or "".
func (w *Watch) cause(now time.Duration) string {
	for _, s := range w.cfg.Signals {
		if s.Stalled(now) > s.Patience {
			return s.Name
		}
	}
	if w.scheduler.stalled(now) > schedulerPatience {
		return "the process gets too little time to run"
	}
	return ""
}

// probe tries to make progress where none was made for a tick: there may be no requests
// that would.
func (w *Watch) probe(ctx context.Context, now time.Duration) {
	for _, s := range w.cfg.Signals {
		if s.Probe != nil && s.Stalled(now) > w.cfg.Tick {
			call, cancel := context.WithTimeout(ctx, w.cfg.Tick)
			s.Probe(call)
			cancel()
		}
	}
}

// leave takes the node out of the group. The log comes after it: a log that blocks may be
// why the node is stuck.
func (w *Watch) leave(ctx context.Context, cause string) error {
	call, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	w.away.Store(&cause)
	if err := w.cfg.Group.Leave(call, cause); err != nil {
		w.away.Store(nil)
		return err
	}
	w.gauge.Set(0)
	w.departed.Inc()
	return nil
}

func (w *Watch) comeBack() error {
	if err := w.cfg.Group.Return(); err != nil {
		return err
	}
	w.away.Store(nil)
	w.gauge.Set(1)
	return nil
}

// tell reports this node's state. A lost report is repeated at the next tick.
func (w *Watch) tell(able bool) {
	data, _ := json.Marshal(report{Node: w.cfg.Node, Able: able}) // of a string and a bool: cannot fail
	_ = w.cfg.NATS.Publish(api.DutySubject, data)
}

// move leaves a NATS server that is about to shut down, and with it no request without a
// reply. If no other node is able, the node stays until the server closes the connection.
func (w *Watch) move(ctx context.Context) {
	if w.state.away {
		_ = w.movedAway() // it has no requests to lose
		return
	}
	if !w.turn(ctx) {
		return
	}
	const cause = "the NATS server shuts down"
	if err := w.leave(ctx, cause); err != nil {
		w.cfg.Log.WarnContext(ctx, "the node stays with a NATS server that shuts down: replies may be lost", "error", err)
		return
	}
	errMoved := w.movedAway()
	if err := errors.Join(errMoved, w.comeBack()); err != nil {
		w.cfg.Log.WarnContext(ctx, "the node could not move to another NATS server", "error", err)
		if w.Away() != "" { // the next looks try again
			w.state.away, w.state.since = true, w.cfg.Mono()
		}
		return
	}
	w.tell(w.state.able())
	w.cfg.Log.InfoContext(ctx, "the node has left a NATS server that shuts down", "server", w.cfg.NATS.ConnectedUrlRedacted())
}

// turn waits until this node may leave: another node stays. All nodes of the server are
// told to leave at once. A node announces that it leaves; nodes that do so together wait
// again, each for a random time. turn reports false if no other node serves.
func (w *Watch) turn(ctx context.Context) bool {
	call, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	for call.Err() == nil {
		w.tell(w.state.able())
		pause(call, rand.N(turnPause))
		if !w.peers.anyAble() {
			continue
		}
		w.tell(false)
		pause(call, announceTime)
		if w.peers.anyAble() {
			return true
		}
	}
	w.tell(w.state.able())
	return false
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

// movedAway connects to another server.
func (w *Watch) movedAway() error {
	connected := w.cfg.NATS.StatusChanged(nats.CONNECTED)
	defer w.cfg.NATS.RemoveStatusListener(connected)
	if err := w.cfg.NATS.ForceReconnect(); err != nil {
		return fmt.Errorf("connect to another NATS server: %w", err)
	}
	late := time.NewTimer(moveTime)
	defer late.Stop()
	select {
	case <-connected:
		return nil
	case <-late.C:
		return errors.New("connect to another NATS server: no server answers")
	}
}
