package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
)

// Open takes a directory for this process and restores what is in it: it calls
// entry with each entry of the snapshot, if there is one, then record with each
// record behind it, in order; what it gives them is theirs only during the call.
// It returns ErrInUse where another process has the directory, and a
// *DamageError where acknowledged records would be missing. A torn tail is
// reported to Options.Log and cut off.
func Open(o Options, entry, record func([]byte) error) (*Journal, error) {
	if o.LogBytes <= 0 {
		o.LogBytes = defaultLogBytes
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	unlock, err := lock(o.Dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		options: o, unlock: unlock, turn: make(chan struct{}, 1), gathering: newGroup(nil), stop: make(chan struct{}),
	}
	if err := j.recover(entry, record); err != nil {
		return nil, errors.Join(err, unlock())
	}
	j.turn <- struct{}{}
	if o.Sync > 0 {
		j.ticker.Go(j.tick)
	}
	return j, nil
}

// recover reads the directory and makes the last log ready to be appended to.
func (j *Journal) recover(entry, record func([]byte) error) error {
	l, err := j.list()
	if err = errors.Join(err, j.removeAside()); err != nil {
		return fmt.Errorf("read the directory %s: %w", j.options.Dir, err)
	}
	var snapshot, reach uint64
	if n := len(l.snapshots); n > 0 {
		snapshot = l.snapshots[n-1]
		if reach, err = j.readSnapshot(snapshot, entry); err != nil {
			return err
		}
	} else if len(l.logs) == 0 {
		return j.begin(1)
	}
	next, err := j.readLogs(l.logs, snapshot, record)
	if err != nil {
		return err
	}
	if next <= reach {
		return fmt.Errorf("the logs in %s end at record %d, but %s needs them up to %d: a file is missing or was cut short",
			j.options.Dir, next-1, name(snapshotPrefix, snapshot), reach)
	}
	j.position.Store(next - 1)
	j.settled.Store(next - 1)
	j.synced = next - 1
	return j.cut(snapshot)
}

// readLogs reads all logs that are needed behind a snapshot and opens the last.
// It returns the number of the next record.
func (j *Journal) readLogs(logs []uint64, snapshot uint64, record func([]byte) error) (next uint64, err error) {
	j.logs = logs
	for len(logs) > 1 && logs[1] <= snapshot+1 {
		logs = logs[1:] // the snapshot stands for all of it
	}
	if len(logs) == 0 || logs[0] > snapshot+1 {
		return 0, fmt.Errorf("in %s no log begins at record %d or before: a file is missing", j.options.Dir, snapshot+1)
	}
	next = logs[0]
	for i, first := range logs {
		if first != next {
			return 0, fmt.Errorf("%s begins with record %d, but the logs before it end with %d: a file is missing",
				j.path(name(logPrefix, first)), first, next-1)
		}
		next, err = j.readLog(first, i == len(logs)-1, func(number uint64, b []byte) error {
			if number <= snapshot {
				return nil
			}
			return record(b)
		})
		if err != nil {
			return 0, err
		}
	}
	return next, nil
}

// readLog reads one log. The last may have a torn tail.
func (j *Journal) readLog(first uint64, last bool, record func(number uint64, b []byte) error) (next uint64, err error) {
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
	r, err := openFrames(file, kindLog, first)
	if err != nil {
		return 0, err
	}
	next, err = readFrames(r, first, record)
	var damage *DamageError
	if errors.As(err, &damage) && last {
		err = j.cutTail(file, damage, next)
	}
	j.logged.Add(r.at - headerSize)
	if err != nil || !last {
		return next, err
	}
	// What is read here may be in the machine's memory only: a process that died
	// in the middle of an fsync leaves it so.
	if err := file.Sync(); err != nil {
		return 0, fmt.Errorf("sync %s: %w", path, err)
	}
	if _, err := file.Seek(r.at, io.SeekStart); err != nil {
		return 0, err
	}
	keep = true
	j.file, j.size = j.wrap(file), r.at
	return next, nil
}

// openFrames checks the begin of a file and stands before its first frame.
func openFrames(file *os.File, kind fileKind, number uint64) (*frameReader, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	const buffer = 256 << 10
	r := &frameReader{src: bufio.NewReaderSize(file, buffer), file: file.Name(), at: headerSize, size: info.Size()}
	header := make([]byte, headerSize)
	n, err := io.ReadFull(r.src, header)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", r.file, err)
	}
	return r, checkFileHeader(r.file, header[:n], kind, number)
}

// readFrames reads frames of records from a number on and returns the number of
// the record behind them. An error of the last frame read comes with r.at before
// that frame.
func readFrames(r *frameReader, next uint64, record func(number uint64, b []byte) error) (uint64, error) {
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

// cutTail cuts a log off where a torn tail begins, and refuses to where it is
// damage.
func (j *Journal) cutTail(file *os.File, damage *DamageError, next uint64) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	tail := make([]byte, info.Size()-damage.Offset)
	if _, err := file.ReadAt(tail, damage.Offset); err != nil {
		return fmt.Errorf("read %s: %w", damage.File, err)
	}
	if provesSynced(tail[1:], next) {
		return damage
	}
	j.options.Log.Warn("the end of the log was never fully written and is dropped: nothing in it was acknowledged as safe",
		"file", damage.File, "offset", damage.Offset, "bytes", len(tail), "found", damage.What)
	if err := file.Truncate(damage.Offset); err != nil {
		return fmt.Errorf("cut the end off %s: %w", damage.File, err)
	}
	return nil
}
