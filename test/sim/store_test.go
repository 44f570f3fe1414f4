package sim_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/tidegate/tidegate/engine/fault"
)

// call is a request of a process to the store: it waits, then its reply waits.
type call struct {
	process   *process
	number    int // of the process
	operation string
	key       string // of its first item
	request   *http.Request
	body      []byte
	held      time.Time // it does not move before

	executed bool
	lost     bool // the caller gets no reply
	response *http.Response
	err      error
	done     chan struct{}
}

// label names the call in traces, the same in every run.
func (c *call) label() string { return c.operation + " " + c.key }

// keyParts find the parts of a request's first key.
var keyParts = []*regexp.Regexp{
	regexp.MustCompile(`"PK":\{"S":"([^"]*)"\}`), regexp.MustCompile(`"SK":\{"S":"([^"]*)"\}`), regexp.MustCompile(`"ShardId":"([^"]*)"`),
	regexp.MustCompile(`"ShardIterator":"([^"]*)"`),
}

// gate is the way of a process to the store. It implements the SDK's HTTPClient.
type gate struct{ process *process }

// Do queues the request and waits until the scheduler gives the reply.
func (g gate) Do(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	target := req.Header.Get("X-Amz-Target")
	c := &call{
		process: g.process, operation: target[strings.LastIndexByte(target, '.')+1:], request: req, body: body, done: make(chan struct{}),
	}
	for _, part := range keyParts {
		if m := part.FindSubmatch(body); m != nil {
			c.key += string(m[1])
		}
	}
	g.process.world.submit(c)
	select {
	case <-c.done:
		return c.response, c.err
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// submit queues a call.
func (w *world) submit(c *call) {
	w.mu.Lock()
	c.process.calls++
	c.number = c.process.calls
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	w.arrived()
}

// advanceCall executes a call, or gives its reply.
func (w *world) advanceCall(c *call) (what string) {
	if !c.executed {
		return w.execute(c)
	}
	w.drop(c)
	if c.lost || c.process.dead {
		return "reply lost"
	}
	close(c.done)
	return "reply"
}

// drop takes a call off the queue.
func (w *world) drop(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range w.calls {
		if other == c {
			w.calls = append(w.calls[:i:i], w.calls[i+1:]...)
			return
		}
	}
}

// execute has the store execute a call, or refuse it.
func (w *world) execute(c *call) (what string) {
	c.executed = true
	if c.process.dead && w.chance(.5) { // what a killed process has sent may arrive or not
		c.lost = true
		return "never arrives"
	}
	var strike fault.Fault
	what = "executed"
	if w.disturbed("store") && c.process.faulty {
		strike, what = w.strike(c)
	}
	w.fault = strike
	req := c.request.Clone(context.Background())
	req.Body = io.NopCloser(bytes.NewReader(c.body))
	c.response, c.err = w.faults.RoundTrip(req)
	w.fault = fault.Fault{}
	return what
}

// strike draws the fate of a request.
func (w *world) strike(c *call) (fault.Fault, string) {
	f := w.plan.Faults
	switch {
	case w.chance(f.Throttle):
		w.struck("throttle")
		return fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange, Resource: "table"}), "throttled"
	case w.chance(f.FailBefore):
		w.struck("fail before")
		return fault.InternalError(), "fails before"
	case w.chance(f.FailAfter):
		w.struck("fail after")
		return fault.InternalErrorAfter(), "fails after it is applied"
	case w.chance(f.Unreachable):
		w.struck("unreachable")
		return fault.Fault{Kind: fault.Unreachable}, "unreachable"
	case w.chance(f.LoseReply):
		w.struck("lost reply")
		return fault.Fault{Kind: fault.ReplyLost, Err: syscall.ECONNRESET}, "executed, its reply will be lost"
	case w.chance(f.Hang):
		w.struck("hang")
		c.lost = true
		return fault.Fault{}, "executed, no reply will come"
	}
	return fault.Fault{}, "executed"
}

func (c *call) String() string { return fmt.Sprintf("%s#%d %s", c.process.name, c.number, c.label()) }
