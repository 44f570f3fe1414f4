package namespace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/localdynamo/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

// Without news of it, a deletion is noticed by age; a recovery, by the shorter
// age of a refusal.
func TestADeletedNamespaceIsNoticedByAge(t *testing.T) {
	b, cache, clock := newCache(t)
	direct := operator(b, b.Direct)
	made, err := direct.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	lookup := func() error { _, err := cache.Lookup(t.Context(), "tenant-a"); return err }
	require.NoError(t, lookup())
	_, err = direct.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	clock.advance(knownAge - 1)
	require.NoError(t, lookup())
	clock.advance(1)
	for range 2 { // as read, and as remembered
		requireCode(t, api.CodeUnknownNamespace, lookup())
		require.ErrorContains(t, lookup(), "is deleted")
	}
	_, err = direct.Recover(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	requireCode(t, api.CodeUnknownNamespace, lookup())
	clock.advance(refusedAge)
	id, err := cache.Lookup(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.Equal(t, made.ID, id)
}

func TestNewsOfAChangeIsActedOnAtOnce(t *testing.T) {
	b, cache, _ := newCache(t)
	direct := operator(b, b.Direct)
	_, err := direct.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	lookup := func() error { _, err := cache.Lookup(t.Context(), "tenant-a"); return err }
	require.NoError(t, lookup())
	for range 3 {
		_, err = direct.Delete(t.Context(), "tenant-a", alice())
		require.NoError(t, err)
		cache.Changed("tenant-a")
		_, ok := cache.Cached("tenant-a")
		require.False(t, ok)
		requireCode(t, api.CodeUnknownNamespace, lookup())
		_, err = direct.Recover(t.Context(), "tenant-a", alice())
		require.NoError(t, err)
		cache.Changed("tenant-a")
		require.NoError(t, lookup())
	}
	cache.Changed("never-seen")
}

// A lookup that began before a change is not remembered: nobody may be served
// from it later.
func TestALookupThatAChangeOvertookIsNotRemembered(t *testing.T) {
	b, cache, _ := newCache(t)
	direct := operator(b, b.Direct)
	_, err := direct.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	b.Before("GetItem", func() { cache.Changed("tenant-a") })
	_, err = cache.Lookup(t.Context(), "tenant-a")
	require.NoError(t, err)
	_, ok := cache.Cached("tenant-a")
	require.False(t, ok)

	_, err = direct.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	cache.Changed("tenant-a")
	b.Before("GetItem", func() { cache.Changed("tenant-a") })
	_, err = cache.Lookup(t.Context(), "tenant-a")
	requireCode(t, api.CodeUnknownNamespace, err)
	reads := b.Calls("GetItem")
	_, err = cache.Lookup(t.Context(), "tenant-a")
	requireCode(t, api.CodeUnknownNamespace, err)
	require.Equal(t, reads+1, b.Calls("GetItem"))
}

// In an outage, news of a change does not take away what was known.
func TestNewsDuringAnOutage(t *testing.T) {
	b, cache, _ := newCache(t)
	want, err := NewRegistry(b.Direct, b.Table).Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	_, err = cache.Lookup(t.Context(), "tenant-a")
	require.NoError(t, err)
	cache.Changed("tenant-a")
	b.Fail("GetItem", fault.Fault{Kind: fault.Unreachable})
	id, err := cache.Lookup(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.Equal(t, want, id)
}
