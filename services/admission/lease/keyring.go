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
)

// reloadPause is the shortest time between two reads of the keys for unknown key ids, so
// that forged tokens cannot make a node read all the time.
const reloadPause = 200 * time.Millisecond

// keyring holds the lease signing keys of the table. It checks tokens with all keys, and
// signs with the newest key that all nodes know. The first node to start makes the first
// key.
type keyring struct {
	client *dynamodb.Client
	table  string
	clock  *store.Clock

	mu      sync.RWMutex
	known   map[table.SigningKeyID]*signingKey // guarded by mu
	current *signingKey                        // guarded by mu
	askedAt time.Duration                      // guarded by mu: monotonic time of the last attempt to read the keys
	readAt  time.Duration                      // guarded by mu: monotonic time at which the last successful read began
}

func newKeyring(client *dynamodb.Client, tableName string, clock *store.Clock) *keyring {
	return &keyring{client: client, table: tableName, clock: clock}
}

// load reads the keys, and makes the first key if there are no keys.
func (k *keyring) load(ctx context.Context) error {
	began := k.clock.Mono()
	stored, err := store.EnsureSigningKeys(ctx, k.client, k.table, table.LeaseKeys, k.clock.Time)
	if err != nil {
		return fmt.Errorf("lease signing keys: %w", err)
	}
	now, _ := k.clock.Time() // an unchecked clock is good enough for minutes
	known := make(map[table.SigningKeyID]*signingKey, len(stored))
	for _, s := range stored {
		known[s.ID] = newSigningKey(s.ID, s.Secret)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.current, k.readAt = known, known[control.SigningKey(stored, now).ID], max(k.readAt, began)
	k.askedAt = max(k.askedAt, began)
	return nil
}

// follow reads the keys again and again, until ctx ends: the node knows a new key before
// any node signs with it, and signs with it in time.
func (k *keyring) follow(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(control.KeyRefreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := k.load(ctx); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "the lease signing keys cannot be read again: those that are known are used", "error", err)
			}
		}
	}
}

// signing returns the key that signs new tokens.
func (k *keyring) signing() *signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current
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
