// Package bench measures Tidegate against bare NATS and the bare store, on the same
// machine and in the same run, so that the figures are ratios:
//
//	make bench        (go test -run '^$' -bench . ./test/bench)
//
//	callers ─TCP─▶ embedded NATS ─TCP─┬─▶ echo: replies at once, with as many bytes
//	                                  └─▶ admission ─▶ fault (latency, counts) ─▶ engine
//
// # Words
//
//   - The echo is the lower bound of any service over NATS: the same callers,
//     connections and payload sizes, without any work.
//   - "client" uses pkg/client; "raw" sends pre-encoded requests and does not decode
//     the replies, like the echo's callers.
//   - The store's latency is simulated, to a tenth of a millisecond; its work is real.
//     The store's share contains both.
//   - "possible" is the rate that as many callers could reach if only the store took
//     time: a caller that arrives during a write of the bucket waits for the rest of
//     that write and for the next whole write. If thousands ask at once, each waits for
//     two writes.
//
// With thousands of concurrent callers, echo and admission run in a separate process
// (apart_test.go), as in any deployment except on a laptop.
//
// # Reading a line
//
//	BenchmarkHotBucket/callers=2048  1  …  0.52 client/echo  0.71 raw/echo  0.001 WCU/acquire
//
// On a single hot bucket, a service reaches 52 % of the rate of a service that does
// no work, and a write unit pays for a thousand acquires. Compared measurements take
// turns, so that a busy machine slows both alike. BenchmarkPartition… also print a
// table of offered load, admissions, throttled writes and write units per second.
// Each benchmark has its own file; world_test.go has the shared fixtures.
package bench
