// Package embednats runs a NATS server with JetStream in this process.
//
// # Words
//
//   - The directory is where JetStream keeps its files, with a file LOCK beside
//     them that one process at a time holds.
//   - A fatal is what the server says instead of starting. It is made to end a
//     process of its own; here it becomes the error of Start.
//
// # Who reaches it
//
//	this process ── InProcess() ── a pipe, no socket ──┐
//	                                                   ├─▶ server ──▶ directory
//	other processes ── URL() ── Listen, TCP ───────────┘
//
// # What it keeps
//
// What was acknowledged survives the death of the process and a loss of power: it is
// forced to the disk before.
//
// # An example
//
//	s, err := embednats.Start(ctx, embednats.Options{Dir: "tidegate-data/nats", Log: log})
//	if err != nil {
//		return err // *ListenError, *InUseError and *DirError say what to change
//	}
//	defer s.Shutdown()
//	nc, err := nats.Connect(s.URL(), s.InProcess())
package embednats
