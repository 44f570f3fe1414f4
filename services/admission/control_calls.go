package admission

import (
	"context"
	"sync"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// waitingControls is the number of control calls that may wait for each that may run.
const waitingControls = 64

// controlCalls runs the requests that are neither acquires nor settlements: status, and
// the admin verbs. They read much, or write what is seldom written, and no caller spends
// by them. So few run at a time, fairly by namespace, on a queue and with a timeout of
// their own: whatever one tenant asks for, the acquires of others do not wait behind it.
type controlCalls struct {
	timeout time.Duration // of the work for a call

	mu    sync.Mutex
	queue fairQueue[*controlCall] // guarded by mu; the keys are names of namespaces
}

// controlCall is a request on its way through controlCalls.
type controlCall struct {
	*request
	work  func(context.Context)
	alarm *time.Timer // refuses the request if its turn does not come in time; nil if it never waited
}

// newControlCalls makes room for calls to run at a time, half of them of one namespace.
func newControlCalls(calls int, timeout time.Duration) *controlCalls {
	return &controlCalls{timeout: timeout, queue: newFairQueue[*controlCall](calls, (calls+1)/2, waitingControls*calls)}
}

// counts returns how many calls run, and how many wait.
func (c *controlCalls) counts() (running, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.running, c.queue.waiting
}

// submit takes a request in and never blocks. It refuses a request at once if too many
// wait: this one, or one of a namespace with more.
func (s *Service) submit(r *request, work func(context.Context)) {
	call := &controlCall{request: r, work: work}
	c := s.controls
	c.mu.Lock()
	runs, shed := c.queue.add(r.namespace, call)
	if !runs && (shed == nil || *shed != call) {
		call.alarm = time.AfterFunc(r.answerBy()-s.clock.Mono(), func() { s.expire(call) })
	}
	c.mu.Unlock()
	if shed != nil {
		s.shedControl(*shed)
	}
	if runs {
		s.pool.Go(func() { s.runControls(call) })
	}
}

// expire refuses a call whose time is up while it waits.
func (s *Service) expire(call *controlCall) {
	s.controls.mu.Lock()
	waited := s.controls.queue.remove(call.namespace, call)
	s.controls.mu.Unlock()
	if waited {
		s.shedControl(call)
	}
}

func (s *Service) shedControl(call *controlCall) {
	if call.alarm != nil {
		call.alarm.Stop()
	}
	s.metrics.shed[scopeControl].Inc()
	call.refuse(api.Errorf(api.CodeOverloaded, "", "too many requests for status or administration wait here already: try again in a moment"))
}

// runControls runs a call, and then the calls whose turn it is.
func (s *Service) runControls(call *controlCall) {
	for more := true; more; {
		s.runControl(call)
		s.controls.mu.Lock()
		call, _, more = s.controls.queue.end(call.namespace)
		s.controls.mu.Unlock()
	}
}

func (s *Service) runControl(call *controlCall) {
	if call.alarm != nil {
		call.alarm.Stop()
	}
	ctx, cancel := context.WithTimeout(call.about(), min(call.answerBy()-s.clock.Mono(), s.controls.timeout))
	defer cancel()
	defer call.rescue()
	call.work(ctx)
}
