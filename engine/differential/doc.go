// Package differential compares the embedded engine with other engines: it sends
// random sequences of requests to both, and the replies and tables must agree.
//
//	rapid ─▶ sequence ─┬─▶ the engine in memory ──────────────────────────┬─▶ equal?
//	                   └─▶ another: the engine on disk, restarted between ┘
//	                       requests; dynoxide; DynamoDB Local
//
// The package has only tests. The comparison with the engine on disk runs with all
// other tests. The comparisons with foreign engines need the build tag otherengine and
// run with make test-dynoxide and make test-dynamodb-local, which set
// TIDEGATE_TEST_DYNAMODB to the engine's address; without the address they fail.
//
// # Terms
//
//   - sequence: the requests of a run, against a fresh table. Requests are raw JSON,
//     because a client would refuse to send many of the wrong requests.
//   - spoilt: made wrong on purpose, so that errors are compared too.
//   - known difference: a case in which the other engine differs from DynamoDB's
//     documentation. Each has a name, a reason, a source and an example. If the
//     example no longer shows the difference, the tests fail.
//
// The test shrinks a failing sequence and prints it with the seed that repeats it:
//
//	go test ./engine/differential -rapid.seed=42
//
// The comparison ignores the messages of errors, and every order that DynamoDB leaves
// open: the order of a set's elements, of a batch's items, of a scan, and of index
// entries with equal keys.
package differential
