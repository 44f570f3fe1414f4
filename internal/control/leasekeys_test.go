package control

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
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
		return keyName(stored[SigningKey(UseKeys(stored), clock.now.UnixMilli())].ID)
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

func revoke(t *testing.T, k *LeaseKeys, id string) (api.LeaseKeyRevokeReply, error) {
	t.Helper()
	return k.Revoke(t.Context(), api.Principal{User: "ops"}, id)
}

// The key that signs is replaced at once, although a retired key is older and a waiting key
// signs later.
func TestARevokedKeyIsReplaced(t *testing.T) {
	_, k, clock := newKeys(t)
	states(t, k)
	clock.now = clock.now.Add(time.Hour)
	second, err := rotate(t, k)
	require.NoError(t, err)
	clock.now = clock.now.Add(signAfter)
	third, err := rotate(t, k)
	require.NoError(t, err)

	reply, err := revoke(t, k, second.ID)
	require.NoError(t, err)
	require.Equal(t, second.ID, reply.Revoked.ID)
	require.Equal(t, api.LeaseKeyRevoked, reply.Revoked.State)
	require.Equal(t, clock.now.UnixMilli(), reply.Revoked.RevokedMs)
	require.NotContains(t, []string{second.ID, third.ID}, reply.Signing.ID)
	require.Equal(t, reply.Signing.CreatedMs, reply.Signing.SignsFromMs)
	want := []api.LeaseKeyState{api.LeaseKeyRetired, api.LeaseKeyRevoked, api.LeaseKeyRetired, api.LeaseKeySigning}
	require.Equal(t, want, states(t, k))
	again, err := revoke(t, k, second.ID)
	require.NoError(t, err)
	require.Equal(t, reply, again)
	require.Equal(t, want, states(t, k), "a repeat changes nothing")
	clock.now = clock.now.Add(time.Hour)
	require.Equal(t, want, states(t, k), "the key that waited signs no more")
}

// A retired key, and a key that waits, need no replacement.
func TestKeysThatDoNotSignAreRevoked(t *testing.T) {
	_, k, clock := newKeys(t)
	all, err := k.List(t.Context())
	require.NoError(t, err)
	next, err := rotate(t, k)
	require.NoError(t, err)
	_, err = revoke(t, k, next.ID)
	require.NoError(t, err)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeySigning, api.LeaseKeyRevoked}, states(t, k))
	clock.now = clock.now.Add(time.Hour)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeySigning, api.LeaseKeyRevoked}, states(t, k))
	next, err = rotate(t, k)
	require.NoError(t, err)
	clock.now = clock.now.Add(time.Hour)
	reply, err := revoke(t, k, all[0].ID)
	require.NoError(t, err)
	require.Equal(t, next.ID, reply.Signing.ID)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeyRevoked, api.LeaseKeyRevoked, api.LeaseKeySigning}, states(t, k))
}

func TestAKeyThatIsNotThereIsNotRevoked(t *testing.T) {
	_, k, _ := newKeys(t)
	_, err := revoke(t, k, "AAAAAA")
	var refused *api.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, api.CodeNotFound, refused.Code)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeySigning}, states(t, k))
}

func TestARevocationThroughEveryFault(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"applied":            {},
		"refused":            fault.TransactionCanceled("TransactionConflict", "None", "None", "None"),
		"outdated":           fault.TransactionCanceled("ConditionalCheckFailed", "None", "None", "None"),
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
		"unreachable":        {Kind: fault.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			b, k, clock := newKeys(t)
			all, err := k.List(t.Context())
			require.NoError(t, err)
			b.Fail("TransactWriteItems", f)
			reply, err := revoke(t, k, all[0].ID)
			require.NoError(t, err)
			again, err := revoke(t, k, all[0].ID)
			require.NoError(t, err)
			require.Equal(t, reply, again)
			require.Equal(t, []api.LeaseKeyState{api.LeaseKeyRevoked, api.LeaseKeySigning}, states(t, k))
			events, err := audit.NewLog(b.DB, b.Table, clock.time).List(t.Context(), keys.Registry, api.AuditListRequest{})
			require.NoError(t, err)
			require.Len(t, events.Events, 1)
			require.Equal(t, api.AuditKeyRevoke, events.Events[0].Action)
			require.NotContains(t, string(events.Events[0].After), "secret")
		})
	}
}

// Operators whose clocks disagree can revoke all keys at the same moment. The next reader
// makes a key that signs at once.
func TestAllKeysRevoked(t *testing.T) {
	b, k, clock := newKeys(t)
	all, err := k.List(t.Context())
	require.NoError(t, err)
	stored, err := store.EnsureSigningKeys(t.Context(), b.Direct, b.Table, table.LeaseKeys, clock.time)
	require.NoError(t, err)
	item := table.RevokeSigningKeyItem(b.Table, table.LeaseKeys, stored[0].ID, clock.now.UnixMilli())
	_, err = b.Direct.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{item}})
	require.NoError(t, err)
	require.Equal(t, []api.LeaseKeyState{api.LeaseKeyRevoked, api.LeaseKeySigning}, states(t, k))
	_, err = b.Direct.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{item}})
	require.Error(t, err, "a key is revoked once")
	require.Equal(t, all[0].ID, keyName(stored[0].ID))
}

// A key verifies leases until two minutes after another key began to sign, also if the other
// was revoked since. A key that was revoked before it signed ends nothing.
func TestUntilWhenAKeyVerifies(t *testing.T) {
	grace, wait := issueGrace.Milliseconds(), signAfter.Milliseconds()
	require.EqualValues(t, 120_000, grace)
	key := func(createdMs, revokedMs int64, atOnce bool) table.SigningKey {
		return table.SigningKey{CreatedMs: createdMs, RevokedMs: revokedMs, AtOnce: atOnce}
	}
	for name, c := range map[string]struct {
		stored []table.SigningKey
		last   []int64
	}{
		"one":                         {[]table.SigningKey{key(1000, 0, false)}, []int64{0}},
		"rotated":                     {[]table.SigningKey{key(1000, 0, false), key(2000, 0, false)}, []int64{2000 + wait + grace, 0}},
		"rotated twice":               {[]table.SigningKey{key(1, 0, false), key(2000, 0, false), key(900_000, 0, false)}, []int64{2000 + wait + grace, 900_000 + wait + grace, 0}},
		"replaced":                    {[]table.SigningKey{key(1000, 5000, false), key(5000, 0, true)}, []int64{5000 + grace, 0}},
		"replaced while one waits":    {[]table.SigningKey{key(1000, 5000, false), key(4000, 0, false), key(5000, 0, true)}, []int64{5000 + grace, 5000 + grace, 0}},
		"the next revoked":            {[]table.SigningKey{key(1000, 0, false), key(2000, 3000, false)}, []int64{0, 0}},
		"the next revoked, and later": {[]table.SigningKey{key(1000, 0, false), key(2000, 2000+wait+1, false)}, []int64{2000 + wait + grace, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, use := range UseKeys(c.stored) {
				require.Equal(t, c.last[i], use.LastLeaseMs, i)
			}
		})
	}
}
