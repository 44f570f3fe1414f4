package process_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sourcegraph/conc/panics"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/process"
)

// diary is what components did, in order.
type diary struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, " ")
}

// part is a component that takes that long to start and to finish its work, in
// the time of a synctest bubble.
type part struct {
	name         string
	start, drain time.Duration
	fails        func() // where set, what it does instead of serving
	failure      error  // what it then returns
	deaf         bool   // it finishes its work whatever abort says
	beside       bool
}

func (p part) component(d *diary) process.Component {
	return process.Component{Name: p.name, Beside: p.beside, Run: func(stop, abort context.Context, ready func()) error {
		defer d.write(p.name + ".ended")
		d.write(p.name + ".begun")
		time.Sleep(p.start)
		if p.fails != nil {
			p.fails()
			return p.failure
		}
		d.write(p.name + ".ready")
		ready()
		<-stop.Done()
		d.write(p.name + ".stop")
		if p.deaf {
			time.Sleep(p.drain)
			return nil
		}
		select {
		case <-time.After(p.drain):
			return nil
		case <-abort.Done():
			d.write(p.name + ".aborted")
			return abort.Err()
		}
	}}
}

// run runs parts until, after some time, stop and then abort end; zero is never.
func run(t *testing.T, log *bytes.Buffer, stopAfter, abortAfter time.Duration, parts ...part) (did string, took time.Duration, err error) {
	t.Helper()
	d := new(diary)
	var components []process.Component
	for _, p := range parts {
		components = append(components, p.component(d))
	}
	stop, stopNow := context.WithCancel(t.Context())
	abort, abortNow := context.WithCancel(t.Context())
	defer stopNow()
	defer abortNow()
	for after, end := range map[time.Duration]func(){stopAfter: stopNow, abortAfter: abortNow} {
		if after > 0 {
			defer time.AfterFunc(after, end).Stop()
		}
	}
	g := process.NewGroup(process.GroupOptions{
		Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now, StopTimeout: 10 * time.Second,
	}, components...)
	began := time.Now()
	err = g.Run(stop, abort)
	return d.String(), time.Since(began), err
}

func TestGroups(t *testing.T) {
	boom := errors.New("boom")
	const never = 0
	for name, c := range map[string]struct {
		stop, abort time.Duration
		parts       []part
		did         string
		took        time.Duration
		is          []error
		says        string
		logs        string
	}{
		"start in order, stop in reverse": {
			time.Minute, never,
			[]part{{name: "a", start: time.Second, drain: time.Second}, {name: "b", start: time.Second, drain: time.Second}},
			"a.begun a.ready b.begun b.ready b.stop b.ended a.stop a.ended", time.Minute + 2*time.Second, nil, "", "",
		},
		"nothing to run": {time.Second, never, nil, "", time.Second, nil, "", ""},
		"a stop while starting": {
			time.Second, never,
			[]part{{name: "a"}, {name: "b", start: 3 * time.Second}, {name: "c"}},
			"a.begun a.ready b.begun b.ready b.stop b.ended a.stop a.ended", 3 * time.Second, nil, "", "",
		},
		"a failure stops all": {
			never, never,
			[]part{{name: "a"}, {name: "b", start: time.Second, fails: func() {}, failure: boom}, {name: "c"}},
			"a.begun a.ready b.begun b.ended a.stop a.ended", time.Second,
			[]error{boom},
			"b: boom", "",
		},
		"an end unasked is a failure": {
			never, never,
			[]part{{name: "a"}, {name: "b", fails: func() {}}},
			"a.begun a.ready b.begun b.ended a.stop a.ended", 0,
			[]error{process.ErrEnded},
			"b: ended by itself", "",
		},
		"a cancellation of its own is a failure": {
			never, never,
			[]part{{name: "a", fails: func() {}, failure: context.Canceled}},
			"a.begun a.ended", 0,
			[]error{context.Canceled},
			"a: context canceled", "",
		},
		"a panic stops all": {
			never, never,
			[]part{{name: "a"}, {name: "b", fails: func() { panic("ouch") }}},
			"a.begun a.ready b.begun b.ended a.stop a.ended", 0, nil, "ouch", "",
		},
		"a second signal aborts": {
			time.Second, 3 * time.Second,
			[]part{{name: "a", drain: time.Hour}, {name: "b", drain: time.Hour}},
			"a.begun a.ready b.begun b.ready b.stop", 3 * time.Second,
			[]error{process.ErrAborted},
			"", "",
		},
		"an abort alone": {
			never, time.Second,
			[]part{{name: "a", drain: time.Hour}},
			"a.begun a.ready a.stop a.aborted a.ended", time.Second,
			[]error{process.ErrAborted},
			"", "",
		},
		"the deadline aborts, once for all": {
			time.Second, never,
			[]part{{name: "a", drain: 6 * time.Second}, {name: "b", drain: 6 * time.Second}},
			"a.begun a.ready b.begun b.ready b.stop b.ended a.stop a.aborted a.ended", 11 * time.Second,
			[]error{process.ErrAborted},
			"", `running=a`,
		},
		"who heeds no abort is waited for and named": {
			time.Second, never,
			[]part{{name: "a", drain: time.Minute, deaf: true}},
			"a.begun a.ready a.stop a.ended", time.Minute + time.Second,
			[]error{process.ErrAborted},
			"", `running=a`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				did, took, err := run(t, &log, c.stop, c.abort, c.parts...)
				require.Truef(t, strings.HasPrefix(did, c.did), "did %s", did)
				require.Equal(t, c.took, took)
				for _, is := range c.is {
					require.ErrorIs(t, err, is)
				}
				if c.says != "" {
					require.ErrorContains(t, err, c.says)
				}
				require.Equal(t, c.is == nil && c.says == "", err == nil, err)
				require.Contains(t, log.String(), c.logs)
				require.Equal(t, c.logs == "", log.Len() == 0, "a quiet stop logs nothing: %s", log.String())
				for _, p := range c.parts {
					begun, ended := strings.Count(did, p.name+".begun"), strings.Count(did, p.name+".ended")
					require.Equal(t, begun, ended, "who began has ended: %s", did)
				}
			})
		})
	}
}

