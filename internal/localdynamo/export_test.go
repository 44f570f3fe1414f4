package localdynamo

import "github.com/tidegate/tidegate/internal/localdynamo/journal"

// OnDisk lets a test stand between an engine and its disk.
func (d Durability) OnDisk(wrap func(journal.File) journal.File) Durability {
	d.wrap = wrap
	return d
}

// Snapshot writes one now.
func (e *Engine) Snapshot() error { return e.snapshot() }

// Sequence is that of the last change.
func (e *Engine) Sequence() uint64 {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.sequence
}
