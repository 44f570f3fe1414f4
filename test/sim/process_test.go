package sim_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/services/admission"
	"github.com/tidegate/tidegate/services/aggregator"
	"github.com/tidegate/tidegate/services/archiver"
	"github.com/tidegate/tidegate/services/relay"
	"github.com/tidegate/tidegate/services/sharder"
)

// process is a process of a service, or a caller. It reaches the store through its gate
// and NATS through its party.
type process struct {
	world   *world
	service string
	name    string // with the number of the start, as in admission-1.2
	base    string // without
	number  int
	start   int

	faulty  bool // its requests to the store may fail
	calls   int  // to the store so far; guarded by world.mu
	dead    bool // it was killed: nothing that it does has an effect
	booted  time.Time
	ahead   time.Duration // of its wall clock
	stop    context.CancelFunc
	ended   chan struct{}
	err     error
	nats    *nats.Conn
	metrics *prometheus.Registry
}

// member is a running service.
type member interface {
	Run(ctx context.Context) error
}

// newProcess makes a process without starting it.
func (w *world) newProcess(service string, number int) *process {
	base := fmt.Sprintf("%s-%d", service, number)
	start := 1
	for _, other := range w.processes {
		if other.base == base {
			start++
		}
	}
	p := &process{
		world: w, service: service, base: base, number: number, start: start, name: fmt.Sprintf("%s.%d", base, start),
		faulty: true, booted: time.Now(), ended: make(chan struct{}), metrics: prometheus.NewRegistry(),
	}
	if w.plan.Skew > 0 {
		p.ahead = time.Duration(w.rng.Int64N(int64(w.plan.Skew)))
	}
	w.processes = append(w.processes, p)
	return p
}

// clock reads the process's clock.
func (p *process) clock() store.ClockReading {
	now := time.Now()
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	return store.ClockReading{Wall: now.Add(p.ahead).Round(0), Mono: now.Sub(p.booted)}
}

func (p *process) now() time.Time { return p.clock().Wall }

// connect connects to NATS as the program's services do.
func (p *process) connect() (*nats.Conn, error) {
	return nats.Connect("nats://sim", nats.Name(p.name), nats.InProcessServer(p.world.nats.Party(p.name)), nats.Timeout(2*time.Second),
		nats.MaxReconnects(-1), nats.ReconnectBufSize(-1), nats.ReconnectJitter(0, 0), nats.ReconnectWait(time.Second),
		nats.CustomReconnectDelay(func(int) time.Duration { return 100 * time.Millisecond }),
		nats.PingInterval(20*time.Second), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// spawn starts a process of a service.
func (w *world) spawn(service string, number int) *process {
	p := w.newProcess(service, number)
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	w.note("scheduler", p.name, "start")
	go func() {
		defer close(p.ended)
		p.err = p.live(ctx)
		w.arrived()
	}()
	return p
}

// live runs the service, again after a failed start, until ctx ends.
func (p *process) live(ctx context.Context) error {
	for {
		err := p.run(ctx)
		if ctx.Err() != nil {
			return err
		}
		// As a supervisor does. Metrics of the failed start are dropped.
		p.metrics = prometheus.NewRegistry()
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}

func (p *process) run(ctx context.Context) error {
	nc, err := p.connect()
	if err != nil {
		return err
	}
	m, err := p.make(nc)
	if err != nil {
		nc.Close()
		return err
	}
	p.world.mu.Lock()
	p.nats = nc
	p.world.mu.Unlock()
	return m.Run(ctx)
}

// make makes the service as cmd/tidegate does.
func (p *process) make(nc *nats.Conn) (member, error) {
	log := slog.New(p.world.log).With("process", p.name)
	cfg := engine.Config(gate{p}, region)
	tuning := feed.Tuning{Poll: 5 * time.Second}
	switch p.service {
	case "admission":
		return p.makeAdmission(nc, log, cfg)
	case "relay":
		return relay.New(relay.Config{
			NATS: nc, DynamoDB: cfg, Table: p.world.table, Member: p.name, Now: p.now, Log: log, Metrics: p.metrics,
			Expects: p.world.expects(), Tuning: relay.Tuning{Poll: time.Second},
		})
	case "aggregator":
		return aggregator.New(aggregator.Config{
			NATS: nc, DynamoDB: cfg, Table: p.world.table, Member: p.name, Now: p.now, Log: log, Metrics: p.metrics,
			Tuning: aggregator.Tuning{Feed: tuning},
		})
	case "sharder":
		return sharder.New(sharder.Config{
			NATS: nc, DynamoDB: cfg, Table: p.world.table, Member: p.name, Clock: p.clock, Log: log, Metrics: p.metrics,
			Tuning: sharder.Tuning{Feed: tuning},
		})
	case "archiver":
		return archiver.New(archiver.Config{
			NATS: nc, Archive: p.world.archive, Member: p.name, Now: p.now, Log: log, Metrics: p.metrics, Tuning: archiver.Tuning{Feed: tuning},
		})
	}
	panic("sim: no such service: " + p.service)
}

func (p *process) makeAdmission(nc *nats.Conn, log *slog.Logger, cfg aws.Config) (member, error) {
	watched, clock, err := store.Clocked(cfg, "admission", p.clock, p.metrics)
	if err != nil {
		return nil, err
	}
	return admission.New(admission.Config{
		NATS: nc, DynamoDB: watched, Table: p.world.table, Clock: clock, Log: log, Metrics: p.metrics, Version: "0.0.0",
		Tuning:  admission.Tuning{FeedHeartbeat: 10 * time.Second, LoadEvery: 5 * time.Second},
		Control: control.Open(control.Options{DynamoDB: watched, Table: p.world.table, Clock: clock, Publish: nc.Publish, Log: log}),
	})
}

// expects returns the services whose changes wait in the feed.
func (w *world) expects() []string {
	var services []string
	for service, n := range map[string]int{"aggregator": w.plan.Aggregators, "sharder": w.plan.Sharders, "archiver": w.plan.Archivers} {
		if n > 0 {
			services = append(services, service)
		}
	}
	return services
}

// living returns the processes that run, of all services if service is empty.
func (w *world) living(service string) []*process {
	var found []*process
	for _, p := range w.processes {
		if !p.dead && p.stop != nil && (service == "" || p.service == service) {
			found = append(found, p)
		}
	}
	return found
}

// kill ends a process: nothing that it does from now on has an effect.
func (w *world) kill(p *process) {
	p.dead = true
	w.nats.Partition(p.name, true)
	p.stop()
}

// start starts all services of the plan.
func (w *world) start() {
	for _, s := range []struct {
		service string
		n       int
	}{
		{"admission", w.plan.Nodes},
		{"relay", w.plan.Relays},
		{"aggregator", w.plan.Aggregators},
		{"sharder", w.plan.Sharders},
		{"archiver", w.plan.Archivers},
	} {
		for i := range s.n {
			w.spawn(s.service, i+1)
		}
	}
	for i := range w.plan.Callers {
		w.work.callers = append(w.work.callers, w.newCaller(i+1))
	}
}

const callerService = "caller"

// caller is a connection of callers.
func (w *world) newCaller(number int) *process {
	p := w.newProcess(callerService, number)
	p.ahead = 0
	close(p.ended)
	w.until(func() bool { return p.nats != nil }, func() {
		nc, err := p.connect()
		require.NoError(w.t, err)
		w.mu.Lock()
		p.nats = nc
		w.mu.Unlock()
	})
	return p
}
