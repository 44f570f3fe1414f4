package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func newNamespaces(t *testing.T) (*tabletest.Bench, *Namespaces) {
	t.Helper()
	b := tabletest.New(t)
	return b, NewNamespaces(b.DB, b.Table)
}

func requireCode(t *testing.T, want api.Code, err error) {
	t.Helper()
	var refusal *api.Error
	if !errors.As(err, &refusal) {
		require.Failf(t, "not an api.Error", "want %s, got %v", want, err)
	}
	require.Equal(t, want, refusal.Code)
}

func storedItem(t *testing.T, b *tabletest.Bench, k keys.Key) table.Item {
	t.Helper()
	out, err := b.Direct.GetItem(t.Context(), table.ReadInput(b.Table, k))
	require.NoError(t, err)
	return out.Item
}

func TestEnsureMakesANamespaceOnce(t *testing.T) {
	b, r := newNamespaces(t)
	_, err := r.Lookup(t.Context(), "tenant-a")
	requireCode(t, api.CodeUnknownNamespace, err)

	id, err := r.Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.True(t, keys.ValidNamespaceID(id))
	again, err := r.Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.Equal(t, id, again)
	found, err := r.Lookup(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.Equal(t, id, found)
	require.Equal(t, 1, b.Calls("TransactWriteItems"))

	reverse, err := table.DecodeNamespace(storedItem(t, b, keys.NamespaceID{ID: id}.Key()))
	require.NoError(t, err)
	require.Equal(t, table.Namespace{Name: "tenant-a", ID: id}, reverse)
	schema, err := table.DecodeVersion(storedItem(t, b, keys.Version{Namespace: id}.Key()))
	require.NoError(t, err)
	require.EqualValues(t, table.SchemaVersion, schema)

	other, err := r.Ensure(t.Context(), "tenant-b")
	require.NoError(t, err)
	require.NotEqual(t, id, other)
}

func TestNamesAreCheckedBeforeAnyIO(t *testing.T) {
	b, r := newNamespaces(t)
	for _, name := range []string{"", "_", "A", "a.b", "a*", "a b", "-a", "a\n"} {
		_, err := r.Lookup(t.Context(), name)
		requireCode(t, api.CodeInvalidNamespace, err)
		_, err = r.Ensure(t.Context(), name)
		requireCode(t, api.CodeInvalidNamespace, err)
	}
	require.Zero(t, b.Calls(""))
}

func TestRacingNodesAgreeOnOneID(t *testing.T) {
	b := tabletest.New(t)
	const nodes = 8
	ids := make([]string, nodes)
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() {
			id, err := NewNamespaces(b.DB, b.Table).Ensure(t.Context(), "default")
			if err != nil {
				t.Error(err)
			}
			ids[i] = id
		})
	}
	all.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	pages, err := b.Direct.Query(t.Context(), table.QueryInput(b.Table, 0, keys.Query{PK: keys.NamespaceID{}.Key().PK}))
	require.NoError(t, err)
	require.Len(t, pages.Items, 2, "one forward and one reverse item: no loser left its own behind")
}

func TestAnIDThatIsTakenIsDrawnAgain(t *testing.T) {
	b, r := newNamespaces(t)
	taken := bytes.Repeat([]byte{1}, 8)
	r.random = bytes.NewReader(taken)
	first, err := r.Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	r.random = io.MultiReader(bytes.NewReader(taken), bytes.NewReader(bytes.Repeat([]byte{2}, 8)))
	second, err := r.Ensure(t.Context(), "tenant-b")
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	n, err := table.DecodeNamespace(storedItem(t, b, keys.NamespaceID{ID: first}.Key()))
	require.NoError(t, err)
	require.Equal(t, "tenant-a", n.Name)
}

func TestEnsureFindsOutWhatBecameOfItsWrite(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
		"unreachable":        {Kind: fault.Unreachable},
		"conflict":           fault.TransactionCanceled("TransactionConflict", "None", "None"),
	} {
		t.Run(name, func(t *testing.T) {
			b, r := newNamespaces(t)
			b.Fail("TransactWriteItems", f)
			id, err := r.Ensure(t.Context(), "default")
			require.NoError(t, err)
			n, err := table.DecodeNamespace(storedItem(t, b, keys.NamespaceName{Name: "default"}.Key()))
			require.NoError(t, err)
			require.Equal(t, id, n.ID)
		})
	}
}

