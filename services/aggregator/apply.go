package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/internal/consume"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/usage"
)

const (
	// attempts is how often a write that fails is made before the batch is given
	// back: then all of it waits, and longer each time.
	attempts = 4
	// maxSnapshotLimits is how many limits a snapshot counts once the store has
	// rejected a write: an item has at most 400 KB, and so room for 5,000 limits of
	// the longest names. Nobody has as many within a month but to do harm.
	maxSnapshotLimits = 4000
)

// counter counts batches into snapshots.
type counter struct {
	store   *store
	windows []usage.Window
	keep    time.Duration // a snapshot, after its window
	writes  int           // snapshots of one batch that are written at once
}

// refusal is a record that its snapshot has no room for.
type refusal struct {
	record int
	reason error
}

// apply counts a batch. After an error some of its snapshots may have been
// written; the same batch given again counts nothing twice.
func (c *counter) apply(ctx context.Context, b *consume.Batch) error {
	all := accounts(b.Records, c.windows, c.keep)
	refused := make([][]refusal, len(all))
	p := pool.New().WithErrors().WithFirstError().WithMaxGoroutines(c.writes)
	for i, one := range all {
		p.Go(func() (err error) {
			refused[i], err = c.settle(ctx, one)
			return err
		})
	}
	if err := p.Wait(); err != nil {
		return err
	}
	for _, some := range refused {
		for _, r := range some {
			b.Refuse(r.record, r.reason)
		}
	}
	return nil
}

// settle counts an account to its end, and returns the records that have no room.
func (c *counter) settle(ctx context.Context, a *account) (refused []refusal, err error) {
	for failed := 0; len(a.entries) > 0; {
		form, n := a.write()
		counted, err := c.store.count(ctx, form)
		switch {
		case err == nil && counted == nil:
			a.entries = a.entries[n:]
			failed = 0
		case err == nil:
			if a.leaveOut(counted) {
				continue
			}
			reason, err := hasNoRoom(form, counted)
			if err != nil {
				return nil, err
			}
			refused = append(refused, a.refuse(n, reason)...)
		case errors.Is(err, errRejected):
			reason, errFull := c.isFull(ctx, form)
			if errFull != nil || reason == nil {
				return nil, errors.Join(err, errFull)
			}
			refused = append(refused, a.refuse(n, reason)...)
		default:
			if failed++; failed == attempts {
				return nil, err
			}
			if errPause := table.Pause(ctx, failed); errPause != nil {
				return nil, errors.Join(err, errPause)
			}
		}
	}
	return refused, nil
}

// refuse takes the first n entries off the account.
func (a *account) refuse(n int, reason error) []refusal {
	var refused []refusal
	for _, e := range a.entries[:n] {
		refused = append(refused, refusal{e.record, reason})
	}
	a.entries = a.entries[n:]
	return refused
}

// hasNoRoom says why a snapshot refuses a replay that it does not count. Anything
// else it refuses has a reason that leaveOut finds.
func hasNoRoom(form *table.CountUsage, counted *table.Usage) (reason, err error) {
	if form.Replay == "" || len(counted.Replays) < table.MaxReplays {
		return nil, fmt.Errorf("the snapshot %s %s refuses records that it does not count", form.Key.Key().PK, form.Key.Key().SK)
	}
	return fmt.Errorf("the %s snapshot of %s counts %d replays, and has no room for more", form.Key.Window, form.Key.Start, len(counted.Replays)), nil
}

// isFull says why the store rejects a write for good: the snapshot has no room for
// another limit. It is nil where that is not why.
func (c *counter) isFull(ctx context.Context, form *table.CountUsage) (reason, err error) {
	counted, err := c.store.read(ctx, form.Key)
	if err != nil {
		return nil, err
	}
	if len(counted.Used) < maxSnapshotLimits {
		return nil, nil
	}
	return fmt.Errorf("the %s snapshot of %s counts %d limits, and has no room for more", form.Key.Window, form.Key.Start, len(counted.Used)), nil
}
