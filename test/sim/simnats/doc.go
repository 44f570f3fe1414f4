// Package simnats is a model of a NATS server in memory, for simulations: the client
// protocol, queue groups, and the part of JetStream that Tidegate's services use.
//
// The model has no goroutine and no timer. Clients write into queues; a scheduler moves
// each message on, in the order and at the time that it chooses:
//
//	nats.go ──Write──▶ inbound queue ──Step──▶ server ──▶ outbound queue ──Step──▶ nats.go
//
// # Terms
//
//   - A link is a connection of a party, with a queue in each direction. A queue keeps its
//     order, as TCP does; the queues of different links are independent.
//   - A frame is a protocol command of a client.
//   - A stall holds a direction of a link. A cut ends a link; messages in its queues are
//     lost.
//   - A term is the life of a server process. [Server.Restart] begins another term: all links are
//     cut, and streams in memory are gone.
//
// # Example
//
//	s := simnats.New(simnats.Options{Rand: rand.New(rand.NewPCG(1, 1)), Now: time.Now})
//	nc, err := nats.Connect("nats://sim", nats.InProcessServer(s.Party("node-1")))
//	for _, q := range s.Queues() {
//		s.Step(q, q.Len())
//	}
//
// # Limits
//
// The model is a single server with a single account. It has no sources, mirrors, delayed
// negative acknowledgements, backoff lists, rate limits, pauses, advisories and flow
// control. A request that the model does not know panics, so that a test notices.
package simnats
