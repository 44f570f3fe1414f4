package deploy_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	tidegate "github.com/tidegate/tidegate/pkg/client"
)

var linearRounds = flag.Int("linear.rounds", 2, "how many histories TestABucketIsLinearizable records, each with a kill")

const (
	linearClients  = 4
	linearRequests = 10 // of a client
	linearCapacity = 8  // tokens; a day regains as many
	linearPatience = 700 * time.Millisecond
	// linearCheck bounds the search for an order of a history.
	linearCheck = 30 * time.Second
)

// linearHistory records what callers asked of a bucket, and were told.
type linearHistory struct {
	entity string
	client *tidegate.Client
	began  time.Time

	mu         sync.Mutex
	operations []porcupine.Operation // guarded by mu
	killed     time.Duration         // guarded by mu; when a node was killed; 0: not yet
	ended      bool                  // guarded by mu: the kill is over
}

// Acquires, adjusts and releases on a bucket have an order in which each has the outcome that its
// caller was told, while a node that carries them out is killed. Outcomes that a caller
// does not know may be either.
func TestABucketIsLinearizable(t *testing.T) {
	s := newStack(t, project(t, nil))
	nodes := []*process{s.start(t, "admission-1"), s.start(t, "admission-2")}
	s.admin(t, "limits", "set", "--resource", resource, fmt.Sprintf("rpm=%d/day", linearCapacity))
	client := s.client(t, tidegate.WithTimeout(linearPatience))
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	outcomes := map[linearOutput]int{}
	for round := range *linearRounds {
		h := &linearHistory{entity: fmt.Sprintf("key-%d", round), client: client, began: time.Now()}
		var callers sync.WaitGroup
		for n := range linearClients {
			random := rand.New(rand.NewPCG(seed, uint64(1000*round+n+1)))
			callers.Go(func() { h.call(t, n, random) })
		}
		timer := time.NewTimer(time.Duration(20+random.IntN(150)) * time.Millisecond)
		<-timer.C
		victim := nodes[random.IntN(len(nodes))]
		h.kills(func() { s.kill(t, victim) })
		callers.Wait()
		victim.launch(t)
		h.drain(t)
		for _, o := range h.operations {
			outcomes[o.Output.(linearOutput)]++
		}
		h.check(t, seed, round)
	}
	t.Logf("seed %d: %v", seed, outcomes)
	require.NotZero(t, outcomes[outcomeDone])
	require.NotZero(t, outcomes[outcomeDenied])
}

// now returns the time since the history began.
func (h *linearHistory) now() time.Duration { return time.Since(h.began) }

// kills notes when a node is killed.
func (h *linearHistory) kills(kill func()) {
	h.mu.Lock()
	h.killed = h.now()
	h.mu.Unlock()
	kill()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
}

// note adds an operation. A settlement that a kill may have met is less sure than its
// answer: the credits of a killed node stay spent, and its debits may count twice.
func (h *linearHistory) note(client int, in linearInput, out linearOutput, call time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	returned := h.now()
	met := h.killed != 0 && call <= h.killed || h.killed != 0 && !h.ended || returned-call > linearPatience/2
	if met && out == outcomeDone {
		switch in.op {
		case linearCredit:
			out = outcomeUnsure
		case linearDebit:
			out = outcomeTwice
		case linearAcquire:
		}
	}
	h.operations = append(h.operations, linearOperation(client, in, out, call, returned))
}

// call is a caller, which settles what it acquires.
func (h *linearHistory) call(t *testing.T, client int, random *rand.Rand) {
	for range linearRequests {
		lease, tokens := h.acquire(t, client, 1+random.IntN(3))
		h.pause(random)
		if lease == nil {
			continue
		}
		if random.IntN(3) == 0 {
			if !h.settle(client, linearInput{linearDebit, 1}, func() error { return lease.Adjust(t.Context(), tidegate.Deltas{"rpm": 1}) }) {
				continue
			}
			tokens++
		}
		if random.IntN(3) == 0 {
			if !h.settle(client, linearInput{linearCredit, 1}, func() error { return lease.Adjust(t.Context(), tidegate.Deltas{"rpm": -1}) }) {
				continue
			}
			tokens--
		}
		h.pause(random)
		if random.IntN(4) > 0 && tokens > 0 {
			h.settle(client, linearInput{linearCredit, tokens}, func() error { return lease.Release(t.Context()) })
		}
	}
}

// pause lets other callers in.
func (h *linearHistory) pause(random *rand.Rand) {
	timer := time.NewTimer(time.Duration(random.IntN(20)) * time.Millisecond)
	<-timer.C
}

// linearDenials is how many denials of a history are checked. Each of them counts at any
// moment of a second, so that the search grows with the power of their number.
const linearDenials = 8

// checked returns the history with some of its denials only, the last among them. A history
// stays legal without a denial.
func (h *linearHistory) checked() (history []porcupine.Operation) {
	denials := 0
	for i := range slices.Backward(h.operations) {
		o := &h.operations[i]
		if o.Output != outcomeDenied {
			history = append(history, *o)
			continue
		}
		if denials%(1+len(h.operations)/linearDenials/2) == 0 {
			history = append(history, *o)
		}
		denials++
	}
	slices.Reverse(history)
	return history
}

// acquire returns the lease of what was admitted; nil if nothing was, or nobody knows.
func (h *linearHistory) acquire(t *testing.T, client, tokens int) (*tidegate.Lease, int) {
	t.Helper()
	in, call := linearInput{linearAcquire, tokens}, h.now()
	lease, err := h.client.Acquire(t.Context(), h.entity, resource, tidegate.Consume{"rpm": int64(tokens)})
	var denied *tidegate.DeniedError
	switch {
	case err == nil:
		h.note(client, in, outcomeDone, call)
		return lease, tokens
	case errors.As(err, &denied):
		h.note(client, in, outcomeDenied, call)
	case errors.Is(err, nats.ErrNoResponders): // nothing was asked
	default:
		h.note(client, in, outcomeUnsure, call)
	}
	return nil, 0
}

// settle reports whether the outcome of a settlement is known.
func (h *linearHistory) settle(client int, in linearInput, do func() error) bool {
	call := h.now()
	if err := do(); err != nil {
		h.note(client, in, outcomeUnsure, call)
		return false
	}
	h.note(client, in, outcomeDone, call)
	return true
}

// drain takes what is left, a token at a time: at the end the balance is known.
func (h *linearHistory) drain(t *testing.T) {
	t.Helper()
	pause := time.NewTimer(denialAge) // no state from before may deny
	<-pause.C
	for {
		lease, _ := h.acquire(t, linearClients, 1)
		if lease == nil {
			return
		}
	}
}

// check searches for an order of the operations, and leaves a picture of a history that has
// none.
func (h *linearHistory) check(t *testing.T, seed uint64, round int) {
	t.Helper()
	model := linearModel(linearCapacity)
	result, info := porcupine.CheckOperationsVerbose(model, h.checked(), linearCheck)
	if result == porcupine.Ok {
		return
	}
	picture := filepath.Join(os.TempDir(), fmt.Sprintf("tidegate-history-%d-%d.html", seed, round))
	require.NoError(t, porcupine.VisualizePath(model, info, picture))
	var told strings.Builder
	for _, o := range h.operations {
		_, _ = fmt.Fprintf(&told, "\n%2d %+v ──▶ %v from %v to %v", o.ClientId, o.Input, o.Output, time.Duration(o.Call), time.Duration(o.Return))
	}
	t.Fatalf("seed %d, round %d, a kill at %v: the checker says %q; a picture is in %s%s", seed, round, h.killed, result, picture, told.String())
}
