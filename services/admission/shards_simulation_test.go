package admission

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// Three nodes whose clocks disagree spend from one bucket while it is doubled and
// merged, limits change, replies get lost, shards are throttled and nodes crash; time
// passes between rounds only, so that what has to hold is known to the token:
//
//   - never more is admitted than the bucket held (P1),
//   - what its shards hold together is admitted (P2),
//   - who is denied passes after the wait he was told, and not before (P4),
//   - nothing is minted (P6), and nothing is stuck: in the end it is one shard again.
func TestDividedBucketsKeepThePromisesWhateverHappens(t *testing.T) {
	for _, s := range []*simulation{{name: "steady"}, {name: "debits", debits: true}, {name: "changing limits", changes: true, debits: true}} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("%s, seed %d", s.name, seed), func(t *testing.T) {
			t.Parallel()
			s.seed, s.random = seed, rand.New(rand.NewPCG(seed, 0))
			s.play(t)
		})
	}
}

const (
	simRounds   = 14
	simWorkers  = 4
	simRequests = 10 // of a worker in a round
	simSkew     = 50 * time.Millisecond
	simCapacity = 60 // tokens, the highest of the limits that hold at times
	simRate     = 20 // tokens per second, likewise
)

// simulation is one play.
type simulation struct {
	name            string
	debits, changes bool
	seed            uint64
	random          *rand.Rand // owned by the one who tells the rounds

	w       *world
	time    *manual
	slots   []*slot
	checker *node // that nothing happens to
	divider *shards.Store
	limit   bucket.Limit  // that allows the most
	pace    time.Duration // about that of a call of the store, which not every engine answers at once

	mu     sync.Mutex
	most   int64   // guarded by mu: what the bucket may hold at most, in millitokens
	debts  int64   // guarded by mu: debits ever
	leases []spent // guarded by mu: that can be given back
	admitted, denied, failed,
	crashes, largest int // guarded by mu
}

type spent struct {
	result
	amounts api.Amounts
}

// slot is a place where a node runs, and after it crashed, another.
type slot struct {
	mu     sync.RWMutex // held by who asks the node
	node   *node
	number int
}

func (s *simulation) play(t *testing.T) {
	s.w, s.time = newManualWorld(t)
	s.limit = bucket.Limit{Name: "rpm", Capacity: simCapacity * bucket.Milli, Refill: simRate * bucket.Milli, Period: 1000}
	s.setLimits(t, simCapacity, simRate)
	s.checker = s.w.node(t, Tuning{})
	require.True(t, admits(t, s.checker.spend(s.w, "e", 1)))
	s.most = (simCapacity - 1) * bucket.Milli
	for i := range 3 {
		s.slots = append(s.slots, &slot{number: i, node: s.start(t, i)})
	}
	s.divider = s.faultyDivider()
	began := time.Now()
	_, err := s.w.limits.Resolve(t.Context(), s.w.ns, "e", "gpt-4")
	require.NoError(t, err)
	s.pace = max(time.Millisecond, time.Since(began))
	for round := 0; round < simRounds || (s.largest <= 2 && round < 8*simRounds); round++ {
		if round >= simRounds { // a busy engine needs longer for a doubling
			s.pace = min(2*s.pace, 100*time.Millisecond)
		}
		s.pass(time.Duration(1+s.random.IntN(900)) * time.Millisecond)
		s.round(t, round)
		s.bounds(t)
		if round%2 == 1 {
			s.pass(maxDenialAge + time.Millisecond) // no sight is young enough to deny by
			s.check(t)
		}
	}
	s.becomesWhole(t)
	t.Logf("admitted %d, denied %d, failed %d, %d crashes, %d shards at most", s.admitted, s.denied, s.failed, s.crashes, s.largest)
	require.NotZero(t, s.denied)
	require.Greater(t, s.largest, 2)
}

// setLimits changes the stored limits; most nodes hear of it.
func (s *simulation) setLimits(t *testing.T, capacity, rate int64) {
	s.w.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, api.Limit{Name: "rpm", Capacity: capacity, RefillAmount: rate, RefillPeriodSeconds: 1})
	change := &nats.Msg{Subject: api.ConfigSubject(api.DefaultNamespace), Data: []byte(`{"resource":"gpt-4"}`)}
	for _, at := range s.slots {
		if s.random.IntN(4) > 0 {
			(&listener{Service: at.node.Service}).configChanged(change)
		}
	}
	if s.checker != nil {
		(&listener{Service: s.checker.Service}).configChanged(change)
	}
}

