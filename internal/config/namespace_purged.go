package config

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tidegate/tidegate/pkg/keys"
)

// maxLost is the number of lost ids that are remembered.
const maxLost = 4096

// PurgedNamespaces tells which namespaces are lost, by their ids: their purge has
// begun or is done. A lost namespace stays lost, because a purge is not recovered
// and ids are not reused. It is safe for concurrent use.
//
// A namespace's version record is the sign of its life: it is made with the namespace,
// and is the first item that a purge deletes. A late writer checks after its write:
//
//	writer   write ──▶ Check ──▶ lost: delete the written item
//	purge    delete the version record ──▶ delete everything ──▶ remove the entry
//
// If Check finds the record, it ran before the purge deleted it, so the write is before
// the purge lists items to delete. Neither side needs a lock, or a condition on
// each write. The record is the namespace's own item: a writer needs no access to the
// registry, whose partition holds the signing keys too.
type PurgedNamespaces struct {
	registry *Namespaces

	mu    sync.Mutex
	known *simplelru.LRU[string, struct{}] // guarded by mu: lost ids
}

// NewPurgedNamespaces returns an empty PurgedNamespaces.
func NewPurgedNamespaces(registry *Namespaces) (*PurgedNamespaces, error) {
	known, err := simplelru.NewLRU[string, struct{}](maxLost, nil)
	if err != nil {
		return nil, fmt.Errorf("lost namespaces: %w", err)
	}
	return &PurgedNamespaces{registry: registry, known: known}, nil
}

// Known reports whether Check found the namespace lost before, without I/O.
func (l *PurgedNamespaces) Known(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, lost := l.known.Get(id)
	return lost
}

// Check reports whether the namespace is lost now, by a consistent read.
func (l *PurgedNamespaces) Check(ctx context.Context, id string) (bool, error) {
	if l.Known(id) {
		return true, nil
	}
	item, err := l.registry.read(ctx, keys.Version{Namespace: id})
	if err != nil {
		return false, fmt.Errorf("look up namespace %s: %w", id, err)
	}
	if len(item) > 0 {
		return false, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(id, struct{}{})
	return true, nil
}
