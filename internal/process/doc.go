// Package daemon is what every service process shares: logging, metrics and
// health over HTTP, two stop signals, and parts that start and stop in order.
//
// # Words
//
//   - A component is one part of a process that runs until it is told to stop: a
//     server, a node, a listener.
//   - Stop asks to take no more work and to finish what there is. Abort asks to
//     leave it. The first SIGINT or SIGTERM means stop, the second abort, and so
//     does a stop that takes too long; the third kills.
//   - A group is the components of one process.
//
// # Order
//
//	start:  admin ──ready──▶ nats ──ready──▶ admission ──ready──▶ the group is ready
//	stop:   admin ◀──ended── nats ◀──ended── admission ◀── stop
//
// A component is stopped when all that were started after it have ended, so it
// may rely on those before it to its last moment. One that fails, panics or ends
// unasked stops all.
//
// # An example
//
//	stop, abort, release := daemon.Signals(ctx, received)
//	defer release()
//	admin, err := daemon.ListenAdmin(ctx, daemon.AdminOptions{Listen: "127.0.0.1:9464", Registry: registry, Log: log})
//	if err != nil {
//		return err
//	}
//	group := daemon.NewGroup(daemon.GroupOptions{Log: log, Now: time.Now},
//		daemon.Component{Name: "admin", Run: admin.Run},
//		daemon.Component{Name: "admission", Run: serve})
//	admin.AddCheck("components", group.Check)
//	return group.Run(stop, abort)
package daemon
