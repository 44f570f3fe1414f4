package control

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// clock is moved by hand.
type clock struct {
	now time.Time
	err error
}

func (c *clock) time() (time.Time, error) { return c.now, c.err }

func newKeys(t *testing.T) (*tabletest.Bench, *LeaseKeys, *clock) {
	t.Helper()
	b := tabletest.New(t)
	c := &clock{now: time.UnixMilli(1_772_366_400_000)}
	return b, NewLeaseKeys(b.DB, b.Table, audit.NewLog(b.DB, b.Table, c.time), c.time), c
}

func rotate(t *testing.T, k *LeaseKeys) (api.LeaseKey, error) {
	t.Helper()
	return k.Rotate(t.Context(), api.Principal{User: "ops"})
}

func states(t *testing.T, k *LeaseKeys) []api.LeaseKeyState {
	t.Helper()
	all, err := k.List(t.Context())
	require.NoError(t, err)
	states := make([]api.LeaseKeyState, len(all))
	for i, key := range all {
		states[i] = key.State
	}
	return states
}

func TestAKeysLife(t *testing.T) {
	b, k, clock := newKeys(t)
	signing := func() string {
		stored, err := store.EnsureSigningKeys(t.Context(), b.Direct, b.Table, table.LeaseKeys, clock.time)
		require.NoError(t, err)
		id := SigningKey(stored, clock.now).ID
		return base64.RawURLEncoding.EncodeToString(id[:])
	}
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeySigning}, states(t, k), "the first key signs at once")
	first := signing()

	clock.now = clock.now.Add(time.Hour)
	next, err := rotate(t, k)
	require.NoError(t, err)
	require.Equal(t, api.LeaseKeyNext, next.State)
	require.Equal(t, clock.now.Add(signAfter).UnixMilli(), next.SignsFromMs)
	again, err := rotate(t, k)
	require.NoError(t, err)
	require.Equal(t, next, again, "one that waits is not made twice")
	require.Equal(t, first, signing())

	clock.now = clock.now.Add(signAfter - time.Millisecond)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeySigning, api.LeaseKeyNext}, states(t, k))
	require.Equal(t, first, signing())
	clock.now = clock.now.Add(time.Millisecond)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeyRetired, api.LeaseKeySigning}, states(t, k))
	require.Equal(t, next.ID, signing())

	_, err = rotate(t, k)
	require.NoError(t, err)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeyRetired, api.LeaseKeySigning, api.LeaseKeyNext}, states(t, k))
}

// Nodes that make the first key at once sign with one that both know soon.
func TestTwoFirstKeys(t *testing.T) {
	b, k, clock := newKeys(t)
	store := func() {
		_, err := b.Direct.PutItem(t.Context(), table.PutSigningKeyInput(b.Table, table.LeaseKeys, store.NewSigningKey(clock.now)))
		require.NoError(t, err)
	}
	store()
	clock.now = clock.now.Add(time.Millisecond)
	store()
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeySigning, api.LeaseKeyNext}, states(t, k))
}

func TestARotationThroughEveryFault(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"applied":            {},
		"refused":            fault.TransactionCanceled("TransactionConflict", "None", "None"),
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
		"unreachable":        {Kind: fault.Unreachable},
		"throttled":          fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange}),
	} {
		t.Run(name, func(t *testing.T) {
			b, k, _ := newKeys(t)
			states(t, k)
			b.Fail("TransactWriteItems", f)
			next, err := rotate(t, k)
			require.NoError(t, err)
			again, err := rotate(t, k)
			require.NoError(t, err)
			require.Equal(t, next, again)
			require.Equal(t, []api.LeaseKeyState{api.LeaseKeySigning, api.LeaseKeyNext}, states(t, k), "repeating makes no third")
		})
	}
}

// Each rotation has its event, which tells of the key and does not hold it.
func TestARotationIsAudited(t *testing.T) {
	b, k, clock := newKeys(t)
	next, err := rotate(t, k)
	require.NoError(t, err)
	_, err = rotate(t, k)
	require.NoError(t, err)
	reply, err := audit.NewLog(b.DB, b.Table, clock.time).List(t.Context(), keys.Registry, api.AuditListRequest{})
	require.NoError(t, err)
	require.Len(t, reply.Events, 1, "one that waits is not made, and tells nothing")
	event := reply.Events[0]
	require.Equal(t, api.AuditKeyRotate, event.Action)
	require.Equal(t, keys.AuditLeaseKeys, event.Target)
	want, err := json.Marshal(next)
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(event.After))
}

func TestWhatIsDescribedHoldsNoKey(t *testing.T) {
	b, k, clock := newKeys(t)
	next, err := rotate(t, k)
	require.NoError(t, err)
	all, err := k.List(t.Context())
	require.NoError(t, err)
	shown, err := json.Marshal([]any{next, all})
	require.NoError(t, err)
	stored, err := store.EnsureSigningKeys(t.Context(), b.Direct, b.Table, table.LeaseKeys, clock.time)
	require.NoError(t, err)
	for _, s := range stored {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			require.NotContains(t, string(shown), encoding.EncodeToString(s.Secret)[:8])
		}
	}
}

func TestWithoutATimeNoKeyIsMade(t *testing.T) {
	b, k, clock := newKeys(t)
	clock.err = errors.New("the clock is skewed")
	_, err := k.List(t.Context())
	require.ErrorIs(t, err, clock.err)
	_, err = rotate(t, k)
	require.ErrorIs(t, err, clock.err)
	require.Zero(t, b.Calls("TransactWriteItems"))
}
