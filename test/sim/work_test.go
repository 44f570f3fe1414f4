package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/keys"
)

// operation is a call of a caller or of an operator.
type operation struct {
	number         int
	kind           kind
	place          place
	amounts        map[string]int64 // costs, or deltas of an adjust
	lease          *held
	sent, received time.Time
	err            error
	made           *tidegate.Lease // by an acquire
}

type kind string

// The kinds of operations.
const (
	acquire kind = "acquire"
	adjust  kind = "adjust"
	release kind = "release"
	status  kind = "status"
	reshard kind = "reshard"
	change  kind = "change limits"
)

// place is a bucket.
type place struct{ entity, resource string }

// held is a lease that a caller has.
type held struct {
	lease    *tidegate.Lease
	by       *operation // the acquire
	caller   int
	place    place
	busy     bool // an operation is under way
	released bool // a release was attempted
}

// work makes operations.
type work struct {
	world    *world
	rng      *rand.Rand
	callers  []*process
	clients  []*tidegate.Client
	operator *process
	trees    *shards.Store
	next     time.Time // when the next operation begins; zero: none
	made     int
	running  int
	leases   []*held
	pace     time.Duration
	nonces   int
	split    map[place]int // how many shards an operator has wanted
}

// running operations and leases are bounded.
const (
	maxRunning = 48
	maxLeases  = 40
)

func newWork(w *world) *work {
	k := &work{world: w, rng: rand.New(rand.NewPCG(w.plan.Seed, 4)), pace: w.plan.Pace, split: map[place]int{}}
	return k
}

// open connects clients and starts the work.
func (k *work) open() error {
	for _, p := range k.callers {
		c, err := tidegate.New(p.nats, tidegate.WithTimeout(2*time.Second))
		if err != nil {
			return err
		}
		k.clients = append(k.clients, c)
	}
	k.operator = k.world.newProcess("operator", 1)
	k.operator.dead = false
	close(k.operator.ended)
	db := dynamodb.NewFromConfig(engine.Config(gate{k.operator}, region), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	now := func() (bucket.Instant, error) { return bucket.At(time.Now()), nil }
	k.trees = shards.NewStore(db, k.world.table, now, func() string {
		k.nonces++
		return "sim." + strconv.Itoa(k.nonces)
	})
	k.next = time.Now()
	return nil
}

func (k *work) due(now time.Time) bool { return !k.next.IsZero() && !now.Before(k.next) }

// stop begins no more operations.
func (k *work) stop() { k.next = time.Time{} }

// begin starts an operation, and sets when the next begins.
func (k *work) begin() {
	if k.made%100 == 0 { // calm and busy times
		k.pace = time.Duration(float64(k.world.plan.Pace) * []float64{.05, .3, 1, 3, 30}[k.rng.IntN(5)])
	}
	k.next = time.Now().Add(time.Duration(float64(k.pace)*-math.Log(1-k.rng.Float64())) + 1)
	if k.running >= maxRunning {
		return
	}
	op := k.draw()
	if op == nil {
		return
	}
	k.made++
	k.running++
	op.number, op.sent = k.made, time.Now()
	k.start(op)
}

// draw chooses an operation.
func (k *work) draw() *operation {
	r := k.rng.Float64()
	switch {
	case r < .35 && len(k.leases) > 0 || len(k.leases) >= maxLeases:
		return k.drawSettlement()
	case r > .98 && k.world.plan.Shards > 1:
		return &operation{kind: reshard, place: k.drawPlace()}
	case r > .975 && k.world.plan.Changes:
		op := &operation{kind: change, place: k.drawPlace()}
		return op
	case r > .96:
		return &operation{kind: status, place: k.drawPlace()}
	}
	op := &operation{kind: acquire, place: k.drawPlace(), amounts: map[string]int64{}}
	for _, l := range k.world.account.limitsOf(op.place.entity) {
		if k.rng.IntN(4) > 0 {
			op.amounts[l.Name] = k.rng.Int64N(max(1, l.Capacity*[]int64{1, 3, 12}[k.rng.IntN(3)]/10) + 1)
		}
	}
	if len(op.amounts) == 0 {
		op.amounts["rpm"] = 1
	}
	return op
}

func (k *work) drawPlace() place {
	entities := k.world.plan.entities()
	at := place{entities[0], []string{"gpt-4", "gpt-4", "mini"}[k.rng.IntN(3)]}
	if k.rng.Float64() > k.world.plan.Hot {
		at.entity = entities[k.rng.IntN(len(entities))]
	}
	return at
}

// drawSettlement chooses a lease and what becomes of it, nil if all are busy.
func (k *work) drawSettlement() *operation {
	h := k.leases[k.rng.IntN(len(k.leases))]
	if h.busy {
		return nil
	}
	h.busy = true
	if k.rng.IntN(3) == 0 {
		return &operation{kind: release, place: h.place, lease: h}
	}
	op := &operation{kind: adjust, place: h.place, lease: h, amounts: map[string]int64{}}
	for _, l := range h.lease.Limits() {
		if _, ours := op.amounts[l.Name]; !ours && l.Entity == h.place.entity && k.rng.IntN(2) == 0 {
			op.amounts[l.Name] = k.rng.Int64N(2*l.Capacity/5+2) - l.Capacity/5 - 1
		}
	}
	for name, n := range op.amounts {
		if n == 0 {
			delete(op.amounts, name)
		}
	}
	if len(op.amounts) == 0 {
		op.kind, op.amounts = release, nil
	}
	return op
}

// start executes an operation in the background.
func (k *work) start(op *operation) {
	number := op.number % len(k.clients)
	if op.lease != nil {
		number = op.lease.caller
	}
	client, timeout := k.clients[number], []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, 8 * time.Second}[k.rng.IntN(4)]
	var do func(ctx context.Context) error
	switch op.kind {
	case acquire:
		do = func(ctx context.Context) (err error) {
			op.made, err = client.Acquire(ctx, op.place.entity, op.place.resource, op.amounts)
			return err
		}
	case adjust:
		do = func(ctx context.Context) error { return op.lease.lease.Adjust(ctx, op.amounts) }
	case release:
		op.lease.released = true
		do = func(ctx context.Context) error { return op.lease.lease.Release(ctx) }
	case status:
		do = func(ctx context.Context) error {
			_, err := client.Status(ctx, op.place.entity, op.place.resource, nil)
			return err
		}
	case reshard:
		timeout, do = 10*time.Second, k.reshard(op.place)
	case change:
		timeout, do = 10*time.Second, k.change(client, op.place)
	}
	k.world.account.begins(op)
	k.world.note(k.callers[number].name, k.callers[number].name, fmt.Sprintf("operation %d begins: %s %s %s %v", op.number, op.kind, op.place.entity, op.place.resource, op.amounts))
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		op.err = do(ctx)
		w := k.world
		w.mu.Lock()
		op.received = time.Now()
		w.ended = append(w.ended, op)
		w.mu.Unlock()
		w.arrived()
	}()
}

