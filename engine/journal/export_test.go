package journal

import "encoding/binary"

// ReachFile is the file that says how far logs reach.
func ReachFile(settled, synced uint64) []byte {
	return reach{settled: settled, synced: synced}.file()
}

// Reversion makes a file one of another format version.
func Reversion(b []byte, v uint32) []byte {
	binary.LittleEndian.PutUint32(b[12:], v)
	binary.LittleEndian.PutUint32(b[28:], checksum(b[:28]))
	return b
}
