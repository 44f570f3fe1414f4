package config

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/internal/jitter"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// knownAge is the time after which an id must be looked up before it is used.
	knownAge = time.Minute
	// renewalSpread is the range before knownAge in which an id in use is looked up
	// in the background, so that ids that were learned together are not renewed
	// together.
	renewalSpread = 15 * time.Second
	// maxRenewals bounds the background lookups at a time.
	maxRenewals = 16
	// refusedAge is the time during which a name is refused without a lookup. It is
	// short, so that a new namespace is found at once, and limits a client that
	// repeats a wrong name to a read a second.
	refusedAge = time.Second
	// outageAge is the time during which an id that could not be confirmed is used
	// before the next lookup.
	outageAge = time.Second
	// lookupTimeout bounds a lookup, which continues after its callers give up.
	// Throttled reads repeat until it ends; other failures repeat up to
	// attemptsPerLookup. The first attempts get less time than later attempts, so
	// that a single slow reply does not use up the lookup.
	lookupTimeout     = 2 * time.Second
	attemptTimeout    = 250 * time.Millisecond
	attemptsPerLookup = 4
	// maxPatience bounds the time that a caller waits for the lookup of a known id.
	maxPatience = 250 * time.Millisecond

	maxKnown   = 16384
	maxRefused = 1024 // apart from the known ones, which no flood of wrong names may push out
)

// NamespaceCache caches namespace ids. It is safe for concurrent use.
type NamespaceCache struct {
	registry *Namespaces
	mono     func() time.Duration

	mu      sync.Mutex
	flights *singleflight.Group                 // guarded by mu; another one after AllChanged
	known   *simplelru.LRU[string, knownID]     // guarded by mu
	refused *simplelru.LRU[string, refusedName] // guarded by mu
	changes int                                 // guarded by mu: how many changes were heard of
	renewed int                                 // guarded by mu: lookups beside that are under way
}

// knownID is a cached id. Its times are on the clock mono.
type knownID struct {
	id    string
	renew time.Duration // from then on it is looked up beside
	until time.Duration // from then on it is looked up before it is used
}

// refusedName is the reason for which requests in a namespace are refused: it does
// not exist, or it is deleted.
type refusedName struct {
	err   *api.Error
	until time.Duration // on the clock mono
}

// NewNamespaceCache returns an empty cache. The clock mono is monotonic, from any
// origin.
func NewNamespaceCache(registry *Namespaces, mono func() time.Duration) (*NamespaceCache, error) {
	known, err := simplelru.NewLRU[string, knownID](maxKnown, nil)
	if err != nil {
		return nil, fmt.Errorf("namespace cache: %w", err)
	}
	refused, err := simplelru.NewLRU[string, refusedName](maxRefused, nil)
	if err != nil {
		return nil, fmt.Errorf("namespace cache: %w", err)
	}
	return &NamespaceCache{registry: registry, mono: mono, flights: new(singleflight.Group), known: known, refused: refused}, nil
}

// Cached returns the id of a namespace without waiting, if it was looked up in the
// last minute or could not be looked up since. A missing id may exist: only Lookup
// tells. An id in use is renewed in the background.
func (c *NamespaceCache) Cached(name string) (id string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known.Get(name)
	now := c.mono()
	if !ok || now >= e.until {
		return "", false
	}
	if now >= e.renew && c.renewed < maxRenewals {
		c.known.Add(name, knownID{e.id, now + outageAge, e.until})
		c.renewed++
		flight := c.flights.DoChan(name, func() (any, error) { return c.ask(context.Background(), name) })
		go func() {
			<-flight
			c.mu.Lock()
			defer c.mu.Unlock()
			c.renewed--
		}()
	}
	return e.id, true
}

// Last returns the id that a namespace was last known under, however old. A node that has
// never served the namespace does not know it.
func (c *NamespaceCache) Last(name string) (id string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known.Peek(name)
	return e.id, ok
}

