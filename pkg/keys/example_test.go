package keys_test

import (
	"fmt"

	"github.com/tidegate/tidegate/pkg/keys"
)

// Where the bucket of the package's doc is.
func Example() {
	b := keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: "alice", Resource: "gpt-4", Shard: 0}
	in := b.Indexes()
	for _, k := range []keys.Key{b.Key(), *in.GSI2, *in.GSI3, *in.GSI4} {
		fmt.Println(k.PK, k.SK)
	}
	item, err := keys.Parse(b.Key())
	fmt.Println(item == b, err)

	// Output:
	// AAAAAAAAAAA/BUCKET#alice#gpt-4#0 #STATE
	// AAAAAAAAAAA/RESOURCE#gpt-4#7 BUCKET#alice#0
	// AAAAAAAAAAA/ENTITY#alice BUCKET#gpt-4#0
	// AAAAAAAAAAA#2 BUCKET#alice#gpt-4#0
	// true <nil>
}
