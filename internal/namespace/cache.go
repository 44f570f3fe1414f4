package namespace

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// knownAge is how long an id is used without asking again.
	knownAge = time.Minute
	// refusedAge is how long a name is refused without asking again: short, so
	// that a new namespace is found at once, and long enough that a client which
	// repeats a wrong name costs one read a second.
	refusedAge = time.Second
	// outageAge is how long an id that could not be confirmed is used before the
	// store is asked again.
	outageAge = time.Second
	// lookupTimeout bounds a lookup, which goes on when the callers that wait for
	// it give up.
	lookupTimeout = 750 * time.Millisecond

	maxKnown   = 16384
	maxRefused = 1024 // apart from the known ones, which no flood of wrong names may push out
)

// Cache remembers what the registry said. It is safe for concurrent use.
type Cache struct {
	registry *Registry
	mono     func() time.Duration

	mu      sync.Mutex
	flights *singleflight.Group             // guarded by mu; another one after AllChanged
	known   *simplelru.LRU[string, entry]   // guarded by mu
	refused *simplelru.LRU[string, refusal] // guarded by mu
	changes int                             // guarded by mu: how many changes were heard of
}

type entry struct {
	id    string
	until time.Duration // on the clock mono
}

// refusal is why requests in a namespace are refused: there is none, or it is
// deleted.
type refusal struct {
	err   *api.Error
	until time.Duration // on the clock mono
}

// NewCache makes an empty cache. The clock mono is monotonic, from any origin.
func NewCache(registry *Registry, mono func() time.Duration) (*Cache, error) {
	known, err := simplelru.NewLRU[string, entry](maxKnown, nil)
	if err != nil {
		return nil, fmt.Errorf("namespace cache: %w", err)
	}
	refused, err := simplelru.NewLRU[string, refusal](maxRefused, nil)
	if err != nil {
		return nil, fmt.Errorf("namespace cache: %w", err)
	}
	return &Cache{registry: registry, mono: mono, flights: new(singleflight.Group), known: known, refused: refused}, nil
}

// Cached gives the id of a namespace that was looked up in the last minute,
// without I/O. That it is not known says nothing: Lookup does.
func (c *Cache) Cached(name string) (id string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known.Get(name)
	if !ok || c.mono() >= e.until {
		return "", false
	}
	return e.id, true
}

// Lookup gives the id of a namespace, from memory or by a read that is shared
// with everybody who asks at the same time. Its errors are those of
// [Registry.Lookup]; while the store cannot be asked, an id it once gave holds.
func (c *Cache) Lookup(ctx context.Context, name string) (string, error) {
	if id, ok := c.Cached(name); ok {
		return id, nil
	}
	if err := c.refusal(name); err != nil {
		return "", err
	}
	flight := c.shared().DoChan(name, func() (any, error) {
		if id, ok := c.Cached(name); ok { // by a flight that ended a moment ago
			return id, nil
		}
		// The first to ask may give up before the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		return c.ask(ctx, name)
	})
	select {
	case r := <-flight:
		id, _ := r.Val.(string)
		return id, r.Err
	case <-ctx.Done():
		return "", fmt.Errorf("look up namespace %s: %w", name, ctx.Err())
	}
}

// Changed makes the next request in a namespace ask the registry again, and
// keeps what a lookup under way brings from being remembered: it may be what was
// before the change. Should the store not be there to ask, what was known holds.
func (c *Cache) Changed(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.flights.Forget(name)
	c.refused.Remove(name)
	if e, ok := c.known.Peek(name); ok {
		c.known.Add(name, entry{e.id, c.mono()})
	}
}

// AllChanged is Changed for all namespaces: changes may have been missed.
func (c *Cache) AllChanged() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.flights = new(singleflight.Group)
	c.refused.Purge()
	now := c.mono()
	for _, name := range c.known.Keys() { // oldest first, so that their order stays
		if e, ok := c.known.Peek(name); ok {
			c.known.Add(name, entry{e.id, now})
		}
	}
}

// shared is what those share who ask for a namespace at the same time.
func (c *Cache) shared() *singleflight.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flights
}

// refusal is what the registry said of a name a moment ago, nil if it did not
// refuse it.
func (c *Cache) refusal(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.refused.Get(name); ok && c.mono() < r.until {
		return r.err
	}
	return nil
}

// ask asks the registry and remembers what it says.
func (c *Cache) ask(ctx context.Context, name string) (string, error) {
	c.mu.Lock()
	changes := c.changes
	c.mu.Unlock()
	id, err := c.registry.Lookup(ctx, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	now, outdated := c.mono(), c.changes != changes
	var refused *api.Error
	switch {
	case err == nil && outdated:
		c.known.Add(name, entry{id, now})
	case err == nil:
		c.known.Add(name, entry{id, now + knownAge})
	case isUnknown(err) && errors.As(err, &refused):
		c.known.Remove(name)
		if !outdated {
			c.refused.Add(name, refusal{refused, now + refusedAge})
		}
	case errors.As(err, &refused): // not even a name: it needs no remembering
	default:
		if e, ok := c.known.Get(name); ok {
			c.known.Add(name, entry{e.id, now + outageAge})
			return e.id, nil
		}
	}
	return id, err
}
