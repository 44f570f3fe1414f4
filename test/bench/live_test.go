package bench

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/table"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/keys"
	"github.com/tidegate/tidegate/services/admission"
)

// BenchmarkLiveConfig: another writer of the table changes a limit, with two nodes
// that hear of it from the change feed alone. Counted is the time from the write, and
// so from its stream record, to the last answer that went by the old limit: it shall
// be below a second. Most of it is the relay's poll of the stream, every 200 ms.
func BenchmarkLiveConfig(b *testing.B) {
	const changes, answers = 50, 40
	limit := ample("rpm")
	w := newWorld(b, limit)
	f := &feed{world: w, db: dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), "us-east-1"))}
	f.relay()
	for range 2 {
		w.node(0, admission.Tuning{}).mustFollow()
	}
	client := w.clients(w.conns()[:1])[0]
	delays := histogram()
	for n := range changes {
		capacity := limit.Capacity - int64(n) - 1
		f.edit(capacity)
		written := time.Now()
		old := written // when the last answer by the old limit was there
		for since := 0; since < answers; since++ {
			lease, err := client.Acquire(b.Context(), "api-key-123", resource, tidegate.Consume{"rpm": 1})
			require.NoError(b, err)
			if lease.Limits()[0].Capacity != capacity {
				old, since = time.Now(), 0
			}
		}
		require.NoError(b, delays.RecordValue(old.Sub(written).Microseconds()))
	}
	b.ReportMetric(float64(delays.ValueAtQuantile(50))/1000, "p50-ms")
	b.ReportMetric(float64(delays.Max())/1000, "max-ms")
	b.ReportMetric(0, "ns/op")
}

// edit changes the capacity at the system level as somebody does in the console.
func (f *feed) edit(capacity int64) {
	f.tb.Helper()
	name, set := table.DefaultName, "SET l_rpm_cp = :n"
	_, err := f.db.UpdateItem(f.tb.Context(), &dynamodb.UpdateItemInput{
		TableName: &name, Key: table.KeyItem(keys.SystemConfig{Namespace: f.ns}.Key()), UpdateExpression: &set,
		ExpressionAttributeValues: table.Item{":n": &types.AttributeValueMemberN{Value: strconv.FormatInt(capacity, 10)}},
	})
	require.NoError(f.tb, err)
}

// mustFollow waits until the node follows the change feed.
func (n *node) mustFollow() {
	n.tb.Helper()
	require.Eventually(n.tb, func() bool {
		families, err := n.metrics.Gather()
		require.NoError(n.tb, err)
		for _, family := range families {
			if family.GetName() == "tidegate_admission_feed_followed" {
				return family.GetMetric()[0].GetGauge().GetValue() == 1
			}
		}
		return false
	}, 30*time.Second, time.Millisecond, "the node does not follow the feed")
}
