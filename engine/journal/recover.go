package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
)

// Restore receives the content of a directory: each entry of the snapshot, if there
// is a snapshot, then each record of the logs, in order. The bytes are valid only
// during the call.
type Restore struct {
	Entry func(entry []byte) error
	// Past receives the kept records, which the snapshot replaces.
	Past func(position uint64, record []byte) error
	// Record receives the records behind the snapshot.
	Record func(position uint64, record []byte) error
}

func (r *Restore) record(snapshot uint64) func(uint64, []byte) error {
	return func(position uint64, record []byte) error {
		if position <= snapshot {
			return r.Past(position, record)
		}
		return r.Record(position, record)
	}
}

// Open reserves a directory for this process and restores its content. It returns
// ErrInUse if another process has the directory, and a *DamageError or ErrIncomplete
// if synced records would be missing. It cuts off a torn tail and reports it to
// Options.Log, as well as acknowledged records that were lost because they had not
// been forced to the disk.
func Open(o Options, r Restore) (*Journal, error) {
	if o.LogBytes <= 0 {
		o.LogBytes = defaultLogBytes
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.SyncDir == nil {
		o.SyncDir = syncDir
	}
	used, unlock, err := lock(o.Dir, o.SyncDir)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		options: o, unlock: unlock, turn: make(chan struct{}, 1), gathering: newGroup(nil), stop: make(chan struct{}),
		failed: make(chan struct{}),
	}
	if err := j.recover(&r, used); err != nil {
		if j.file != nil {
			err = errors.Join(err, j.file.Close())
		}
		return nil, errors.Join(err, unlock())
	}
	j.turn <- struct{}{}
	if o.Sync > 0 {
		j.ticker.Go(j.tick)
	}
	return j, nil
}

// recover reads the directory and prepares the last log for appending.
func (j *Journal) recover(r *Restore, used bool) error {
	l, err := j.list()
	if err = errors.Join(err, j.removeAside()); err != nil {
		return fmt.Errorf("read the directory %s: %w", j.options.Dir, err)
	}
	known, whole, err := j.readReach()
	if err != nil {
		return err
	}
	var s stands
	if n := len(l.snapshots); n > 0 {
		if s, err = j.readSnapshot(l.snapshots[n-1], r.Entry); err != nil {
			return err
		}
	}
	next := uint64(1)
	if s.snapshot > 0 || len(l.logs) > 0 {
		if next, err = j.readLogs(l.logs, s, known, r.record(s.snapshot)); err != nil {
			return err
		}
	}
	whole = whole || !used && len(l.logs) == 0 // then nothing was ever written
	if err := j.checkReach(known, whole, next, s); err != nil {
		return err
	}
	j.position.Store(next - 1)
	j.settled.Store(next - 1)
	j.synced = next - 1
	if err := j.beginReach(reach{settled: next - 1, synced: next - 1}); err != nil {
		return err
	}
	if err := j.beginNow(next); err != nil {
		return err
	}
	return j.cut(s.snapshot, s.oldest)
}

// beginNow begins a log if there is no log, or only a log of an older format.
func (j *Journal) beginNow(next uint64) error {
	switch old := j.file; {
	case old == nil:
		return j.begin(next)
	case j.oldFormat:
		return errors.Join(j.begin(next), old.Close())
	}
	return nil
}

// readLogs reads all logs that are needed and opens the last. It returns the number
// of the next record.
func (j *Journal) readLogs(logs []uint64, s stands, known reach, record func(uint64, []byte) error) (next uint64, err error) {
	// After a power cut, logs that a snapshot has removed may be back.
	logs = slices.DeleteFunc(logs, func(first uint64) bool { return first < s.oldest })
	oldest := s.oldest
	if oldest == 0 {
		oldest = s.snapshot + 1
	}
	if len(logs) == 0 || logs[0] > oldest {
		return 0, j.incomplete("no log begins at record %d or before, where %s should be: a file is missing",
			oldest, j.path(name(logPrefix, oldest)))
	}
	next = logs[0]
	for i, first := range logs {
		if first != next {
			return 0, j.incomplete("%s begins with record %d, but the logs before it end with %d: a file is missing",
				j.path(name(logPrefix, first)), first, next-1)
		}
		j.logs = append(j.logs, log{first: first})
		before, successor := j.logged.Load(), uint64(0)
		if i < len(logs)-1 {
			successor = logs[i+1]
		}
		if next, err = j.readLog(first, successor, known, record); err != nil {
			return 0, err
		}
		if next <= s.snapshot+1 {
			j.logged.Store(before) // the snapshot stands for all of it
		}
	}
	return next, nil
}

