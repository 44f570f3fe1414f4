// Package journal keeps records in order on disk, so that what was
// acknowledged is there after a crash. It does not know what they mean.
//
//	Append ─▶ gathering ──(whoever waits first writes for all)──▶ log-…41 ─▶ log-…97 ─▶ …
//	            group          one write, one fsync                  ▲
//	                                                                 │ cut: whole files
//	Read ◀────────────────── settled records again ──────────────────┤
//	Snapshot ─▶ aside ─▶ fsync, rename, fsync of the directory ─▶ snapshot-…60
//
// Words:
//
//   - record: bytes, numbered from 1 without gaps; position: the number of the
//     last record of something.
//   - group, frame: the records that one write put into the file, under one
//     checksum: after a crash they are all there or none is.
//   - settled: as safe as the Sync policy promises, so callers may be answered.
//   - synced: forced to the disk.
//   - log: a file of frames, named by its first record; snapshot: a file of
//     entries that stand for all records up to the one it is named by.
//   - kept: records that a snapshot stands for, and that stay in their logs because
//     somebody still reads them.
//   - torn tail: what a crash left of frames that were never synced; damage:
//     anything else that does not read as it was written.
//
// Telling the two apart is what the synced field of a frame is for. Each says
// how far the disk was safe when it was written. A frame that does not read is
// damage if a frame behind it says that it was safe, or if it is not in the last
// log; else it is the torn tail, which is reported and cut off.
//
// Example:
//
//	j, err := journal.Open(journal.Options{Dir: dir}, journal.Restore{Entry: …, Past: …, Record: …})
//	position := j.Append(func(b []byte) []byte { return append(b, "hello"...) }) // in order: under a lock
//	err = j.Wait(position)                                                       // outside of it
//
// A log, all numbers little-endian:
//
//	"TIDEGATE" "log " version:4 first record:8 0:4 crc:4                  32 bytes
//	then frames: "TGf1" length:4 first record:8 synced:8 crc of payload:4 crc of header:4
//	             payload: records, each length:4 and bytes
//
// A snapshot is the same with "snap" and entries for records; an empty frame
// ends it, whose synced field says how far the log must reach for it to hold.
package journal
