package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	smithytime "github.com/aws/smithy-go/time"
	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// attempts is how often a write that fails is made before the batch is given
	// back: then all of it waits, and longer each time.
	attempts = 4
	// maxSnapshotLimits is how many limits a snapshot counts once the store has
	// rejected a write: an item has at most 400 KB, and so room for 5,000 limits of
	// the longest names. Only an attacker has as many within a month.
	maxSnapshotLimits = 4000
)

// counter counts batches into snapshots.
type counter struct {
	store   *usageStore
	windows []api.Window
	keep    time.Duration // a snapshot, after its window
	writes  int           // snapshots of a batch that are written at once
}

// refusal is a record that its snapshot has no room for.
type refusal struct {
	record int
	reason error
}

// apply counts a batch. After an error some of its snapshots may have been
// written; the same batch given again counts nothing twice.
func (c *counter) apply(ctx context.Context, b *feed.Batch) error {
	all := accounts(b.Records, c.windows, c.keep)
	refused := make([][]refusal, len(all))
	err := c.each(all, func(i int) (err error) {
		if c.store.lost.Known(all[i].key.Namespace) {
			all[i].made = true // by an earlier attempt at the batch, maybe
			return nil
		}
		refused[i], err = c.settle(ctx, all[i])
		return err
	})
	if err != nil {
		return err
	}
	if err := c.clean(ctx, all); err != nil {
		return err
	}
	for i, some := range refused {
		if c.store.lost.Known(all[i].key.Namespace) {
			continue // its usage is never read
		}
		for _, r := range some {
			if err := c.setApart(ctx, b.Records, r.record, all, refused); err != nil {
				return err
			}
			b.Refuse(r.record, r.reason)
		}
	}
	return nil
}

// each runs do for all accounts, some side by side, and returns the first error.
func (c *counter) each(all []*account, do func(i int) error) error {
	p := pool.New().WithErrors().WithFirstError().WithMaxGoroutines(c.writes)
	for i := range all {
		p.Go(func() error { return do(i) })
	}
	return p.Wait()
}

// setApart adds the mark of a refused record to the snapshots that do count it. A replay
// is given to all snapshots of the record, and the marked snapshots refuse it.
func (c *counter) setApart(ctx context.Context, records []feed.Record, record int, all []*account, refused [][]refusal) error {
	r := &records[record]
	if r.Replay != "" {
		return nil // each snapshot that counts it has its mark
	}
	for _, a := range accounts(records[record:record+1], c.windows, c.keep) {
		i := slices.IndexFunc(all, func(other *account) bool { return other.key == a.key })
		if slices.ContainsFunc(refused[i], func(other refusal) bool { return other.record == record }) {
			continue
		}
		mark := &account{key: a.key, ttl: a.ttl, entries: []entry{{replay: r.Mark()}}}
		// A snapshot without room for the mark has no room for the replay.
		if _, err := c.settle(ctx, mark); err != nil {
			return err
		}
	}
	return nil
}

// clean deletes the batch's snapshots in namespaces that are lost: their purge may
// be done, and would not find it (see [config.PurgedNamespaces]).
func (c *counter) clean(ctx context.Context, all []*account) error {
	lost := map[string]bool{}
	var unwanted []*account
	lingers := false
	for _, a := range all {
		id := a.key.Namespace
		if _, looked := lost[id]; a.made && !looked {
			var err error
			if lost[id], err = c.store.isLost(ctx, id); err != nil {
				return fmt.Errorf("look whether namespace %s is lost: %w", id, err)
			}
		}
		if a.made && lost[id] {
			unwanted = append(unwanted, a)
			lingers = lingers || a.unknown
		}
	}
	remove := func(i int) error { return c.store.remove(ctx, unwanted[i].key) }
	if err := c.each(unwanted, remove); err != nil || !lingers {
		return err
	}
	// A write of unknown outcome may arrive behind the deletion.
	if err := smithytime.SleepWithContext(ctx, c.store.timeout); err != nil {
		return err
	}
	return c.each(unwanted, remove)
}

// settle counts an account to its end, and returns the records that have no room.
func (c *counter) settle(ctx context.Context, a *account) (refused []refusal, err error) {
	for failed, most := 0, len(a.entries); len(a.entries) > 0; {
		form, n := a.write(most)
		result, err := c.store.count(ctx, form)
		switch {
		case err == nil && result.counted == nil:
			a.made = a.made || result.made
			a.entries = a.entries[n:]
			failed = 0
		case err == nil:
			a.made = true // by an earlier attempt, maybe of another aggregator that did not look
			if a.leaveOut(result.counted) {
				continue
			}
			reason, err := hasNoRoom(form, result.counted)
			if err != nil {
				return nil, err
			}
			refused = append(refused, a.refuse(n, reason)...)
		case errors.Is(err, errRejected):
			reason, errFull := c.isFull(ctx, form)
			if errFull != nil || reason == nil {
				return nil, errors.Join(err, errFull)
			}
			if n > 1 {
				most = 1 // some of them may have room
				continue
			}
			refused = append(refused, a.refuse(n, reason)...)
		default:
			a.unknown = a.unknown || store.OutcomeOf(err) == store.Unknown
			if failed++; failed == attempts {
				return nil, err
			}
			if errPause := store.Pause(ctx, failed); errPause != nil {
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
