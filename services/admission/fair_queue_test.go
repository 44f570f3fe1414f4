package admission

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// item is an item of a fairQueue, of a key.
type item struct {
	key string
	n   int
}

// Keys take turns, however much one of them asks for, and each keeps its order.
func TestKeysTakeTurns(t *testing.T) {
	q := newFairQueue[item](2, 1, 100)
	runs, _ := q.add("a", item{"a", 0})
	require.True(t, runs)
	for n := 1; n < 5; n++ {
		runs, _ = q.add("a", item{"a", n})
		require.False(t, runs, "the second place is not for the same key")
	}
	for n := range 3 {
		runs, _ = q.add("b", item{"b", n})
		require.Equal(t, n == 0, runs, "the second place waits for another key")
	}
	_, _ = q.add("c", item{"c", 0})
	var order []item
	ends := []string{"a", "b", "a", "b", "c"}
	for _, key := range ends {
		if next, nextKey, ok := q.end(key); ok {
			require.Equal(t, next.key, nextKey)
			order = append(order, next)
		}
	}
	require.Equal(t, []item{{"a", 1}, {"b", 1}, {"c", 0}, {"a", 2}, {"b", 2}}, order)
}

// A full queue sheds the newest item of the key that waits most.
func TestAFullQueueShedsTheGreediest(t *testing.T) {
	q := newFairQueue[item](1, 1, 4)
	_, _ = q.add("x", item{"x", 0})
	for n := range 4 {
		_, shed := q.add("a", item{"a", n})
		require.Nil(t, shed)
	}
	_, shed := q.add("a", item{"a", 4})
	require.Equal(t, &item{"a", 4}, shed, "of itself, the newest")
	_, shed = q.add("b", item{"b", 0})
	require.Equal(t, &item{"a", 3}, shed)
	_, shed = q.add("b", item{"b", 1})
	require.Equal(t, &item{"a", 2}, shed)
	_, shed = q.add("b", item{"b", 2})
	require.Equal(t, &item{"b", 2}, shed, "both have as many")
	require.True(t, q.remove("a", item{"a", 0}))
	require.False(t, q.remove("a", item{"a", 0}))
	require.False(t, q.remove("unknown", item{"a", 0}))
	require.Equal(t, 3, q.waiting)
}

// fairModel holds the items of a fairQueue in a plain way.
type fairModel struct {
	t       *rapid.T
	q       fairQueue[item]
	running []item
	waiting []item
}

func (m *fairModel) of(items []item, key string) (n int) {
	for _, i := range items {
		if i.key == key {
			n++
		}
	}
	return n
}

// check requires the queue's promises.
func (m *fairModel) check() {
	require.Equal(m.t, len(m.running), m.q.running)
	require.Equal(m.t, len(m.waiting), m.q.waiting)
	require.LessOrEqual(m.t, len(m.running), m.q.width)
	require.LessOrEqual(m.t, len(m.waiting), m.q.room)
	keys := map[string]bool{}
	for _, i := range append(slices.Clone(m.running), m.waiting...) {
		keys[i.key] = true
	}
	require.Len(m.t, m.q.lines, len(keys), "keys without items take memory")
	for key := range keys {
		require.LessOrEqual(m.t, m.of(m.running, key), m.q.share)
		if len(m.running) < m.q.width && m.of(m.waiting, key) > 0 {
			require.Equal(m.t, m.q.share, m.of(m.running, key), "%s waits while there is a place for it", key)
		}
	}
}

func (m *fairModel) drop(items []item, i item) []item {
	at := slices.Index(items, i)
	require.GreaterOrEqual(m.t, at, 0, "%v is unknown", i)
	return slices.Delete(items, at, at+1)
}

func (m *fairModel) add(i item) {
	longest := 0
	for _, w := range m.waiting {
		longest = max(longest, m.of(m.waiting, w.key))
	}
	runs, shed := m.q.add(i.key, i)
	switch {
	case runs:
		m.running = append(m.running, i)
	case shed == nil:
		require.Less(m.t, len(m.waiting), m.q.room)
		m.waiting = append(m.waiting, i)
	default:
		require.Len(m.t, m.waiting, m.q.room, "an item was shed though there was room")
		if *shed == i {
			require.LessOrEqual(m.t, longest, m.of(m.waiting, i.key)+1, "another key has more")
			return
		}
		require.Equal(m.t, longest, m.of(m.waiting, shed.key))
		m.waiting = append(m.drop(m.waiting, *shed), i)
	}
}

// Any sequence of arrivals, ends and departures keeps the queue's promises.
func TestAFairQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 6).Draw(t, "width")
		m := &fairModel{t: t, q: newFairQueue[item](width, rapid.IntRange(1, width).Draw(t, "share"), rapid.IntRange(0, 12).Draw(t, "room"))}
		key := rapid.SampledFrom([]string{"a", "a", "a", "b", "c"})
		for n := range rapid.IntRange(1, 80).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
			case step < 6:
				m.add(item{key.Draw(t, "key"), n})
			case step < 9 && len(m.running) > 0:
				ended := rapid.SampledFrom(m.running).Draw(t, "ended")
				m.running = m.drop(m.running, ended)
				if next, of, ok := m.q.end(ended.key); ok {
					require.Equal(t, next.key, of)
					first := slices.IndexFunc(m.waiting, func(w item) bool { return w.key == of })
					require.Equal(t, m.waiting[first], next, "a key's order")
					m.waiting, m.running = m.drop(m.waiting, next), append(m.running, next)
				}
			case len(m.waiting) > 0:
				gone := rapid.SampledFrom(m.waiting).Draw(t, "gone")
				require.True(t, m.q.remove(gone.key, gone))
				m.waiting = m.drop(m.waiting, gone)
			}
			m.check()
		}
	})
}
