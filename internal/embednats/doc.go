// Package embednats runs a NATS server with JetStream in this process.
//
// # Terms
//
//   - directory: the directory of JetStream's files. It also holds a file LOCK, which
//     a single process at a time can lock.
//   - fatal: the error that the server logs instead of starting. A stand-alone server
//     would then end its process; here, Start returns the error.
//
// # Connections
//
//	this process ── InProcess() ── a pipe, no socket ──┐
//	                                                   ├─▶ server ──▶ directory
//	other processes ── URL() ── Listen, TCP ───────────┘
//
// # Durability
//
// The server forces a message to the disk before it acknowledges it. So acknowledged
// messages survive the end of the process and a loss of power.
//
// # Example
//
//	s, err := embednats.Start(ctx, embednats.Options{Dir: "tidegate-data/nats", Log: log})
//	if err != nil {
//		return err // *ListenError, *InUseError and *DirError tell the user how to fix it
//	}
//	defer s.Shutdown()
//	nc, err := nats.Connect(s.URL(), s.InProcess())
package embednats
