//go:build cluster

package cluster_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/test/ledger"
)

// mustBeCounted waits until the usage snapshots of each entity add up to the counters of
// its buckets, and compares the counters with what the callers know.
func (w *world) mustBeCounted(t *testing.T, s sums) {
	t.Helper()
	db := dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &w.store, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	counters := w.counters(t, db)
	var counted map[string]int64
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		snapshots, err := ledger.Snapshots(t.Context(), db, table.DefaultName)
		require.NoError(t, err)
		counted = map[string]int64{}
		for key, total := range snapshots {
			if key.Window == "daily" {
				counted[key.Entity] += total.Used[limit]
			}
		}
		if maps.Equal(counters, counted) {
			break
		}
	}
	require.Equal(t, counters, counted, "the snapshots are not the counters")
	total := int64(0)
	for _, milli := range counters {
		total += milli / bucket.Milli
	}
	known := fmt.Sprintf("%d tokens spent; of the callers' acquires %d admitted, %d without a reply; of their releases %d confirmed, %d not",
		total, s.spent, s.unknown, s.returned, s.unreturned)
	require.GreaterOrEqual(t, total, s.spent-s.returned-s.unreturned, known)
	require.LessOrEqual(t, total, s.spent+s.unknown-s.returned, known)
	t.Log(known)
}

// counters returns the tokens that the buckets of each entity have spent in total.
func (w *world) counters(t *testing.T, db *dynamodb.Client) map[string]int64 {
	t.Helper()
	name, total := table.DefaultName, map[string]int64{}
	pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &name, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, item := range page.Items {
			pk, ok := item["PK"].(*types.AttributeValueMemberS)
			require.True(t, ok)
			_, rest, isBucket := strings.Cut(pk.Value, "/BUCKET#")
			spent, isSpent := item["b_"+limit+"_tc"].(*types.AttributeValueMemberN)
			if !isBucket || !isSpent {
				continue
			}
			entity, _, _ := strings.Cut(rest, "#")
			milli, err := strconv.ParseInt(spent.Value, 10, 64)
			require.NoError(t, err)
			total[entity] += milli
		}
	}
	return total
}
