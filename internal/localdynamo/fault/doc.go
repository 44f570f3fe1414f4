// Package fault stands between a DynamoDB client and its back end and makes
// things go wrong on purpose: slow answers, throttles, failures, and replies
// that are lost although the write was done.
//
//	SDK client ──▶ Transport ──▶ next RoundTripper (engine in process, or a real endpoint)
//	                  │
//	                  ├── decide: the match function, else the seeded chances, else nothing
//	                  ├── act:    wait, answer in the back end's place, deliver, drop the reply
//	                  └── count:  calls, faults and capacity units, by operation
//
// Words:
//
//   - A Fault is what happens to one request. The zero Fault is none.
//   - A fault strikes before apply when the back end never sees the request,
//     after apply when it carried the request out and the caller does not
//     learn of it. Only a test knows which; the caller must not be able to tell.
//
// Example: the reply of the first UpdateItem is lost.
//
//	first := true
//	faults := fault.New(fault.Options{Next: engine.HTTPClient(), Now: clock.Now})
//	faults.Match(func(op string, _ []byte) fault.Fault {
//		if op == "UpdateItem" && first {
//			first = false
//			return fault.Fault{Kind: fault.ReplyLost}
//		}
//		return fault.Fault{}
//	})
//	client := dynamodb.NewFromConfig(localdynamo.Config(faults, "us-east-1"))
package fault
