// Package tabletest gives a test a table of its own: the real definition on the
// embedded engine, reached by the unmodified SDK client through a transport
// that can make things go wrong.
//
//	b := tabletest.New(t)
//	b.Fail("TransactWriteItems", fault.Fault{Kind: fault.ReplyLost})
//	store := config.NewLimitStore(b.DB, b.Table, audit.NewLog(b.DB, b.Table, b.Now))
//	_, err := store.Set(ctx, ns, by, request)
package tabletest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
)

// Bench is a table with its clients and a fault transport.
type Bench struct {
	DB     *dynamodb.Client // through Faults; the SDK makes no attempts of its own beyond the first
	Direct *dynamodb.Client // past all faults
	Faults *fault.Transport
	Table  string
	Now    func() (time.Time, error) // the store's time, as audit logs take it

	mu      sync.Mutex
	planned map[string][]fault.Fault // guarded by mu; by operation
	before  map[string]func()        // guarded by mu; by operation
}

// New makes a table that is empty.
func New(t testing.TB) *Bench {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }
	return Behind(t, engine.New(engine.Options{Now: now}).HTTPClient(), now)
}

// Stale is New on a running clock, for example the clock of a testing/synctest bubble.
// Index reads may lag behind writes of DB by up to upTo; writes of Direct are in the
// indexes at once.
func Stale(t testing.TB, now func() time.Time, upTo time.Duration) *Bench {
	t.Helper()
	embedded := engine.New(engine.Options{Now: now}).HTTPClient()
	return with(t, fault.Options{Next: embedded, Now: now, Stale: fault.Stale{UpTo: upTo}, Seed: rand.Uint64()})
}

// Behind is New on a back end of the test's own.
func Behind(t testing.TB, backend http.RoundTripper, now func() time.Time) *Bench {
	t.Helper()
	return with(t, fault.Options{Next: backend, Now: now})
}

func with(t testing.TB, o fault.Options) *Bench {
	t.Helper()
	now := o.Now
	b := &Bench{
		Faults:  fault.New(o),
		Table:   "tidegate-test",
		Now:     func() (time.Time, error) { return now(), nil },
		planned: map[string][]fault.Fault{},
		before:  map[string]func(){},
	}
	b.Faults.Match(b.next)
	once := func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
	b.DB = dynamodb.NewFromConfig(engine.Config(b.Faults, "us-east-1"), once)
	b.Direct = dynamodb.NewFromConfig(engine.Config(&http.Client{Transport: o.Next}, "us-east-1"), once)
	_, err := b.Direct.CreateTable(t.Context(), table.Definition(b.Table))
	require.NoError(t, err)
	return b
}

// Fail injects these faults into the next requests of an operation, such as
// "UpdateItem": a fault for each request, in order. The zero Fault lets a request pass.
func (b *Bench) Fail(operation string, faults ...fault.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.planned[operation] = append(b.planned[operation], faults...)
}

// Forgive drops the faults that are still to be met by an operation.
func (b *Bench) Forgive(operation string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.planned, operation)
}

// Before runs do before the next request of an operation arrives. In do, use Direct
// for requests to the table; do may call Before again.
func (b *Bench) Before(operation string, do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before[operation] = do
}

// EndAt returns a context that ends, as by a deadline, the duration while after the
// nth request of an operation arrives. So a test need not guess the duration of the
// other requests. It uses Before.
func (b *Bench) EndAt(ctx context.Context, operation string, n int, while time.Duration) context.Context {
	e := &ending{Context: ctx, over: make(chan struct{})}
	var count func()
	count = func() {
		if n--; n > 0 {
			b.Before(operation, count)
		} else {
			time.AfterFunc(while, func() { close(e.over) })
		}
	}
	b.Before(operation, count)
	return e
}

// ending is a context that ends with DeadlineExceeded when over is closed.
type ending struct {
	context.Context //nolint:containedctx // it is a context
	over            chan struct{}
}

func (e *ending) Done() <-chan struct{} { return e.over }

func (e *ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Calls returns the number of requests of an operation, including failed requests; if
// operation is empty, of all operations.
func (b *Bench) Calls(operation string) int {
	if operation == "" {
		return int(b.Faults.Total().Calls)
	}
	return int(b.Faults.Counts()[operation].Calls)
}

func (b *Bench) next(operation string, _ []byte) fault.Fault {
	b.mu.Lock()
	do := b.before[operation]
	delete(b.before, operation)
	b.mu.Unlock()
	if do != nil {
		do()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	planned := b.planned[operation]
	if len(planned) == 0 {
		return fault.Fault{}
	}
	b.planned[operation] = planned[1:]
	return planned[0]
}
