package live

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/keys"
)

// concernsEach checks each change for a bucket: the model of Invalidations.
func concernsEach(changes []Place, b keys.Bucket) bool {
	resource := b.Resource
	if base, _, override := keys.ParseOverride(resource); override {
		resource = base
	}
	for _, p := range changes {
		if (p.Namespace == "" || p.Namespace == b.Namespace) && (p.Entity == "" || p.Entity == b.Entity) && (p.Resource == "" || p.Resource == resource) {
			return true
		}
	}
	return false
}

func TestEachBucketFindsItsChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v Invalidations
		part := rapid.SampledFrom([]string{"", "a", "b"})
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		var changes []Place
		looked := map[keys.Bucket]int{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "a change") {
				p := Place{part.Draw(t, "namespace"), part.Draw(t, "entity"), part.Draw(t, "resource")}
				v.Changed(p)
				changes = append(changes, p)
				continue
			}
			b := keys.Bucket{Namespace: name.Draw(t, "namespace"), Entity: name.Draw(t, "entity"), Resource: name.Draw(t, "resource")}
			if rapid.Bool().Draw(t, "override") {
				b.Resource = keys.OverrideResource(b.Resource, "AAAAAAAAAAA")
			}
			require.Equal(t, concernsEach(changes[looked[b]:], b), v.Since(b, uint64(looked[b])) == Outdated) //nolint:gosec // a count
			looked[b] = int(v.Count())                                                                        //nolint:gosec // a count
		}
	})
}

// A program that changes many places costs each bucket a single check, and no memory.
func TestInvalidationsAreBounded(t *testing.T) {
	var v Invalidations
	bucket := keys.Bucket{Namespace: "a", Entity: "b", Resource: "c"}
	for i := range maxPlaces {
		v.Changed(Place{"a", fmt.Sprintf("entity-%d", i), ""})
	}
	seen := v.Count()
	require.Equal(t, Fresh, v.Since(bucket, 0))
	v.Changed(Place{"a", "entity-0", ""})
	require.Equal(t, Fresh, v.Since(bucket, 0), "a place that is known takes no more room")
	v.Changed(Place{"a", "one more", ""})
	require.Equal(t, Outdated, v.Since(bucket, seen))
	require.Empty(t, v.changed)
	seen = v.Count()
	require.Equal(t, Fresh, v.Since(bucket, seen))
	v.Missed()
	require.Equal(t, Doubted, v.Since(bucket, seen), "perhaps nothing has changed")
	v.Changed(Place{"a", "b", ""})
	require.Equal(t, Outdated, v.Since(bucket, seen))
}
