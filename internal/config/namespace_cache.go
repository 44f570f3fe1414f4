package config

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"

	"github.com/tidegate/tidegate/internal/storecalls"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// knownAge is how long an id is used before it is asked for again first.
	knownAge = time.Minute
	// renewalSpread is over how long before that an id in use is looked up again
	// beside, so that ids that were learned together are not asked for together.
	renewalSpread = 15 * time.Second
	// maxRenewals is how many ids are looked up beside at a time.
	maxRenewals = 16
	// refusedAge is how long a name is refused without asking again: short, so
	// that a new namespace is found at once, and long enough that a client which
	// repeats a wrong name costs one read a second.
	refusedAge = time.Second
	// outageAge is how long an id that could not be confirmed is used before the
	// store is asked again.
	outageAge = time.Second
	// lookupTimeout bounds a lookup, which goes on when the callers that wait for
	// it give up. Throttles are waited out within it; of attemptsPerLookup that fail
	// otherwise, the first have less time than the later ones, so that one slow reply
	// does not take all of it.
	lookupTimeout     = 2 * time.Second
	attemptTimeout    = 250 * time.Millisecond
	attemptsPerLookup = 4
	// maxPatience is how long a caller waits at most for the lookup of a known id.
	maxPatience = 250 * time.Millisecond

	maxKnown   = 16384
	maxRefused = 1024 // apart from the known ones, which no flood of wrong names may push out
)

// NamespaceCache remembers what the registry said. It is safe for concurrent use.
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

// entry is a known id. Its times are on the clock mono.
type knownID struct {
	id    string
	renew time.Duration // from then on it is looked up beside
	until time.Duration // from then on it is looked up before it is used
}

// refusal is why requests in a namespace are refused: there is none, or it is
// deleted.
type refusedName struct {
	err   *api.Error
	until time.Duration // on the clock mono
}

// NewNamespaceCache makes an empty cache. The clock mono is monotonic, from any origin.
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

// Cached gives the id of a namespace that was looked up in the last minute, or that
// could not be looked up since, without waiting. That it is not known says nothing:
// Lookup does. An id in use is looked up again beside.
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

// Lookup gives the id of a namespace, from memory or by a lookup that is shared
// with everybody who asks at the same time, and repeated while ctx lasts. Its errors
// are those of [Namespaces.Lookup]. While the store cannot be asked, an id it once gave
// holds; if it is slow, after patience.
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

// fallback is what a caller goes by that has waited enough: the id as it was known.
// Without one, enough does not come.
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

// passes reports whether a lookup that failed may succeed now: its time was up, or
// the store throttled it to the end.
func mayPass(err error) bool {
	return storecalls.ResultOf(err) == storecalls.Throttled || errors.Is(err, context.DeadlineExceeded)
}

// Changed makes the next request in a namespace ask the registry again, and
// keeps what a lookup under way brings from being remembered: it may be what was
// before the change. Should the store not be there to ask, what was known holds.
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

// AllChanged is Changed for all namespaces: changes may have been missed.
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

// shared is what those share who ask for a namespace at the same time.
func (c *NamespaceCache) shared() *singleflight.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flights
}

// refusal is what the registry said of a name a moment ago, nil if it did not
// refuse it.
func (c *NamespaceCache) refusal(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := c.refused.Get(name); ok && c.mono() < r.until {
		return r.err
	}
	return nil
}

// ask asks the registry and remembers what it says.
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
		c.known.Add(name, knownID{id, now + knownAge - rand.N(renewalSpread), now + knownAge})
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

// read asks the registry, and again while that may help.
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
		last := storecalls.ResultOf(err) != storecalls.Throttled && attempt+1 >= attemptsPerLookup
		if last || table.Pause(ctx, attempt) != nil {
			return "", err
		}
	}
}
