package config

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	maxLost  = 4096 // ids that were found lost
	maxNames = 4096 // names of ids
)

// PurgedNamespaces tells which namespaces are lost, by their ids: their purge has
// begun or is done. A lost namespace stays lost, because a purge is not recovered
// and ids are not reused. It is safe for concurrent use.
//
// A late writer checks after its write:
//
//	writer   write ──▶ Check ──▶ lost: delete the written item
//	purge    mark lost ──▶ delete everything ──▶ remove the entry
//
// If Check does not find the mark, it ran before the mark, so the write is before
// the purge lists items to delete. Neither side needs a lock, or a condition on
// each write.
type PurgedNamespaces struct {
	registry *Namespaces

	mu    sync.Mutex
	known *simplelru.LRU[string, struct{}] // guarded by mu: lost ids
	names *simplelru.LRU[string, string]   // guarded by mu: by id, which keeps its name
}

// NewPurgedNamespaces returns an empty PurgedNamespaces.
func NewPurgedNamespaces(registry *Namespaces) (*PurgedNamespaces, error) {
	known, err := simplelru.NewLRU[string, struct{}](maxLost, nil)
	if err != nil {
		return nil, fmt.Errorf("lost namespaces: %w", err)
	}
	names, err := simplelru.NewLRU[string, string](maxNames, nil)
	if err != nil {
		return nil, fmt.Errorf("lost namespaces: %w", err)
	}
	return &PurgedNamespaces{registry: registry, known: known, names: names}, nil
}

// Known reports whether Check found the namespace lost before, without I/O.
func (l *PurgedNamespaces) Known(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, lost := l.known.Get(id)
	return lost
}

// Check reports whether the namespace is lost now, by a consistent read, or two for
// a new id.
func (l *PurgedNamespaces) Check(ctx context.Context, id string) (bool, error) {
	if l.Known(id) {
		return true, nil
	}
	name, err := l.nameOf(ctx, id)
	if err != nil {
		return false, err
	}
	if name != "" {
		n, err := l.registry.find(ctx, name)
		switch {
		case isUnknownNamespace(err), err == nil && n.ID != id:
		case err != nil:
			return false, err
		case n.PurgeMs == 0:
			return false, nil
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(id, struct{}{})
	l.names.Remove(id)
	return true, nil
}

// nameOf returns the name of an id, or an empty name if the id does not exist.
func (l *PurgedNamespaces) nameOf(ctx context.Context, id string) (string, error) {
	l.mu.Lock()
	name, ok := l.names.Get(id)
	l.mu.Unlock()
	if ok {
		return name, nil
	}
	item, err := l.registry.read(ctx, keys.NamespaceID{ID: id})
	if err != nil {
		return "", fmt.Errorf("look up namespace %s: %w", id, err)
	}
	if len(item) == 0 {
		return "", nil
	}
	n, err := table.DecodeNamespace(item)
	if err != nil {
		return "", fmt.Errorf("look up namespace %s: %w", id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names.Add(id, n.Name)
	return n.Name, nil
}
