// Package tidegate asks Tidegate, over NATS, whether a caller may spend tokens
// (requests, LLM tokens, anything counted) against all its limits at once.
//
// # Words
//
//   - Acquire: spend from several limits of an entity (an API key, a user) and a
//     resource (a model, an endpoint), all or nothing.
//   - [Lease]: the tokens of an admitted acquire. Adjust it once the actual cost is
//     known; release it if nothing was used.
//   - Denial: a [*DeniedError]; it tells when the same request would be admitted.
//   - Degraded lease: admitted without Tidegate, because it was unavailable and the
//     policy was to allow (fail open). Settling it does nothing.
//
// # A call that costs an unknown number of tokens
//
//	client, err := tidegate.New(nc)
//	…
//	err = client.Do(ctx, "api-key-123", "gpt-4", tidegate.Consume{"rpm": 1, "tpm": 500},
//		func(ctx context.Context, lease *tidegate.Lease) error {
//			used, err := complete(ctx)                                  // err: all is given back
//			if err != nil {
//				return err
//			}
//			return lease.Adjust(ctx, tidegate.Deltas{"tpm": used - 500}) // settle the difference
//		})
//
// # What a call can return
//
//	Acquire ──▶ reply admits ─────────────────────────────────▶ *Lease
//	        ──▶ reply denies ─────────────────────────────────▶ *DeniedError
//	        ──▶ reply refuses the request ────────────────────▶ *Error, by code
//	        ──▶ no responder, no reply in time, overloaded,
//	            store down ──▶ policy allow ──────────────────▶ *Lease, degraded
//	                       ──▶ policy block (the default) ────▶ *UnavailableError
//	        ──▶ ctx cancelled ────────────────────────────────▶ context.Canceled
//
// Match all of them with errors.As and errors.Is. The client never repeats an acquire
// whose reply was lost: its tokens may be spent. It repeats, once, a request that a node
// refused as too late while the caller still waits: nothing was spent.
//
// If tenants have permissions of their own, connect with [InboxPrefix]: replies reach the
// connection under no other prefix. The prefix belongs to the connection, so [New] cannot
// set it, and a connection serves a single namespace. The server drops a request without
// permission, and a reply under another prefix: the call ends with an *Error of the code
// forbidden, whatever the policy. If a permission is taken away from a live connection, the
// first call ends at its timeout with an *UnavailableError, the next with forbidden.
//
// Every request has an ID, which appears in each of the service's log lines about it and
// in the errors here: the ID of [WithRequestID], or a generated ID.
//
// The deadline of the context travels with the request, so that the service does not
// spend for a caller that has given up. Without a deadline, [WithTimeout] applies. Replies
// carry the store's time: from the second request on, the deadline counts from when the
// caller asked, however long the request takes to arrive.
package tidegate
