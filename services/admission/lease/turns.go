package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tidegate/tidegate/pkg/api"
)

// maxTurns bounds the settlements of a lease that wait on a node. A caller that repeats a
// settlement waits for a few at most; more come from a caller that repeats without waiting.
const maxTurns = 128

// turns lets settlements of a lease run one after the other on a node, so that repeats
// find the record as the settlement before them left it, and neither read it nor write it.
// Nothing but speed rests on it. It is safe for concurrent use.
type turns struct {
	mu sync.Mutex
	of map[string]*turn // by lease, of the leases that are being settled; guarded by mu
}

// turn is a lease that is being settled.
type turn struct {
	taken chan struct{} // holds an element while a settlement has the turn
	count int           // settlements that have it or wait for it; guarded by turns.mu
}

func newTurns() *turns { return &turns{of: map[string]*turn{}} }

// take waits for the turn at a lease. The caller calls leave, once, when it has settled. A
// caller that has waited for as long as wait goes on without the turn. The refusal says
// that too many settlements of the lease wait.
func (t *turns) take(ctx context.Context, lease string, wait time.Duration) (leave func(), refusal *api.Error) {
	t.mu.Lock()
	at := t.of[lease]
	if at == nil {
		at = &turn{taken: make(chan struct{}, 1)}
		t.of[lease] = at
	}
	if at.count >= maxTurns {
		t.mu.Unlock()
		return nil, api.Errorf(api.CodeOverloaded, "lease", "%d settlements of the lease wait: repeat this settlement later", at.count)
	}
	at.count++
	t.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case at.taken <- struct{}{}:
		return func() { <-at.taken; t.left(lease, at) }, nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() { t.left(lease, at) }, nil
}

// left ends a call of take.
func (t *turns) left(lease string, at *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.count--; at.count == 0 {
		delete(t.of, lease)
	}
}

const (
	// guessPause is how long a node reads the records of a namespace's leases before it
	// writes them, after another record was stored than the node expected.
	guessPause = time.Second
	// guessedNamespaces is the number of namespaces with wrong guesses that are remembered.
	guessedNamespaces = 1024
)

// guesses remembers the namespaces of leases that had another record than the node had
// expected. A wrong guess costs a refused write, which is dearer than a read, and a caller can
// repeat old settlements of many leases. It is safe for concurrent use.
type guesses struct {
	until *lru.Cache[string, time.Duration] // monotonic time, by namespace
}

func newGuesses() (*guesses, error) {
	until, err := lru.New[string, time.Duration](guessedNamespaces)
	if err != nil {
		return nil, fmt.Errorf("remember wrong guesses: %w", err)
	}
	return &guesses{until}, nil
}

// may reports whether a guess for a lease of a namespace is likely to be right.
func (g *guesses) may(namespace string, now time.Duration) bool {
	until, ok := g.until.Get(namespace)
	return !ok || now >= until
}

// wrong notes that a guess was wrong.
func (g *guesses) wrong(namespace string, now time.Duration) {
	g.until.Add(namespace, now+guessPause)
}
