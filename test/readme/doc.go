// Package readme tests the documents: what they tell a reader to type works, and
// what they say is there is there.
//
//	README.md, CONTRIBUTING.md, docs/*.md ──▶ fences ──┬─ sh ──────▶ bash, on a `tidegate up` of the document's own
//	                                                   ├─ json ────▶ NATS request; the reply is compared
//	                                                   ├─ event ───▶ read and written as a relay would
//	                                                   ├─ python ──▶ a part of test/python, which make test-python runs
//	                                                   └─ go ──────▶ a function of these tests, compiled and run
//
// # Words
//
//   - A fence is a block of code in a document. Its language is the first word
//     behind the backticks; what follows the word is for these tests.
//   - A command is one line of an sh fence. It ends with exit code 0, or with the
//     one that its comment names: "# exit code 3".
//   - An exchange is a fence "json request SUBJECT" and the fence "json reply"
//     after it, with a status if the reply is an error. What a command prints is a
//     fence "json printed" after it.
//   - An excuse is a command that cannot run in a test, with the reason. One that
//     no document has any more fails the test.
//
// # An example
//
//	```json request tidegate.v1.default.release
//	{"lease":"…"}
//	```
//
//	```json reply
//	{"released":true}
//	```
//
// An ellipsis in a request is the last lease that came, or the id of the last
// event that was listed; in a reply it stands for any text. Default addresses in commands stand for those of the test's process.
package readme
