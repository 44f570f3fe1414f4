// Package requestlog puts the ids of requests into the log lines that are about
// them, whoever writes these: the id travels in the context.
//
// # Words
//
//   - A request id is what the caller called its request, or else what the service
//     did: see api.HeaderRequestID.
//   - A line about one request has the attribute request_id, a line about several,
//     such as those of one write, request_ids. A line within a trace has trace_id.
//
// # An example
//
//	log := requestlog.Wrap(log)
//	ctx = requestlog.With(ctx, "f3Yk0x1mQm2Zr8Qc")
//	log.ErrorContext(ctx, "the store failed")
//
//	{"level":"ERROR","msg":"the store failed","request_id":"f3Yk0x1mQm2Zr8Qc"}
package requestlog
