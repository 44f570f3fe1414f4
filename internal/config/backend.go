package config

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// backend is the table that all stores of this package read.
type backend struct {
	client *dynamodb.Client
	table  string
}

// read returns an item by a consistent read. An item that is not stored is empty.
func (b backend) read(ctx context.Context, key keys.Item) (table.Item, error) {
	out, err := b.client.GetItem(ctx, table.ReadInput(b.table, key.Key()))
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// page returns a page of a list and the cursor of the next page. The function entry
// decodes an item and returns its size in the reply, rounded up; the list leaves
// out entries of size 0.
func page[T any](ctx context.Context, b backend, steps []store.Step, req store.PageRequest,
	entry func(table.Item) (T, int, error),
) (entries []T, cursor string, err error) {
	entries = []T{} // an array on the wire, also when it is empty
	cursor, err = store.Page(ctx, b.client, b.table, steps, req, func(item table.Item) (int, error) {
		e, size, err := entry(item)
		if err != nil || size == 0 {
			return 0, err
		}
		entries = append(entries, e)
		return size, nil
	})
	if err != nil {
		return nil, "", err
	}
	return entries, cursor, nil
}

// errUnchanged ends a change whose result is stored already. A plan returns it so
// that nothing is written and no audit event is made.
var errUnchanged = errors.New("the stored settings are as requested")

// change makes a change together with its audit event. A plan that fails with
// errUnchanged is a success.
func change(ctx context.Context, log *audit.Log, c audit.Change) error {
	err := log.Apply(ctx, c)
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// oneWrite returns the plan of a change that writes a single item.
func oneWrite(write types.TransactWriteItem, before, after any) audit.Plan {
	return audit.Plan{Writes: []types.TransactWriteItem{write}, Before: before, After: after}
}
