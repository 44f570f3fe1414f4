package loadgen

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// Load acquires the same again and again.
type Load struct {
	Target
	Consume api.Amounts
	// Callers, in a closed loop, send their next acquire when they have the reply
	// to the last; request n of a run is for entity n modulo their number. In an
	// open loop they bound how many acquires are under way.
	Callers int
	// Rate, in acquires per second, makes the loop open: acquires become due at this
	// rate, whether or not replies arrive. 0: a closed loop.
	Rate     float64
	Duration time.Duration
}

// Run puts load on the target until the duration, or ctx, is over, and reports.
func (l *Load) Run(ctx context.Context) (Report, error) {
	switch {
	case len(l.Consume) == 0:
		return Report{}, errors.New("name at least one limit to consume from")
	case l.Callers < 1 || l.Rate < 0 || l.Duration <= 0:
		return Report{}, errors.New("callers and duration must be above 0, and the rate cannot be negative")
	}
	if l.Rate > 0 {
		return l.measure(ctx, false, l.open)
	}
	return l.measure(ctx, false, l.closed)
}

func (l *Load) consume() tidegate.Consume {
	consume := make(tidegate.Consume, len(l.Consume))
	for _, a := range l.Consume {
		consume[a.Name] = a.Tokens
	}
	return consume
}

// closed runs all callers.
func (l *Load) closed(ctx context.Context, r *run) error {
	var callers sync.WaitGroup
	for first := range l.Callers {
		callers.Go(func() {
			consume := l.consume()
			for n := first; ctx.Err() == nil && r.elapsed() < l.Duration; n += l.Callers {
				r.acquire(n%len(l.Entities), 0, false, l.Consume, consume)
				r.finished()
			}
		})
	}
	callers.Wait()
	return nil
}

// open starts acquires as they become due. Latency counts from then, so that an
// answer that holds up others is not counted once only.
func (l *Load) open(ctx context.Context, r *run) error {
	s := newSlots(l.Callers)
	defer s.running.Wait()
	consume := l.consume() // only read from now on
	for n := 0; ; n++ {
		due := time.Duration(float64(n) / l.Rate * float64(time.Second))
		if due >= l.Duration || r.elapsed() >= l.Duration+closing || sleep(ctx, due-r.elapsed()) != nil {
			return nil
		}
		if s.start(ctx, func(late bool) {
			r.acquire(n%len(l.Entities), max(due, 1), late, l.Consume, consume)
			r.finished()
		}) != nil {
			return nil
		}
	}
}
