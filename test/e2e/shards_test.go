package e2e_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission"
	"github.com/tidegate/tidegate/services/relay"
	"github.com/tidegate/tidegate/services/sharder"
)

// The whole of what divides buckets: admission nodes whose clocks disagree, sharders
// and relays, each of which is killed now and then, on a store that loses replies and
// throttles, while limits change and the load on one bucket comes and goes. Whatever
// happens,
//
//   - never more is admitted than the bucket could hold (P1),
//   - nothing is minted (P6),
//   - what its shards hold together is admitted (P2),
//   - usage is that of all shards that ever were (P7),
//   - and nothing is stuck: in the end the bucket is of one shard again.
func TestShardsComeAndGoAndTheBucketKeepsItsPromises(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	p := newDivided(t, seed)
	// More rounds where a slow machine has left the sharders no time.
	for round := 0; round < dividedRounds || p.largest <= 2 && round < 5*dividedRounds; round++ {
		p.round(t, round)
	}
	p.settle(t)
	t.Logf("admitted %d, denied %d, failed %d, given back %d; %d shards at most, %d processes killed",
		p.admitted.Load(), p.denied.Load(), p.failed.Load(), p.given.Load(), p.largest, p.kills)
	require.Greater(t, p.largest, 2, "the sharders have divided it")
	require.NotZero(t, p.admitted.Load())
	p.check(t)
}

const (
	dividedRounds   = 10
	dividedWorkers  = 4
	dividedRequests = 25 // of each worker in a round
	dividedCapacity = 3000
	dividedEntity   = "e"
	dividedSkew     = 50 * time.Millisecond
)

// divided is one play.
type divided struct {
	*world
	seed    uint64
	random  *rand.Rand // owned by the one who tells the rounds
	nodes   [3]*process
	relays  [2]*process
	sharder [2]*process
	started int // processes so far
	kills   int
	largest int // shards at once
	began   bucket.Instant

	admitted, denied, failed, given atomic.Int64 // tokens; requests

	mu     sync.Mutex
	leases []held // guarded by mu
}

type held struct {
	*tidegate.Lease
	tokens int64
}

func newDivided(t *testing.T, seed uint64) *divided {
	t.Helper()
	p := &divided{world: newWorld(t, options{}), seed: seed, random: rand.New(rand.NewPCG(seed, 0))}
	p.began = bucket.At(p.clock.now())
	p.limit(t, dividedCapacity)
	for i := range p.relays {
		p.relays[i] = p.startRelay(t)
	}
	for i := range p.sharder {
		p.sharder[i] = p.startSharder(t)
	}
	p.aggregator(t, "aggregator")
	for i := range p.nodes {
		p.nodes[i] = p.startNode(t, i)
	}
	return p
}

// limit stores another capacity; the rate stays.
func (p *divided) limit(t *testing.T, capacity int64) {
	t.Helper()
	p.setLimits(t, api.LimitsTarget{Resource: "gpt-4"}, api.Limit{Name: "rpm", Capacity: capacity, RefillAmount: dividedCapacity, RefillPeriodSeconds: 86400})
}

// way is a way to the store on which things go wrong.
func (p *divided) way() *fault.Transport {
	p.started++
	hot := fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange, Resource: "table/" + p.table})
	return fault.New(fault.Options{
		Next: p.engine.HTTPClient(), Now: p.clock.now, Seed: p.seed + uint64(p.started), Latency: fault.Uniform(0, time.Millisecond), //nolint:gosec // a count
		Chances: []fault.Chance{
			{Probability: .02, Fault: fault.Fault{Kind: fault.ReplyLost}},
			{Probability: .01, Fault: fault.InternalErrorAfter()},
			{Probability: .01, Fault: fault.InternalError()},
			{Probability: .01, Operations: []string{"UpdateItem"}, Fault: hot},
			{Probability: .03, Operations: []string{"TransactWriteItems"}, Fault: fault.TransactionConflict()},
			{Probability: .01, Fault: fault.Fault{Kind: fault.Unreachable}},
		},
	})
}

func (p *divided) startNode(t *testing.T, number int) *process {
	t.Helper()
	ahead := time.Duration(number-1) * dividedSkew
	n := &process{name: "admission", conn: p.connect(t), metrics: prometheus.NewRegistry()}
	source := func() store.ClockReading {
		r := p.clock.read()
		r.Wall = r.Wall.Add(ahead)
		return r
	}
	return n.admission(t, engine.Config(p.way(), region), p.table, source,
		admission.Tuning{StoreTimeout: 300 * time.Millisecond, FeedHeartbeat: 100 * time.Millisecond})
}

func (p *divided) startRelay(t *testing.T) *process {
	t.Helper()
	p.started++
	return p.relay(t, fmt.Sprintf("relay-%d", p.started), relay.Tuning{})
}

func (p *divided) startSharder(t *testing.T) *process {
	t.Helper()
	s := &process{conn: p.connect(t), metrics: prometheus.NewRegistry()}
	config := sharder.Config{
		NATS: s.conn, DynamoDB: engine.Config(p.way(), region), Table: p.table, Clock: p.clock.read,
		Log: slog.New(slog.DiscardHandler), Metrics: s.metrics,
		Tuning: sharder.Tuning{Look: 10 * time.Millisecond, Survey: time.Second, Feed: members()},
	}
	s.name = fmt.Sprintf("sharder-%d", p.started)
	config.Member = s.name
	service, err := sharder.New(config)
	require.NoError(t, err)
	return run(t, s, service)
}

