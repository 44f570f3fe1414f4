package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/keys"
)

// settlers are callers with a bucket each: a credit that is given twice shows as
// consumption below zero.
type settlers struct {
	world *world
	name  uint64 // tells the entities of one crowd of settlers from another's

	mu     sync.Mutex
	tokens map[string]string // the first token of each entity's lease; guarded by mu
}

// settle lets some callers acquire and give back, in one step or in two.
func (s *settlers) settle(ctx context.Context, client *tidegate.Client, callers int) {
	for range callers {
		s.mu.Lock()
		entity := fmt.Sprintf("settler-%d-%d", s.name, len(s.tokens))
		s.tokens[entity] = ""
		s.mu.Unlock()
		lease, err := client.Acquire(ctx, entity, "resource-0", tidegate.Consume{"tpm": 10})
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.tokens[entity] = lease.Token()
		two := len(s.tokens)%2 == 0
		s.mu.Unlock()
		if two {
			_ = lease.Adjust(ctx, tidegate.Deltas{"tpm": -4}) // some have no answer
		}
		_ = lease.Release(ctx)
	}
}

// again repeats all settlements by the tokens that their acquires returned, each until
// it is answered, and requires that no bucket got back more than it had given.
func (s *settlers) again(t *testing.T, client *tidegate.Client) {
	t.Helper()
	for entity, token := range s.tokens {
		if token == "" {
			continue
		}
		for _, repeat := range []func() error{
			func() error { return client.Lease(token).Adjust(t.Context(), tidegate.Deltas{"tpm": -4}) },
			func() error { return client.Lease(token).Release(t.Context()) },
			func() error { return client.Lease(token).Release(t.Context()) },
		} {
			var err error
			require.Eventually(t, func() bool { err = repeat(); return !isUnavailable(err) }, patience, 10*time.Millisecond, "%s: %v", entity, err)
		}
	}
	for entity := range s.tokens {
		key := keys.Bucket{Namespace: s.world.ns, Entity: entity, Resource: "resource-0"}
		out, err := s.world.db.GetItem(t.Context(), table.ReadInput(s.world.table, key.Key()))
		require.NoError(t, err)
		if len(out.Item) > 0 {
			b, err := table.DecodeBucket(out.Item)
			require.NoError(t, err)
			require.GreaterOrEqual(t, b.Find("tpm").Consumed, int64(0), "%s: tokens were minted", entity)
		}
	}
}

// isUnavailable reports whether a call has to be repeated.
func isUnavailable(err error) bool {
	var down *tidegate.UnavailableError
	var refused *tidegate.Error
	return errors.As(err, &down) ||
		errors.As(err, &refused) && (refused.Code == api.CodeUnavailable || refused.Code == api.CodeDeadlineExceeded)
}
