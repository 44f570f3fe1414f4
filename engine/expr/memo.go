package expr

import "sync"

// maxMemo is the maximum number of cached texts for each kind of expression. A
// program uses some dozens of them, again and again.
const maxMemo = 512

// memo caches parse trees by source text; trees never change. It is safe for
// concurrent use.
type memo[T any] struct {
	mu    sync.RWMutex
	trees map[string]T // guarded by mu
}

// tree returns the tree of the source from the cache, or parses it. Failures are
// not cached. A full cache drops an arbitrary tree.
func (m *memo[T]) tree(src string, parse func(string) (T, error)) (T, error) {
	m.mu.RLock()
	known, ok := m.trees[src]
	m.mu.RUnlock()
	if ok {
		return known, nil
	}
	made, err := parse(src)
	if err != nil {
		return made, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trees == nil {
		m.trees = make(map[string]T)
	}
	for old := range m.trees {
		if len(m.trees) < maxMemo {
			break
		}
		delete(m.trees, old)
	}
	m.trees[src] = made
	return made, nil
}
