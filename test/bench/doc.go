// Package bench measures Tidegate against what it stands on, on one machine and
// in one run, so that the figures are ratios:
//
//	make bench        (go test -run '^$' -bench . ./test/bench)
//
//	callers ─TCP─▶ embedded NATS ─TCP─┬─▶ echo: replies at once, with as many bytes
//	                                  └─▶ admission ─▶ fault (latency, counts) ─▶ engine
//
// # Words
//
//   - The echo is the least that any service over NATS costs: the same callers,
//     connections and payload sizes, and no work at all.
//   - "client" goes through pkg/client; "raw" sends requests that were encoded
//     beforehand and leaves the replies undecoded, as the echo's callers do.
//   - The store's latency is simulated, to a tenth of a millisecond; its work is not:
//     both are in its share.
//   - "possible" is what so many callers could get if nothing but the store took time:
//     one who comes while a write of the bucket is under way waits for the rest of it and
//     then for a whole one. Where thousands ask at once each waits for two.
//
// Where thousands of callers ask at once, echo and admission are in a process of
// their own (apart_test.go), as they are everywhere but on a laptop.
//
// # Reading a line
//
//	BenchmarkHotBucket/callers=2048  1  …  0.52 client/echo  0.71 raw/echo  0.001 WCU/acquire
//
// At one hot bucket, a service gets 52 % of the rate it would get if the answer
// cost nothing, and one write unit pays for a thousand acquires. Measurements
// that are compared take turns, so that a busy machine slows both alike.
// BenchmarkPartition… also print a table: what was offered, admitted, throttled and
// spent in each second.
// Each benchmark has a file of its own; world_test.go is what they share.
package bench