// round is some time of load, in which things happen.
func (p *divided) round(t *testing.T, round int) {
	t.Helper()
	var working sync.WaitGroup
	for n := range dividedWorkers {
		random := rand.New(rand.NewPCG(p.seed, uint64(1000+round*dividedWorkers+n))) //nolint:gosec // a count
		c, err := tidegate.New(p.connect(t), tidegate.WithTimeout(time.Second))
		require.NoError(t, err)
		working.Go(func() {
			for range dividedRequests {
				p.request(t, c, random)
			}
		})
	}
	ended := make(chan struct{})
	go func() { defer close(ended); working.Wait() }()
	p.meddle(t, ended)
	if round%3 == 2 { // the load was elsewhere for a while
		p.clock.advance(11 * time.Minute)
	}
	if round%4 == 3 {
		p.limit(t, dividedCapacity/(1+p.random.Int64N(2)))
	}
}

// meddle reports load, lets time pass and kills processes until the round has ended.
func (p *divided) meddle(t *testing.T, ended chan struct{}) {
	t.Helper()
	reporter := p.connect(t)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		p.clock.advance(time.Duration(p.random.IntN(900)) * time.Millisecond)
		p.report(t, reporter, int64(p.random.IntN(4))*1500)
		if p.random.IntN(12) == 0 {
			p.kill(t)
		}
		tree, err := p.trees().Read(t.Context(), p.key(), 0)
		require.NoError(t, err)
		p.largest = max(p.largest, len(tree))
	}
}

// report is of a partition that threw writes back.
func (p *divided) report(t *testing.T, nc *nats.Conn, units int64) {
	t.Helper()
	now := p.clock.now().UnixMilli()
	data, err := events.EncodeLoad(&events.LoadReport{Node: "node", FromMs: now - 1000, ToMs: now, Loads: []events.Load{{Key: p.key(), FailedUnits: units}}})
	require.NoError(t, err)
	require.NoError(t, nc.Publish(events.LoadSubject, data))
}

// kill cuts a process off, and starts another in its place.
func (p *divided) kill(t *testing.T) {
	t.Helper()
	p.kills++
	switch i := p.random.IntN(7); {
	case i < 3:
		p.nodes[i].crash()
		p.nodes[i] = p.startNode(t, i)
	case i < 5:
		p.relays[i-3].crash()
		p.relays[i-3] = p.startRelay(t)
	default:
		p.sharder[i-5].crash()
		p.sharder[i-5] = p.startSharder(t)
	}
}

// request spends, or gives back what was spent.
func (p *divided) request(t *testing.T, c *tidegate.Client, random *rand.Rand) {
	t.Helper()
	if random.IntN(4) == 0 {
		p.giveBack(t)
		return
	}
	tokens := 1 + random.Int64N(3)
	if random.IntN(8) == 0 { // more than a share of many
		tokens = 100 + random.Int64N(400)
	}
	lease, err := c.Acquire(t.Context(), dividedEntity, "gpt-4", tidegate.Consume{"rpm": tokens})
	var denied *tidegate.DeniedError
	switch {
	case errors.As(err, &denied):
		p.denied.Add(1)
	case err != nil:
		p.failed.Add(1) // in doubt it is spent, and nobody may hold that against anyone
	default:
		p.admitted.Add(tokens)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.leases = append(p.leases, held{lease, tokens})
	}
}

// giveBack gives a lease back. From now on it may be there, whatever is answered.
func (p *divided) giveBack(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	if len(p.leases) == 0 {
		p.mu.Unlock()
		return
	}
	l := p.leases[0]
	p.leases = p.leases[1:]
	p.mu.Unlock()
	p.given.Add(l.tokens)
	if err := l.Release(t.Context()); err != nil {
		p.failed.Add(1)
	}
}

func (p *divided) key() keys.Bucket {
	return keys.Bucket{Namespace: p.ns, Entity: dividedEntity, Resource: "gpt-4"}
}

func (p *divided) trees() *shards.Store { return shards.NewStore(p.db, p.table, nil, nil) }

// settle lets the load be elsewhere until the bucket is of one shard.
func (p *divided) settle(t *testing.T) {
	t.Helper()
	p.limit(t, dividedCapacity)
	require.Eventually(t, func() bool {
		p.clock.advance(time.Minute)
		tree, err := p.trees().Read(t.Context(), p.key(), 0)
		require.NoError(t, err)
		return len(tree) == 1 && tree.Wanted() == 1
	}, patience, 100*time.Millisecond, "the bucket stays divided")
}

// check holds what was admitted, and what is left, against what the bucket could hold.
func (p *divided) check(t *testing.T) {
	t.Helper()
	rate := bucket.Limit{Refill: dividedCapacity * bucket.Milli, Period: 86_400_000}
	could := func() int64 {
		now := bucket.At(p.clock.now())
		return dividedCapacity + bucket.Floor(rate.Refilled(now)-rate.Refilled(p.began)) + 2
	}
	require.LessOrEqual(t, p.admitted.Load(), could()+p.given.Load(), "P1: more was admitted than capacity, refill and credits")

	// Nodes that nothing happens to, so that what they answer is what there is.
	for _, n := range p.nodes {
		n.leave(t)
	}
	p.admission(t)
	c := p.client(t)
	status, err := c.Status(t.Context(), dividedEntity, "gpt-4", nil)
	require.NoError(t, err)
	left := status.Limits[0].Available
	require.LessOrEqual(t, left+p.admitted.Load()-p.given.Load(), could(), "P6: something was minted")
	require.Positive(t, left)
	lease, err := c.Acquire(t.Context(), dividedEntity, "gpt-4", tidegate.Consume{"rpm": left})
	require.NoError(t, err, "P2: what it holds is admitted")
	require.NotNil(t, lease)
	p.mustBeCounted(t)
}