// Lookup returns the id of a namespace from memory, or by a lookup that all
// concurrent callers share and that repeats until ctx ends. It fails as
// [Namespaces.Lookup] does. During an outage a known id stays valid; if the store
// is slow, Lookup returns the known id after patience.
func (c *NamespaceCache) Lookup(ctx context.Context, name string, patience time.Duration) (string, error) {
	for {
		if id, ok := c.Cached(name); ok {
			return id, nil
		}
		if err := c.refusal(name); err != nil {
			return "", err
		}
		known, enough, stop := c.fallback(name, patience)
		flight := c.shared().DoChan(name, func() (any, error) {
			if id, ok := c.Cached(name); ok { // by a flight that ended a moment ago
				return id, nil
			}
			// The first to ask may give up before the others.
			return c.ask(context.WithoutCancel(ctx), name)
		})
		select {
		case r := <-flight:
			stop()
			if id, _ := r.Val.(string); r.Err == nil || !mayPass(r.Err) {
				return id, r.Err
			}
		case <-enough:
			return known, nil
		case <-ctx.Done():
			stop()
			return "", fmt.Errorf("look up namespace %s: %w", name, ctx.Err())
		}
	}
}

// fallback returns the known id of a namespace and a timer after which a caller
// uses it. If the id is not known, the timer never fires.
func (c *NamespaceCache) fallback(name string, patience time.Duration) (known string, enough <-chan time.Time, stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known.Get(name)
	if !ok {
		return "", nil, func() {}
	}
	timer := time.NewTimer(min(patience, maxPatience))
	return e.id, timer.C, func() { timer.Stop() }
}

// mayPass reports whether a lookup that failed may succeed on a repeat: it timed
// out, or the store throttled it.
func mayPass(err error) bool {
	return store.OutcomeOf(err) == store.Throttled || errors.Is(err, context.DeadlineExceeded)
}

// Changed makes the next request in a namespace ask the registry again. The result
// of a lookup in progress is not cached, because it may be from before the change.
// If the store does not answer, the known id stays valid.
func (c *NamespaceCache) Changed(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.flights.Forget(name)
	c.refused.Remove(name)
	if e, ok := c.known.Peek(name); ok {
		now := c.mono()
		c.known.Add(name, knownID{e.id, now, now})
	}
}

// AllChanged is Changed for all namespaces, after changes may have been missed.
func (c *NamespaceCache) AllChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.flights = new(singleflight.Group)
	c.refused.Purge()
	now := c.mono()
	for _, name := range c.known.Keys() { // oldest first, so that their order stays
		if e, ok := c.known.Peek(name); ok {
			c.known.Add(name, knownID{e.id, now, now})
		}
	}
}

// shared returns the group of lookups that concurrent callers share.
func (c *NamespaceCache) shared() *singleflight.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flights
}

// refusal returns the recent refusal of a name, or nil.
func (c *NamespaceCache) refusal(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.refused.Get(name); ok && c.mono() < r.until {
		return r.err
	}
	return nil
}

// ask looks up a name and caches the result.
func (c *NamespaceCache) ask(ctx context.Context, name string) (string, error) {
	c.mu.Lock()
	changes := c.changes
	c.mu.Unlock()
	id, err := c.read(ctx, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	now, outdated := c.mono(), c.changes != changes
	var refused *api.Error
	switch {
	case err == nil && outdated:
		c.known.Add(name, knownID{id, now, now})
	case err == nil:
		c.known.Add(name, knownID{id, now + knownAge - jitter.N(renewalSpread), now + knownAge})
	case isUnknownNamespace(err) && errors.As(err, &refused):
		c.known.Remove(name)
		if !outdated {
			c.refused.Add(name, refusedName{refused, now + refusedAge})
		}
	case errors.As(err, &refused): // not even a name: it needs no remembering
	default:
		e, ok := c.known.Get(name)
		if !ok {
			return "", err
		}
		if !outdated {
			c.known.Add(name, knownID{e.id, now + outageAge, now + knownAge})
		}
		return e.id, nil
	}
	return id, err
}

// read looks up a name and repeats failed attempts.
func (c *NamespaceCache) read(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	for attempt := 0; ; attempt++ {
		call, cancel := context.WithTimeout(ctx, attemptTimeout*time.Duration(attempt+1))
		id, err := c.registry.Lookup(call, name)
		cancel()
		var refused *api.Error
		if err == nil || errors.As(err, &refused) {
			return id, err
		}
		last := store.OutcomeOf(err) != store.Throttled && attempt+1 >= attemptsPerLookup
		if last || store.Pause(ctx, attempt) != nil {
			return "", err
		}
	}
}
