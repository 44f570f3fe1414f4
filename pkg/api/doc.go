// Package api defines the wire contract: the subjects that Tidegate answers on, the
// JSON of requests and replies, the closed list of error codes, and the checks
// that every request passes before a service reads or writes anything for it.
//
// # Words
//
//   - A verb names the operation; with the namespace's name it makes the subject.
//   - A denial is a reply (allowed: false), not an error. An error is an [Error]
//     with a [Code], and marked by headers.
//   - A target names a config level.
//   - Amounts are whole tokens; times are whole milliseconds.
//
// # An exchange
//
//	request   tidegate.v1.default.acquire       Tidegate-Timeout-Ms: 2000
//	          {"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":500}}
//
//	admitted  {"allowed":true,"lease":"…","limits":[{"entity":"api-key-123","name":"rpm",…}]}
//	denied    {"allowed":false,"retry_after_ms":590,"limits":[…]}
//	refused   Nats-Service-Error-Code: 400
//	          {"code":"unknown_limit","field":"consume.tpm","message":"…"}
//
// # Reading a request
//
//	payload ──▶ reader (strict JSON) ──▶ Decode… (fields, checks) ──▶ request
//	                  │                       │
//	                  └──────── *Error ◀──────┘   code, path of the field, correction
//
// A decoder returns a request that is valid in itself, or an *Error, which quotes at
// most 50 characters of a refused value. The reader is written by hand because
// the decoding of acquires is on the hot path: it takes a quarter of the time of
// encoding/json, which is not strict. Replies are read leniently: a service may
// be newer than its caller.
//
// The files in testdata are the contract's examples; to change them is to change
// the contract.
package api
