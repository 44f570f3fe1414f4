// Package audit keeps the audit log: it makes administrative changes together with their
// audit events, and lists, shows, exports and verifies the events.
//
// # Words
//
//   - An event names the change, the principal that asked for it, and the state before
//     and after. Its target is an entity, $SYSTEM, or $RESOURCE: and a resource.
//   - The sequence numbers the events of a namespace, from 1 and without a gap.
//     The head is the item that holds the last sequence and its MAC.
//   - The MAC seals an event together with the MAC of its predecessor: an altered event
//     does not match its own MAC, and a removed event leaves a gap in the chain.
//   - A plan holds the writes of a change and the conditions they rely on.
//   - A turn serializes the changes of a namespace within a process.
//   - The archive holds the events that left the table. Package archive stores it.
//   - A copy is an event as it is stored in a single place. An event may be in the table and in
//     the archive, or twice in the archive: its copies are equal unless it was altered in
//     the table or the archive.
//   - A stretch is a contiguous part of the log, newest first, read from both places.
//   - A finding reports an event that is missing, altered, doubled or unchained.
//
// # A change
//
//	Plan ──▶ { writes } ─┐
//	                     ├──▶ one transaction, its token pinned
//	head ──▶ { head+1,  ─┘        │
//	           event }            ├─ applied
//	                              ├─ the head moved: next number, same plan
//	                              ├─ the plan is outdated: plan again
//	                              └─ answer lost: the same once more, which applies at most once
//
//	err := log.Apply(ctx, audit.Change{
//		Namespace: ns, By: by, Action: api.AuditLimitsSet, Target: "alice",
//		Plan: func(ctx context.Context) (audit.Plan, error) { … read, decide … },
//	})
//
// A change and its event are in the same transaction, so that both exist or neither does.
//
// # List, show and export
//
// Log reads the events of the table: of a target by its key, of a namespace through GSI1.
// Events expire by their ttl, after the days that the system's config sets; the change feed
// carries expired events to the archiver. Reader joins table and archive to a single log. An
// export is a list read to its end.
//
// Events move from the table to the archive, and never back. So Reader reads the table
// first: an event that moves between the two reads is read twice, and shown once.
//
//	table    90 89 88 │                       page of the table, down to 88
//	archive     89    │ 87 86 85 84 │         page of the archive, down to 84
//	stretch  90 89 88 │                       as far down as both were read
//
// An event that has just left the table is in neither until an archiver has stored it.
//
// # Verify
//
// Verify goes down from the head and checks sequences, MACs and the chain:
//
//	head 90 ──▶ event 90, intact, and the head has its MAC
//	            event 89, intact, and 90 was written after it
//	            event 87: 88 is missing
//	            …
//	            event 1: there is nothing below
//
// The cursor carries the state from part to part of a verification.
package audit