func TestEnsureGivesUp(t *testing.T) {
	b, r := newNamespaces(t)
	for range ensureAttempts {
		b.Fail("TransactWriteItems", fault.InternalError())
	}
	_, err := r.Ensure(t.Context(), "default")
	require.ErrorContains(t, err, "make namespace default")

	b.Fail("GetItem", fault.InternalError())
	_, err = r.Ensure(t.Context(), "default")
	require.ErrorContains(t, err, "look up namespace default")

	r.random = bytes.NewReader(nil)
	ctx, cancel := context.WithCancel(t.Context())
	b.Before("GetItem", cancel)
	_, err = r.Ensure(ctx, "default")
	require.Error(t, err)
}

func TestEnsureDoesNotRepeatARejectedWrite(t *testing.T) {
	b, r := newNamespaces(t)
	b.Fail("TransactWriteItems", fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{
		Status: http.StatusBadRequest, Type: "com.amazon.coral.service#AccessDeniedException", Message: "not authorized",
	}})
	_, err := r.Ensure(t.Context(), "default")
	require.ErrorContains(t, err, "not authorized")
	require.Equal(t, 1, b.Calls("TransactWriteItems"))
}

func TestADamagedEntryIsNoUnknownNamespace(t *testing.T) {
	b, r := newNamespaces(t)
	_, err := b.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &b.Table, Item: table.KeyItem(keys.NamespaceName{Name: "default"}.Key()),
	})
	require.NoError(t, err)
	_, err = r.Lookup(t.Context(), "default")
	require.ErrorIs(t, err, table.ErrDamaged)
	_, err = r.Ensure(t.Context(), "default")
	require.ErrorIs(t, err, table.ErrDamaged)
}

const patience = time.Minute // as long as a busy machine may take

// clock stands still until it is moved.
type clock struct{ now atomic.Int64 }

func (c *clock) mono() time.Duration     { return time.Duration(c.now.Load()) }
func (c *clock) advance(d time.Duration) { c.now.Add(int64(d)) }

func newNamespaceCache(t *testing.T) (*tabletest.Bench, *NamespaceCache, *clock) {
	t.Helper()
	b, r := newNamespaces(t)
	c := &clock{}
	cache, err := NewNamespaceCache(r, c.mono)
	require.NoError(t, err)
	return b, cache, c
}

func TestKnownNamespacesAreReadOnceAMinute(t *testing.T) {
	b, cache, clock := newNamespaceCache(t)
	want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "default")
	require.NoError(t, err)
	_, ok := cache.Cached("default")
	require.False(t, ok)

	lookup := func(reads int) {
		t.Helper()
		id, err := cache.Lookup(t.Context(), "default", patience)
		require.NoError(t, err)
		require.Equal(t, want, id)
		require.Equal(t, reads, b.Calls("GetItem"))
	}
	lookup(1)
	clock.advance(knownAge - renewalSpread)
	lookup(1)
	id, ok := cache.Cached("default")
	require.True(t, ok)
	require.Equal(t, want, id)
	clock.advance(renewalSpread)
	_, ok = cache.Cached("default")
	require.False(t, ok, "a minute old: it is asked for first")
	lookup(2)
}

// An id in use is looked up again before it is a minute old, beside: nobody waits, and
// one lookup is enough.
func TestKnownNamespacesAreRenewedBeside(t *testing.T) {
	b, cache, clock := newNamespaceCache(t)
	want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "default")
	require.NoError(t, err)
	_, err = cache.Lookup(t.Context(), "default", patience)
	require.NoError(t, err)
	clock.advance(knownAge - 1)
	arrived, proceed := make(chan struct{}), make(chan struct{})
	b.Before("GetItem", func() { close(arrived); <-proceed })
	for range 100 {
		id, ok := cache.Cached("default")
		require.True(t, ok)
		require.Equal(t, want, id)
	}
	<-arrived
	close(proceed)
	require.Eventually(t, func() bool { cache.mu.Lock(); defer cache.mu.Unlock(); return cache.renewed == 0 }, patience, time.Millisecond)
	clock.advance(knownAge - renewalSpread)
	_, ok := cache.Cached("default")
	require.True(t, ok)
	require.Equal(t, 2, b.Calls("GetItem"))
}

