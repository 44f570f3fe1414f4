package engine_test

import (
	"maps"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

// checkSegments scans a table and an index by any number of segments, by pages:
// each item is in one of them, and items of one partition key in the same one.
func checkSegments(t *testing.T, x *table) {
	const partitions, each = 12, 3
	want := map[string]int{}
	for p := range partitions {
		for i := range each {
			pk, sk := "p"+strconv.Itoa(p), strconv.Itoa(i)
			x.put(item(pk, sk, "g1", text("g"+strconv.Itoa(p%5)), "g1n", num(i)))
			want[pk+"/"+sk] = 1
		}
	}
	for _, index := range []*string{nil, aws.String("gall")} {
		for _, total := range []int32{1, 2, 3, 7, 1_000_000} {
			seen, home := map[string]int{}, map[string]int32{}
			segments := min(total, 7)
			for segment := range segments {
				in := &dynamodb.ScanInput{TableName: x.name, IndexName: index, Limit: aws.Int32(2), Segment: &segment, TotalSegments: &total}
				for {
					out, err := x.db.Scan(t.Context(), in)
					require.NoError(t, err)
					require.Equal(t, out.Count, out.ScannedCount)
					for _, it := range out.Items {
						key := textOf(it["pk"])
						if index != nil {
							key = textOf(it["g1"])
						}
						if at, ok := home[key]; ok {
							require.Equal(t, at, segment, "%s is in two segments", key)
						}
						home[key] = segment
						seen[textOf(it["pk"])+"/"+textOf(it["sk"])]++
					}
					if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
						break
					}
				}
			}
			if total <= segments {
				require.Equal(t, want, seen, "%d segments", total)
			}
		}
	}
	whole, err := x.db.Scan(t.Context(), &dynamodb.ScanInput{TableName: x.name, Limit: aws.Int32(1)})
	require.NoError(t, err)
	refused := 0
	for segment := range int32(2) {
		_, err := x.db.Scan(t.Context(), &dynamodb.ScanInput{
			TableName: x.name, Segment: &segment, TotalSegments: aws.Int32(2), ExclusiveStartKey: whole.LastEvaluatedKey,
		})
		if err != nil {
			requireCode(t, err, "ValidationException")
			refused++
		}
	}
	require.Equal(t, 1, refused, "a start key is of one segment")
}

// checkARNs gives the table's ARN wherever its name may be.
func checkARNs(t *testing.T, x *table) {
	described, err := x.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: x.name})
	require.NoError(t, err)
	name := x.name
	x.name = described.Table.TableArn
	again, err := x.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: x.name})
	require.NoError(t, err)
	require.Equal(t, described.Table, again.Table)
	x.put(item("a", "1", "v", num(1)))
	require.Equal(t, "1", numberOf(x.get("a", "1")["v"]))
	require.Equal(t, "2", numberOf(x.allNew("a", "1", "ADD v :n", nil, attrs{":n": num(1)})["v"]))
	require.Len(t, x.query("pk = :p", attrs{":p": text("a")}, nil).Items, 1)
	require.NoError(t, x.transact(x.add("a", "1", 1, "", nil)))
	require.Error(t, x.transact(x.add("a", "1", 1, "", nil), types.TransactWriteItem{Delete: &types.Delete{TableName: name, Key: key("a", "1")}}),
		"one item twice")
	batch, err := x.db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{*x.name: {Keys: []map[string]types.AttributeValue{key("a", "1")}}},
	})
	require.NoError(t, err)
	require.Len(t, batch.Responses[*x.name], 1)
	_, err = x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: x.name, DeletionProtectionEnabled: aws.Bool(false)})
	require.NoError(t, err)
	live, err := x.db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: x.name})
	require.NoError(t, err)
	require.Equal(t, types.TimeToLiveStatusDisabled, live.TimeToLiveDescription.TimeToLiveStatus)
	for _, other := range []string{"arn:aws:dynamodb:eu-central-1:000000000000:table/" + *name, *x.name + "x"} {
		_, err = x.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &other, Key: key("a", "1")})
		requireCode(t, err, "ResourceNotFoundException")
	}
	_, err = x.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: x.name})
	require.NoError(t, err)
}

// tags are those that a table shows.
func tags(t *testing.T, db *dynamodb.Client, arn *string) map[string]string {
	t.Helper()
	out, err := db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
	require.NoError(t, err)
	shown := map[string]string{}
	for _, x := range out.Tags {
		shown[*x.Key] = *x.Value
	}
	return shown
}

func checkTags(t *testing.T, x *table) {
	described, err := x.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: x.name})
	require.NoError(t, err)
	arn := described.Table.TableArn
	require.Empty(t, tags(t, x.db, arn))
	want := map[string]string{"team": "limits", "env": ""}
	in := &dynamodb.TagResourceInput{ResourceArn: arn}
	for k, v := range want {
		in.Tags = append(in.Tags, types.Tag{Key: &k, Value: &v})
	}
	for range 2 {
		_, err = x.db.TagResource(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, want, tags(t, x.db, arn))
	}
	_, err = x.db.UntagResource(t.Context(), &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"env", "other"}})
	require.NoError(t, err)
	maps.DeleteFunc(want, func(k, _ string) bool { return k == "env" })
	require.Equal(t, want, tags(t, x.db, arn))
	for other, code := range map[string]string{*arn + "x": "ResourceNotFoundException", *x.name: "ValidationException"} {
		_, err = x.db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: &other})
		requireCode(t, err, code)
	}
}

func checkContinuousBackups(t *testing.T, x *table) {
	out, err := x.db.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: x.name})
	require.NoError(t, err)
	require.Equal(t, types.ContinuousBackupsStatusEnabled, out.ContinuousBackupsDescription.ContinuousBackupsStatus)
	require.Equal(t, types.PointInTimeRecoveryStatusDisabled, out.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus)
	_, err = x.db.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: aws.String("none")})
	requireCode(t, err, "TableNotFoundException")
}
