// Package rollback notices when a NATS stream has forgotten writes that it had
// acknowledged, and ends the epoch in which they were made.
//
// JetStream may lose acknowledged messages with the power of its servers. A
// settlement that is forgotten could be made again, and its credit given twice.
//
// # Words
//
//   - A beat is the last message of a key that a single node writes. It
//     holds a nonce.
//   - A term is the time in which a server process leads the stream without a
//     break (package leader).
//   - An epoch is a number in the table that grows with each rollback. A lease
//     carries the epoch in which it was made; a lease of an older epoch gets no credit.
//   - A peer is another node that lives.
//   - A write is certain when no node that lives knows of a rollback after it.
//
// # Why no rollback is missed
//
// Every batch of a node's writes is followed by the node's beat, and counts once that
// is acknowledged, so that the beat is the last of all that the node wrote. A key-value bucket keeps the last message of a
// key; no other node overwrites the beat, so that it is gone only if the stream was
// rolled back to before it:
//
//	lease.17 │ lease.9 │ beat.A.1 ◀── A: "my last write was 3, with nonce x"
//	       1 │       2 │        3 │ lease.17 │ beat.B.1
//
// If the stream was rolled back to after the beat, the node has lost nothing. Each
// beat requires that the previous beat is still the last message of its key. So a node
// that lost something cannot overwrite the evidence, and notices with its next write. Sequence numbers alone would not do: other nodes may have
// filled the stream up again.
//
// Nodes that lost nothing would still trust the records that are left. So a node is
// certain in a new term only when its peers have looked at the stream in that term
// too, and have told the epoch. A peer that is silent is waited for as long as
// [Tuning].Quarantine. A node that starts finds its peers by their beats.
//
// # Why no rollback is invented
//
// A record that another node overwrote, or that expired, is no evidence: only beats
// are. A beat that is older than the bucket's TTL has expired with all that was
// written before it. A server that wrongly believes to lead shows old messages: a
// node that misses its beat first writes a beat under a new key, which takes a quorum,
// and looks again at the server that has it.
//
// # Limits
//
// If no node that wrote the lost messages lives, or if it is cut off for longer than
// the quarantine, the others cannot know. A bucket with a single replica in a cluster
// tells no term: its restart is noticed at the next look, and not before.
//
// # How to plug it in
//
//	kv, err := rollback.OpenBucket(ctx, js, rollback.Bucket{Name: "…", TTL: ttl, Replicas: n}) // instead of CreateOrUpdateKeyValue
//	epochs := rollback.NewEpochs(client, table)
//	guard, err := rollback.New(rollback.Config{NATS: nc, Bucket: "…", Subject: api.EpochSubject, Epochs: epochs, …})
//	go guard.Run(ctx)  // beside the service, until all handlers have ended
//	<-guard.Ready()    // part of the service's readiness
//
// An acquire seals epochs.Current() into its token. A settlement adopts the token's
// epoch (epochs.AdoptSigned), then:
//
//	epoch, err := guard.Certain(ctx)                          // before it counts on a record; err: 503 if there is a credit
//	record, revision := read the record at the leader         // leader.Last, or kv.Get: the bucket has no direct gets
//	revision, epoch, err = guard.Write(ctx, key, record, revision)
//	switch {
//	case errors.Is(err, rollback.ErrRefused):    // wrong revision: decide again
//	case errors.Is(err, rollback.ErrNotWritten): // definite: nothing was written; decide again or 503
//	case errors.Is(err, rollback.ErrUncertain):  // written; revision is set. No credit, it stays spent
//	case err != nil:                             // unknown: read the record, its nonce tells
//	case token.epoch < epoch:                    // written; no credit, debits count
//	default:                                     // credits are final
//	}
//
// All writes of records go through Write: any other write is not covered by the
// beat. Keys that begin with "beat." are the guard's. The node's user needs
// $JS.API.STREAM.MSG.GET and $JS.API.STREAM.INFO of the bucket's stream, and the
// subject api.EpochSubject to publish and to subscribe.
package rollback
