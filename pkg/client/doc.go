// Package tidegate asks Tidegate, over NATS, whether a caller may spend tokens
// (requests, LLM tokens, anything counted) against all its limits at once.
//
// # Words
//
//   - To acquire is to spend from several limits of an entity (an API key, a
//     user) and a resource (a model, an endpoint), all or none.
//   - A [Lease] is what an acquire was granted. It can be adjusted, when the
//     true cost is known, and released, when nothing was used.
//   - A denial is a [*DeniedError]; it says when the same request would pass.
//   - A degraded lease was granted because Tidegate could not be asked and the
//     policy was to allow. Settling it does nothing.
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
// All are found with errors.As and errors.Is. The client never repeats an
// acquire whose reply is lost: its tokens may be spent. It repeats, once, a request
// that a node refused as too late while the caller still waits: nothing was spent.
//
// Where tenants have permissions of their own, the connection has to be made with
// [InboxPrefix]: replies reach it under no other prefix. The prefix is the
// connection's and not the client's, so [New] cannot set it, and a connection
// serves one namespace. What the server does not permit nobody answers: the
// call ends with its time, as an *UnavailableError, and the connection's error
// handler is told why.
//
// Every request has an id, which is in each line that the service logs about it,
// and in the errors here: that of [WithRequestID], or else one of its own.
//
// The deadline of the context travels with the request, so that the service
// does not spend for a caller that has gone. Without one, [WithTimeout] holds.
// Replies tell the store's time: from the second request on, the deadline counts
// from when the caller asked, however long the request waits on its way.
package tidegate
