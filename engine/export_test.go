package engine

// Snapshot writes one now.
func (e *Engine) Snapshot() error { return e.snapshot() }

// Sequence is that of the last change.
func (e *Engine) Sequence() uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.sequence
}
