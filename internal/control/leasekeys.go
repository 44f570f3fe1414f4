package control

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// KeyRefreshEvery is the interval at which nodes reread the keys.
	KeyRefreshEvery = time.Minute
	// signAfter is the time from a lease key's creation until nodes sign with it. By
	// then every node has read it and can check its leases.
	signAfter = 2 * KeyRefreshEvery
)

// SigningKey returns the key to sign leases with at a moment, from the keys of Ensure:
// the newest key that all nodes know by now, or the first key, which signs at once.
func SigningKey(stored []table.SigningKey, now time.Time) table.SigningKey {
	return stored[signingIndex(stored, now)]
}

func signingIndex(stored []table.SigningKey, now time.Time) int {
	for i := len(stored) - 1; i > 0; i-- {
		if signsFromMs(stored, i) <= now.UnixMilli() {
			return i
		}
	}
	return 0
}

func signsFromMs(stored []table.SigningKey, i int) int64 {
	if i == 0 {
		return stored[0].CreatedMs
	}
	return stored[i].CreatedMs + signAfter.Milliseconds()
}

// LeaseKeys lists and rotates the lease signing keys of a table for operators. Its
// results describe keys and hold no secret.
type LeaseKeys struct {
	client *dynamodb.Client
	table  string
	audit  *audit.Log
	now    func() (time.Time, error)
}

// NewLeaseKeys returns the keys of a table, with the audit log of the same table; the
// clock returns the store's time.
func NewLeaseKeys(client *dynamodb.Client, tableName string, log *audit.Log, now func() (time.Time, error)) *LeaseKeys {
	return &LeaseKeys{client: client, table: tableName, audit: log, now: now}
}

// List describes all keys, the oldest first; it makes the first key of a table
// without keys.
func (k *LeaseKeys) List(ctx context.Context) ([]api.LeaseKey, error) {
	now, err := k.now()
	if err != nil {
		return nil, fmt.Errorf("list signing keys: %w", err)
	}
	stored, err := store.EnsureSigningKeys(ctx, k.client, k.table, table.LeaseKeys, k.now)
	if err != nil {
		return nil, err
	}
	return describe(stored, now), nil
}

func describe(stored []table.SigningKey, now time.Time) []api.LeaseKey {
	described := make([]api.LeaseKey, len(stored))
	current := signingIndex(stored, now)
	for i, s := range stored {
		described[i] = api.LeaseKey{
			ID: base64.RawURLEncoding.EncodeToString(s.ID[:]), State: api.LeaseKeyRetired,
			CreatedMs: s.CreatedMs, SignsFromMs: signsFromMs(stored, i),
		}
		switch {
		case i == current:
			described[i].State = api.LeaseKeySigning
		case i > current:
			described[i].State = api.LeaseKeyNext
		}
	}
	return described
}

// errWaits ends a rotation that would make a second key to sign next.
var errWaits = errors.New("a key waits to sign already")

// Rotate makes the key that will sign next and returns it. If a key waits already, Rotate
// returns that key and makes no other, so that it is safe to repeat. It fails like
// [audit.Log.Apply].
func (k *LeaseKeys) Rotate(ctx context.Context, by api.Principal) (api.LeaseKey, error) {
	var next api.LeaseKey
	err := k.audit.Apply(ctx, audit.Change{
		Namespace: keys.Registry, By: by, Action: api.AuditKeyRotate, Target: keys.AuditLeaseKeys,
		Plan: func(ctx context.Context) (audit.Plan, error) {
			now, err := k.now()
			if err != nil {
				return audit.Plan{}, err
			}
			stored, err := store.EnsureSigningKeys(ctx, k.client, k.table, table.LeaseKeys, k.now)
			if err != nil {
				return audit.Plan{}, err
			}
			before := describe(stored, now)
			if next = before[len(before)-1]; next.State == api.LeaseKeyNext {
				return audit.Plan{}, errWaits
			}
			fresh := store.NewSigningKey(now)
			fresh.CreatedMs = max(fresh.CreatedMs, next.CreatedMs+1) // behind all others, whatever the clocks
			after := describe(append(stored, fresh), now)
			next = after[len(after)-1]
			put := table.PutSigningKeyInput(k.table, table.LeaseKeys, fresh)
			return audit.Plan{
				Writes: []types.TransactWriteItem{{Put: &types.Put{
					TableName: put.TableName, Item: put.Item,
					ConditionExpression: put.ConditionExpression, ExpressionAttributeNames: put.ExpressionAttributeNames,
				}}},
				After: next,
			}, nil
		},
	})
	if err != nil && !errors.Is(err, errWaits) {
		return api.LeaseKey{}, fmt.Errorf("rotate the lease signing key: %w", err)
	}
	return next, nil
}
