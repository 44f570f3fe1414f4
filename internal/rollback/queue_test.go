package rollback

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// fill adds a write for each key and returns them.
func fill(t *testing.T, q *queue, keys ...string) (all []*write) {
	t.Helper()
	for _, key := range keys {
		w := newWrite(key, nats.NewMsg("$KV.TEST."+key))
		require.True(t, q.add(w))
		all = append(all, w)
	}
	return all
}

// subjects returns the keys of a batch.
func subjects(batch []*write) (keys []string) {
	for _, w := range batch {
		keys = append(keys, w.message.Subject[len("$KV.TEST."):])
	}
	return keys
}

func many(group string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s.%d", group, i))
	}
	return keys
}

// A group that has many writes waiting delays a write of another group by no batch.
func TestGroupsTakeTurns(t *testing.T) {
	q, now := newQueue(), time.Now()
	fill(t, q, many("noisy", 3*maxWrites)...)
	fill(t, q, many("calm", 3)...)
	first := subjects(q.take(now))
	require.Len(t, first, maxWrites)
	require.Equal(t, []string{"noisy.0", "calm.0", "noisy.1", "calm.1", "noisy.2", "calm.2", "noisy.3"}, first[:7])
	require.Len(t, q.take(now), maxWrites)
	require.Len(t, q.take(now), maxWrites)
	require.Len(t, q.take(now), 3)
	require.Empty(t, q.take(now))
	require.Empty(t, q.waiting)
	require.Empty(t, q.turns)
}

// More groups than a batch has room for all get their turn.
func TestEachGroupGetsItsTurn(t *testing.T) {
	q, now := newQueue(), time.Now()
	for i := range maxWrites + 1 {
		fill(t, q, many(fmt.Sprint("g", i), 2)...)
	}
	q.take(now)
	require.Equal(t, fmt.Sprintf("g%d.0", maxWrites), subjects(q.take(now))[0])
}

// A batch has a write of each key, and the others keep their order.
func TestAKeyIsInABatchOnce(t *testing.T) {
	q, now := newQueue(), time.Now()
	all := fill(t, q, "a.1", "a.1", "a.2", "a.1", "a.2")
	require.Equal(t, []*write{all[0], all[2]}, q.take(now))
	require.Len(t, q.wake, 1, "more wait")
	require.Equal(t, []*write{all[1], all[4]}, q.take(now))
	require.Equal(t, []*write{all[3]}, q.take(now))
	require.Empty(t, q.take(now))
}

// A write whose caller has left is not sent; a write that was taken cannot be removed.
func TestARemovedWriteIsNotSent(t *testing.T) {
	q, now := newQueue(), time.Now()
	all := fill(t, q, "a.1", "a.2", "a.2")
	require.True(t, q.remove(all[0]))
	require.Equal(t, []*write{all[1]}, q.take(now))
	require.False(t, q.remove(all[1]))
	require.True(t, q.remove(all[2]))
	require.Empty(t, q.take(now))
	require.Empty(t, q.waiting)
	q.close()
	require.False(t, q.add(newWrite("a.1", nats.NewMsg("x"))))
}

// After a refused write, a group's writes take turns with the batches of the others, a few
// at a time, until the contention is over.
func TestAContendedGroupIsSentApart(t *testing.T) {
	q, now := newQueue(), time.Now()
	batch := fill(t, q, "noisy.0", "calm.0")
	q.take(now)
	batch[0].err = fmt.Errorf("told: %w", ErrRefused)
	q.sent(batch, now)
	fill(t, q, many("noisy", 20)...)
	fill(t, q, many("calm", 20)...)
	sizes := map[string]int{}
	for range 2 {
		keys := subjects(q.take(now))
		sizes[keys[0]] = len(keys)
	}
	require.Equal(t, map[string]int{"noisy.0": fewWrites, "calm.0": 20}, sizes)
	require.Len(t, q.take(now), fewWrites, "no other group has a turn")
	fill(t, q, "calm.20")
	require.Len(t, q.take(now.Add(contention)), 20-2*fewWrites+1)
	require.Empty(t, q.contended)
}
