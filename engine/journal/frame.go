package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	headerSize = 32 // of a file and of a frame alike
	lengthSize = 4

	fileMagic  = "TIDEGATE"
	magicSize  = 4 // of a frame
	frameMagic = "TGf1"
	endMagic   = "TGe1" // an end mark: the file's last frame

	version       = 3
	withoutEnds   = 2 // the version before end marks: read, not written
	versionOffset = 12
)

// fileKind is the kind of a file, as written in its header.
type fileKind string

const (
	kindLog      fileKind = "log "
	kindSnapshot fileKind = "snap"
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// DamageError reports that a file does not read as it was written. Open then fails,
// because a part of the acknowledged records would be missing.
type DamageError struct {
	File   string
	Offset int64  // bytes from the begin of the file
	What   string // in words
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s; restore the directory from a copy, or move it away to begin anew",
		e.File, e.Offset, e.What)
}

// fileHeader returns the header of a file in a format version.
func fileHeader(kind fileKind, number uint64, v uint32) []byte {
	b := make([]byte, 0, headerSize)
	b = append(append(b, fileMagic...), kind...)
	b = binary.LittleEndian.AppendUint32(b, v)
	b = binary.LittleEndian.AppendUint64(b, number)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, checksum(b))
}

// checkFileHeader checks the header and returns the file's format version.
func checkFileHeader(file string, b []byte, kind fileKind, number uint64) (v uint32, err error) {
	switch {
	case len(b) < headerSize || string(b[:8]) != fileMagic:
		return 0, &DamageError{File: file, What: "it does not begin as a file of this program"}
	case checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]):
		return 0, &DamageError{File: file, What: "the checksum of its header is wrong"}
	}
	v = binary.LittleEndian.Uint32(b[versionOffset:])
	if v != version && v != withoutEnds {
		return 0, fmt.Errorf("%s has format version %d, and this program reads versions %d and %d: use the program that wrote it",
			file, v, withoutEnds, version)
	}
	if !bytes.Equal(b[:headerSize], fileHeader(kind, number, v)) {
		return 0, &DamageError{File: file, What: "its header does not fit its name"}
	}
	return v, nil
}

// frame is the part of a file that a single write wrote.
type frame struct {
	end     bool   // it is the file's end mark
	first   uint64 // number of its first record; of an end mark: of the first record or entry that the file does not have
	synced  uint64 // position that was synced when it was written
	payload []byte
}

// newFrame returns an unsealed frame that uses the buffer.
func newFrame(buf []byte) []byte { return append(buf[:0], make([]byte, headerSize)...) }

// addRecord adds the record that encode appends to an unsealed frame.
func addRecord(b []byte, encode func([]byte) []byte) []byte {
	begin := len(b)
	b = encode(append(b, 0, 0, 0, 0))
	binary.LittleEndian.PutUint32(b[begin:], uint32(len(b)-begin-lengthSize))
	return b
}

// seal writes the header of a frame that has all of its records.
func seal(b []byte, magic string, first, synced uint64) {
	payload := b[headerSize:]
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(b[8:], first)
	binary.LittleEndian.PutUint64(b[16:], synced)
	binary.LittleEndian.PutUint32(b[24:], checksum(payload))
	binary.LittleEndian.PutUint32(b[28:], checksum(b[:28]))
}

// parseHeader reads a frame's header and the length of its payload.
func parseHeader(b []byte) (f frame, length int, crc uint32, ok bool) {
	if len(b) < headerSize || checksum(b[:28]) != binary.LittleEndian.Uint32(b[28:]) {
		return frame{}, 0, 0, false
	}
	magic := string(b[:magicSize])
	if f.end = magic == endMagic; !f.end && magic != frameMagic {
		return frame{}, 0, 0, false
	}
	f.first, f.synced = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	return f, int(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint32(b[24:]), true
}

// eachRecord calls visit with the records of a payload and counts them.
func eachRecord(payload []byte, visit func([]byte) error) (count uint64, err error) {
	for len(payload) > 0 {
		if len(payload) < lengthSize {
			return count, io.ErrUnexpectedEOF
		}
		n := int(binary.LittleEndian.Uint32(payload))
		if payload = payload[lengthSize:]; n > len(payload) {
			return count, io.ErrUnexpectedEOF
		}
		if err := visit(payload[:n]); err != nil {
			return count, err
		}
		payload = payload[n:]
		count++
	}
	return count, nil
}

// frameReader reads a file frame by frame.
type frameReader struct {
	src     *bufio.Reader
	file    string
	version uint32 // of the file's format
	at      int64  // offset of the next frame
	size    int64  // of the file
	ended   bool   // its end mark was read
	buf     []byte
}

// next returns the next frame, io.EOF behind the last frame, and a *DamageError if
// the remaining bytes are not a whole frame. The payload is valid until the next
// call.
func (r *frameReader) next() (frame, error) {
	left := r.size - r.at
	if left == 0 {
		return frame{}, io.EOF
	}
	if left < headerSize {
		return frame{}, r.damage("a frame's header is cut off")
	}
	var header [headerSize]byte
	if _, err := io.ReadFull(r.src, header[:]); err != nil {
		return frame{}, fmt.Errorf("read %s: %w", r.file, err)
	}
	f, length, crc, ok := parseHeader(header[:])
	if !ok {
		return frame{}, r.damage("the checksum of a frame's header is wrong")
	}
	if int64(length) > left-headerSize {
		return frame{}, r.damage("a frame is cut off")
	}
	if cap(r.buf) < length {
		r.buf = make([]byte, length)
	}
	f.payload = r.buf[:length]
	if _, err := io.ReadFull(r.src, f.payload); err != nil {
		return frame{}, fmt.Errorf("read %s: %w", r.file, err)
	}
	if checksum(f.payload) != crc {
		return frame{}, r.damage("the checksum of a frame is wrong")
	}
	if f.end && left > headerSize+int64(length) {
		return frame{}, r.damage("there is more behind its end mark")
	}
	r.ended = f.end
	r.at += headerSize + int64(length)
	return f, nil
}

func (r *frameReader) damage(what string) error {
	return &DamageError{File: r.file, Offset: r.at, What: what}
}

// provesSynced reports whether b has a whole frame whose synced field covers the
// record.
func provesSynced(b []byte, record uint64) bool {
	for {
		i := bytes.Index(b, []byte(frameMagic[:2])) // an end mark proves it, too
		if i < 0 {
			return false
		}
		b = b[i:]
		f, length, crc, ok := parseHeader(b)
		if ok && f.synced >= record && length <= len(b)-headerSize && checksum(b[headerSize:headerSize+length]) == crc {
			return true
		}
		b = b[1:]
	}
}
