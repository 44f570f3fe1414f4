package relay

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/events"
)

func TestPatternsOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"tidegate.changes.v1.audit.3", "tidegate.changes.v1.audit.*", true},
		{"tidegate.changes.v1.audit.3", "tidegate.changes.v1.bucket.*", false},
		{"tidegate.changes.v1.>", "tidegate.changes.v1.bucket.*", true},
		{"tidegate.changes.v1.*.3", "tidegate.changes.v1.bucket.*", true},
		{">", "tidegate.replay.v1.>", true},
		{"tidegate.changes.v1.bucket", "tidegate.changes.v1.bucket.*", false},
		{"tidegate.replay.v1.aggregator.3", "tidegate.replay.v1.>", true},
	} {
		require.Equal(t, c.want, overlap(c.a, c.b), "%s and %s", c.a, c.b)
		require.Equal(t, c.want, overlap(c.b, c.a), "%s and %s", c.b, c.a)
	}
}

func TestAKindIsHeldByItsFollowersAlone(t *testing.T) {
	all := followers{
		{Name: "everything"},
		{Name: "archiver-03", Config: jetstream.ConsumerConfig{FilterSubjects: []string{events.ReplaySubject("archiver", 3), events.Subject(events.KindAudit, 3)}}},
		{Name: "entities", Config: jetstream.ConsumerConfig{FilterSubject: events.KindSubject(events.KindEntity)}},
	}
	require.Equal(t, all[:2], all.of(events.KindAudit))
	require.Equal(t, followers{all[0], all[2]}, all.of(events.KindEntity))
	require.Equal(t, all[:1], all.of(events.KindBucket))
}

// The bounds of all kinds together are the feed, so that none takes another's part.
func TestBoundsAddUp(t *testing.T) {
	for _, most := range []int64{1, 1000, 1 << 30} {
		sum := int64(0)
		for _, kind := range events.Kinds() {
			sum += boundOf(kind, most)
		}
		require.Equal(t, most, sum)
	}
}

func TestACheckpointKeepsTwoPlaces(t *testing.T) {
	c := checkpoint{Sequence: "100"}
	require.Equal(t, "100", c.from(true))
	c = c.next(true, "300", true)
	require.Equal(t, checkpoint{Sequence: "100", Ahead: "300", AheadClosed: true}, c)
	require.Equal(t, "300", c.from(true))
	require.Equal(t, "100", c.from(false))
	require.True(t, c.passed())
	require.Equal(t, checkpoint{Sequence: "300", Ahead: "300", AheadClosed: true}, c.next(false, "300", false), "the end is known, of the other kinds")
	require.Equal(t, checkpoint{Sequence: "300", Closed: true}, c.next(false, "300", true))
	c = checkpoint{Sequence: "100", Ahead: "300"}
	require.Equal(t, checkpoint{Sequence: "200", Ahead: "300"}, c.next(false, "200", false))
	require.Equal(t, checkpoint{Sequence: "300"}, c.next(false, "300", false))
}
