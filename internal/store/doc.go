// Package store is how the program talks to DynamoDB: requests, their outcomes, the
// store's clock, and long lists. The items and the forms of writes are in package
// table.
//
//	cfg ──▶ Watch ──▶ dynamodb.Client ──▶ SDK middleware ──▶ Clock.Watch ──▶ OwnBody ──▶ NewHTTPClient ──▶ DynamoDB
//	          │                                                  │
//	          └──▶ tidegate_store_calls_total,                   └──▶ a bound of the store's time
//	               tidegate_store_seconds, spans                      from each reply
//
// # Glossary
//
//   - A call is one attempt: a request and its reply, or a missing reply. Retries
//     of the SDK are calls of their own.
//   - An outcome tells whether a write was applied. [OutcomeOf] reads it from an
//     error; [Send] repeats a write until the outcome is known.
//   - A result is an outcome as metrics count it: ok, refused, throttled or error.
//   - The store's clock is the time by which all nodes count balances. [Clock]
//     estimates it from the Date header of each reply.
//   - A step is a part of a list: one item, or the items of one query of the table
//     or of an index. A row of an index stands for an item of the table.
//   - A cursor tells in which step a list continues, and after which item. It is
//     opaque to callers. A cursor that does not fit the list is refused.
//
// # Outcomes
//
//	outcome    written?   repeat?         errors
//	Applied    yes        –               none
//	Refused    no         no              ConditionalCheckFailed, alone or in a cancelled transaction
//	Conflict   no         at once         TransactionConflict, TransactionInProgress
//	Throttled  no         after a pause   ProvisionedThroughputExceeded, Throttling, RequestLimitExceeded, …
//	Rejected   no         no              other 4xx: ValidationException, AccessDenied, …
//	NotSent    no         after a pause   connection refused, dial errors
//	Unknown    perhaps    if idempotent   timeouts, broken connections, 5xx
//
// # Example of a write
//
//	in := table.Transaction(rand.Text(), writes) // the token makes repeats harmless
//	outcome, err := store.Send(ctx, store.Attempts{Max: 8, Timeout: 2 * time.Second}, func(ctx context.Context) error {
//		_, err := client.TransactWriteItems(ctx, in)
//		return err
//	})
//
// # Example of a list
//
//	steps     [ item ] [ query GSI4 #0 ] [ query GSI4 #1 ] …
//	                         ▲
//	cursor    {step 1, after AAAAAAAAAAA/RESOURCE#gpt-4 #CONFIG}
//
//	next, err := store.Page(ctx, client, "tidegate", steps, store.PageRequest{Cursor: cursor, Limit: 100},
//		func(item table.Item) (int, error) { … append the item, return its size in the reply … })
//
// A page ends when it has the requested number of entries, when it is as large as a
// reply may be, or when it took many queries. It then has a cursor, and may be
// empty. An item that exists during the whole list is listed exactly once.
//
// # Example of the clock
//
//	clock := store.NewClock(source)              // the machine's own clock
//	cfg.HTTPClient = clock.Watch(cfg.HTTPClient) // each reply of the store is a bound
//	now, err := clock.Now()                      // fails before the first reply
package store
