// Package embednats runs a NATS server with JetStream in this process.
//
// # Words
//
//   - The directory holds JetStream's files and a file LOCK, which at most a single
//     process locks at a time.
//   - A fatal is the server's message about a failed start. In a process of its own,
//     the server would exit with it; here it becomes the error of Start.
//
// # Connections
//
//	this process ── InProcess() ── a pipe, no socket ──┐
//	                                                   ├─▶ server ──▶ directory
//	other processes ── URL() ── Listen, TCP ───────────┘
//
// # Durability
//
// The server forces data to the disk before it acknowledges it, so that acknowledged
// data survives the death of the process and a loss of power.
//
// # An example
//
//	s, err := embednats.Start(ctx, embednats.Options{Dir: "tidegate-data/nats", Log: log})
//	if err != nil {
//		return err // *ListenError, *InUseError and *DirError name the correction
//	}
//	defer s.Shutdown()
//	nc, err := nats.Connect(s.URL(), s.InProcess())
package embednats