func TestUnknownNamespacesAreReadOnceASecond(t *testing.T) {
	b, cache, clock := newNamespaceCache(t)
	refused := func(reads int) {
		t.Helper()
		_, err := cache.Lookup(t.Context(), "tenant-a", patience)
		requireCode(t, api.CodeUnknownNamespace, err)
		require.Equal(t, reads, b.Calls("GetItem"))
	}
	refused(1)
	clock.advance(refusedAge - 1)
	refused(1)
	clock.advance(1)
	refused(2)

	clock.advance(refusedAge)
	want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	id, err := cache.Lookup(t.Context(), "tenant-a", patience)
	require.NoError(t, err)
	require.Equal(t, want, id)

	_, err = cache.Lookup(t.Context(), "A*", patience)
	requireCode(t, api.CodeInvalidNamespace, err)
}

func TestKnownNamespacesOutliveAnOutage(t *testing.T) {
	b, cache, clock := newNamespaceCache(t)
	want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "default")
	require.NoError(t, err)
	_, err = cache.Lookup(t.Context(), "default", patience)
	require.NoError(t, err)

	clock.advance(knownAge)
	down := slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, attemptsPerLookup)
	b.Fail("GetItem", down...)
	id, err := cache.Lookup(t.Context(), "default", patience)
	require.NoError(t, err)
	require.Equal(t, want, id)
	_, ok := cache.Cached("default")
	require.True(t, ok, "requests of the next second do not wait for the store")
	require.Equal(t, 1+attemptsPerLookup, b.Calls("GetItem"))
	clock.advance(outageAge)
	_, ok = cache.Cached("default")
	require.True(t, ok, "it is asked for beside")
	require.Eventually(t, func() bool { return b.Calls("GetItem") == 2+attemptsPerLookup }, patience, time.Millisecond)

	b.Fail("GetItem", down...)
	_, err = cache.Lookup(t.Context(), "never-seen", patience)
	var refusal *api.Error
	require.Error(t, err)
	require.NotErrorAs(t, err, &refusal, "an outage is not an unknown namespace")
}

// A namespace that is gone is forgotten, however well it was known.
func TestANamespaceThatIsGoneIsForgotten(t *testing.T) {
	b, cache, clock := newNamespaceCache(t)
	_, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "default")
	require.NoError(t, err)
	_, err = cache.Lookup(t.Context(), "default", patience)
	require.NoError(t, err)
	_, err = b.Direct.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: &b.Table, Key: table.KeyItem(keys.NamespaceName{Name: "default"}.Key()),
	})
	require.NoError(t, err)
	clock.advance(knownAge)
	_, err = cache.Lookup(t.Context(), "default", patience)
	requireCode(t, api.CodeUnknownNamespace, err)
	clock.advance(refusedAge)
	b.Fail("GetItem", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, attemptsPerLookup)...)
	_, err = cache.Lookup(t.Context(), "default", patience)
	require.Error(t, err)
}

// All who ask at once share one read, and go on when the first gives up.
func TestLookupsShareAFlightAndOutliveItsFirst(t *testing.T) {
	b, cache, _ := newNamespaceCache(t)
	want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "default")
	require.NoError(t, err)
	arrived, proceed := make(chan struct{}), make(chan struct{})
	b.Before("GetItem", func() { close(arrived); <-proceed })

	first, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { _, err := cache.Lookup(first, "default", patience); gaveUp <- err }()
	<-arrived
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)

	const others = 16
	answers := make(chan string, others)
	for range others {
		go func() {
			id, err := cache.Lookup(t.Context(), "default", patience)
			if err != nil {
				t.Error(err)
			}
			answers <- id
		}()
	}
	close(proceed)
	for range others {
		require.Equal(t, want, <-answers)
	}
	require.Equal(t, 1, b.Calls("GetItem"))
}

func TestACacheIsBounded(t *testing.T) {
	b, cache, _ := newNamespaceCache(t)
	_, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "default")
	require.NoError(t, err)
	_, err = cache.Lookup(t.Context(), "default", patience)
	require.NoError(t, err)
	for i := range maxRefused + 10 {
		_, err := cache.Lookup(t.Context(), fmt.Sprintf("wrong-%d", i), patience)
		requireCode(t, api.CodeUnknownNamespace, err)
	}
	require.Equal(t, maxRefused, cache.refused.Len())
	_, ok := cache.Cached("default")
	require.True(t, ok, "no flood of wrong names pushes out a good one")
}
