package events_test

import (
	"fmt"

	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// All shards of a bucket are in one lane, so that a consumer sees their changes in order.
func ExampleLane() {
	first := keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: "alice", Resource: "gpt-4"}
	second := first
	second.Shard = 1
	fmt.Println(events.Lane(first) == events.Lane(second), events.Lane(first) < events.Lanes)
	// Output: true true
}
