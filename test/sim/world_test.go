package sim_test

import (
	"context"
	"encoding/binary"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/test/ledger"
	"github.com/tidegate/tidegate/test/sim/simnats"
	"github.com/tidegate/tidegate/test/sim/story"
)

// world is the whole system in a bubble of virtual time.
type world struct {
	t    *testing.T
	plan *plan
	rng  *rand.Rand // of the scheduler, and of nothing else

	engine  *engine.Engine
	faults  *fault.Transport
	fault   fault.Fault      // of the request that is being executed
	db      *dynamodb.Client // beside all faults
	nats    *simnats.Server
	archive *archive.Archive
	ns      string
	table   string
	log     slog.Handler

	agenda    agenda
	processes []*process // living and dead, in the order of their starts
	wake      chan struct{}

	mu      sync.Mutex
	calls   []*call      // guarded by mu
	ended   []*operation // guarded by mu: operations that have ended and are not yet in the account
	healing bool         // no disturbance strikes any more

	steps    int
	began    time.Time
	trace    hash.Hash64
	story    *story.Story
	counts   map[string]int // of disturbances
	usage    *ledger.Ledger
	account  *account
	work     *work
	failures []string
	debug    func(string)
}

// epoch is when the simulated time begins.
var epoch = time.Date(2026, 3, 1, 23, 50, 0, 0, time.UTC)

// newWorld builds the store and the server. It runs in a bubble.
func newWorld(t *testing.T, p *plan) *world {
	time.Sleep(time.Until(epoch))
	w := &world{
		t: t, plan: p, rng: rand.New(rand.NewPCG(p.Seed, 2)), table: table.DefaultName, log: slog.DiscardHandler, wake: make(chan struct{}, 1),
		began: time.Now(), trace: fnv.New64a(), story: story.New(), counts: map[string]int{}, usage: new(ledger.Ledger),
	}
	w.agenda.paused = map[string]time.Time{}
	w.account = newAccount(w)
	w.engine = engine.New(engine.Options{Now: time.Now, OnCommit: w.commit, Streams: engine.StreamOptions{ShardRecords: p.StreamRecords}})
	w.faults = fault.New(fault.Options{
		Next: w.engine.HTTPClient(), Now: time.Now, Seed: p.Seed, Stale: fault.Stale{UpTo: p.Faults.Stale},
		Sleep: func(context.Context, time.Duration) error { return nil },
	})
	w.faults.Match(func(string, []byte) fault.Fault { return w.fault })
	w.db = dynamodb.NewFromConfig(engine.Config(&http.Client{Transport: w.engine.HTTPClient()}, region))
	ctx := context.Background()
	require.NoError(t, table.CreateTable(ctx, w.db, w.table))
	var err error
	w.ns, err = config.NewNamespaces(w.db, w.table).Ensure(ctx, api.DefaultNamespace)
	require.NoError(t, err)
	w.archive = archive.New(memblob.OpenBucket(nil), "memory")
	w.nats = simnats.New(simnats.Options{Rand: rand.New(rand.NewPCG(p.Seed, 3)), Now: time.Now, Arrived: w.arrived})
	w.configure(ctx)
	w.work = newWork(w)
	return w
}

// configure stores entities and limits.
func (w *world) configure(ctx context.Context) {
	log := audit.NewLog(w.db, w.table, func() (time.Time, error) { return time.Now(), nil })
	entities, limits := config.NewEntityStore(w.db, w.table, log), config.NewLimitStore(w.db, w.table, log)
	for _, entity := range w.plan.entities() {
		_, err := entities.Create(ctx, w.ns, api.Principal{}, api.EntityCreateRequest{
			ID: entity, Parent: w.plan.Parents[entity], Cascade: w.plan.Parents[entity] != "",
		})
		require.NoError(w.t, err)
		_, err = limits.Set(ctx, w.ns, api.Principal{}, api.LimitsSetRequest{LimitsTarget: api.LimitsTarget{Entity: entity}, Limits: w.plan.Limits[entity]})
		require.NoError(w.t, err)
	}
}

// entities returns the entities, parents first.
func (p *plan) entities() []string {
	var all []string
	for entity := range p.Limits {
		all = append(all, entity)
	}
	slices.Sort(all)
	slices.SortStableFunc(all, func(a, b string) int {
		return min(1, len(p.Parents[a])) - min(1, len(p.Parents[b]))
	})
	return all
}

// arrived wakes the scheduler.
func (w *world) arrived() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// chance draws whether something of a probability happens.
func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

// disturbed reports whether disturbances of a kind may strike now.
func (w *world) disturbed(kind string) bool {
	return !w.healing && !w.plan.Without[kind] && w.steps >= w.plan.from && w.steps < w.plan.to && !w.plan.Faults.none()
}

func (w *world) struck(kind string) { w.counts[kind]++ }

// note adds an event to the trace: the same seed makes the same trace.
func (w *world) note(from, to, what string) {
	at := time.Since(w.began)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(at)) //nolint:gosec // time goes on
	_, _ = w.trace.Write(b[:])
	_, _ = w.trace.Write([]byte(from + ">" + to + ":" + what + "\n"))
	w.story.Add(story.Event{Step: w.steps, At: at, From: from, To: to, What: what})
	if w.debug != nil {
		w.debug(at.String() + " " + from + " > " + to + ": " + what)
	}
}

// fail reports a broken promise.
func (w *world) fail(promise, text string) {
	w.note("ledger", "ledger", "BROKEN "+promise+": "+text)
	w.failures = append(w.failures, promise+": "+text)
}
