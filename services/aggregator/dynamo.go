package aggregator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// store writes usage snapshots. Every write may be made again: its condition
// names the records that it counts.
type store struct {
	client  *dynamodb.Client
	table   string
	timeout time.Duration // of one call
	metrics *metrics
}

// newStore makes one attempt per call: whether to try again, and for how long, is
// the caller's to say.
func newStore(cfg aws.Config, tableName string, timeout time.Duration, m *metrics) *store {
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	return &store{client: client, table: tableName, timeout: timeout, metrics: m}
}

// errRejected says that the store understood a write and will never take it.
var errRejected = errors.New("the store rejects the write")

// count makes a write. Where it is refused because something in it was counted
// before, it returns the snapshot that says so. After any other error the write
// may have been applied, except for errRejected.
func (s *store) count(ctx context.Context, form *table.CountUsage) (counted *table.Usage, err error) {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	out, err := s.client.UpdateItem(call, form.Input(s.table))
	if err == nil {
		s.metrics.wrote(out.ConsumedCapacity)
		return nil, nil //nolint:nilnil // applied: there is nothing to say
	}
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) && len(refused.Item) > 0 {
		s.metrics.refused.Inc()
		return table.DecodeUsage(refused.Item)
	}
	s.metrics.failed.Inc()
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" {
		return nil, fmt.Errorf("%w: %w", errRejected, err)
	}
	return nil, fmt.Errorf("write the snapshot %s %s: %w", form.Key.Key().PK, form.Key.Key().SK, err)
}

// read is one consistent read.
func (s *store) read(ctx context.Context, key keys.Usage) (*table.Usage, error) {
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
