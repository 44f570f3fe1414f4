package loadgen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// run holds the state of a run on a target.
type run struct {
	*Target
	journal *journal
	start   time.Time
	turn    atomic.Int64 // acquires so far
	// calls is the context of requests: an interrupted run starts no more requests,
	// but waits for the pending requests. Each has the client's timeout.
	calls context.Context //nolint:containedctx // of the run, which ends with the method that made it
}

// measure reads limits and metrics, calls load, reads them again, and reports. If ctx
// ends, measure returns no error, and the report covers the time until then.
func (t *Target) measure(ctx context.Context, settles bool, load func(context.Context, *run) error) (Report, error) {
	if err := t.check(); err != nil {
		return Report{}, err
	}
	limits, err := t.limits(ctx)
	if err != nil {
		return Report{}, err
	}
	usageBefore, errBefore := scrape(ctx, t.Metrics)
	r := &run{Target: t, journal: newJournal(len(t.Entities)), start: t.Now(), calls: context.WithoutCancel(ctx)}
	if err := load(ctx, r); err != nil {
		return Report{}, err
	}
	report := r.journal.report(r.elapsed(), settles)
	report.Interrupted = ctx.Err() != nil

	after, cancel := context.WithTimeout(r.calls, closing)
	defer cancel()
	usageAfter, errAfter := scrape(after, t.Metrics)
	report.Cost = costSince(usageBefore, errBefore, usageAfter, errAfter)
	report.Cost.perAcquire(report.Admitted)
	if limitsAfter, err := t.limits(after); err != nil {
		report.Check = Verdict{NotChecked: fmt.Sprintf("whether limits were changed meanwhile is unknown: %v", err), Violations: []Violation{}}
	} else {
		report.Check = r.journal.verdict(t.Entities, limits, limitsAfter, Rules{Slack: t.ClockSkew, Debts: true})
	}
	return report, nil
}

func (r *run) elapsed() time.Duration { return r.Now().Sub(r.start) }

// acquire sends an acquire and records the result. It returns nil if there is nothing
// to settle. Its latency counts from due, if that is not 0.
func (r *run) acquire(entity int, due time.Duration, late bool, amounts api.Amounts, consume tidegate.Consume) *tidegate.Lease {
	q := request{entity: entity, due: due, sent: r.elapsed(), amounts: amounts, late: late}
	if due == 0 {
		q.due = q.sent
	}
	client := r.Clients[int(r.turn.Add(1))%len(r.Clients)]
	lease, err := client.Acquire(r.calls, r.Entities[entity], r.Resource, consume)
	q.received = r.elapsed()
	r.journal.acquired(q, lease, err)
	if err != nil || lease.Degraded() {
		return nil
	}
	return lease
}

func (r *run) finished() {
	if r.Finished != nil {
		r.Finished.Add(1)
	}
}

// slots bounds how many requests are under way.
type slots struct {
	free    chan struct{}
	running sync.WaitGroup
}

func newSlots(n int) *slots { return &slots{free: make(chan struct{}, n)} }

// start calls work in the background as soon as a slot is free; late reports that it
// had to wait for a slot. It returns an error after ctx has ended.
func (s *slots) start(ctx context.Context, work func(late bool)) error {
	late := false
	select {
	case s.free <- struct{}{}:
	default:
		late = true
		select {
		case s.free <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.running.Go(func() {
		defer func() { <-s.free }()
		work(late)
	})
	return nil
}