// reshard doubles the shards of a bucket, or takes them back to one.
func (k *work) reshard(at place) func(ctx context.Context) error {
	wanted := max(1, k.split[at])
	key := keys.Bucket{Namespace: k.world.ns, Entity: at.entity, Resource: at.resource}
	if wanted >= k.world.plan.Shards {
		k.split[at] = 1
		return func(ctx context.Context) error {
			_, err := k.trees.Shrink(ctx, key, 1)
			return err
		}
	}
	k.split[at] = 2 * wanted
	return func(ctx context.Context) error {
		_, err := k.trees.Double(ctx, key, wanted)
		return err
	}
}

// change sets other limits of an entity.
func (k *work) change(client *tidegate.Client, at place) func(ctx context.Context) error {
	limits := slices.Clone(k.world.account.limitsOf(at.entity))
	for i := range limits {
		limits[i].Capacity = max(1, limits[i].Capacity*int64(50+k.rng.IntN(150))/100)
		limits[i].RefillAmount = max(1, limits[i].RefillAmount*int64(50+k.rng.IntN(150))/100)
	}
	k.world.account.changes(at.entity, limits)
	return func(ctx context.Context) error {
		_, err := client.Admin().SetLimits(ctx, api.LimitsSetRequest{LimitsTarget: api.LimitsTarget{Entity: at.entity}, Limits: limits})
		return err
	}
}

// ends takes an operation in that has ended.
func (k *work) ends(op *operation) {
	k.running--
	if op.lease != nil {
		op.lease.busy = false
		if op.kind == release && (op.err == nil || k.rng.IntN(2) == 0) {
			k.leases = slices.DeleteFunc(k.leases, func(h *held) bool { return h == op.lease })
		}
	}
	if op.made != nil && !op.made.Degraded() {
		if len(k.leases) >= maxLeases {
			k.leases = k.leases[1:]
		}
		k.leases = append(k.leases, &held{lease: op.made, by: op, caller: op.number % len(k.clients), place: op.place})
	}
}

// outcome describes how an operation ended, the same in every run.
func (op *operation) outcome() string {
	var denied *tidegate.DeniedError
	var refused *api.Error
	switch {
	case op.err == nil:
		return "ok"
	case errors.As(op.err, &denied):
		if denied.Never {
			return "denied for ever"
		}
		return "denied for " + denied.RetryAfter.String()
	case errors.As(op.err, &refused):
		return "refused: " + string(refused.Code)
	case errors.Is(op.err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return "failed"
}