// A panic keeps its value and its stack.
func TestPanicsAreErrors(t *testing.T) {
	var log bytes.Buffer
	boom := errors.New("boom")
	_, _, err := run(t, &log, 0, 0, part{name: "a", fails: func() { panic(boom) }})
	var panicked *panics.ErrRecovered
	require.ErrorAs(t, err, &panicked)
	require.ErrorIs(t, err, boom)
	require.Contains(t, string(panicked.Stack), "group_test.go")
}

// All failures are told, not only the first.
// Parts that do not need each other stop within the time of the slowest, after
// those that need them and before those that they need.
func TestPartsStopSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		did, took, err := run(t, new(bytes.Buffer), time.Minute, 0,
			part{name: "a", drain: time.Second},
			part{name: "b", drain: 2 * time.Second}, part{name: "c", drain: 3 * time.Second, beside: true}, part{name: "d", drain: time.Second, beside: true},
			part{name: "e", drain: time.Second})
		require.NoError(t, err)
		require.Equal(t, time.Minute+5*time.Second, took, "e, then c beside b and d, then a")
		require.Regexp(t, `e\.stop e\.ended ([bcd]\.stop ){3}d\.ended b\.ended c\.ended a\.stop a\.ended$`, did)
	})
	synctest.Test(t, func(t *testing.T) {
		did, _, err := run(t, new(bytes.Buffer), time.Minute, 0, part{name: "a", drain: time.Second, beside: true})
		require.NoError(t, err)
		require.Equal(t, "a.begun a.ready a.stop a.ended", did, "the first has nothing beside it, and is waited for")
	})
}

func TestErrorsAreJoined(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	late := process.Component{Name: "late", Run: func(stop, _ context.Context, ready func()) error {
		ready()
		<-stop.Done()
		return second
	}}
	early := process.Component{Name: "early", Run: func(_, _ context.Context, ready func()) error {
		ready()
		ready() // more than once does no harm
		return first
	}}
	g := process.NewGroup(process.GroupOptions{Log: slog.New(slog.DiscardHandler), Now: time.Now}, late, early)
	err := g.Run(t.Context(), t.Context())
	require.ErrorIs(t, err, first)
	require.ErrorIs(t, err, second)
	require.ErrorContains(t, err, "late: second\nearly: first")
}

func TestReadinessFollowsTheComponents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop, stopNow := context.WithCancel(t.Context())
		d := new(diary)
		g := process.NewGroup(process.GroupOptions{Log: slog.New(slog.DiscardHandler), Now: time.Now},
			part{name: "a"}.component(d), part{name: "b", start: time.Second, drain: time.Second}.component(d))
		require.EqualError(t, g.Check(t.Context()), "starting")
		ended := make(chan error, 1)
		go func() { ended <- g.Run(stop, t.Context()) }()
		synctest.Wait()
		require.EqualError(t, g.Check(t.Context()), "starting: b is not ready")
		time.Sleep(2 * time.Second)
		require.NoError(t, g.Check(t.Context()))
		stopNow()
		synctest.Wait()
		require.EqualError(t, g.Check(t.Context()), "stopping")
		require.NoError(t, <-ended)
	})
}

func TestGroupsNeedALogAndAClock(t *testing.T) {
	require.ErrorContains(t, process.NewGroup(process.GroupOptions{}).Run(t.Context(), t.Context()), "required")
}