// readLog reads a log. The last log, which has no successor, may have a torn tail.
func (j *Journal) readLog(first, successor uint64, known reach, record func(number uint64, b []byte) error) (next uint64, err error) {
	path := j.path(name(logPrefix, first))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	keep := false
	defer func() {
		if !keep {
			err = errors.Join(err, file.Close())
		}
	}()
	r, err := openFrames(file, kindLog, first, readAhead)
	if err != nil {
		return 0, err
	}
	next, err = readFrames(r, first, j.mark, record)
	var damage *DamageError
	last := successor == 0
	switch torn := errors.As(err, &damage); {
	case torn && last:
		err = j.cutTail(file, damage, next, known)
	case torn && next == successor: // its records are all there, so it is the end mark that is torn
		err = file.Truncate(damage.Offset)
	}
	j.logged.Add(r.at - headerSize)
	if err != nil || !last {
		return next, err
	}
	if r.ended {
		return 0, j.incomplete("%s was ended, and %s, which begins with the record behind it, is missing",
			path, j.path(name(logPrefix, next)))
	}
	// The records may be only in the machine's memory, if a process died during an
	// fsync.
	if err := file.Sync(); err != nil {
		return 0, fmt.Errorf("sync %s: %w", path, err)
	}
	if _, err := file.Seek(r.at, io.SeekStart); err != nil {
		return 0, err
	}
	keep = true
	j.file, j.size = j.wrap(osFile{file}), r.at
	j.oldFormat = r.version == withoutEnds
	return next, nil
}

// readAhead is the buffer size for reading whole files.
const readAhead = 256 << 10

// openFrames checks the header of a file and returns a reader of its frames.
func openFrames(file *os.File, kind fileKind, number uint64, buffer int) (*frameReader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	r := &frameReader{src: bufio.NewReaderSize(file, buffer), file: file.Name(), at: headerSize, size: info.Size()}
	header := make([]byte, headerSize)
	n, err := io.ReadFull(r.src, header)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", r.file, err)
	}
	r.version, err = checkFileHeader(r.file, header[:n], kind, number)
	return r, err
}

// readFrames reads frames of records, starting with the record next, and returns the
// number of the record behind them. After an error in a frame, r.at is the start of
// that frame. Before each frame, it calls mark with the frame's first record and
// offset.
func readFrames(r *frameReader, next uint64, mark func(uint64, int64), record func(number uint64, b []byte) error) (uint64, error) {
	for {
		at := r.at
		f, err := r.next()
		if errors.Is(err, io.EOF) {
			return next, nil
		}
		if err != nil {
			return next, err
		}
		if f.first != next {
			return next, fmt.Errorf("%s: at byte %d is record %d where %d should be: files of two directories are mixed",
				r.file, at, f.first, next)
		}
		if f.end {
			continue // next looks that it is the last
		}
		mark(next, at)
		_, err = eachRecord(f.payload, func(b []byte) error {
			err := record(next, b)
			next++
			return err
		})
		if err != nil {
			return next, fmt.Errorf("%s: the frame at byte %d cannot be restored: %w", r.file, at, err)
		}
	}
}

// cutTail cuts off the torn tail of a log. It fails if the unreadable part is
// damage.
func (j *Journal) cutTail(file *os.File, damage *DamageError, next uint64, known reach) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	tail := make([]byte, info.Size()-damage.Offset)
	if _, err := file.ReadAt(tail, damage.Offset); err != nil {
		return fmt.Errorf("read %s: %w", damage.File, err)
	}
	if next <= known.synced || provesSynced(tail[1:], next) {
		return damage
	}
	j.options.Log.Warn("the end of the log was never fully written and is dropped; where writes are forced to the disk before they are "+
		"answered none of them was acknowledged, and otherwise acknowledged writes may be lost",
		"file", damage.File, "offset", damage.Offset, "bytes", len(tail), "found", damage.What, "first_lost", next)
	if err := file.Truncate(damage.Offset); err != nil {
		return fmt.Errorf("cut the end off %s: %w", damage.File, err)
	}
	return nil
}
