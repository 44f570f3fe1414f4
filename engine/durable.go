package engine

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/engine/journal"
)

// defaultCutBytes is the approximate maximum of log that a restart reads, if the
// tables are smaller than that.
const defaultCutBytes = 64 << 20

// Durability configures the storage of an engine on disk.
type Durability struct {
	// Dir is the directory of a single engine. Required.
	Dir string
	// Sync is the policy for forcing commits to the disk. Default: always, before
	// their callers are answered; concurrent commits share an fsync.
	Sync journal.Sync
	// CutBytes is the size of the log at which a snapshot replaces it, but at least
	// the size of the last snapshot. Default: 64 MiB.
	CutBytes int64
	// Log receives reports of data dropped at the start and of failed snapshots.
	// Default: slog.Default.
	Log *slog.Logger

	// Wrap, if set, wraps each log and snapshot that is written. Tests use it to
	// make disks fail.
	Wrap func(journal.File) journal.File
}

// storage holds the state of a durable engine's storage.
type storage struct {
	journal *journal.Journal
	log     *slog.Logger

	cutBytes         int64
	cutting          sync.Mutex   // serializes snapshots
	snapshotBytes    atomic.Int64 // of the last snapshot
	snapshotFailures atomic.Int64
	cutDue           chan struct{} // has room for a single signal
	stop             chan struct{}
	stopOnce         sync.Once
	keeper           sync.WaitGroup
}

// Open returns an engine with the content of a directory: every acknowledged write,
// the settings of the tables, the sequence number and the idempotency tokens.
// Options.OnCommit receives only later commits. The owner calls Close.
//
// Open returns journal.ErrInUse if another process has the directory. It returns a
// *journal.DamageError, which names the file and offset, or journal.ErrIncomplete if
// acknowledged writes would be missing.
//
// After a failed write to the disk, the engine answers every request with
// InternalServerError, including reads, because the items in memory may be lost. If
// the disk is full, it retries every second. Once the pending records are written, it
// serves again, and the writes that were answered with InternalServerError are
// applied. Any other failure is final; see [Engine.Failed].
func Open(o Options, d Durability) (*Engine, error) {
	if d.CutBytes <= 0 {
		d.CutBytes = defaultCutBytes
	}
	if d.Log == nil {
		d.Log = slog.Default()
	}
	e := newEngine(o, true)
	e.streams.kept.restored = true
	r := restorer{engine: e}
	j, err := journal.Open(journal.Options{
		Dir: d.Dir, Sync: d.Sync, LogBytes: max(d.CutBytes/4, 1), Log: d.Log, Wrap: d.Wrap,
	}, journal.Restore{Entry: r.entry, Past: r.past, Record: r.record})
	if err != nil {
		return nil, fmt.Errorf("open the store in %s: %w", d.Dir, err)
	}
	e.streams.restoreDone(e.now())
	e.storage = &storage{
		journal: j, log: d.Log, cutBytes: d.CutBytes,
		cutDue: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	e.storage.snapshotBytes.Store(r.bytes)
	e.storage.keeper.Go(e.keep)
	return e, nil
}

// Close makes all writes durable and releases the directory. It refuses later
// requests. For an engine in memory, it does nothing.
func (e *Engine) Close() error {
	s := e.storage
	if s == nil {
		return nil
	}
	s.stopOnce.Do(func() { close(s.stop) })
	s.keeper.Wait()
	if err := s.journal.Close(); err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}

// record appends a record to the journal and returns its position. The caller holds
// mu for writing, so that the journal has the order of the writes.
func (e *Engine) record(encode func([]byte) []byte) uint64 {
	s := e.storage
	if s == nil {
		return 0
	}
	position := s.journal.Append(encode)
	if s.journal.Logged() >= s.cutBytes {
		select {
		case s.cutDue <- struct{}{}:
		default:
		}
	}
	return position
}

// recordTable records a table's settings and its stream. The caller holds mu for
// writing.
func (e *Engine) recordTable(t *table) {
	e.streams.mu.RLock()
	defer e.streams.mu.RUnlock()
	e.record(func(b []byte) []byte { return appendTable(b, t) })
}

// await returns when all data that a reply may show is durable: the records up to a
// position, or all existing records if position is 0. So a caller never sees data
// that a crash can revert, and a write is durable only after the writes it builds on.
func (e *Engine) await(position uint64) error {
	if e.storage == nil {
		return nil
	}
	j := e.storage.journal
	if position == 0 {
		position = j.Position()
	}
	return e.storage.failed(j.Wait(position))
}

// keep writes snapshots when they are due, and retries writes that found the disk
// full, until stop is closed.
func (e *Engine) keep() {
	s := e.storage
	retry := int64(0) // how large the log gets before the next attempt
	room := time.NewTicker(retryEvery)
	defer room.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-room.C:
			_ = s.journal.Retry() // it is logged once, and every request reports it
			continue
		case <-s.cutDue:
		}
		logged := s.journal.Logged()
		if logged < max(s.cutBytes, s.snapshotBytes.Load(), retry) {
			continue
		}
		retry = 0
		if err := e.snapshot(); err != nil {
			retry = logged + s.cutBytes
			s.snapshotFailures.Add(1)
			s.log.Error("the log is not cut: it grows, and nothing is lost", "error", err)
		}
	}
}

