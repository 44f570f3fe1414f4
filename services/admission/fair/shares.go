package fair

import "sync"

// shareOfFree is how many times the free room a namespace may hold. A single namespace gets
// up to 4/5 of the room, four together 16/17, and there is always room for another.
const shareOfFree = 4

// Shares divides a room among namespaces. Each may hold a multiple of the room that is free,
// so that a namespace which fills the room leaves some to others, and needs no number of
// namespaces to be known. It is safe for concurrent use.
type Shares struct {
	mu    sync.Mutex
	free  int            // guarded by mu
	taken map[string]int // guarded by mu: by namespace, those above 0
}

// NewShares returns the shares of a room for so many.
func NewShares(room int) *Shares { return &Shares{free: room, taken: make(map[string]int)} }

// Take takes a place for a namespace. It reports false if the namespace has its share.
func (s *Shares) Take(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.taken[namespace]
	if taken >= shareOfFree*s.free {
		return false
	}
	s.taken[namespace] = taken + 1
	s.free--
	return true
}

// Give gives a place back.
func (s *Shares) Give(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free++
	if s.taken[namespace]--; s.taken[namespace] == 0 {
		delete(s.taken, namespace)
	}
}
