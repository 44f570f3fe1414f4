package rollback

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
)

// Epochs is the table's epoch as this process knows it. It never goes back. It is
// safe for concurrent use.
type Epochs struct {
	client *dynamodb.Client
	table  string
	known  atomic.Int64
	stored atomic.Int64 // the table has it, or a later epoch
}

// NewEpochs returns the epoch of a table. It is 0 until Refresh.
func NewEpochs(client *dynamodb.Client, tableName string) *Epochs {
	return &Epochs{client: client, table: tableName}
}

// Current returns the highest epoch that is known.
func (e *Epochs) Current() int64 { return e.known.Load() }

// Adopt takes over an epoch that another node reports, or that this node is about
// to write, unless it is old.
func (e *Epochs) Adopt(epoch int64) { raise(&e.known, epoch) }

// ErrUnknownEpoch says that no node can have begun an epoch.
var ErrUnknownEpoch = errors.New("no node can have begun the epoch")

// AdoptSigned takes over the epoch of a signed lease. It fails with ErrUnknownEpoch if the
// epoch is beyond the next after the table's: a node stores an epoch before it begins another.
// So the holder of a leaked key can end an epoch, but not all epochs to come.
func (e *Epochs) AdoptSigned(ctx context.Context, epoch int64) error {
	if epoch <= e.Current() {
		return nil
	}
	if err := e.Refresh(ctx); err != nil {
		return err
	}
	if epoch > e.stored.Load()+1 {
		return ErrUnknownEpoch
	}
	e.Adopt(epoch)
	return nil
}

func raise(n *atomic.Int64, to int64) {
	for at := n.Load(); to > at; at = n.Load() {
		if n.CompareAndSwap(at, to) {
			return
		}
	}
}

// Refresh reads the epoch in the table.
func (e *Epochs) Refresh(ctx context.Context) error {
	out, err := e.client.GetItem(ctx, table.ReadEpochInput(e.table))
	if err != nil {
		return fmt.Errorf("read the epoch: %w", err)
	}
	return e.adopt(out.Item)
}

// Advance ends the epoch that was known and returns the epoch that holds now. If several
// nodes end the same epoch at the same time, a single node makes the next, and the others
// adopt it. After an error the epoch may have ended or not; another call is safe,
// and does not end the next epoch too.
func (e *Epochs) Advance(ctx context.Context, known int64) (int64, error) {
	if e.stored.Load() > known {
		return e.Current(), nil
	}
	_, err := e.client.UpdateItem(ctx, table.AdvanceEpochInput(e.table, known))
	if err == nil {
		raise(&e.stored, known+1)
		e.Adopt(known + 1)
		return e.Current(), nil
	}
	item, refused := store.RefusedItem(err)
	if !refused {
		return 0, fmt.Errorf("advance the epoch: %w", err)
	}
	// Another node was faster, or the SDK repeated a write that was applied.
	if err := e.adopt(item); err != nil {
		return 0, err
	}
	return e.Current(), nil
}

func (e *Epochs) adopt(item table.Item) error {
	epoch, err := table.DecodeEpoch(item)
	if err != nil {
		return fmt.Errorf("read the epoch: %w", err)
	}
	raise(&e.stored, epoch)
	e.Adopt(epoch)
	return nil
}
