package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
)

// markBytes is the approximate distance between the marks of a log, and so the
// maximum that Read reads in vain.
const markBytes = 64 << 10

// log is a file of frames.
type log struct {
	first uint64 // number of its first record
	marks []mark // where some of its frames begin, in order
}

// mark is the offset of a frame in its file.
type mark struct {
	first  uint64 // number of its first record
	offset int64
}

// mark records the offset of a frame of the last log, unless the previous mark is
// near.
func (j *Journal) mark(first uint64, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := &j.logs[len(j.logs)-1]
	if n := len(l.marks); n == 0 || offset-l.marks[n-1].offset >= markBytes {
		l.marks = append(l.marks, mark{first: first, offset: offset})
	}
}

// ErrCut is the error of Read for records that were removed.
var ErrCut = errors.New("the records were cut off the journal")

// errEnough stops the reading of a file before its end.
var errEnough = errors.New("all that was asked for was read")

// Read calls visit with the records from one position to another, which must be
// settled. The record is valid only during the call. If visit returns an error, Read
// stops and returns it. Read returns ErrCut for removed records, and a *DamageError
// for records that do not read as they were written. It does not block Append or
// Wait.
func (j *Journal) Read(from, to uint64, visit func(position uint64, record []byte) error) error {
	for from <= to {
		file, begin, ok := j.find(from)
		if !ok {
			return ErrCut
		}
		next, err := j.readFrom(file, begin, func(position uint64, record []byte) error {
			if position < from {
				return nil
			}
			if err := visit(position, record); err != nil {
				return err
			}
			if position == to {
				return errEnough
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnough):
			return nil
		case err != nil:
			return err
		case next <= from:
			return fmt.Errorf("%s ends before record %d", j.path(name(logPrefix, file)), from)
		}
		from = next
	}
	return nil
}

// find returns the log that has a record, and the mark of a frame at or before it.
func (j *Journal) find(position uint64) (file uint64, begin mark, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := sort.Search(len(j.logs), func(i int) bool { return j.logs[i].first > position }) - 1
	if i < 0 {
		return 0, mark{}, false
	}
	l := &j.logs[i]
	m := sort.Search(len(l.marks), func(i int) bool { return l.marks[i].first > position }) - 1
	if m < 0 {
		return 0, mark{}, false // nothing of it was written
	}
	return l.first, l.marks[m], true
}

func (j *Journal) readFrom(first uint64, begin mark, record func(uint64, []byte) error) (next uint64, err error) {
	file, err := os.Open(j.path(name(logPrefix, first)))
	if errors.Is(err, os.ErrNotExist) {
		return 0, ErrCut
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r, err := openFrames(file, kindLog, first, markBytes)
	if err != nil {
		return 0, err
	}
	if _, err := file.Seek(begin.offset, io.SeekStart); err != nil {
		return 0, err
	}
	r.src.Reset(file)
	r.at = begin.offset
	return readFrames(r, begin.first, func(uint64, int64) {}, record)
}
