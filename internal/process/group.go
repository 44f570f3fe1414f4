package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/sourcegraph/conc/panics"
)

// Component is a part of a process.
type Component struct {
	Name string // short, for logs and errors

	// Run blocks until all that it started has ended. It calls ready, once, when
	// the components that depend on it may start. When stop ends it takes no more work, finishes
	// its work under way and returns nil; when abort ends it leaves that too. To return
	// before stop has ended is a failure, with or without an error.
	Run func(stop, abort context.Context, ready func()) error

	// Beside says that neither it nor the component before it needs the other to
	// stop: both are told at once.
	Beside bool
}

// ErrEnded says that a component ended unasked.
var ErrEnded = errors.New("ended by itself")

// ErrAborted says that work under way was left.
var ErrAborted = errors.New("work under way was aborted")

// GroupOptions say how a group is to run.
type GroupOptions struct {
	Log         *slog.Logger     // required
	Now         func() time.Time // to say how long stopping took; required
	StopTimeout time.Duration    // from the stop to the abort, for all components together. Default 20 s
}

// It leaves room within the 30 s that Kubernetes waits between its two signals.
const defaultStopTimeout = 20 * time.Second

// Group holds the components of a process.
type Group struct {
	o          GroupOptions
	components []Component

	mu    sync.Mutex
	tasks []*task // guarded by mu; the started tasks, in order
	state state   // guarded by mu
}

type state int

const (
	starting state = iota
	serving
	stopping
)

// task is a component that was started.
type task struct {
	name   string
	beside bool
	stop   context.CancelFunc
	ready  chan struct{}
	ended  chan struct{}
	err    error // written before ended is closed
}

// NewGroup makes a group of components that start in this order and stop in
// reverse, components with Component.Beside together with their predecessor.
func NewGroup(o GroupOptions, components ...Component) *Group {
	if o.StopTimeout == 0 {
		o.StopTimeout = defaultStopTimeout
	}
	return &Group{o: o, components: components}
}

// Run starts the components and blocks until stop or abort ends, or a component
// does, and then until all have ended: abort comes after GroupOptions.StopTimeout
// at the latest. A component that does not heed abort is waited for, and named in
// the log. The error joins the errors of the components, each with its name; a panic
// is an error too, with its stack. After an abort it is also ErrAborted. Run is
// called once.
func (g *Group) Run(stop, abort context.Context) error {
	if g.o.Log == nil || g.o.Now == nil {
		return errors.New("process: Log and Now are required")
	}
	abort, abortAll := context.WithCancel(abort)
	defer abortAll()
	var running conc.WaitGroup
	defer running.Wait()
	fell := make(chan struct{}, len(g.components)) // room for all: no goroutine need listen

	if g.startAll(stop, abort, fell, &running) {
		g.enter(serving)
		select {
		case <-stop.Done():
		case <-abort.Done():
		case <-fell:
		}
	}
	return g.stopAll(abort, abortAll)
}

// startAll reports whether all components are ready.
func (g *Group) startAll(stop, abort context.Context, fell chan<- struct{}, running *conc.WaitGroup) bool {
	for _, c := range g.components {
		if stop.Err() != nil || abort.Err() != nil {
			return false
		}
		t := g.start(abort, c, fell, running)
		select {
		case <-t.ready:
		case <-t.ended:
			return false
		case <-stop.Done():
			return false
		case <-abort.Done():
			return false
		}
	}
	return true
}

// start runs a component beside the caller. Its stop is its own, as it ends
// later than others'.
func (g *Group) start(abort context.Context, c Component, fell chan<- struct{}, running *conc.WaitGroup) *task {
	stop, stopNow := context.WithCancel(abort)
	t := &task{name: c.Name, beside: c.Beside, stop: stopNow, ready: make(chan struct{}), ended: make(chan struct{})}
	g.mu.Lock()
	g.tasks = append(g.tasks, t)
	g.mu.Unlock()
	running.Go(func() {
		defer func() { fell <- struct{}{} }()
		defer close(t.ended)
		ready := sync.OnceFunc(func() { close(t.ready) })
		var err error
		if panicked := panics.Try(func() { err = c.Run(stop, abort, ready) }); panicked != nil {
			err = panicked.AsError()
		}
		t.err = verdict(stop, err)
	})
	return t
}

// verdict tells a requested end from an unrequested end.
func verdict(stop context.Context, err error) error {
	asked := stop.Err() != nil
	switch {
	case asked && errors.Is(err, context.Canceled):
		return nil
	case !asked && err == nil:
		return ErrEnded
	}
	return err
}

// stopAll stops the started components, last first.
func (g *Group) stopAll(abort context.Context, abortAll func()) error {
	g.enter(stopping)
	began := g.o.Now()
	late := time.AfterFunc(g.o.StopTimeout, func() {
		g.o.Log.WarnContext(abort, "stopping takes too long: work under way is aborted",
			"after", g.o.StopTimeout, "running", strings.Join(g.running(), ", "))
		abortAll()
	})
	defer late.Stop()
	g.mu.Lock()
	tasks := g.tasks
	g.mu.Unlock()
	told := len(tasks) // the first task that was told and waited for
	for i := len(tasks) - 1; i >= 0; i-- {
		tasks[i].stop()
		if i > 0 && tasks[i].beside {
			continue
		}
		for _, t := range tasks[i:told] {
			<-t.ended
		}
		told = i
	}
	var errs []error
	for _, t := range tasks {
		if t.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.name, t.err))
		}
	}
	if abort.Err() != nil {
		errs = append(errs, ErrAborted)
	}
	g.o.Log.DebugContext(abort, "stopped", "took", g.o.Now().Sub(began))
	return errors.Join(errs...)
}

func (g *Group) enter(s state) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state = s
}

// running names the components that have not ended.
func (g *Group) running() (names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.tasks {
		if !isClosed(t.ended) {
			names = append(names, t.name)
		}
	}
	return names
}

// Check returns nil while every component is ready and no component has been told to
// stop; otherwise an error that names the components to wait for.
func (g *Group) Check(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.state == serving:
		return nil
	case g.state == stopping:
		return errors.New("stopping")
	case len(g.tasks) == 0:
		return errors.New("starting")
	}
	return fmt.Errorf("starting: %s is not ready", g.tasks[len(g.tasks)-1].name)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
