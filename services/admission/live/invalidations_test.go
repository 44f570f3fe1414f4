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

// A program that changes many places of a namespace costs each bucket of that namespace a
// single check, the buckets of other namespaces nothing, and no memory.
func TestInvalidationsAreBoundedByNamespace(t *testing.T) {
	var v Invalidations
	own, other := keys.Bucket{Namespace: "a", Entity: "b", Resource: "c"}, keys.Bucket{Namespace: "z", Entity: "b", Resource: "c"}
	v.Changed(Place{"z", "x", ""})
	start := v.Count()
	for i := range maxNamespacePlaces {
		v.Changed(Place{"a", fmt.Sprintf("entity-%d", i), ""})
	}
	seen := v.Count()
	require.Equal(t, Fresh, v.Since(own, 0))
	v.Changed(Place{"a", "entity-0", ""})
	require.Equal(t, Fresh, v.Since(own, 0), "a place that is known takes no more room")
	v.Changed(Place{"a", "one more", ""})
	require.Equal(t, Outdated, v.Since(own, seen))
	require.Equal(t, Fresh, v.Since(other, 0), "another namespace's bucket resolves again")
	require.Equal(t, Outdated, v.Since(keys.Bucket{Namespace: "z", Entity: "x", Resource: "c"}, start-1), "its own changes are still known")
	require.Empty(t, v.namespaces["a"].changed)
	require.Equal(t, 1, v.places)
	seen = v.Count()
	require.Equal(t, Fresh, v.Since(own, seen))
	v.Missed()
	require.Equal(t, Doubted, v.Since(own, seen), "perhaps nothing has changed")
	v.Changed(Place{"a", "b", ""})
	require.Equal(t, Outdated, v.Since(own, seen))
}

// If all namespaces together change too much, the largest gives way.
func TestTheLargestNamespaceGivesWay(t *testing.T) {
	var v Invalidations
	name := func(n int) string { return fmt.Sprintf("namespace-%d", n) }
	const each, others = maxNamespacePlaces/2 - 1, maxPlaces/(maxNamespacePlaces/2) - 1
	for n := range others {
		for i := range each {
			v.Changed(Place{name(n), fmt.Sprint(i), ""})
		}
	}
	const room = maxPlaces - others*each
	for i := range room {
		v.Changed(Place{"largest", fmt.Sprint(i), ""})
	}
	require.Equal(t, maxPlaces, v.places)
	v.Changed(Place{name(0), "one more", ""})
	require.Equal(t, maxPlaces-room+1, v.places)
	require.Equal(t, Outdated, v.Since(keys.Bucket{Namespace: "largest", Entity: "unchanged", Resource: "r"}, 0))
	for n := range others {
		require.Equal(t, Fresh, v.Since(keys.Bucket{Namespace: name(n), Entity: "unchanged", Resource: "r"}, 0))
	}
}

// Even a place in each of very many namespaces takes no more memory.
func TestNamespacesAreBounded(t *testing.T) {
	var v Invalidations
	for n := range maxPlaces {
		v.Changed(Place{fmt.Sprint(n), "e", ""})
	}
	seen := v.Count()
	bucket := keys.Bucket{Namespace: "0", Entity: "b", Resource: "c"}
	require.Equal(t, Fresh, v.Since(bucket, 0))
	v.Changed(Place{"one more", "e", ""})
	require.Equal(t, Outdated, v.Since(bucket, seen))
	require.Empty(t, v.namespaces)
	require.Zero(t, v.places)
}
