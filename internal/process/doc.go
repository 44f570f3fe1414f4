// Package process holds the code that every service process shares: logging with request
// ids, metrics and health over HTTP, two stop signals, and parts that start and stop in order.
//
// # Words
//
//   - A component is a part of a process that runs until it is told to stop: a
//     server, a node, a listener.
//   - Stop asks to take no more work and to finish the work in progress. Abort asks to
//     leave it. The first SIGINT or SIGTERM means stop, the second abort, and so
//     does a stop that takes too long; the third kills.
//   - A group is all components of a process.
//
// # Order
//
//	start:  admin ──ready──▶ nats ──ready──▶ admission ──ready──▶ the group is ready
//	stop:   admin ◀──ended── nats ◀──ended── admission ◀── stop
//
// A component is stopped when all that were started after it have ended, so it
// may rely on earlier components to its last moment. A component that fails, panics or
// ends unasked stops all.
//
// # An example
//
//	stop, abort, release := process.Signals(ctx, received)
//	defer release()
//	admin, err := process.ListenAdmin(ctx, process.AdminOptions{Listen: "127.0.0.1:9464", Registry: registry, Log: log})
//	if err != nil {
//		return err
//	}
//	group := process.NewGroup(process.GroupOptions{Log: log, Now: time.Now},
//		process.Component{Name: "admin", Run: admin.Run},
//		process.Component{Name: "admission", Run: serve})
//	admin.AddCheck("components", group.Check)
//	return group.Run(stop, abort)
//
// # Request ids
//
// A request id is the id that the caller gave its request, or else the id that the service
// gave it: see api.HeaderRequestID. The id travels in the context. A line about a single
// request has the attribute request_id, a line about several, such as the requests of a
// shared write, request_ids. A line within a trace has trace_id.
//
//	log := process.LogRequestIDs(log)
//	ctx = process.WithRequestIDs(ctx, "f3Yk0x1mQm2Zr8Qc")
//	log.ErrorContext(ctx, "the store failed")
//
//	{"level":"ERROR","msg":"the store failed","request_id":"f3Yk0x1mQm2Zr8Qc"}
package process
