package journal

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is the failure of a closed journal.
var ErrClosed = errors.New("the journal is closed")

const (
	defaultLogBytes = 16 << 20
	// maxSpare is the largest buffer that is kept for the next group.
	maxSpare = 1 << 20
)

// Options configure a journal.
type Options struct {
	// Dir is the directory of the files. Open creates it if it is missing. Required.
	Dir string
	// Sync is the policy for forcing records to the disk.
	Sync Sync
	// LogBytes is the size at which a log ends and the next begins. Default: 16 MiB.
	LogBytes int64
	// Log receives warnings, such as a torn tail. Default: slog.Default.
	Log *slog.Logger
	// Wrap, if set, wraps each log and snapshot that is written. Tests use it to
	// make disks fail.
	Wrap func(File) File
	// SyncDir forces the entries of a directory to the disk. Default: fsync.
	SyncDir func(dir string) error
}

// File is a file that is written sequentially.
type File interface {
	io.WriteCloser
	// Sync returns when all written bytes are on the disk.
	Sync() error
	// Truncate cuts the file to a size; the next Write continues there.
	Truncate(size int64) error
}

// Journal is a directory of records. Only this process writes to it. A Journal is
// safe for concurrent use.
type Journal struct {
	options Options
	unlock  func() error

	// turn holds a single token. A goroutine takes it to write, and returns it.
	turn   chan struct{}
	file   File      // owned by the turn
	size   int64     // of file, up to the last whole frame; owned by the turn
	synced uint64    // position; owned by the turn
	reach  reachFile // owned by the turn

	position atomic.Uint64 // of the last record appended
	settled  atomic.Uint64
	logged   atomic.Int64 // bytes since the last snapshot
	failure  atomic.Pointer[failure]
	failed   chan struct{} // closed by a final failure
	closed   atomic.Bool

	oldFormat bool // the last log had no end marks; owned by Open

	mu        sync.Mutex
	gathering *group // takes records; guarded by mu
	writing   *group // nil: no write is running; guarded by mu
	spare     []byte // for the next group; guarded by mu
	logs      []log  // oldest first; guarded by mu

	stop   chan struct{}
	ticker sync.WaitGroup
}

// group holds the records of the next write.
type group struct {
	frame []byte
	count uint64
	last  uint64        // position
	done  chan struct{} // closed when it is settled or lost
}

func newGroup(buf []byte) *group { return &group{frame: newFrame(buf), done: make(chan struct{})} }

// Append adds the record that encode appends to a buffer and returns its position.
// It does no I/O and never fails: Wait reports whether the record is safe.
func (j *Journal) Append(encode func([]byte) []byte) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	position := j.position.Add(1)
	if f := j.failure.Load(); f != nil && f.final {
		return position // it will not be written
	}
	g := j.gathering
	g.frame = addRecord(g.frame, encode)
	g.count++
	g.last = position
	return position
}

// Position returns the position of the last appended record; 0 without a record.
func (j *Journal) Position() uint64 { return j.position.Load() }

// Settled returns the position up to which all records are settled.
func (j *Journal) Settled() uint64 { return j.settled.Load() }

// Logged returns the number of bytes of logs behind the last snapshot, which a
// restart would read.
func (j *Journal) Logged() int64 { return j.logged.Load() }

// Wait returns nil when all records up to a position are settled, or the error that
// prevents it. The first waiting caller writes for all waiting callers.
func (j *Journal) Wait(position uint64) error {
	for j.settled.Load() < position {
		if err := j.Err(); err != nil {
			return err
		}
		j.mu.Lock()
		if j.settled.Load() >= position {
			j.mu.Unlock()
			break
		}
		g := j.gathering
		if j.writing != nil && position <= j.writing.last {
			g = j.writing
		}
		j.mu.Unlock()
		select {
		case <-g.done:
		case <-j.turn:
			if j.settled.Load() < position {
				j.write(j.options.Sync == Always)
			}
			j.turn <- struct{}{}
		}
	}
	return nil
}

// Sync forces all records to the disk, whatever the policy.
func (j *Journal) Sync() error {
	<-j.turn
	defer func() { j.turn <- struct{}{} }()
	j.write(true)
	return j.Err()
}

// write writes the gathering group and settles it. The caller owns the turn.
func (j *Journal) write(force bool) {
	if j.Err() == nil {
		j.tryWrite(force)
	}
}

// tryWrite does the same as write, even after a failure.
func (j *Journal) tryWrite(force bool) {
	j.mu.Lock()
	g := j.gathering
	j.gathering = newGroup(j.spare)
	j.writing, j.spare = g, nil
	j.mu.Unlock()

	err := j.put(g, force)

	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = nil
	if err != nil {
		j.fail(fmt.Errorf("write to %s: %w", j.options.Dir, err), g)
		return
	}
	if cap(g.frame) <= maxSpare {
		j.spare = g.frame
	}
	if g.count > 0 {
		j.settled.Store(g.last)
	}
	j.recovered()
	close(g.done)
}

// put writes a group to the disk. The caller owns the turn. If put fails because the
// disk is full, it can be called with the group again.
func (j *Journal) put(g *group, force bool) error {
	first := g.last - g.count + 1
	if g.count > 0 {
		if j.size >= j.options.LogBytes && j.size > headerSize {
			if err := j.roll(first); err != nil {
				return err
			}
		}
		seal(g.frame, frameMagic, first, j.synced)
		if _, err := j.file.Write(g.frame); err != nil {
			return j.void(err)
		}
	}
	r := reach{settled: max(g.last, j.settled.Load()), synced: j.synced}
	if force && r.synced != r.settled {
		if err := j.file.Sync(); err != nil {
			return finalError{err}
		}
		r.synced = r.settled
	}
	if err := j.reach.write(r); err != nil {
		return j.void(err)
	}
	j.synced = r.synced
	if g.count > 0 {
		j.mark(first, j.size)
		j.size += int64(len(g.frame))
		j.logged.Add(int64(len(g.frame)))
	}
	return nil
}

// tick forces records to the disk at each interval until stop is closed.
func (j *Journal) tick() {
	ticker := time.NewTicker(time.Duration(j.options.Sync))
	defer ticker.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-ticker.C:
			_ = j.Sync() // callers are told by Wait
		}
	}
}

// Close forces all records to the disk and releases the directory. Later calls
// return ErrClosed. If Close returns an error, records may be lost.
func (j *Journal) Close() error {
	if j.closed.Swap(true) {
		return ErrClosed
	}
	close(j.stop)
	j.ticker.Wait()
	err := j.Sync()
	<-j.turn
	defer func() { j.turn <- struct{}{} }()
	j.mu.Lock()
	j.end(ErrClosed)
	j.mu.Unlock()
	return errors.Join(err, j.file.Close(), j.reach.close(), j.unlock())
}
