// Package trail reads the audit events of a namespace as one, whether they are still
// in the table or in the archive, and proves that none is missing or altered.
//
// # Words
//
//   - A copy is an event as it is in one place. An event may be in the table and in
//     the archive, or twice in the archive: its copies say the same, or one of them was
//     altered.
//   - A stretch is a part of the trail, the newest first, in which everything was looked
//     at, in both places.
//   - A finding says what is not as it should be.
//
// # Reading
//
// Events move from the table to the archive, and never back. So the table is read
// first: what moves in between is seen twice, and shown once.
//
//	table    90 89 88 │                       page of the table, down to 88
//	archive     89    │ 87 86 85 84 │         page of the archive, down to 84
//	stretch  90 89 88 │                       as far down as both were looked at
//
// An event that has just left the table is in neither until an archiver has stored it.
//
// # Verifying
//
// Events of a namespace are numbered without a gap, and each is sealed together with
// the seal of the one before. Verify goes down from the counter that numbers them:
//
//	head 90 ──▶ event 90, intact, and the head has its MAC
//	            event 89, intact, and 90 was written after it
//	            event 87: 88 is missing
//	            …
//	            event 1: there is nothing below
//
// What it has to know of the part before is in the cursor.
package trail
