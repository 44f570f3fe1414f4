package control

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// LeaseKeys lists, rotates and revokes the lease signing keys of a table for operators. Its
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
	uses := UseKeys(stored)
	current := SigningKey(uses, now.UnixMilli())
	for i, use := range uses {
		described[i] = api.LeaseKey{
			ID: keyName(use.ID), State: api.LeaseKeyRetired,
			CreatedMs: use.CreatedMs, SignsFromMs: use.SignsFromMs, RevokedMs: use.RevokedMs,
		}
		switch {
		case use.Revoked():
			described[i].State = api.LeaseKeyRevoked
		case i == current:
			described[i].State = api.LeaseKeySigning
		case i > current:
			described[i].State = api.LeaseKeyNext
		}
	}
	return described
}

// keyName returns a key's id as requests and replies spell it.
func keyName(id table.SigningKeyID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

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
			fresh := store.NewSigningKey(now, stored...)
			after := describe(append(stored, fresh), now)
			next = after[len(after)-1]
			return audit.Plan{Writes: []types.TransactWriteItem{table.AddSigningKeyItem(k.table, table.LeaseKeys, fresh)}, After: next}, nil
		},
	})
	if err != nil && !errors.Is(err, errWaits) {
		return api.LeaseKey{}, fmt.Errorf("rotate the lease signing key: %w", err)
	}
	return next, nil
}

// errRevoked ends a revocation of a key that is revoked.
var errRevoked = errors.New("the key is revoked already")

// Revoke makes all nodes refuse the leases of a key. If the key signs, Revoke makes a new key,
// which signs at once. The reply has the key and the key that signs. Revoke may be repeated.
// It fails with not_found for an unknown key, and like [audit.Log.Apply].
func (k *LeaseKeys) Revoke(ctx context.Context, by api.Principal, id string) (api.LeaseKeyRevokeReply, error) {
	var reply api.LeaseKeyRevokeReply
	err := k.audit.Apply(ctx, audit.Change{
		Namespace: keys.Registry, By: by, Action: api.AuditKeyRevoke, Target: keys.AuditLeaseKeys,
		Plan: func(ctx context.Context) (audit.Plan, error) {
			now, err := k.now()
			if err != nil {
				return audit.Plan{}, err
			}
			stored, err := store.EnsureSigningKeys(ctx, k.client, k.table, table.LeaseKeys, k.now)
			if err != nil {
				return audit.Plan{}, err
			}
			at := slices.IndexFunc(stored, func(s table.SigningKey) bool { return keyName(s.ID) == id })
			if at < 0 {
				return audit.Plan{}, api.Errorf(api.CodeNotFound, "id", "there is no lease key %.50q", id)
			}
			before := describe(stored, now)
			if stored[at].Revoked() {
				reply = revoked(before, at)
				return audit.Plan{}, errRevoked
			}
			writes := []types.TransactWriteItem{table.RevokeSigningKeyItem(k.table, table.LeaseKeys, stored[at].ID, now.UnixMilli())}
			stored[at].RevokedMs = now.UnixMilli()
			if before[at].State == api.LeaseKeySigning {
				fresh := store.NewSigningKey(now, stored...)
				fresh.AtOnce = true
				writes = append(writes, table.AddSigningKeyItem(k.table, table.LeaseKeys, fresh))
				stored = append(stored, fresh)
			}
			reply = revoked(describe(stored, now), at)
			return audit.Plan{Writes: writes, Before: before[at], After: reply}, nil
		},
	})
	if err != nil && !errors.Is(err, errRevoked) {
		return api.LeaseKeyRevokeReply{}, fmt.Errorf("revoke a lease signing key: %w", err)
	}
	return reply, nil
}

// revoked returns the reply about the key at an index.
func revoked(all []api.LeaseKey, at int) api.LeaseKeyRevokeReply {
	reply := api.LeaseKeyRevokeReply{Revoked: all[at]}
	for _, key := range all {
		if key.State == api.LeaseKeySigning {
			reply.Signing = key
		}
	}
	return reply
}
