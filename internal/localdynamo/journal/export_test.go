package journal

import "encoding/binary"

// Reversion makes a file one of another format version.
func Reversion(b []byte, v uint32) []byte {
	binary.LittleEndian.PutUint32(b[12:], v)
	binary.LittleEndian.PutUint32(b[28:], checksum(b[:28]))
	return b
}
