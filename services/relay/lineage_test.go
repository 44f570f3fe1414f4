package relay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever order stream shards are read in, none is read before those that have
// earlier changes of its items, and all are in the end.
func TestParentsComeBeforeChildren(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var streams []stream
		parents, order := map[string]string{}, map[string]int{}
		for s := range rapid.IntRange(1, 3).Draw(t, "streams") {
			st := stream{arn: fmt.Sprint("arn-", s), label: fmt.Sprint("label-", s)}
			for n := range rapid.IntRange(0, 6).Draw(t, "shards") {
				shard := streamShard{id: fmt.Sprintf("shard-%d-%d", s, n)}
				if n > 0 {
					// The first few parents may not be listed any more.
					shard.parent = fmt.Sprintf("shard-%d-%d", s, rapid.IntRange(-1, n-1).Draw(t, "parent"))
				}
				parents[shard.id], order[shard.id] = shard.parent, s
				st.shards = append(st.shards, shard)
			}
			streams = append(streams, st)
		}
		read := map[string]bool{}
		for len(read) < len(parents) {
			open, err := readable(streams, func(at source) (bool, error) { return read[at.shard], nil })
			require.NoError(t, err)
			require.NotEmpty(t, open, "there is always something to read")
			for _, at := range open {
				require.False(t, read[at.shard])
				if _, listed := parents[parents[at.shard]]; listed {
					require.True(t, read[parents[at.shard]], "the parent of %s", at.shard)
				}
				for other, s := range order {
					require.False(t, s < order[at.shard] && !read[other], "%s is of an older stream than %s", other, at.shard)
				}
			}
			read[rapid.SampledFrom(open).Draw(t, "read").shard] = true
		}
	})
}

func TestReadableNeedsToKnow(t *testing.T) {
	streams := []stream{{arn: "arn", label: "label", shards: []streamShard{{id: "a"}, {id: "b", parent: "a"}}}}
	for _, unknown := range []string{"a", "b"} {
		_, err := readable(streams, func(at source) (bool, error) {
			if at.shard == unknown {
				return false, errors.New("no answer")
			}
			return true, nil
		})
		require.Error(t, err)
	}
	a, b := source{"arn", "label", "a"}, source{"arn", "label", "b"}
	parent, listed := parentOf(streams, b)
	require.Equal(t, a, parent)
	require.True(t, listed)
	require.Equal(t, []source{a}, rootsOf(streams, "arn"))
	streams[0].shards = streams[0].shards[1:]
	parent, listed = parentOf(streams, b)
	require.Equal(t, a, parent)
	require.False(t, listed)
	require.Equal(t, []source{b}, rootsOf(streams, "arn"))
}

func TestSequenceNumbersCompareAsNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"100000000000000000001", "", true},
		{"100000000000000000001", "100000000000000000001", false},
		{"100000000000000000002", "100000000000000000001", true},
		{"1000000000000000000000", "999999999999999999999", true},
		{"999999999999999999999", "1000000000000000000000", false},
	} {
		require.Equal(t, c.want, later(c.a, c.b), "%s after %s", c.a, c.b)
	}
}

func TestTheFloorIsThatOfTheSlowest(t *testing.T) {
	consumer := func(pending uint64, unacknowledged int, floor uint64) *jetstream.ConsumerInfo {
		return &jetstream.ConsumerInfo{NumPending: pending, NumAckPending: unacknowledged, AckFloor: jetstream.SequenceInfo{Stream: floor}}
	}
	for name, c := range map[string]struct {
		consumers []*jetstream.ConsumerInfo
		want      uint64
	}{
		"nobody":                           {nil, 0},
		"all is done":                      {[]*jetstream.ConsumerInfo{consumer(0, 0, 7), consumer(0, 0, 0)}, 100},
		"one is behind":                    {[]*jetstream.ConsumerInfo{consumer(0, 0, 7), consumer(3, 0, 60)}, 60},
		"one works on the last":            {[]*jetstream.ConsumerInfo{consumer(0, 2, 98)}, 98},
		"one has not begun":                {[]*jetstream.ConsumerInfo{consumer(5, 0, 0), consumer(0, 0, 100)}, 0},
		"one got on after the feed's look": {[]*jetstream.ConsumerInfo{consumer(1, 0, 120)}, 100},
	} {
		require.Equal(t, c.want, floorOf(c.consumers, 100), name)
	}
}

// While a server of the feed's is behind, its consumers may not know of what was
// there a round ago; one that is away holds nothing up.
func TestNobodyPurgesWhileAServerIsBehind(t *testing.T) {
	here, behind, away := &jetstream.PeerInfo{Current: true}, &jetstream.PeerInfo{}, &jetstream.PeerInfo{Offline: true}
	require.False(t, isCatchingUp(nil), "one server alone")
	require.False(t, isCatchingUp(&jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{here, away}}))
	require.True(t, isCatchingUp(&jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{here, behind}}))
}

// After NATS went back, a consumer may have acknowledged numbers that other messages have
// now. Nothing is purged by its progress before the members had time to set it back.
func TestProgressCountsOnceMembersHaveLooked(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	h := housekeeper{
		relay: &Relay{cfg: Config{Now: func() time.Time { return now }}, tuning: Tuning{Purge: 3 * time.Second, Quarantine: 5 * time.Second}.withDefaults()},
		since: now, seen: []sample{{now, 100}},
	}
	now = now.Add(5*time.Second - 1)
	require.Zero(t, h.last())
	now = now.Add(1)
	require.EqualValues(t, 100, h.last())
	require.Equal(t, 10*time.Second, Tuning{}.withDefaults().Quarantine)
}
