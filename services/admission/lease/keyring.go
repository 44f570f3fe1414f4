package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// reloadPause is the shortest time between two reads of the keys for unknown key ids, so
// that forged tokens cannot make a node read all the time.
const reloadPause = 200 * time.Millisecond

// keyring holds the lease signing keys of the table. It checks tokens with all keys that
// are not revoked, and signs with the newest key that all nodes know. The first node to start
// makes the first key.
type keyring struct {
	client  *dynamodb.Client
	table   string
	clock   *store.Clock
	changed chan struct{} // asks follow to read the keys now

	mu      sync.RWMutex
	known   map[table.SigningKeyID]*signingKey // guarded by mu
	uses    []control.KeyUse                   // guarded by mu: of the same keys
	askedAt time.Duration                      // guarded by mu: monotonic time of the last attempt to read the keys
	readAt  time.Duration                      // guarded by mu: monotonic time at which the last successful read began
}

func newKeyring(client *dynamodb.Client, tableName string, clock *store.Clock) *keyring {
	return &keyring{client: client, table: tableName, clock: clock, changed: make(chan struct{}, 1)}
}

// load reads the keys, and makes the first key if there are no keys.
func (k *keyring) load(ctx context.Context) error {
	began := k.clock.Mono()
	stored, err := store.EnsureSigningKeys(ctx, k.client, k.table, table.LeaseKeys, k.clock.Time)
	if err != nil {
		return fmt.Errorf("lease signing keys: %w", err)
	}
	uses := control.UseKeys(stored)
	if control.SigningKey(uses, 0) < 0 {
		return errors.New("lease signing keys: all are revoked")
	}
	known := make(map[table.SigningKeyID]*signingKey, len(uses))
	for _, use := range uses {
		key := newSigningKey(use.ID, use.Secret)
		key.revoked = use.Revoked()
		if use.LastLeaseMs != 0 {
			key.last = instant(use.LastLeaseMs)
		}
		known[use.ID] = key
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.askedAt = max(k.askedAt, began)
	if began < k.readAt {
		return nil // a later read has ended before
	}
	k.known, k.uses, k.readAt = known, uses, began
	return nil
}

func instant(unixMs int64) bucket.Instant { return bucket.Instant(unixMs - bucket.EpochUnixMs) }

// follow reads the keys again and again, and when they have changed, until ctx ends: the
// node knows a new key before any node signs with it, and refuses a revoked key.
func (k *keyring) follow(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(control.KeyRefreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.changed:
		}
		if err := k.load(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, "the lease signing keys cannot be read again: the known keys are used", "error", err)
		}
	}
}

// readSoon makes follow read the keys.
func (k *keyring) readSoon() {
	select {
	case k.changed <- struct{}{}:
	default: // it is going to
	}
}

// signing returns the key that signs tokens at a moment. It depends on the moment alone, so
// that a node that cannot read the keys stops using a retired key in time.
func (k *keyring) signing(at bucket.Instant) *signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.known[k.uses[control.SigningKey(k.uses, at.Time().UnixMilli())].ID]
}

// open checks a token. If its key is unknown, the keys are read and the token is checked
// again, because another node may have made the key since.
func (k *keyring) open(ctx context.Context, token string) (*Lease, error) {
	arrived := k.clock.Mono()
	for {
		l, err := open(token, k.find)
		if !errors.Is(err, errUnknownKey) || k.readSince(arrived) {
			return l, err
		}
		if err := k.readAgain(ctx); err != nil {
			return nil, err
		}
	}
}

// readSince reports whether the keys were read after a moment.
func (k *keyring) readSince(moment time.Duration) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.readAt >= moment
}

// readAgain reads the keys, or waits for its turn to.
func (k *keyring) readAgain(ctx context.Context) error {
	wait := k.due()
	if wait <= 0 {
		return k.load(ctx)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the lease signing keys: %w", ctx.Err())
	}
}

func (k *keyring) find(id table.SigningKeyID) *signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.known[id]
}

// due returns the time until the keys may be read again; 0 or less is the caller's turn.
func (k *keyring) due() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Mono()
	wait := k.askedAt + reloadPause - now
	if wait <= 0 {
		k.askedAt = now
	}
	return wait
}
