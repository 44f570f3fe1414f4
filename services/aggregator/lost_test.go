package aggregator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// moment runs do before the nth request, the first being 0.
type moment struct {
	next aws.HTTPClient
	do   func()

	mu sync.Mutex
	n  int // guarded by mu
}

func (m *moment) Do(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	if m.n--; m.n == -1 {
		m.do()
	}
	m.mu.Unlock()
	return m.next.Do(r)
}

// operator changes namespaces by way of a transport.
func (w *world) operator(via aws.HTTPClient) *config.NamespaceOperator {
	now := func() (time.Time, error) { return time.Now(), nil }
	db := dynamodb.NewFromConfig(engine.Config(via, "us-east-1"))
	return config.NewNamespaceOperator(config.NewNamespaces(db, w.Table), audit.NewLog(db, w.Table, now, audit.IndexLag(5*time.Millisecond)), now)
}

// purge deletes the namespace of the world, and purges it to the end.
func (w *world) purge(t testing.TB, o *config.NamespaceOperator) {
	t.Helper()
	_, err := o.Delete(t.Context(), "acme", api.Principal{})
	require.NoError(t, err)
	for done := false; !done; {
		reply, err := o.Purge(t.Context(), "acme", api.Principal{})
		require.NoError(t, err)
		done = reply.Done
	}
}

// purged leaves the table as a purge does that is done.
func (w *world) purged(t testing.TB) {
	t.Helper()
	for _, u := range w.snapshots(t) {
		_, err := w.Direct.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.Table, Key: table.KeyItem(u.Key.Key())})
		require.NoError(t, err)
	}
	version := keys.Version{Namespace: ns}
	_, err := w.Direct.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &w.Table, Key: table.KeyItem(version.Key())})
	require.NoError(t, err)
	_, err = w.Direct.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: table.RemoveNamespaceItems(w.Table, table.Namespace{Name: "acme", ID: ns}),
	})
	require.NoError(t, err)
}

// nothingIsLeft fails where the table has anything of the namespace.
func (w *world) nothingIsLeft(t testing.TB) {
	t.Helper()
	out, err := w.Direct.Scan(t.Context(), &dynamodb.ScanInput{TableName: &w.Table})
	require.NoError(t, err)
	for _, item := range out.Items {
		k, err := table.KeyOf(item)
		require.NoError(t, err)
		require.False(t, strings.HasPrefix(k.PK, ns+"/"), "left of the purged namespace: %s %s", k.PK, k.SK)
	}
}

// late is a history whose first record is counted, and whose others come late: one changes
// the snapshots that are there, one makes others.
func (w *world) late(t testing.TB) *history {
	t.Helper()
	h := newHistory(1)
	h.one("alice", 0)
	h.one("alice", 0)
	h.at = h.at.Add(25 * time.Hour)
	h.one("alice", 0)
	require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records[0])))
	return h
}

// A batch that comes late, at any moment of a purge or behind it, leaves nothing of the
// namespace.
func TestALateBatchBringsNothingBack(t *testing.T) {
	for n, more := 0, true; more; n += 7 {
		more = n < 100 // a purge makes some 90 requests
		t.Run(fmt.Sprintf("before request %d", n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			h := w.late(t)
			applied := false
			m := &moment{next: w.Faults, n: n, do: func() {
				applied = true
				require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records[1:]...)))
			}}
			w.purge(t, w.operator(m))
			if !applied {
				m.do()
			}
			w.nothingIsLeft(t)
			require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)), "given once more")
			w.nothingIsLeft(t)
		})
	}
}

// An aggregator that hangs at any of its requests while the namespace is purged, and while
// another takes its batch over, leaves nothing of it when it goes on.
func TestAnAggregatorThatHangsBringsNothingBack(t *testing.T) {
	for _, takenOver := range []bool{false, true} {
		for n := range 10 {
			t.Run(fmt.Sprintf("at request %d, taken over %t", n, takenOver), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				h := w.late(t)
				here, open, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				c := w.counterVia(t, &moment{next: w.Faults, n: n, do: func() {
					close(here)
					<-open
				}})
				c.writes, c.store.timeout = 1, time.Minute
				go func() { ended <- c.apply(context.Background(), batch(h.records[1:]...)) }()
				select {
				case <-here:
				case err := <-ended:
					require.NoError(t, err)
				}
				w.purge(t, w.operator(w.Faults))
				if takenOver {
					require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records...)))
				}
				close(open)
				if len(here) == 0 {
					select {
					case <-here:
						require.NoError(t, <-ended)
					default: // it has ended before
					}
				}
				w.nothingIsLeft(t)
			})
		}
	}
}

