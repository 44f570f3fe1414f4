package admission

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// stateBytes is about what a remembered bucket of one limit counts for.
const stateBytes = 2 << 10

// rememberingRouter is a router without a store.
func rememberingRouter(t require.TestingT, most int64) *router {
	r, err := newRouter(&env{}, nil, most, nil)
	require.NoError(t, err)
	return r
}

// stateOf is an item as the store brings it, with limits of long names, and its settings.
func stateOf(key keys.Bucket, limits int) (*table.Bucket, *config.Resolved) {
	item := &table.Bucket{Key: key, Level: 1, Fingerprint: "fingerprint", LastWrite: fmt.Sprint("boot.", key.Entity)}
	settings := &config.Resolved{Fingerprint: strings.Clone("fingerprint"), Stored: []config.Level{0, 1}}
	for i := range limits {
		l := bucket.Limit{Name: strings.Repeat("n", 60) + fmt.Sprintf("%03d", i), Capacity: 1, Refill: 1, Period: 1000}
		item.Limits = append(item.Limits, table.Limit{Limit: l})
		l.Name = strings.Clone(l.Name)
		settings.Limits = append(settings.Limits, l)
	}
	decoded, err := table.DecodeBucket(table.EncodeBucket(item))
	if err != nil {
		panic(err)
	}
	return decoded, settings
}

// learn gives a shard a state, as a step of its writer does.
func learn(m *member, limits int, costs bool) {
	item, settings := stateOf(m.writer.key, limits)
	m.writer.settings.settings.Store(settings)
	m.writer.known.learn(item, 1, 1)
	if costs {
		m.bucket().costs.Store(newCostSamples(settings))
		m.bucket().whole.Store(&treeSnapshot{tree: shards.Tree{item}})
	}
	m.learned()
}

// keyOf is the key of a bucket with a long name.
func keyOf(i int) keys.Bucket {
	return keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: fmt.Sprintf("%s%06d", strings.Repeat("e", 100), i), Resource: "gpt-4"}
}

// Whatever shards are used, learn, grow, shrink and are forgotten, their accounted bytes
// are the sum of their sizes, and within the bound; the shard that was used last stays.
func TestRememberedBytesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int64Range(1, 60_000).Draw(t, "bytes")
		r := rememberingRouter(t, most)
		held := map[*member]bool{} // by requests, remembered or forgotten
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := keyOf(rapid.IntRange(0, 12).Draw(t, "key"))
			m := r.member(key)
			require.Same(t, m, r.members.peek(key))
			held[m] = true
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				learn(m, rapid.IntRange(0, 16).Draw(t, "limits"), rapid.Bool().Draw(t, "costs"))
			case 1:
				for old := range held { // a step of a writer that may be forgotten
					learn(old, rapid.IntRange(0, 16).Draw(t, "limits"), false)
					break
				}
			case 2:
				m.writer.known.forget()
				m.learned()
			}
			shards, bytes := r.members.counts()
			require.True(t, bytes <= most || shards == 1, "%d bytes of %d by %d shards", bytes, most, shards)
			sum := int64(0)
			for _, m := range r.members.lru.Values() {
				require.Equal(t, m.bytes(), m.weight.Load())
				sum += m.bytes()
			}
			require.Equal(t, sum, bytes)
		}
	})
}

// The estimate is no less than the memory that shards take, and not much more.
func TestRememberedBytesAreThoseOfTheHeap(t *testing.T) {
	const many = 1000
	for _, limits := range []int{0, 2, 16} {
		for _, costs := range []bool{false, true} {
			t.Run(fmt.Sprint(limits, " limits, costs ", costs), func(t *testing.T) {
				// What earlier tests leave behind may be freed meanwhile: one quiet
				// measurement is enough.
				require.Eventually(t, func() bool {
					before := heapInUse()
					r := rememberingRouter(t, 1<<40)
					for i := range many {
						learn(r.member(keyOf(i)), limits, costs)
					}
					took := int64(heapInUse() - before)
					shards, bytes := r.members.counts()
					require.Equal(t, many, shards)
					t.Logf("%d B each, estimated %d B", took/many, bytes/many)
					runtime.KeepAlive(r)
					return took < bytes && bytes < 2*took
				}, patience, time.Millisecond)
			})
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one only made unreachable
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
