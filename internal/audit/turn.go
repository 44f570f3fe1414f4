package audit

import (
	"context"
	"sync"

	"github.com/tidegate/tidegate/internal/table"
)

// turns gives each namespace that is being changed a turn.
type turns struct {
	mu   sync.Mutex
	open map[string]*turn // guarded by mu; by namespace
}

// turn is held by a single change of a namespace at a time. Its state lives as long as
// changes wait for it, so that each need not read the state again.
type turn struct {
	waiting int           // guarded by turns.mu: changes that hold it or wait for it
	free    chan struct{} // holds a value while the turn is free

	// Owned by the holder of the turn.
	known     bool            // the two below are; no change goes by them without the store's consent
	head      table.AuditHead // the last event
	retention int64           // days that events are kept
}

// enter waits until the namespace's turn is free and holds it. After the error,
// which is the context's, it is not held.
func (ts *turns) enter(ctx context.Context, namespace string) (*turn, error) {
	ts.mu.Lock()
	l, ok := ts.open[namespace]
	if !ok {
		l = &turn{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		ts.open[namespace] = l
	}
	l.waiting++
	ts.mu.Unlock()
	select {
	case <-l.free:
		return l, nil
	case <-ctx.Done():
		ts.forget(namespace, l)
		return nil, context.Cause(ctx)
	}
}

// leave gives the turn to the next change, or ends it.
func (ts *turns) leave(namespace string, l *turn) {
	l.free <- struct{}{}
	ts.forget(namespace, l)
}

func (ts *turns) forget(namespace string, l *turn) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		delete(ts.open, namespace)
	}
}
