package admission

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// reloadPause is how often at most an unknown key id makes a node read the keys
// again, so that forged tokens cannot make it read all the time.
const reloadPause = time.Second

// keyring knows the lease signing keys of the table: it signs with the newest
// and checks with all. The first node to start makes the first key.
type keyring struct {
	client *dynamodb.Client
	table  string
	clock  *storeClock

	mu       sync.RWMutex
	known    map[[table.LeaseKeyIDBytes]byte]*signingKey // guarded by mu
	current  *signingKey                                 // guarded by mu
	loadedAt time.Duration                               // guarded by mu: monotonic
	unread   bool                                        // guarded by mu: the last attempt to read the keys again failed
}

func newKeyring(client *dynamodb.Client, tableName string, clock *storeClock) *keyring {
	return &keyring{client: client, table: tableName, clock: clock}
}

// load reads the keys, and makes the first one where there is none. Two nodes
// that do so at once make two keys; both are good.
func (k *keyring) load(ctx context.Context) error {
	stored, err := k.read(ctx)
	if err == nil && len(stored) == 0 {
		if err = k.create(ctx); err == nil {
			stored, err = k.read(ctx)
		}
	}
	if err != nil {
		return err
	}
	known := make(map[[table.LeaseKeyIDBytes]byte]*signingKey, len(stored))
	var current *signingKey
	for _, s := range stored { // oldest first
		current = newSigningKey(s.ID, s.Secret)
		known[current.id] = current
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known, k.current, k.loadedAt = known, current, k.clock.Mono()
	return nil
}

func (k *keyring) read(ctx context.Context) ([]table.LeaseKey, error) {
	var stored []table.LeaseKey
	pages := dynamodb.NewQueryPaginator(k.client, table.QueryInput(k.table, 0, keys.LeaseKeys()))
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("read lease signing keys: %w", err)
		}
		more, err := table.DecodeLeaseKeys(page.Items)
		if err != nil {
			return nil, fmt.Errorf("read lease signing keys: %w", err)
		}
		stored = append(stored, more...)
	}
	table.SortLeaseKeys(stored)
	return stored, nil
}

func (k *keyring) create(ctx context.Context) error {
	fresh := table.LeaseKey{Secret: make([]byte, sha256.Size)}
	_, _ = rand.Read(fresh.ID[:])
	_, _ = rand.Read(fresh.Secret)
	now, err := k.clock.Now()
	if err != nil {
		return fmt.Errorf("make a lease signing key: %w", err)
	}
	fresh.CreatedMs = now.Time().UnixMilli()
	_, err = k.client.PutItem(ctx, table.PutLeaseKeyInput(k.table, fresh))
	var there *types.ConditionalCheckFailedException // the SDK's repeat of a write whose reply was lost
	if err != nil && !errors.As(err, &there) {
		return fmt.Errorf("make a lease signing key: %w", err)
	}
	return nil
}

// signing is the key that new tokens are signed with.
func (k *keyring) signing() *signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current
}

// open checks a token; one of a key made since the last look is checked after
// another look.
func (k *keyring) open(ctx context.Context, token string) (*lease, error) {
	l, err := open(token, k.find)
	if !errors.Is(err, errUnknownKey) {
		return l, err
	}
	if k.due() {
		errLoad := k.load(ctx)
		k.note(errLoad)
		if errLoad != nil {
			return nil, errLoad
		}
		return open(token, k.find)
	}
	if k.outdated() {
		return nil, errStoreDown // the key may be one that could not be read
	}
	return nil, err
}

// note keeps whether the keys could be read.
func (k *keyring) note(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unread = err != nil
}

func (k *keyring) outdated() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.unread
}

func (k *keyring) find(id [table.LeaseKeyIDBytes]byte) *signingKey {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.known[id]
}

// due reports whether the keys may be read again, and notes that they are.
func (k *keyring) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Mono()
	if now-k.loadedAt < reloadPause {
		return false
	}
	k.loadedAt = now
	return true
}