// chances are what goes wrong on the way to the store.
func chances() []fault.Chance {
	hot := fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange, Resource: "table/tidegate"})
	return []fault.Chance{
		{Probability: .02, Fault: fault.Fault{Kind: fault.ReplyLost}},
		{Probability: .01, Fault: fault.InternalErrorAfter()},
		{Probability: .01, Fault: fault.InternalError()},
		{Probability: .02, Operations: []string{"UpdateItem"}, Fault: hot},
		{Probability: .03, Operations: []string{"TransactWriteItems"}, Fault: fault.TransactionConflict()},
		{Probability: .01, Fault: fault.Fault{Kind: fault.Unreachable}},
	}
}

// start runs a node, on a clock of its own.
func (s *simulation) start(t *testing.T, number int) *node {
	w := *s.w
	w.clock = func() store.ClockSource { return s.time.clock(time.Duration(number-1) * simSkew) }
	return w.nodeWith(t, Tuning{StoreTimeout: 300 * time.Millisecond, Remember: 4 * stateBytes * int64(1+number*100)}, fault.Options{
		Seed: s.seed + uint64(number), Latency: fault.Uniform(0, time.Millisecond), Chances: chances(),
	})
}

func (s *simulation) faultyDivider() *shards.Store {
	faults := fault.New(fault.Options{Next: s.w.next, Now: s.w.now, Seed: s.seed + 77, Latency: fault.Uniform(0, time.Millisecond), Chances: chances()})
	client := dynamodb.NewFromConfig(s.w.config(faults), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	var nonces atomic.Int64
	now := func() (bucket.Instant, error) { return s.time.instant(), nil }
	return shards.NewStore(client, s.w.table, now, func() string { return "faulty." + strconv.FormatInt(nonces.Add(1), 10) })
}

// pass lets time pass, and the bucket fill.
func (s *simulation) pass(d time.Duration) {
	before := s.time.instant()
	s.time.pass(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = min(s.limit.Capacity, min(s.limit.Capacity, s.most)+s.limit.Refilled(s.time.instant())-s.limit.Refilled(before))
}

// round is what happens at one moment: all at once.
func (s *simulation) round(t *testing.T, round int) {
	if s.changes && round%3 == 2 {
		s.setLimits(t, simCapacity-20*s.random.Int64N(2), simRate-8*s.random.Int64N(2))
	}
	var working, meddling sync.WaitGroup
	for n := range simWorkers {
		random := rand.New(rand.NewPCG(s.seed, uint64(1000+round*simWorkers+n)))
		working.Go(func() {
			for range simRequests {
				s.request(random)
			}
		})
	}
	random := rand.New(rand.NewPCG(s.seed, uint64(5000+round)))
	meddling.Go(func() { s.divide(random) })
	if random := rand.New(rand.NewPCG(s.seed, uint64(9000+round))); random.IntN(4) == 0 {
		meddling.Go(func() {
			s.crash(t, s.slots[random.IntN(len(s.slots))], time.Duration(random.IntN(15))*time.Millisecond)
		})
	}
	working.Wait()
	meddling.Wait()
	for _, at := range s.slots {
		at.node.atRest(t)
	}
}

// request spends, or settles what was spent, at any node.
func (s *simulation) request(random *rand.Rand) {
	at := s.slots[random.IntN(len(s.slots))]
	at.mu.RLock()
	defer at.mu.RUnlock()
	if random.IntN(4) == 0 {
		s.settle(at.node, random)
		return
	}
	tokens := 1 + random.Int64N(3)
	if random.IntN(5) == 0 { // more than a share of eight
		tokens = 8 + random.Int64N(20)
	}
	amounts := api.Amounts{{Name: "rpm", Tokens: tokens}}
	res := at.node.do(s.w, "e", operation{amounts: amounts})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case res.err != nil:
		s.failed++ // in doubt it is spent, and nobody may hold that against anyone
	case res.verdict == verdictDeny:
		s.denied++
	default:
		s.took(tokens)
		s.leases = append(s.leases, spent{res, amounts})
	}
}

// took notes what was admitted; s.mu is held.
func (s *simulation) took(tokens int64) {
	s.admitted++
	s.most -= tokens * bucket.Milli
}

// settle gives back what an acquire spent, or spends as much again.
func (s *simulation) settle(at *node, random *rand.Rand) {
	s.mu.Lock()
	if len(s.leases) == 0 {
		s.mu.Unlock()
		return
	}
	i := random.IntN(len(s.leases))
	l := s.leases[i]
	s.leases = slices.Delete(s.leases, i, i+1)
	debit := s.debits && random.IntN(4) == 0
	tokens := l.amounts[0].Tokens
	if !debit {
		s.most += tokens * bucket.Milli // from now on it may be there
	}
	s.mu.Unlock()
	if !debit {
		at.give(s.w, "e", l.result, l.amounts, -1)
		return
	}
	for _, res := range at.give(s.w, "e", l.result, l.amounts, 1) {
		if res.err != nil {
			return // it may be spent, and may not
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most -= tokens * bucket.Milli
	s.debts += tokens * bucket.Milli
}

// divide doubles or merges as long as nothing comes between it and its end.
func (s *simulation) divide(random *rand.Rand) {
	for range 3 {
		ctx, crash := context.WithTimeout(context.Background(), time.Duration(1+random.IntN(40))*s.pace)
		tree, err := s.divider.Read(ctx, s.w.bucketKey("e"), 0)
		if err == nil {
			if wanted := tree.Wanted(); random.IntN(3) > 0 && wanted < 8 {
				tree, _ = s.divider.Double(ctx, s.w.bucketKey("e"), wanted)
			} else {
				tree, _ = s.divider.Shrink(ctx, s.w.bucketKey("e"), max(1, wanted/2))
			}
		}
		crash()
		s.mu.Lock()
		s.largest = max(s.largest, len(tree))
		s.mu.Unlock()
	}
}

// crash ends a node in the middle of what it does, and starts another in its place.
func (s *simulation) crash(t *testing.T, at *slot, after time.Duration) {
	timer := time.NewTimer(after)
	<-timer.C
	at.node.abortWork()
	at.mu.Lock()
	defer at.mu.Unlock()
	at.node.nats.Close()
	_ = at.node.stop()
	at.node = s.start(t, at.number)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashes++
}

// slack is what clocks that disagree may do to the sums: each shard's refill is what
// the node says that asks for it.
func (s *simulation) slack() int64 {
	slack := int64(2*simSkew/time.Millisecond)*simRate + 2*bucket.MaxShards
	if s.changes {
		slack *= 3 // each change of the rate, too
	}
	return slack
}

// bounds checks what was admitted, and what is left.
func (s *simulation) bounds(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.GreaterOrEqual(t, s.most, -s.debts-s.slack(), "P1: more was admitted than the bucket held")
	require.LessOrEqual(t, netOf(s.pool(t), s.time.instant()), s.most+s.slack(), "P6: something was minted")
}

// pool is the bucket under the settings that hold.
func (s *simulation) pool(t *testing.T) bucket.Pool {
	t.Helper()
	settings, err := s.w.limits.Resolve(t.Context(), s.w.ns, "e", "gpt-4")
	require.NoError(t, err)
	return treeInForce(s.time.instant(), s.w.tree(t, "e"), &settings).Pool("rpm")
}

func (s *simulation) available(t *testing.T) int64 {
	t.Helper()
	return s.pool(t).Available(s.time.instant())
}

// netOf is what all shards hold together, the debts of some taken from it, in millitokens.
func netOf(p bucket.Pool, now bucket.Instant) (sum int64) {
	for _, shard := range p.Shards {
		sum += p.Limit.Window(shard.Shard, now).Balance(shard.Drawn)
	}
	return sum
}

// check takes all that the bucket holds, and waits for more of it.
func (s *simulation) check(t *testing.T) {
	t.Helper()
	take := func(tokens int64) bool {
		ok := admits(t, s.checker.spend(s.w, "e", tokens))
		if ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.took(tokens)
		}
		return ok
	}
	if held := bucket.Floor(s.available(t)); held > 0 {
		require.True(t, take(held), "P2: the shards together hold %d tokens", held)
	}
	res := s.checker.spend(s.w, "e", 3)
	require.False(t, admits(t, res))
	_, wait, _ := res.verdictOf(api.Amounts{{Name: "rpm", Tokens: 3}})
	require.Positive(t, wait)
	s.pass(time.Duration(wait-1) * time.Millisecond)
	require.False(t, take(3), "P4: %d ms were one too many", wait)
	s.pass(time.Millisecond)
	require.True(t, take(3), "P4: it should pass after %d ms", wait)
	s.bounds(t)
}

// becomesWhole merges what is left of the shards.
func (s *simulation) becomesWhole(t *testing.T) {
	t.Helper()
	for _, at := range s.slots {
		require.NoError(t, at.node.stop())
	}
	var subcalls []subcall
	for _, b := range s.w.tree(t, "e") {
		key := s.w.bucketKey("e")
		key.Shard = b.Key.Shard
		subcalls = append(subcalls, subcall{s.checker.router.member(key), operation{peek: true, sync: true, part: true}})
	}
	for _, res := range s.checker.doAt(subcalls...) {
		require.NoError(t, res.err)
	}
	before := s.available(t)
	s.w.merge(t, "e", 1)
	require.LessOrEqual(t, s.available(t), before)
	s.pass(simCapacity * time.Second)
	require.True(t, admits(t, s.checker.spend(s.w, "e", 40)))
}
