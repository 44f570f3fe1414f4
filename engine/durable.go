package engine

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/engine/journal"
)

// defaultCutBytes is how much log a restart reads at most, about, where the
// tables are smaller than that.
const defaultCutBytes = 64 << 20

// Durability says how an engine keeps its tables on disk.
type Durability struct {
	// Dir is the directory of one engine. Required.
	Dir string
	// Sync is when commits are forced to the disk. Default: always, before
	// their callers are answered; concurrent ones share it.
	Sync journal.Sync
	// CutBytes is how large the log gets, in bytes, before a snapshot replaces
	// it; it gets at least as large as the last snapshot. Default: 64 MiB.
	CutBytes int64
	// Log is told what was dropped at the start and which snapshots failed.
	// Default: slog.Default.
	Log *slog.Logger

	// Wrap, where set, is put around each log and snapshot that is written: where a
	// test makes disks fail.
	Wrap func(journal.File) journal.File
}

// storage is the durable side of an engine.
type storage struct {
	journal *journal.Journal
	log     *slog.Logger

	cutBytes         int64
	cutting          sync.Mutex   // one snapshot at a time
	snapshotBytes    atomic.Int64 // of the last snapshot
	snapshotFailures atomic.Int64
	cutDue           chan struct{} // holds at most one
	stop             chan struct{}
	stopOnce         sync.Once
	keeper           sync.WaitGroup
}

// Open makes an engine of what is in a directory: every acknowledged write, the
// tables' settings, the sequence and the idempotency tokens. Options.OnCommit
// sees only what comes after. The owner calls Close.
//
// It returns journal.ErrInUse where another process has the directory, and a
// *journal.DamageError, which names file and offset, or journal.ErrIncomplete where
// acknowledged writes would be missing.
//
// After a failed write to the disk every request is answered with
// InternalServerError, reads too: what is in memory may be lost by then. A disk
// without room is tried again every second: once what was not written is, the
// engine serves again, and a write that was answered with InternalServerError is
// there. Any other failure is final; see Failed.
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

// Close makes all writes safe and gives the directory back; requests that come
// later are refused. An engine in memory has nothing to close.
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

// record gives the journal a record and returns its position. The caller holds
// mu for writing, which makes the journal's order that of the writes.
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

// recordTable gives the journal a table's settings, its stream among them. The
// caller holds mu for writing.
func (e *Engine) recordTable(t *table) {
	e.streams.mu.RLock()
	defer e.streams.mu.RUnlock()
	e.record(func(b []byte) []byte { return appendTable(b, t) })
}

// await returns when all that a reply may show is as safe as it gets: the
// records up to a position, or with 0 all there are. So nobody is ever shown
// what a crash can take back, and a write that builds on another is behind it.
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

// keep writes snapshots when they are due, and what found no room, until stop is
// closed.
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
			_ = s.journal.Retry() // it is logged once, and told to all who ask
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

// snapshot lets the journal cut its logs. Writes go on meanwhile: settings,
// sequence and tokens are those of one moment, items that or later ones. The
// log's records carry whole images, so restoring them again does no harm.
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

// settings are a snapshot's entries besides tokens and items: those that come
// first, and one for each table. keep is the first record that streams show: once
// the snapshot says what they have lost, the logs before it may go. The caller
// holds mu.
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

// snapshotItems puts a table's items, looking at one page under the lock.
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

// images returns a page of a table from a storage key on, and where the next
// begins.
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
