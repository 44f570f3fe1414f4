// Package differential holds the embedded engine against other engines: random
// sequences of requests go to both, and replies and tables must agree.
//
//	rapid ─▶ sequence ─┬─▶ the engine in memory ──────────────────────────┬─▶ equal?
//	                   └─▶ another: the engine on disk, restarted between ┘
//	                       requests; dynoxide; DynamoDB Local
//
// The package has tests only. Against the engine on disk they run with all
// others. Against an engine of other people they run with the build tag
// otherengine, by make test-dynoxide and make test-dynamodb-local, which put its
// address into TIDEGATE_TEST_DYNAMODB; without the address they fail.
//
// Words:
//
//   - sequence: the requests of one run, against one fresh table. Requests are
//     raw JSON: a client would refuse to send half of what is wrong.
//   - spoilt: made wrong on purpose, so that errors are compared too.
//   - known difference: where the other engine is not as DynamoDB's
//     documentation says. Each has a name, a reason, a source and an example;
//     one whose example no longer shows it fails the tests.
//
// A failing sequence is shrunk and printed with the seed that repeats it:
//
//	go test ./engine/differential -rapid.seed=42
//
// Messages of errors are not compared, nor is an order that DynamoDB leaves
// open: of a set's elements, of a batch's items, of a scan, and of index entries
// with equal keys.
package differential
