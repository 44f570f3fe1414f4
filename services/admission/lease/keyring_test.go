package lease

import (
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// ring is a keyring with the keys that a test stores, at the time testNow.
func ring(t *testing.T, stored ...table.SigningKey) (*tabletest.Bench, *keyring) {
	t.Helper()
	b := tabletest.New(t)
	for _, k := range stored {
		_, err := b.Direct.PutItem(t.Context(), table.PutSigningKeyInput(b.Table, table.LeaseKeys, k))
		require.NoError(t, err)
	}
	k := newKeyring(b.DB, b.Table, store.NewClock(func() store.ClockReading { return store.ClockReading{Wall: testNow.Time()} }))
	require.NoError(t, k.load(t.Context()))
	return b, k
}

// transact makes a write of the kind that changes are made of.
func transact(t *testing.T, b *tabletest.Bench, item types.TransactWriteItem) {
	t.Helper()
	_, err := b.Direct.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{item}})
	require.NoError(t, err)
}

func storedKey(name byte, createdMs int64) table.SigningKey {
	return table.SigningKey{ID: table.SigningKeyID{name}, Secret: []byte{name}, CreatedMs: createdMs}
}

// sealed is a lease issued at a moment, by a holder of a key's secret.
func sealed(t *testing.T, k table.SigningKey, at bucket.Instant) string {
	t.Helper()
	l := testLease()
	l.At = at
	token, err := newSigningKey(k.ID, k.Secret).seal(l)
	require.NoError(t, err)
	return token
}

// A node refuses a lease that was issued with a key after the key was retired, and accepts
// the lease of a node that learned of the next key two minutes late.
func TestALeaseOfARetiredKey(t *testing.T) {
	nowMs := testNow.Time().UnixMilli()
	old, current := storedKey(1, nowMs-time.Hour.Milliseconds()), storedKey(2, nowMs-time.Minute.Milliseconds()*10)
	_, k := ring(t, old, current)
	retired := instant(current.CreatedMs + 2*time.Minute.Milliseconds())
	grace := bucket.Instant(2 * time.Minute.Milliseconds())
	for at, want := range map[bucket.Instant]error{
		retired - 1: nil, retired + grace: nil, retired + grace + 1: errLateKey, testNow: errLateKey, testNow + 1e6: errLateKey,
	} {
		_, err := k.open(t.Context(), sealed(t, old, at))
		require.ErrorIs(t, err, want, "%d ms after the retirement", at-retired)
		_, err = k.open(t.Context(), sealed(t, current, at))
		require.NoError(t, err)
	}
	require.ErrorIs(t, errLateKey, errForged)
}

// A node signs with the key of the moment, without reading the keys again in between. So no
// node refuses its leases.
func TestANodeSignsWithTheKeyOfTheMoment(t *testing.T) {
	nowMs := testNow.Time().UnixMilli()
	old, next := storedKey(1, nowMs-time.Hour.Milliseconds()), storedKey(2, nowMs)
	_, k := ring(t, old, next)
	begins := instant(nowMs + 2*time.Minute.Milliseconds())
	require.Equal(t, old.ID, k.signing(begins-1).id)
	require.Equal(t, next.ID, k.signing(begins).id)
}

func TestALeaseOfARevokedKey(t *testing.T) {
	nowMs := testNow.Time().UnixMilli()
	leaked, fresh := storedKey(1, nowMs-time.Hour.Milliseconds()), storedKey(2, nowMs)
	leaked.RevokedMs, fresh.AtOnce = nowMs, true
	b, k := ring(t, leaked, fresh)
	_, err := k.open(t.Context(), sealed(t, leaked, testNow))
	require.NoError(t, err, "it is not revoked in the table yet: PutSigningKeyInput makes new keys")
	item := table.RevokeSigningKeyItem(b.Table, table.LeaseKeys, leaked.ID, nowMs)
	transact(t, b, item)
	require.NoError(t, k.load(t.Context()))
	for _, at := range []bucket.Instant{testNow - 3_600_000, testNow} {
		_, err = k.open(t.Context(), sealed(t, leaked, at))
		require.ErrorIs(t, err, errRevokedKey)
		require.ErrorIs(t, err, errForged)
	}
	require.Equal(t, errRevokedKey, reason(err))
	require.Equal(t, errForged, reason(errLateKey))
	require.Equal(t, fresh.ID, k.signing(testNow).id)
	require.Equal(t, fresh.ID, k.signing(testNow-1000).id, "whatever the clocks")
}

// A node reads the keys as soon as it hears that they have changed.
func TestANodeReadsChangedKeysAtOnce(t *testing.T) {
	b, k := ring(t, storedKey(1, 1), storedKey(2, 2))
	ended := make(chan struct{})
	go func() { defer close(ended); k.follow(t.Context(), slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() { <-ended })
	item := table.RevokeSigningKeyItem(b.Table, table.LeaseKeys, table.SigningKeyID{1}, 3)
	transact(t, b, item)
	k.readSoon()
	require.Eventually(t, func() bool {
		_, err := k.open(t.Context(), sealed(t, storedKey(1, 1), testNow))
		return err != nil
	}, control.KeyRefreshEvery/2, time.Millisecond, "the next turn would be too late")
}
