package audit

import (
	"context"
	"sync"

	"github.com/tidegate/tidegate/internal/table"
)

// lanes gives each namespace that is being changed a lane.
type lanes struct {
	mu   sync.Mutex
	open map[string]*lane // guarded by mu; by namespace
}

// lane is held by one change of a namespace at a time. What it knows lives as
// long as changes wait for it, so that they need not read it one after another.
type lane struct {
	waiting int           // guarded by lanes.mu: changes that hold it or wait for it
	free    chan struct{} // holds a value while nobody holds the lane

	// Of whoever holds the lane.
	known     bool            // the two below are; no change goes by them without the store's consent
	head      table.AuditHead // the last event
	retention int64           // days that events are kept
}

// enter waits until the namespace's lane is free and holds it. After the error,
// which is the context's, it is not held.
func (ls *lanes) enter(ctx context.Context, namespace string) (*lane, error) {
	ls.mu.Lock()
	l, ok := ls.open[namespace]
	if !ok {
		l = &lane{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		ls.open[namespace] = l
	}
	l.waiting++
	ls.mu.Unlock()
	select {
	case <-l.free:
		return l, nil
	case <-ctx.Done():
		ls.forget(namespace, l)
		return nil, context.Cause(ctx)
	}
}

// leave gives the lane to the next change, or ends it.
func (ls *lanes) leave(namespace string, l *lane) {
	l.free <- struct{}{}
	ls.forget(namespace, l)
}

func (ls *lanes) forget(namespace string, l *lane) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.waiting--; l.waiting == 0 {
		delete(ls.open, namespace)
	}
}
