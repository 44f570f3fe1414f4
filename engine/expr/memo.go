package expr

import "sync"

// maxMemo is how many texts of one kind of expression are remembered. A
// program uses some dozens, the same ones again and again.
const maxMemo = 512

// memo remembers parse trees by source text; trees never change. Any number of
// goroutines may use it at once.
type memo[T any] struct {
	mu    sync.RWMutex
	trees map[string]T // guarded by mu
}

// tree is what parse makes of the source, now or before. Failures are not
// remembered. When the memo is full, some tree makes room.
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
