// Package outage waits for servers that a service needs at its start: NATS, the streams
// of JetStream, the store, the archive.
//
// # Terms
//
//   - outage: an error that ends without a change of the configuration. The server is
//     down, starts, has no leader yet, or hangs.
//   - mistake: any other error, such as wrong credentials, a missing table or an invalid
//     setting. A service reports a mistake and ends.
//
// # Example
//
//	err := outage.Await(ctx, log, "NATS", func(ctx context.Context) error {
//		nc, err = nats.Connect(url)
//		return err
//	})
//
// The log gets a warning as the wait begins, whenever the reason changes, and every half
// minute, and a line as the wait ends.
package outage
