package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// outcome is the fate of a write, as far as its answer, or a timeout, tells.
type outcome uint8

const (
	outcomeApplied   outcome = iota // exactly once; item is the new state
	outcomeRefused                  // its condition failed; item is the state that refused it, nil for no item
	outcomeThrottled                // not applied, may be tried again
	outcomeFailed                   // not applied, trying again will not help now
	outcomeUnknown                  // applied, not applied, or still to arrive
	outcomeDamaged                  // the item cannot be decoded; the write may have been applied to it
)

// write forms, as metrics name them.
const (
	writeCommit = "commit"
	writeCreate = "create"
	writeSync   = "sync"
)

// answer is the outcome of a write, with the state that it brought.
type answer struct {
	outcome outcome
	item    *table.Bucket
	seen    bool  // of an unknown outcome: item is the truth as read afterwards
	units   int64 // write capacity units, of an applied write
	err     error
}

// String names an outcome for metrics.
func (o outcome) String() string {
	return [...]string{"applied", "refused", "throttled", "failed", "unknown", "damaged"}[o]
}

// bucketStore writes and reads bucket items. Its writes make a single attempt with a
// short timeout: an ADD that the SDK repeats after a lost reply is applied twice.
type bucketStore struct {
	client  *dynamodb.Client
	table   string
	timeout time.Duration // of a call
	metrics *metrics
	clock   *store.Clock
}

func newStore(cfg aws.Config, tableName string, timeout time.Duration, clock *store.Clock, m *metrics) *bucketStore {
	client := dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	return &bucketStore{client: client, table: tableName, timeout: timeout, clock: clock, metrics: m}
}

// read reads an item consistently; nil means that there is no item.
func (s *bucketStore) read(ctx context.Context, key keys.Bucket) (*table.Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	started := s.clock.Mono()
	out, err := s.client.GetItem(ctx, table.ReadInput(s.table, key.Key()))
	s.metrics.storeCall("read", s.clock.Mono()-started, err)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key.Key().PK, err)
	}
	s.metrics.cost("read", out.ConsumedCapacity)
	if len(out.Item) == 0 {
		return nil, nil //nolint:nilnil // no item is an answer, not an error: a bucket before its first spend
	}
	return table.DecodeBucket(out.Item)
}

// update writes an item that should be there.
func (s *bucketStore) update(ctx context.Context, form string, key keys.Bucket, in *dynamodb.UpdateItemInput, nonce string) answer {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	started := s.clock.Mono()
	out, err := s.client.UpdateItem(call, in)
	s.metrics.storeCall(form, s.clock.Mono()-started, err)
	if err != nil {
		return s.failed(ctx, err, form, key, nonce)
	}
	units := s.metrics.cost(form, out.ConsumedCapacity)
	item, err := table.DecodeBucket(out.Attributes)
	if err != nil {
		return answer{outcome: outcomeDamaged, err: err}
	}
	return answer{outcome: outcomeApplied, item: item, units: units}
}

// create writes an item that should not be there.
func (s *bucketStore) create(ctx context.Context, c *table.Create, nonce string) answer {
	call, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	started := s.clock.Mono()
	out, err := s.client.PutItem(call, c.Input(s.table))
	s.metrics.storeCall(writeCreate, s.clock.Mono()-started, err)
	if err != nil {
		return s.failed(ctx, err, writeCreate, c.Bucket.Key, nonce)
	}
	s.metrics.cost(writeCreate, out.ConsumedCapacity)
	return answer{outcome: outcomeApplied, item: c.Bucket}
}

// failed finds out the outcome of a write that returned an error. After a lost reply it
// makes a consistent read: the item has the write's nonce only if the write was applied.
func (s *bucketStore) failed(ctx context.Context, err error, form string, key keys.Bucket, nonce string) answer {
	a := classify(err)
	switch a.outcome {
	case outcomeUnknown:
		item, errRead := s.read(ctx, key)
		if errRead != nil {
			a.err = errors.Join(a.err, errRead)
			if errors.Is(errRead, table.ErrDamaged) {
				a.outcome = outcomeDamaged
			}
			break
		}
		a.item, a.seen = item, true
		if item != nil && item.LastWrite == nonce {
			a.outcome = outcomeApplied
		}
	case outcomeApplied, outcomeRefused, outcomeThrottled, outcomeFailed, outcomeDamaged:
	}
	s.metrics.writeFailure(form, a.outcome)
	return a
}

// classify reads the outcome of a single attempt at a write from its error.
func classify(err error) answer {
	switch store.OutcomeOf(err) {
	case store.Refused:
		return refusedBy(err)
	case store.Throttled, store.Conflict:
		return answer{outcome: outcomeThrottled, err: err}
	case store.Rejected, store.NotSent:
		return answer{outcome: outcomeFailed, err: err}
	case store.Applied, store.Unknown:
	}
	return answer{outcome: outcomeUnknown, err: err}
}

// refusedBy returns the state of the item that refused a write.
func refusedBy(refusal error) answer {
	a := answer{outcome: outcomeRefused, err: refusal}
	found, _ := store.RefusedItem(refusal)
	if len(found) == 0 {
		return a
	}
	item, err := table.DecodeBucket(found)
	if err != nil {
		return answer{outcome: outcomeDamaged, err: err}
	}
	a.item = item
	return a
}

// isThrottle reports whether the store refused a call for now: it may be repeated later.
func isThrottle(err error) bool {
	outcome := store.OutcomeOf(err)
	return outcome == store.Throttled || outcome == store.Conflict
}

// isHot reports a throttle of the item's own partition. More shards do not help a
// throttled index or table.
func isHot(err error) bool {
	var provisioned *types.ProvisionedThroughputExceededException
	var throttling *types.ThrottlingException
	var reasons []types.ThrottlingReason
	switch {
	case errors.As(err, &provisioned):
		reasons = provisioned.ThrottlingReasons
	case errors.As(err, &throttling):
		reasons = throttling.ThrottlingReasons
	}
	return slices.ContainsFunc(reasons, func(r types.ThrottlingReason) bool {
		return strings.HasPrefix(aws.ToString(r.Reason), "TableWriteKeyRange")
	})
}
