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
//   - end mark: a frame without records that ends a file: a log that has one has a
//     successor.
//   - torn tail: what a crash left of frames that were never synced; damage:
//     anything else that does not read as it was written.
//
// Telling the two apart is what the synced field of a frame is for. Each says
// how far the disk was safe when it was written. A frame that does not read is
// damage if a frame behind it or REACH says that it was safe, or if it is not in the
// last log; else it is the torn tail, which is reported and cut off.
//
// REACH is the file that says how far the logs reach: how far callers were answered,
// and how far the disk was safe. It is written over after each group, so that a log
// which ends too early is noticed even where a frame ends. Open refuses where records
// are missing that were safe, and warns where they were only acknowledged.
//
// A write that finds no room is taken back and tried again by Retry, with all that
// was appended since: only then is anything settled again. A failed fsync is final.
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
// and, once it has a successor, an end mark: "TGe1", and the successor's first record.
//
// A snapshot is the same with "snap" and entries for records. Its end mark has in its
// synced field how far the logs must reach for it to hold, and as payload the first
// record of the oldest log that must be there. Version 2 of the format had no end
// marks in logs, and an empty frame at the end of a snapshot; it is read, not written.
package journal
