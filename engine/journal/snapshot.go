package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	// snapshotFrame is the number of bytes of entries in a frame of a snapshot.
	snapshotFrame = 64 << 10
	// oldestSize is the size of the payload of a snapshot's end mark, in bytes.
	oldestSize = 8
)

// Snapshot writes entries that replace all records up to a position, and removes the
// logs that are no longer needed. It keeps the logs with records at keep or behind,
// which Read can still return. write calls add with each entry. It may run while
// records are appended, and may include any of them: a restart restores the records
// behind the position after the entries in any case, so restoring a record twice
// must be harmless. Only a single call may run at a time. If Snapshot fails, nothing has
// changed.
func (j *Journal) Snapshot(position, keep uint64, write func(add func(entry []byte) error) error) error {
	own := name(snapshotPrefix, position)
	oldest, err := j.writeSnapshot(own, position, keep, write)
	if err != nil {
		return fmt.Errorf("write the snapshot %s: %w", j.path(own), errors.Join(err, removeIfThere(j.path(own+asideSuffix))))
	}
	return j.cut(position, oldest)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// writeSnapshot writes the file and returns the first record of the oldest log that
// a directory with this snapshot must have.
func (j *Journal) writeSnapshot(own string, position, keep uint64, write func(add func(entry []byte) error) error) (oldest uint64, err error) {
	before := j.logged.Load()
	f, err := j.aside(own, kindSnapshot, position)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := snapshotWriter{file: f, frame: newFrame(nil), next: 1}
	if err := write(w.add); err != nil {
		return 0, err
	}
	if err := w.flush(0); err != nil {
		return 0, err
	}
	// Entries may include any record appended until now.
	reach := j.Position()
	if err := j.Sync(); err != nil {
		return 0, err
	}
	oldest = j.oldest(min(position+1, keep))
	if err := w.end(reach, oldest); err != nil {
		return 0, err
	}
	if err := j.adopt(f, own); err != nil {
		return 0, err
	}
	j.logged.Add(-before)
	return oldest, nil
}

// oldest returns the first record of the oldest log that is needed to read a record
// and all records behind it.
func (j *Journal) oldest(needed uint64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := 0
	for i+1 < len(j.logs) && j.logs[i+1].first <= needed {
		i++
	}
	return j.logs[i].first
}

// snapshotWriter collects entries into frames.
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

// flush writes the frame if it has at least that many bytes.
func (w *snapshotWriter) flush(atLeast int) error {
	if w.count == 0 || len(w.frame) < atLeast {
		return nil
	}
	seal(w.frame, frameMagic, w.next, 0)
	_, err := w.file.Write(w.frame)
	w.frame, w.next, w.count = newFrame(w.frame), w.next+w.count, 0
	return err
}

// end writes the end mark, which proves that all entries are present. It holds the
// position that the logs must reach for the snapshot to be valid, and the oldest log
// that must be present.
func (w *snapshotWriter) end(reach, oldest uint64) error {
	mark := binary.LittleEndian.AppendUint64(newFrame(nil), oldest)
	seal(mark, endMagic, w.next, reach)
	_, err := w.file.Write(mark)
	return err
}

// stands holds the requirements of a snapshot on its directory.
type stands struct {
	snapshot uint64 // position; 0: no snapshot
	reach    uint64 // how far the logs must reach
	oldest   uint64 // first record of the oldest log that must be there; 0: not known
}

// readSnapshot restores the entries of a snapshot.
func (j *Journal) readSnapshot(position uint64, entry func([]byte) error) (s stands, err error) {
	file, err := os.Open(j.path(name(snapshotPrefix, position)))
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := openFrames(file, kindSnapshot, position, readAhead)
	if err != nil {
		return s, err
	}
	for next := uint64(1); ; {
		at := r.at
		f, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return s, r.damage("its end is missing")
		case err != nil:
			return s, err
		case f.first != next:
			return s, r.damage("entries are missing before it")
		case f.end && len(f.payload) == oldestSize:
			return stands{snapshot: position, reach: f.synced, oldest: binary.LittleEndian.Uint64(f.payload)}, nil
		case len(f.payload) == 0 && r.version == withoutEnds:
			return stands{snapshot: position, reach: f.synced}, nil
		}
		count, err := eachRecord(f.payload, entry)
		if err != nil {
			return s, fmt.Errorf("%s: the frame at byte %d cannot be restored: %w", r.file, at, err)
		}
		next += count
	}
}

// cut removes the files that a snapshot makes unnecessary: older snapshots, and the
// logs before the oldest log that it needs. Only cut deletes logs. A crash during cut
// may leave some of them, and a power cut may bring them back: Open then removes
// them, because the snapshot names the oldest log.
func (j *Journal) cut(position, oldest uint64) error {
	j.mu.Lock()
	for len(j.logs) > 1 && j.logs[0].first < oldest {
		j.logs = slices.Clone(j.logs[1:])
	}
	j.mu.Unlock()
	l, err := j.list()
	if err != nil {
		return err
	}
	removed := false
	remove := func(prefix string, numbers []uint64, below uint64) {
		for _, n := range numbers {
			if n < below {
				removed = true
				err = errors.Join(err, os.Remove(j.path(name(prefix, n))))
			}
		}
	}
	remove(logPrefix, l.logs, oldest)
	remove(snapshotPrefix, l.snapshots, position)
	if removed {
		err = errors.Join(err, j.options.SyncDir(j.options.Dir))
	}
	if err != nil {
		return fmt.Errorf("remove what the snapshot %d makes needless: %w", position, err)
	}
	return nil
}