// snapshot lets the journal cut its logs. Writes continue during a snapshot:
// settings, sequence number and tokens are of a single moment, items of that moment
// or later. The records of the log hold whole images, so restoring them twice is
// harmless.
func (e *Engine) snapshot() error {
	e.storage.cutting.Lock()
	defer e.storage.cutting.Unlock()
	e.mu.RLock()
	position, tokens := e.storage.journal.Position(), e.tokens.order
	tables := make([]*table, 0, len(e.tables))
	head, definitions, keep := e.settings(position, &tables)
	e.mu.RUnlock()

	written := int64(0)
	err := e.storage.journal.Snapshot(position, keep, func(add func([]byte) error) error {
		put := func(entry []byte) error {
			written += int64(len(entry))
			return add(entry)
		}
		for _, entry := range head {
			if err := put(entry); err != nil {
				return err
			}
		}
		for i := range tokens {
			if err := put(appendToken(nil, &tokens[i])); err != nil {
				return err
			}
		}
		for i, t := range tables {
			if err := put(definitions[i]); err != nil {
				return err
			}
			if err := e.snapshotItems(t, put); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		e.storage.snapshotBytes.Store(written)
	}
	return err
}

// settings returns a snapshot's entries besides tokens and items: the entries at its
// start, and an entry for each table. keep is the position of the first record that
// streams need: once the snapshot records which changes the streams have lost, the
// journal may remove the logs before it. The caller holds mu.
func (e *Engine) settings(position uint64, tables *[]*table) (head, definitions [][]byte, keep uint64) {
	s := e.streams
	s.mu.RLock()
	defer s.mu.RUnlock()
	head = append(head, appendNumbers(nil, storedNumbers{Sequence: e.sequence, Shard: s.number, Labelled: s.label.UnixMilli()}))
	for _, st := range s.all {
		if t := e.tables[st.table]; t == nil || t.changes != st {
			head = append(head, appendStream(nil, st))
		}
	}
	for _, t := range e.tables {
		*tables, definitions = append(*tables, t), append(definitions, appendTable(nil, t))
	}
	return head, definitions, s.needed(position + 1)
}

// snapshotItems puts the items of a table. It takes the lock for each page.
func (e *Engine) snapshotItems(t *table, put func(entry []byte) error) error {
	var buf []byte
	for from, more := "", true; more; {
		var page []*image
		page, from, more = e.images(t, from)
		for _, i := range page {
			buf = appendStoredItem(buf[:0], i.item)
			if err := put(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// images returns a page of a table from a storage key on, and the start of the next
// page.
func (e *Engine) images(t *table, from string) (page []*image, next string, more bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	page = make([]*image, 0, sweepPage)
	t.rows.Ascend(from, func(key string, r *row) bool {
		if len(page) == sweepPage {
			next, more = key, true
			return false
		}
		page = append(page, r.now)
		return true
	})
	return page, next, more
}
