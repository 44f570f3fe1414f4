package engine_test

import (
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
)

// BenchmarkGetRecords drains a stream of bucket writes, both images each: through
// the SDK and from the handler alone, with the records in memory and on disk.
func BenchmarkGetRecords(b *testing.B) {
	const records = 10_000
	for name, window := range map[string]int64{"in memory": 1 << 30, "on disk": 1} {
		c := newClock()
		embedded, err := engine.Open(
			engine.Options{Now: c.Now, Streams: engine.StreamOptions{WindowBytes: window}},
			engine.Durability{Dir: b.TempDir(), Sync: journal.Never})
		if err != nil {
			b.Fatal(err)
		}
		defer closeEngine(b, embedded)
		x := clientsOf(b, embedded, c)
		seed(b, x.db, 100)
		for i := range records {
			if _, err := x.db.UpdateItem(b.Context(), spend(i%100, "boot")); err != nil {
				b.Fatal(err)
			}
		}
		begin := oldest(b, x)
		b.Run(name+" sdk", func(b *testing.B) {
			drained(b, func() int {
				n := 0
				for i := begin; ; {
					out, err := x.streams.GetRecords(b.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: i})
					if err != nil {
						b.Fatal(err)
					}
					if n += len(out.Records); len(out.Records) == 0 {
						return n
					}
					i = out.NextShardIterator
				}
			})
		})
		b.Run(name+" handler, a page", func(b *testing.B) {
			page, err := x.streams.GetRecords(b.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: begin})
			if err != nil {
				b.Fatal(err)
			}
			body := `{"ShardIterator":"` + *begin + `"}`
			drained(b, func() int {
				if w := rawCall(embedded, "DynamoDBStreams_20120810.GetRecords", body); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
				return len(page.Records)
			})
		})
	}
}

// oldest is an iterator at the begin of the stream.
func oldest(b *testing.B, x *streamed) *string {
	b.Helper()
	name := benchTable
	table, err := x.db.DescribeTable(b.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		b.Fatal(err)
	}
	arn := table.Table.LatestStreamArn
	stream, err := x.streams.DescribeStream(b.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	if err != nil {
		b.Fatal(err)
	}
	out, err := x.streams.GetShardIterator(b.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: arn, ShardId: stream.StreamDescription.Shards[0].ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		b.Fatal(err)
	}
	return out.ShardIterator
}

// drained reports the records per second of processor time that read returns.
func drained(b *testing.B, read func() int) {
	b.Helper()
	records := 0
	before := cpu(b)
	for b.Loop() {
		records += read()
	}
	b.ReportMetric(float64(records)/(cpu(b)-before).Seconds(), "records/s/core")
}
