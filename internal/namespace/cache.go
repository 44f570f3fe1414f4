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
	// unknownAge is how long a name is refused without asking again: short, so
	// that a new namespace is found at once, and long enough that a client which
	// repeats a wrong name costs one read a second.
	unknownAge = time.Second
	// outageAge is how long an id that could not be confirmed is used before the
	// store is asked again.
	outageAge = time.Second
	// lookupTimeout bounds a lookup, which goes on when the callers that wait for
	// it give up.
	lookupTimeout = 750 * time.Millisecond

	maxKnown   = 16384
	maxUnknown = 1024 // apart from the known ones, which no flood of wrong names may push out
)

// Cache remembers what the registry said. It is safe for concurrent use.
type Cache struct {
	registry *Registry
	mono     func() time.Duration
	flights  singleflight.Group

	mu      sync.Mutex
	known   *simplelru.LRU[string, entry]         // guarded by mu
	unknown *simplelru.LRU[string, time.Duration] // guarded by mu: until when
}

type entry struct {
	id    string
	until time.Duration // on the clock mono
}

// NewCache makes an empty cache. The clock mono is monotonic, from any origin.
func NewCache(registry *Registry, mono func() time.Duration) (*Cache, error) {
	known, err := simplelru.NewLRU[string, entry](maxKnown, nil)
	if err != nil {
		return nil, fmt.Errorf("namespace cache: %w", err)
	}
	unknown, err := simplelru.NewLRU[string, time.Duration](maxUnknown, nil)
	if err != nil {
		return nil, fmt.Errorf("namespace cache: %w", err)
	}
	return &Cache{registry: registry, mono: mono, known: known, unknown: unknown}, nil
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
	if c.refused(name) {
		return "", api.Errorf(api.CodeUnknownNamespace, "", "there is no namespace %q", name)
	}
	flight := c.flights.DoChan(name, func() (any, error) {
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

// refused reports whether the registry said a moment ago that there is no such
// namespace.
func (c *Cache) refused(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	until, ok := c.unknown.Get(name)
	return ok && c.mono() < until
}

// ask asks the registry and remembers what it says.
func (c *Cache) ask(ctx context.Context, name string) (string, error) {
	id, err := c.registry.Lookup(ctx, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.mono()
	var refusal *api.Error
	switch {
	case err == nil:
		c.known.Add(name, entry{id, now + knownAge})
	case isUnknown(err):
		c.known.Remove(name)
		c.unknown.Add(name, now+unknownAge)
	case errors.As(err, &refusal): // not even a name: it needs no remembering
	default:
		if e, ok := c.known.Get(name); ok {
			c.known.Add(name, entry{e.id, now + outageAge})
			return e.id, nil
		}
	}
	return id, err
}
