package admission

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
)

// notes is a recorder that keeps all it is told.
type notes struct {
	mu             sync.Mutex
	denials        int                // guarded by mu
	refusedUnits   int64              // guarded by mu
	throttledUnits int64              // guarded by mu
	dearest        []map[string]int64 // guarded by mu
	items          []*table.Bucket    // guarded by mu
	countedWrites  int                // guarded by mu
}

func (n *notes) learned() {}

func (n *notes) denied() { n.mu.Lock(); defer n.mu.Unlock(); n.denials++ }

func (n *notes) refused(units int64) { n.mu.Lock(); defer n.mu.Unlock(); n.refusedUnits += units }

func (n *notes) throttled(units int64, dearest map[string]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.throttledUnits += units
	n.dearest = append(n.dearest, dearest)
}

func (n *notes) written(item *table.Bucket, counted bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.items = append(n.items, item)
	if counted {
		n.countedWrites++
	}
}

// patient is the origin of calls that wait as long as tests do.
type patient struct{}

func (patient) id() string { return "patient" }

func (patient) traceSpan() trace.Span { return nil }

func (patient) isAnswered() bool { return false }

// loneWriter is a writer of a shard of e that no router knows.
type loneWriter struct {
	*writer
	*notes
}

func newLoneWriter(w *world, n *node, shard int) loneWriter {
	key := w.bucketKey("e")
	key.Shard = shard
	l := loneWriter{new(writer), new(notes)}
	l.init(n.env, key, l.notes)
	return l
}

func (l loneWriter) asker() asker {
	now := l.env.clock.Mono()
	return asker{request: patient{}, received: now, deadline: now + patience, answerBy: now + patience}
}

// do returns the answer to an operation.
func (l loneWriter) do(t *testing.T, op operation) shardResult {
	t.Helper()
	done := make(chan shardResult, 1)
	require.True(t, l.submit(&call{operation: op, asker: l.asker(), caller: told(func(res shardResult) { done <- res })}))
	return <-done
}

func rpmAmount(tokens int64) api.Amounts { return api.Amounts{{Name: "rpm", Tokens: tokens}} }

func TestAWriterOfADividedBucketSaysSoAndSpendsNothing(t *testing.T) {
	w := shardedWorld(t, 100, 2)
	l := newLoneWriter(w, w.node(t, Tuning{}), 0)
	before := w.leftOf(t, "e", "rpm")
	for range 2 { // whether it knew before or not
		res := l.do(t, operation{amounts: rpmAmount(1)})
		require.NoError(t, res.err)
		require.Equal(t, verdictDivided, res.verdict)
	}
	require.InDelta(t, before, w.leftOf(t, "e", "rpm"), 100)
	require.Equal(t, verdictCommit, l.do(t, operation{amounts: rpmAmount(1), part: true}).verdict, "a part is for this shard")
	require.Len(t, l.items, 1)
}

func TestAWriterOfAShardThatIsGoneSaysSo(t *testing.T) {
	w := shardedWorld(t, 100, 1)
	l := newLoneWriter(w, w.node(t, Tuning{}), 1)
	require.Equal(t, verdictMoved, l.do(t, operation{amounts: rpmAmount(1), part: true}).verdict)
	require.Equal(t, verdictMoved, l.do(t, operation{settle: true, amounts: rpmAmount(1)}).verdict)

	l.env.unsettled.Add(1)
	defer l.env.unsettled.Add(-1)
	refunds := make(chan *call, 1)
	l.refund(newRefund(operation{amounts: rpmAmount(-1)}, l.env.clock.Mono(), waiter{patient{}, func(shardResult) {}}, handedBack(refunds)))
	again := <-refunds
	require.Equal(t, rpmAmount(-1), again.amounts, "with the tokens that its parent shard shall get")
	require.Len(t, again.waiters, 1)
	require.Empty(t, l.items)
}

// handedBack takes the sums of refunds that a writer hands back.
type handedBack chan *call

func (handedBack) prepare(shardResult) {}

func (h handedBack) finish(q *call, res shardResult) {
	if res.verdict == verdictMoved {
		h <- q.again()
	}
}

func TestAWriterRecordsLoadAndDebt(t *testing.T) {
	w := shardedWorld(t, 3, 1)
	n := w.node(t, Tuning{})
	l := newLoneWriter(w, n, 0)
	require.Equal(t, verdictCommit, l.do(t, operation{amounts: rpmAmount(2)}).verdict)
	require.Equal(t, verdictDeny, l.do(t, operation{amounts: rpmAmount(3)}).verdict)
	require.Equal(t, 1, l.denials)
	require.EqualValues(t, 1, l.refusedUnits, "it took the bucket for one that does not exist,")
	require.Equal(t, 1, l.countedWrites, "and the write after that counted the refused write")

	// Another writer takes the last token: the refused write counts with the next.
	other := newLoneWriter(w, n, 0)
	require.Equal(t, verdictCommit, other.do(t, operation{amounts: rpmAmount(1)}).verdict)
	require.Equal(t, verdictDeny, l.do(t, operation{amounts: rpmAmount(1)}).verdict)
	require.EqualValues(t, 2, l.refusedUnits)
	require.Equal(t, 1, l.countedWrites)
	require.Equal(t, verdictCommit, l.do(t, operation{settle: true, amounts: rpmAmount(1)}).verdict)
	require.Equal(t, 2, l.countedWrites)
	last := l.items[len(l.items)-1]
	require.Negative(t, last.Find("rpm").Window(last.Shard(), l.now(t)).Balance(last.Find("rpm").Drawn), "the router sees the debt")
}

func (l loneWriter) now(t *testing.T) (now bucket.Instant) {
	t.Helper()
	now, err := l.env.clock.Now()
	require.NoError(t, err)
	return now
}

// A call that may go elsewhere leaves a throttled shard at once; other calls wait.
func TestAWriterOfAThrottledShard(t *testing.T) {
	w := shardedWorld(t, 100, 2)
	n := w.node(t, Tuning{})
	l := newLoneWriter(w, n, 0)
	part := operation{amounts: rpmAmount(5), part: true}
	require.Equal(t, verdictCommit, l.do(t, part).verdict)
	n.faults.Match(hotShard0(fault.TableWriteKeyRange, func() bool { return true }))
	part.elsewhere = true
	require.Equal(t, verdictHot, l.do(t, part).verdict)
	l.notes.mu.Lock()
	require.EqualValues(t, 1, l.throttledUnits)
	require.Equal(t, map[string]int64{"rpm": 5}, l.dearest[0])
	l.notes.mu.Unlock()
	until := l.env.clock.Mono() + 50*time.Millisecond
	n.faults.Match(hotShard0(fault.TableWriteKeyRange, func() bool { return l.env.clock.Mono() < until }))
	part.elsewhere = false
	require.Equal(t, verdictCommit, l.do(t, part).verdict)
}
