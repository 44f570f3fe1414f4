package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// reachName is the file that holds the reach of the logs. The journal overwrites it
// after each group, so that Open notices a log that was removed or cut short, even
// at a frame boundary.
const reachName = "REACH"

const (
	reachMagic = "TGr1"
	// reachStride is the distance between the two slots of the file. They lie in
	// different sectors and are written in turn, so that a crash damages at most a
	// single slot.
	reachStride = 512
	reachSize   = reachStride + headerSize
)

// reach holds the positions that the logs have reached.
type reach struct {
	settled uint64 // callers were answered up to here
	synced  uint64 // on the disk up to here: no crash takes it away
}

func (r reach) appendTo(b []byte) []byte {
	begin := len(b)
	b = append(append(b, reachMagic...), 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.settled)
	b = binary.LittleEndian.AppendUint64(b, r.synced)
	b = append(b, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(b, checksum(b[begin:]))
}

// file returns the content of the whole file.
func (r reach) file() []byte {
	b := make([]byte, 0, reachSize)
	b = append(r.appendTo(b), make([]byte, reachStride-headerSize)...)
	return r.appendTo(b)
}

func parseReach(b []byte) (r reach, ok bool) {
	if len(b) < headerSize || string(b[:magicSize]) != reachMagic || checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return reach{}, false
	}
	return reach{settled: binary.LittleEndian.Uint64(b[8:]), synced: binary.LittleEndian.Uint64(b[16:])}, true
}

// readReach reads the file. whole is false if the file is missing or damaged: the
// logs may then have reached further than r.
func (j *Journal) readReach() (r reach, whole bool, err error) {
	b, err := os.ReadFile(j.path(reachName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, false, err
	}
	whole = len(b) == reachSize
	for at := 0; at < len(b); at += reachStride {
		s, ok := parseReach(b[at:])
		r.settled, r.synced, whole = max(r.settled, s.settled), max(r.synced, s.synced), whole && ok
	}
	return r, whole, nil
}

// reachFile is the open file. The journal's turn owns it.
type reachFile struct {
	file *os.File
	last reach
	turn int // which slot is next
	buf  []byte
}

// beginReach replaces the whole file.
func (j *Journal) beginReach(r reach) error {
	aside := j.path(reachName + asideSuffix)
	file, err := os.OpenFile(aside, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	if _, err = file.Write(r.file()); err == nil {
		err = j.adopt(file, reachName)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", aside, err), file.Close())
	}
	j.reach = reachFile{file: file, last: r}
	return nil
}

// write writes the reach of the logs if it has changed. It does not force it to the
// disk: after a machine failure the file may be older than the logs, and then it
// proves less.
func (f *reachFile) write(r reach) error {
	if r == f.last {
		return nil
	}
	f.buf = r.appendTo(f.buf[:0])
	if _, err := f.file.WriteAt(f.buf, int64(f.turn*reachStride)); err != nil {
		return err
	}
	f.turn = 1 - f.turn
	f.last = r
	return nil
}

func (f *reachFile) close() error { return errors.Join(f.file.Sync(), f.file.Close()) }

// incomplete returns an ErrIncomplete: acknowledged records are missing.
func (j *Journal) incomplete(format string, args ...any) error {
	return fmt.Errorf("%w: %s; restore the directory %s from a copy, or move it away to begin anew",
		ErrIncomplete, fmt.Sprintf(format, args...), j.options.Dir)
}

// ErrIncomplete means that files are missing or were cut short.
var ErrIncomplete = errors.New("acknowledged writes are missing")

// checkReach compares the end of the logs with the reach they must have. It fails if
// synced records are missing. It warns if missing records were only acknowledged, or
// if the reach is unknown.
func (j *Journal) checkReach(r reach, whole bool, next uint64, s stands) error {
	last := "the logs"
	if n := len(j.logs); n > 0 {
		last = j.path(name(logPrefix, j.logs[n-1].first))
	}
	switch {
	case next <= s.reach:
		return j.incomplete("%s ends with record %d, but %s needs the logs up to record %d: a file is missing or was cut short",
			last, next-1, j.path(name(snapshotPrefix, s.snapshot)), s.reach)
	case next <= r.synced:
		return j.incomplete("%s ends with record %d, but records up to %d were forced to the disk, as %s says: the log was cut short, "+
			"or a log behind it is missing; remove %s to serve what is left",
			last, next-1, r.synced, j.path(reachName), j.path(reachName))
	case next <= r.settled:
		j.options.Log.Warn("acknowledged writes are lost: they had not been forced to the disk",
			"file", last, "first_lost", next, "last_lost", r.settled)
	case !whole && !j.oldFormat:
		j.options.Log.Warn("the file that says how far the logs reach is missing or damaged: whether the newest acknowledged writes are there is not known",
			"file", j.path(reachName), "last_record", next-1)
	}
	return nil
}
