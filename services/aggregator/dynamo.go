package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// usageStore writes usage snapshots. Every write may be made again: its condition
// names the records that it counts.
type usageStore struct {
	client  *dynamodb.Client
	table   string
	timeout time.Duration // of a call
	metrics *metrics
	lost    *config.PurgedNamespaces
}

// newStore makes a single attempt per call: whether to try again, and for how long, is
// the caller's to say.
func newStore(cfg aws.Config, tableName string, timeout time.Duration, m *metrics) (*usageStore, error) {
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	lost, err := config.NewPurgedNamespaces(config.NewNamespaces(client, tableName))
	if err != nil {
		return nil, err
	}
	return &usageStore{client: client, table: tableName, timeout: timeout, metrics: m, lost: lost}, nil
}

// errRejected says that the store understood a write and will never take it.
var errRejected = errors.New("the store rejects the write")

// written is the outcome of a write that the store answered.
type written struct {
	made    bool         // the snapshot was not there before
	counted *table.Usage // refused: the snapshot, which counts something in it already
}

// count makes a write. [store.OutcomeOf] tells from the error whether it was applied.
func (s *usageStore) count(ctx context.Context, form *table.CountUsage) (written, error) {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.UpdateItem(call, form.Input(s.table))
	if err == nil {
		s.metrics.wrote(out.ConsumedCapacity)
		return written{made: len(out.Attributes) == 0}, nil
	}
	if item, refused := store.RefusedItem(err); refused && len(item) > 0 {
		s.metrics.refused.Inc()
		counted, err := table.DecodeUsage(item)
		return written{counted: counted}, err
	}
	s.metrics.failed.Inc()
	if store.OutcomeOf(err) == store.Rejected {
		return written{}, fmt.Errorf("%w: %w", errRejected, err)
	}
	return written{}, fmt.Errorf("write the snapshot %s %s: %w", form.Key.Key().PK, form.Key.Key().SK, err)
}

// read is a consistent read.
func (s *usageStore) read(ctx context.Context, key keys.Usage) (*table.Usage, error) {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.GetItem(call, table.ReadInput(s.table, key.Key()))
	if err != nil {
		return nil, fmt.Errorf("read the snapshot %s %s: %w", key.Key().PK, key.Key().SK, err)
	}
	if len(out.Item) == 0 {
		return &table.Usage{Key: key}, nil
	}
	return table.DecodeUsage(out.Item)
}

// remove deletes a snapshot, which need not be there.
func (s *usageStore) remove(ctx context.Context, key keys.Usage) error {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.client.DeleteItem(call, &dynamodb.DeleteItemInput{TableName: &s.table, Key: table.KeyItem(key.Key())})
	if err != nil {
		return fmt.Errorf("delete the snapshot %s %s: %w", key.Key().PK, key.Key().SK, err)
	}
	return nil
}

// isLost looks whether the namespace of a snapshot is lost.
func (s *usageStore) isLost(ctx context.Context, namespace string) (bool, error) {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.lost.Check(call, namespace)
}
