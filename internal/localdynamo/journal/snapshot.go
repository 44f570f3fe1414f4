package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// snapshotFrame is how many bytes of entries a snapshot's frame takes.
const snapshotFrame = 64 << 10

// Snapshot writes entries that stand for all records up to a position, and
// removes the logs that they make needless, except those with records at keep or
// behind it, which Read can still show. write calls add with each entry; it may
// run while records are appended, and may show of them what it likes: the
// records behind the position are restored after the entries in any case, so
// restoring one twice must do no harm. Only one call may run at a time. Where it
// fails nothing has changed.
func (j *Journal) Snapshot(position, keep uint64, write func(add func(entry []byte) error) error) error {
	own := name(snapshotPrefix, position)
	err := j.writeSnapshot(own, position, write)
	if err != nil {
		return fmt.Errorf("write the snapshot %s: %w", j.path(own), errors.Join(err, removeIfThere(j.path(own+asideSuffix))))
	}
	return j.cut(position, keep)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (j *Journal) writeSnapshot(own string, position uint64, write func(add func(entry []byte) error) error) (err error) {
	before := j.logged.Load()
	f, err := j.aside(own, kindSnapshot, position)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := snapshotWriter{file: f, frame: newFrame(nil), next: 1}
	if err := write(w.add); err != nil {
		return err
	}
	if err := w.flush(0); err != nil {
		return err
	}
	// Entries may show any record that was appended up to here.
	reach := j.Position()
	if err := j.Sync(); err != nil {
		return err
	}
	if err := w.end(reach); err != nil {
		return err
	}
	if err := j.adopt(f, own); err != nil {
		return err
	}
	j.logged.Add(-before)
	return nil
}

// snapshotWriter gathers entries into frames.
type snapshotWriter struct {
	file  File
	frame []byte
	next  uint64 // number of the frame's first entry
	count uint64 // of entries in it
}

func (w *snapshotWriter) add(entry []byte) error {
	w.frame = addRecord(w.frame, func(b []byte) []byte { return append(b, entry...) })
	w.count++
	return w.flush(snapshotFrame)
}

// flush writes the frame if it has that many bytes.
func (w *snapshotWriter) flush(atLeast int) error {
	if w.count == 0 || len(w.frame) < atLeast {
		return nil
	}
	return w.write(0)
}

func (w *snapshotWriter) write(reach uint64) error {
	seal(w.frame, w.next, reach)
	_, err := w.file.Write(w.frame)
	w.frame, w.next, w.count = newFrame(w.frame), w.next+w.count, 0
	return err
}

// end writes the empty frame that says that all entries are there.
func (w *snapshotWriter) end(reach uint64) error { return w.write(reach) }

// readSnapshot restores the entries of a snapshot and returns how far the logs
// must reach for it to hold.
func (j *Journal) readSnapshot(position uint64, entry func([]byte) error) (reach uint64, err error) {
	file, err := os.Open(j.path(name(snapshotPrefix, position)))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := openFrames(file, kindSnapshot, position, readAhead)
	if err != nil {
		return 0, err
	}
	for next := uint64(1); ; {
		at := r.at
		f, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return 0, r.damage("its end is missing")
		case err != nil:
			return 0, err
		case f.first != next:
			return 0, r.damage("entries are missing before it")
		case len(f.payload) == 0:
			return f.synced, nil
		}
		count, err := eachRecord(f.payload, entry)
		if err != nil {
			return 0, fmt.Errorf("%s: the frame at byte %d cannot be restored: %w", r.file, at, err)
		}
		next += count
	}
}

// cut removes the files that a snapshot makes needless: older snapshots, and the
// logs that end before both the snapshot's position and the first record to keep.
// It is the one place that deletes logs, oldest first, so that a crash in between
// leaves no hole.
func (j *Journal) cut(position, keep uint64) error {
	j.mu.Lock()
	var old []uint64
	for len(j.logs) > 1 && j.logs[1].first <= min(position+1, keep) {
		old, j.logs = append(old, j.logs[0].first), slices.Clone(j.logs[1:])
	}
	j.mu.Unlock()
	l, err := j.list()
	if err != nil {
		return err
	}
	for _, first := range old {
		err = errors.Join(err, os.Remove(j.path(name(logPrefix, first))))
	}
	for _, n := range l.snapshots {
		if n < position {
			err = errors.Join(err, os.Remove(j.path(name(snapshotPrefix, n))))
		}
	}
	if err != nil {
		return fmt.Errorf("remove what the snapshot %d makes needless: %w", position, err)
	}
	return nil
}
