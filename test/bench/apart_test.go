package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/services/admission"
)

// apartEnv holds what a process of the services' is to do, as JSON.
const apartEnv = "TIDEGATE_BENCH_APART"

// Subjects by which a process of the services' is asked.
const (
	spentSubject   = "bench.spent"   // for what its store has done so far
	restartSubject = "bench.restart" // to forget the durations so far
	echoSubject    = "bench.echo"    // to answer a subject with so many bytes
)

// assignment is what a process of the services' is to do.
type assignment struct {
	NATS    string      `json:"nats"`
	Limits  []api.Limit `json:"limits,omitempty"`
	Servers int         `json:"servers,omitempty"` // calls that the store carries out at a time; 0: as many as there are
	Fast    bool        `json:"fast,omitempty"`    // the store answers as fast as it can
}

// spent is what the store of a process has done.
type spent struct {
	fault.Count
	P99 float64 // milliseconds
}

// apart is an admission node, its store and the echo, in a process of their own as
// they are everywhere but on a laptop: the thousands of goroutines that play the
// callers do not stand in line before theirs. The NATS server is the callers'.
type apart struct {
	*world
	control *nats.Conn
}

// newApart starts the process, with limits as newWorld has them.
func newApart(tb testing.TB, own ...api.Limit) *apart {
	tb.Helper()
	return newApartAs(tb, assignment{Limits: own})
}

// newApartAs starts the process with an assignment, to which it adds the NATS server.
func newApartAs(tb testing.TB, do assignment) *apart {
	tb.Helper()
	w := &world{tb: tb, url: natstest.Start(tb).ClientURL()}
	do.NATS = w.url
	work, err := json.Marshal(do)
	require.NoError(tb, err)
	process := exec.Command(os.Args[0]) //nolint:gosec // this very program
	process.Env = append(os.Environ(), apartEnv+"="+string(work))
	process.Stderr = os.Stderr
	open, err := process.StdinPipe() // it ends when this does, and so with this process
	require.NoError(tb, err)
	require.NoError(tb, process.Start())
	tb.Cleanup(func() {
		require.NoError(tb, open.Close())
		require.NoError(tb, process.Wait())
	})
	a := &apart{world: w, control: w.connect()}
	require.Eventually(tb, func() bool {
		_, err := a.control.Request(spentSubject, nil, time.Second)
		return err == nil
	}, time.Minute, 10*time.Millisecond, "the services' process does not answer")
	return a
}

func (a *apart) ask(subject, question string) []byte {
	a.tb.Helper()
	m, err := a.control.Request(subject, []byte(question), timeout)
	require.NoError(a.tb, err)
	return m.Data
}

func (a *apart) spent() (s spent) {
	a.tb.Helper()
	require.NoError(a.tb, json.Unmarshal(a.ask(spentSubject, ""), &s))
	return s
}

// restart forgets how long the store's answers took.
func (a *apart) restart() { a.ask(restartSubject, "") }

// echo answers a subject with a reply of so many bytes.
func (a *apart) echo(replyBytes int) (subject string) {
	return string(a.ask(echoSubject, strconv.Itoa(replyBytes)))
}

// serve is the process of the services'. It ends when its standard input does.
func serve(work string) {
	h := &serviceProcess{}
	defer h.end()
	var do assignment
	require.NoError(h, json.Unmarshal([]byte(work), &do))
	w := newStore(h, do.Limits...)
	w.url = do.NATS
	w.tenant(otherTenant, do.Limits...)
	latency := storeLatency
	if do.Servers > 0 {
		w.store, latency = newBusy(w.store, do.Servers), 0
	}
	if do.Fast {
		latency = 0
	}
	n := w.node(latency, admission.Tuning{})
	nc := w.connect()
	answer := func(subject string, with func(question []byte) []byte) {
		_, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(with(m.Data)) }) // whoever asked fails without
		require.NoError(h, err)
	}
	answer(echoSubject, func(size []byte) []byte {
		replyBytes, err := strconv.Atoi(string(size))
		require.NoError(h, err)
		return []byte(w.echo(replyBytes))
	})
	answer(restartSubject, func([]byte) []byte { n.store.restart(); return nil })
	answer(spentSubject, func([]byte) []byte {
		s, err := json.Marshal(spent{Count: n.calls.Total(), P99: n.store.percentile(99)})
		require.NoError(h, err)
		return s
	})
	require.NoError(h, nc.Flush())
	_, _ = os.Stdin.Read(make([]byte, 1)) // nothing is ever written to it
}

// host is what a world lives in: a benchmark, or a process.
type host interface {
	require.TestingT
	Helper()
	Context() context.Context
	Cleanup(func())
	Error(...any)
	Name() string
}

// process is a host that ends with what went wrong on standard error.
type serviceProcess struct {
	cleanups []func()
}

func (*serviceProcess) Name() string             { return "the services' process" }
func (*serviceProcess) Helper()                  {}
func (*serviceProcess) Context() context.Context { return context.Background() }
func (p *serviceProcess) Cleanup(f func())       { p.cleanups = append(p.cleanups, f) }
func (*serviceProcess) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
func (p *serviceProcess) Error(args ...any) { p.Errorf("%s", fmt.Sprint(args...)); p.FailNow() }
func (*serviceProcess) FailNow()            { os.Exit(1) }

func (p *serviceProcess) end() {
	for i := range p.cleanups {
		p.cleanups[len(p.cleanups)-1-i]()
	}
}
