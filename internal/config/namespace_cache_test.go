package config

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/pkg/api"
)

// Without news of it, a deletion is noticed by age; a recovery, by the shorter
// age of a refusal.
func TestADeletedNamespaceIsNoticedByAge(t *testing.T) {
	b, cache, clock := newNamespaceCache(t)
	direct := operator(b, b.Direct)
	made, err := direct.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	lookup := func() error { _, err := cache.Lookup(t.Context(), "tenant-a", patience); return err }
	require.NoError(t, lookup())
	_, err = direct.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	clock.advance(knownAge - renewalSpread)
	require.NoError(t, lookup())
	clock.advance(renewalSpread)
	for range 2 { // as read, and as remembered
		requireCode(t, api.CodeUnknownNamespace, lookup())
		require.ErrorContains(t, lookup(), "is deleted")
	}
	_, err = direct.Recover(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	requireCode(t, api.CodeUnknownNamespace, lookup())
	clock.advance(refusedAge)
	id, err := cache.Lookup(t.Context(), "tenant-a", patience)
	require.NoError(t, err)
	require.Equal(t, made.ID, id)
}

func TestNewsOfAChangeIsActedOnAtOnce(t *testing.T) {
	b, cache, _ := newNamespaceCache(t)
	direct := operator(b, b.Direct)
	_, err := direct.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	lookup := func() error { _, err := cache.Lookup(t.Context(), "tenant-a", patience); return err }
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
	b, cache, _ := newNamespaceCache(t)
	direct := operator(b, b.Direct)
	_, err := direct.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	b.Before("GetItem", func() { cache.Changed("tenant-a") })
	_, err = cache.Lookup(t.Context(), "tenant-a", patience)
	require.NoError(t, err)
	_, ok := cache.Cached("tenant-a")
	require.False(t, ok)

	_, err = direct.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	cache.Changed("tenant-a")
	b.Before("GetItem", func() { cache.Changed("tenant-a") })
	_, err = cache.Lookup(t.Context(), "tenant-a", patience)
	requireCode(t, api.CodeUnknownNamespace, err)
	reads := b.Calls("GetItem")
	_, err = cache.Lookup(t.Context(), "tenant-a", patience)
	requireCode(t, api.CodeUnknownNamespace, err)
	require.Equal(t, reads+1, b.Calls("GetItem"))
}

// In an outage, news of a change does not take away what was known.
func TestNewsDuringAnOutage(t *testing.T) {
	b, cache, _ := newNamespaceCache(t)
	want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	_, err = cache.Lookup(t.Context(), "tenant-a", patience)
	require.NoError(t, err)
	cache.Changed("tenant-a")
	b.Fail("GetItem", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, attemptsPerLookup)...)
	id, err := cache.Lookup(t.Context(), "tenant-a", patience)
	require.NoError(t, err)
	require.Equal(t, want, id)
}

// A lookup that the store throttles, or does not answer at first, is repeated: it fails
// none of those who wait for it.
func TestOneFailedReadFailsNoLookup(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"throttled":  fault.Throttling(),
		"failed":     fault.InternalError(),
		"reply lost": {Kind: fault.ReplyLost},
		"hanging":    {Kind: fault.Hangs},
	} {
		t.Run(name, func(t *testing.T) {
			b, cache, _ := newNamespaceCache(t)
			want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "tenant-a")
			require.NoError(t, err)
			b.Fail("GetItem", f)
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() {
					id, err := cache.Lookup(t.Context(), "tenant-a", patience)
					require.NoError(t, err)
					require.Equal(t, want, id)
				})
			}
			wg.Wait()
			require.Equal(t, 2, b.Calls("GetItem"))
		})
	}
}

// A throttle is waited out for as long as the caller waits, beyond one lookup; nobody
// waits for another one's namespace.
func TestAThrottledLookupLastsAsLongAsItsCaller(t *testing.T) {
	b, cache, _ := newNamespaceCache(t)
	direct := NewNamespaces(b.Direct, b.Table)
	_, err := direct.Ensure(t.Context(), "tenant-a")
	require.NoError(t, err)
	want, err := direct.Ensure(t.Context(), "tenant-b")
	require.NoError(t, err)
	var lifted atomic.Bool
	b.Faults.Match(func(_ string, body []byte) fault.Fault {
		if !lifted.Load() && strings.Contains(string(body), "tenant-a") {
			return fault.Throttling()
		}
		return fault.Fault{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp, served := make(chan error), make(chan error)
	go func() { _, err := cache.Lookup(ctx, "tenant-a", patience); gaveUp <- err }()
	go func() { _, err := cache.Lookup(t.Context(), "tenant-a", patience); served <- err }()
	id, err := cache.Lookup(t.Context(), "tenant-b", patience)
	require.NoError(t, err)
	require.Equal(t, want, id)
	cancel()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	lifted.Store(true)
	require.NoError(t, <-served)
}

// A known id serves while its lookup hangs or is throttled, at any age.
func TestAKnownNamespaceOutlivesSlowLookups(t *testing.T) {
	for name, f := range map[string]fault.Fault{"throttled": fault.Throttling(), "hanging": {Kind: fault.Hangs}} {
		for cause, age := range map[string]func(*NamespaceCache, *clock){
			"older than a minute": func(_ *NamespaceCache, c *clock) { c.advance(knownAge) },
			"changes were missed": func(cache *NamespaceCache, _ *clock) { cache.AllChanged() },
			"it has changed":      func(cache *NamespaceCache, _ *clock) { cache.Changed("tenant-a") },
		} {
			t.Run(name+"/"+cause, func(t *testing.T) {
				b, cache, clock := newNamespaceCache(t)
				want, err := NewNamespaces(b.Direct, b.Table).Ensure(t.Context(), "tenant-a")
				require.NoError(t, err)
				_, err = cache.Lookup(t.Context(), "tenant-a", patience)
				require.NoError(t, err)
				age(cache, clock)
				b.Faults.Match(func(string, []byte) fault.Fault { return f })
				for range 3 {
					id, err := cache.Lookup(t.Context(), "tenant-a", time.Millisecond)
					require.NoError(t, err)
					require.Equal(t, want, id)
				}
			})
		}
	}
}
