package rollback

import (
	"context"
	"time"
)

// refreshEvery is how often the epoch is read from the table though nothing
// happens. Broadcasts report the changes of other nodes.
const refreshEvery = 30 * time.Second

// epochSync keeps the epoch of this node and the epoch in the table equal. It is owned
// by Guard.Run.
type epochSync struct {
	epochs    *Epochs
	now       func() time.Time
	owed      int64     // the epoch that the table must still get; 0: the table has the epoch
	refreshed time.Time // when the epoch was last read
}

// begin makes an epoch hold at this node, and returns the epoch that holds then. The
// table gets it by store.
func (e *epochSync) begin(epoch int64) int64 {
	e.epochs.Adopt(epoch)
	e.owed = max(e.owed, epoch)
	return e.epochs.Current()
}

// store brings an epoch into the table that this node has begun.
func (e *epochSync) store(ctx context.Context) error {
	if e.owed == 0 {
		return nil
	}
	if _, err := e.epochs.Advance(ctx, e.owed-1); err != nil {
		return err
	}
	e.owed = 0
	return nil
}

// isDue reports whether refresh was last called so long ago that it must be called again.
func (e *epochSync) isDue() bool { return e.now().Sub(e.refreshed) >= refreshEvery }

// refresh reads the epoch in the table.
func (e *epochSync) refresh(ctx context.Context) error {
	if err := e.epochs.Refresh(ctx); err != nil {
		return err
	}
	e.refreshed = e.now()
	return nil
}
