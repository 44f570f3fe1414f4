// Package audit makes administrative changes together with the audit events
// that tell of them: both are in one transaction, so that neither is ever there
// without the other.
//
// # Words
//
//   - An event says what changed, who asked for it, and what was there before
//     and after. Its target is an entity, $SYSTEM, or $RESOURCE: and a resource.
//   - The sequence numbers the events of a namespace, from 1 and without a gap.
//     The head is the item that holds the last number.
//   - The MAC seals an event, with the MAC of the one before it: an event that was
//     altered does not match its own, one that was taken out leaves a gap in the
//     numbers and in the chain.
//   - A plan is what a change would write, and the conditions under which it is
//     still right.
//   - A lane lets one change of a namespace at a time go ahead in a process.
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
// # Reading
//
// List shows events, the newest first: those of one target from the table, those
// of a namespace through GSI1. Events expire by their ttl, after the days that
// the system's config says.
package audit
