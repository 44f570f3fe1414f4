// Package journal stores numbered records durably on disk. After a crash, every
// acknowledged record is still there. The journal does not interpret the records.
//
//	Append ─▶ gathering ──(the first waiting caller writes the group)──▶ log-…41 ─▶ log-…97 ─▶ …
//	            group          a write and an fsync                         ▲
//	                                                                        │ cut: whole files
//	Read ◀────────────────── settled records again ─────────────────────────┤
//	Snapshot ─▶ aside ─▶ fsync, rename, fsync of the directory ─▶ snapshot-…60
//
// # Terms
//
//   - record: bytes, numbered from 1 without gaps.
//   - position: the number of the last record of a sequence.
//   - group, frame: the records of a single write, under a single checksum. After a
//     crash, either all of them are present or all are absent.
//   - settled: as safe as the Sync policy promises; callers may be answered.
//   - synced: forced to the disk.
//   - log: a file of frames, named by its first record.
//   - snapshot: a file of entries that replace all records up to the position in its
//     name.
//   - kept: records that a snapshot replaces and that stay in their logs because a
//     reader still needs them.
//   - end mark: a frame without records that ends a file. A log with an end mark has
//     a successor.
//   - torn tail: the remains of frames that a crash interrupted before they were
//     synced.
//   - damage: any other content that does not read as it was written.
//
// # Recovery
//
// Each frame has a synced field: the position up to which the disk was safe when the
// frame was written. Recovery uses it to distinguish a torn tail from damage. An
// unreadable frame is damage if a later frame or REACH proves that it was synced, or
// if it is not in the last log. Otherwise it is the torn tail: Open reports it and
// cuts it off.
//
// The file REACH holds the reach of the logs: the position up to which callers were
// answered, and the position up to which the disk was safe. The journal overwrites
// it after each group, so that Open notices a log that ends too early, even if it
// ends at a frame boundary. Open fails if synced records are missing, and warns if
// the missing records were only acknowledged.
//
// If a write fails because the disk is full, the journal removes its remains, and
// Retry writes the group again, with all records appended since; until then, no
// record is settled. A failed fsync is final.
//
// # Example
//
//	j, err := journal.Open(journal.Options{Dir: dir}, journal.Restore{Entry: …, Past: …, Record: …})
//	position := j.Append(func(b []byte) []byte { return append(b, "hello"...) }) // in order: under a lock
//	err = j.Wait(position)                                                       // outside the lock
//
// # File format
//
// A log, all numbers little-endian:
//
//	"TIDEGATE" "log " version:4 first record:8 0:4 crc:4                  32 bytes
//	then frames: "TGf1" length:4 first record:8 synced:8 crc of payload:4 crc of header:4
//	             payload: records, each length:4 and bytes
//
// and, once it has a successor, an end mark: "TGe1", and the successor's first record.
//
// A snapshot has the same format with "snap", and entries instead of records. The
// synced field of its end mark is the position that the logs must reach for the
// snapshot to be valid. The payload of the end mark is the first record of the
// oldest log that must be present. Version 2 of the format had no end marks in logs,
// and an empty frame at the end of a snapshot; the journal reads it but does not
// write it.
package journal
