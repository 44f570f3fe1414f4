package admission

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/keys"
)

// concernsEach is what news stands for: each change looked at for each bucket.
func concernsEach(changes []place, b keys.Bucket) bool {
	resource, _ := baseResource(b.Resource)
	for _, p := range changes {
		if (p.namespace == "" || p.namespace == b.Namespace) && (p.entity == "" || p.entity == b.Entity) && (p.resource == "" || p.resource == resource) {
			return true
		}
	}
	return false
}

func TestNewsTellsEachBucketWhatConcernsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n news
		part := rapid.SampledFrom([]string{"", "a", "b"})
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		var changes []place
		looked := map[keys.Bucket]int{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "a change") {
				p := place{part.Draw(t, "namespace"), part.Draw(t, "entity"), part.Draw(t, "resource")}
				n.hear(p)
				changes = append(changes, p)
				continue
			}
			b := keys.Bucket{Namespace: name.Draw(t, "namespace"), Entity: name.Draw(t, "entity"), Resource: name.Draw(t, "resource")}
			if rapid.Bool().Draw(t, "override") {
				b.Resource = keys.OverrideResource(b.Resource, "AAAAAAAAAAA")
			}
			require.Equal(t, concernsEach(changes[looked[b]:], b), n.concerns(b, uint64(looked[b])) == concernChanged) //nolint:gosec // a count
			looked[b] = int(n.heard.Load())                                                                            //nolint:gosec // a count
		}
	})
}

// Whoever changes many places costs everybody one look, and no memory.
func TestNewsIsBounded(t *testing.T) {
	var n news
	bucket := keys.Bucket{Namespace: "a", Entity: "b", Resource: "c"}
	for i := range maxPlaces {
		n.hear(place{"a", fmt.Sprintf("entity-%d", i), ""})
	}
	seen := n.heard.Load()
	require.Equal(t, concernNone, n.concerns(bucket, 0))
	n.hear(place{"a", "entity-0", ""})
	require.Equal(t, concernNone, n.concerns(bucket, 0), "a place that is known takes no more room")
	n.hear(place{"a", "one more", ""})
	require.Equal(t, concernChanged, n.concerns(bucket, seen))
	require.Empty(t, n.changed)
	seen = n.heard.Load()
	require.Equal(t, concernNone, n.concerns(bucket, seen))
	n.miss()
	require.Equal(t, concernMissed, n.concerns(bucket, seen), "perhaps nothing has changed")
	n.hear(place{"a", "b", ""})
	require.Equal(t, concernChanged, n.concerns(bucket, seen))
}
