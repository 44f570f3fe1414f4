package deploy_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/loadgen"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// load plays an LLM trace with callers that do as callers should: they reserve,
// settle what it really cost, come again when a denial says so, and take down all
// that they know.
type load struct {
	clients  []*tidegate.Client
	rows     []loadgen.Row
	entities []string
	began    time.Time

	next     atomic.Int64 // row
	admitted atomic.Int64
	denied   atomic.Int64
	unknown  atomic.Int64 // acquires and settlements without an answer
	wrong    atomic.Pointer[error]

	mu      sync.Mutex
	entries map[string][]loadgen.Entry // guarded by mu; by entity
}

const (
	// callers are under way at once.
	callers = 24
	// estimate is what a request reserves for its answer, in tokens.
	estimate = 250
)

// trace is the real one, which test/e2e has.
func trace(t *testing.T) []loadgen.Row {
	t.Helper()
	rows, err := loadgen.ReadTraceFile(filepath.Join(root, "test", "e2e", "testdata", "AzureLLMInferenceTrace_conv.csv.gz"), 0)
	require.NoError(t, err)
	return rows
}

// run lets the callers call until ctx ends, and returns when they have settled.
func (l *load) run(ctx context.Context) {
	l.began, l.entries = time.Now(), map[string][]loadgen.Entry{}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				l.call(ctx, l.clients[i%len(l.clients)], int(l.next.Add(1)))
			}
		})
	}
	all.Wait()
}

// call plays one row of the trace.
func (l *load) call(ctx context.Context, client *tidegate.Client, n int) {
	row, entity := l.rows[n%len(l.rows)], l.entities[n%len(l.entities)]
	reserved := row.Context + estimate
	e := loadgen.Entry{
		Sent: time.Since(l.began), Admission: true,
		Amounts: api.Amounts{{Name: loadgen.LimitRequests, Tokens: 1}, {Name: loadgen.LimitTokens, Tokens: reserved}},
	}
	whole := context.WithoutCancel(ctx) // what has begun is settled; the client's timeout ends it
	lease, err := client.Acquire(whole, entity, resource, tidegate.Consume{loadgen.LimitRequests: 1, loadgen.LimitTokens: reserved})
	var denied *tidegate.DeniedError
	switch {
	case errors.As(err, &denied):
		l.denied.Add(1)
		pause(ctx, denied.Jittered())
		return
	case err != nil:
		l.without(ctx, err)
		return
	}
	e.Received = time.Since(l.began)
	l.enter(entity, e)
	l.admitted.Add(1)

	delta := row.Context + row.Generated - reserved
	if delta == 0 {
		return
	}
	e = loadgen.Entry{Sent: time.Since(l.began), Amounts: api.Amounts{{Name: loadgen.LimitTokens, Tokens: delta}}}
	err = lease.Adjust(whole, tidegate.Deltas{loadgen.LimitTokens: delta})
	if e.Received = time.Since(l.began); err != nil {
		e.Received = loadgen.Unknown
		l.without(ctx, err)
	}
	l.enter(entity, e)
}

// without is a call that nobody answered as asked: somebody was killed. Any other
// reason is wrong.
func (l *load) without(ctx context.Context, err error) {
	l.unknown.Add(1)
	var down *tidegate.UnavailableError
	var refused *tidegate.Error
	known := errors.As(err, &down) || errors.As(err, &refused) && slices.Contains([]api.Code{
		api.CodeUnavailable, api.CodeDeadlineExceeded,
		api.CodeLeaseConflict, // the node that settled was killed
	}, refused.Code)
	if !known {
		l.wrong.CompareAndSwap(nil, &err)
	}
	pause(ctx, 20*time.Millisecond)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (l *load) enter(entity string, e loadgen.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[entity] = append(l.entries[entity], e)
}

// goesOn waits until so many more are admitted.
func (l *load) goesOn(t *testing.T, more int64) {
	t.Helper()
	want := l.admitted.Load() + more
	require.Eventually(t, func() bool { return l.admitted.Load() >= want || l.wrong.Load() != nil }, patience, time.Millisecond, "nobody is admitted any more")
	if err := l.wrong.Load(); err != nil {
		require.NoError(t, *err)
	}
}

// all are the entries of the entities of a prefix.
func (l *load) all(prefix string) (entries []loadgen.Entry) {
	for entity, some := range l.entries {
		if strings.HasPrefix(entity, prefix) {
			entries = append(entries, some...)
		}
	}
	return entries
}