// Whatever becomes of the requests of an aggregator that comes late, its batch is given
// until it is done, and then nothing is left.
func TestFailuresOfALateBatch(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"failed": fault.InternalError(), "failed, but applied": fault.InternalErrorAfter(), "reply lost": {Kind: fault.ReplyLost},
		"reply hangs": {Kind: fault.ReplyHangs}, "throttled": fault.Throttling(),
		"late": {Kind: fault.Late, Delay: 100 * time.Millisecond, Err: errors.New("the connection was lost")},
	} {
		for operation, most := range map[string]int{"UpdateItem": 4 * attempts, "GetItem": 2, "DeleteItem": 4} {
			for n := range most {
				t.Run(fmt.Sprintf("%s %s %d", operation, name, n), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					h := w.late(t)
					w.purged(t)
					w.Fail(operation, append(make([]fault.Fault, n), f, f)...)
					c := w.counter(t)
					for given := 0; c.apply(t.Context(), batch(h.records[1:]...)) != nil; given++ {
						require.Less(t, given, 10)
					}
					w.Faults.Wait()
					w.nothingIsLeft(t)
				})
			}
		}
	}
}

// straggler loses the first write and brings it behind the deletion of its snapshot.
type straggler struct {
	next aws.HTTPClient

	mu   sync.Mutex
	lost *http.Request // guarded by mu
	key  string        // guarded by mu: of its snapshot
	came bool          // guarded by mu
}

func (s *straggler) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	operation := r.Header.Get("X-Amz-Target")
	if s.lost == nil && strings.HasSuffix(operation, ".UpdateItem") {
		s.lost, s.key = r.Clone(context.Background()), window(body)
		s.lost.Body = r.Body
		return nil, io.ErrUnexpectedEOF
	}
	reply, err := s.next.Do(r)
	if !s.came && strings.HasSuffix(operation, ".DeleteItem") && window(body) == s.key {
		s.came = true
		late, err := s.next.Do(s.lost)
		if err != nil {
			return nil, err
		}
		if err := late.Body.Close(); err != nil {
			return nil, err
		}
	}
	return reply, err
}

// window is which snapshot of an entity a request is for.
func window(body []byte) string {
	_, rest, _ := bytes.Cut(body, []byte("#USAGE#"))
	key, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(key)
}

// A write whose answer was lost, and that arrives behind the deletion, is deleted too.
func TestAWriteBehindTheDeletionIsDeletedToo(t *testing.T) {
	w := newWorld(t)
	h := w.late(t)
	w.purged(t)
	s := &straggler{next: w.Faults}
	require.NoError(t, w.counterVia(t, s).apply(t.Context(), batch(h.records[1:]...)))
	require.True(t, s.came)
	w.nothingIsLeft(t)
}

// A throttled write was certainly not applied, so that nothing arrives after the deletion.
func TestAThrottledWriteCallsForNoSecondDeletion(t *testing.T) {
	deletions := func(faults ...fault.Fault) int {
		w := newWorld(t)
		h := w.late(t)
		w.purged(t)
		w.Fail("UpdateItem", faults...)
		require.NoError(t, w.counter(t).apply(t.Context(), batch(h.records[1])))
		w.nothingIsLeft(t)
		return w.Calls("DeleteItem")
	}
	once := deletions()
	require.Equal(t, once, deletions(fault.Throttling(), fault.TransactionConflict()))
	require.Greater(t, deletions(fault.InternalErrorAfter()), once, "the outcome is unknown")
}

// A namespace that is deleted, and may be recovered, keeps its usage, also what comes late.
func TestADeletedNamespaceKeepsItsUsage(t *testing.T) {
	w := newWorld(t)
	h, o := w.late(t), w.operator(w.Faults)
	_, err := o.Delete(t.Context(), "acme", api.Principal{})
	require.NoError(t, err)
	c := w.counter(t)
	require.NoError(t, c.apply(t.Context(), batch(h.records[:2]...)))
	_, err = o.Recover(t.Context(), "acme", api.Principal{})
	require.NoError(t, err)
	require.NoError(t, c.apply(t.Context(), batch(h.records...)))
	h.mustBeCounted(t, w)
}

// The backlog of a namespace that is known to be lost is not written.
func TestABacklogOfALostNamespaceIsNotWritten(t *testing.T) {
	w := newWorld(t)
	h, c := w.late(t), w.counter(t)
	w.purged(t)
	require.NoError(t, c.apply(t.Context(), batch(h.records[1])))
	writes, reads := w.Calls("UpdateItem"), w.Calls("GetItem")
	require.NoError(t, c.apply(t.Context(), batch(h.records[2])))
	require.Equal(t, []int{writes, reads}, []int{w.Calls("UpdateItem"), w.Calls("GetItem")})
	w.nothingIsLeft(t)
}

// That a namespace lives is read once for each batch that makes snapshots, and for no other.
func TestOnlyNewSnapshotsCostALook(t *testing.T) {
	w, h := newWorld(t), newHistory(1)
	c := w.counter(t)
	looks := func() int {
		for i := range 50 {
			h.one(fmt.Sprintf("entity-%d", i), 0)
		}
		before := w.Calls("GetItem")
		require.NoError(t, c.apply(t.Context(), batch(h.records[len(h.records)-50:]...)))
		return w.Calls("GetItem") - before
	}
	require.Equal(t, 1, looks())
	require.Zero(t, looks())
	h.at = h.at.Add(time.Hour)
	require.Equal(t, 1, looks())
}
