package fault_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/fault"
)

// names is the items that rows show, in their order.
func names(rows []map[string]types.AttributeValue) []string {
	var out []string
	for _, row := range rows {
		out = append(out, textOf(row["box"])+textOf(row["slot"])+"="+textOf(row["color"]))
	}
	return out
}

func textOf(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

func painted(at, color string) map[string]types.AttributeValue {
	item := slot("box", at)
	if color != "" {
		item["color"] = &types.AttributeValueMemberS{Value: color}
	}
	return item
}

// A read of an index shows each item as it was at one moment of the window, over
// any history of writes; and the table itself is never stale.
func TestReadsShowAMomentOfTheWindow(t *testing.T) {
	const window = time.Second
	type version struct {
		from  time.Time
		color string // "": not in the index
	}
	rapid.Check(t, func(t *rapid.T) {
		s := newShelf(t, types.BillingModePayPerRequest, fault.Options{
			Seed: rapid.Uint64().Draw(t, "seed"), Stale: fault.Stale{UpTo: window, Tables: true},
		})
		history := map[string][]version{}
		for _, at := range []string{"1", "2", "3", "4", "5"} {
			history[at] = []version{{}}
		}
		// red reports whether at some moment of the window the items that were red are these.
		red := func(rows []string) bool {
			for ago := time.Duration(0); ago <= window; ago += 10 * time.Millisecond {
				var want []string
				for at, versions := range history {
					color := ""
					for _, v := range versions {
						if !v.from.After(s.now.Add(-ago)) {
							color = v.color
						}
					}
					if color == "red" {
						want = append(want, "box"+at+"=red")
					}
				}
				slices.Sort(want)
				if slices.Equal(want, rows) {
					return true
				}
			}
			return false
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s.now = s.now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "pause")*10) * time.Millisecond)
			at := rapid.SampledFrom([]string{"1", "2", "3", "4", "5"}).Draw(t, "slot")
			color := rapid.SampledFrom([]string{"", "red", "blue"}).Draw(t, "color")
			s.paint(t, at, color, rapid.IntRange(0, 3).Draw(t, "how"))
			history[at] = append(history[at], version{s.now, color})
			rows, err := s.colored(t.Context(), s.direct, "red")
			require.NoError(t, err)
			current := names(rows)
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "rest")*10) * time.Millisecond)
			rows, err = s.whole(t.Context(), s.db, "red")
			require.NoError(t, err)
			require.True(t, red(names(rows)), "now %v, read %v, of %v", current, names(rows), history)
			out, err := s.db.GetItem(t.Context(), &dynamodb.GetItemInput{
				TableName: aws.String(shelfTable), Key: slot("box", at), ConsistentRead: aws.Bool(true),
			})
			require.NoError(t, err)
			require.Equal(t, color, textOf(out.Item["color"]))
		}
	})
}

// paint gives an item a color, or none.
func (s *shelf) paint(t testingContext, at, color string, how int) {
	var err error
	switch {
	case color == "" && how == 0:
		_, err = s.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(shelfTable), Key: slot("box", at)})
	case how == 1:
		_, err = s.db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			shelfTable: {{PutRequest: &types.PutRequest{Item: painted(at, color)}}},
		}})
	case how == 2:
		_, err = s.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			{Put: &types.Put{TableName: aws.String(shelfTable), Item: painted(at, color)}},
		}})
	default:
		_, err = s.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(shelfTable), Item: painted(at, color)})
	}
	require.NoError(t, err)
}

// whole queries the index in one page.
func (s *shelf) whole(ctx context.Context, db *dynamodb.Client, color string) ([]map[string]types.AttributeValue, error) {
	out, err := db.Query(ctx, &dynamodb.QueryInput{
		TableName: aws.String(shelfTable), IndexName: aws.String(shelfIndex), KeyConditionExpression: aws.String("color = :c"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":c": &types.AttributeValueMemberS{Value: color}},
	})
	if err != nil {
		return nil, err
	}
	if int(out.Count) != len(out.Items) || out.ScannedCount < out.Count {
		return nil, fmt.Errorf("%d items, count %d, scanned %d", len(out.Items), out.Count, out.ScannedCount)
	}
	return out.Items, nil
}

// Rows of the past that come with pages come once each.
func TestStalePagesHoldEachRowOnce(t *testing.T) {
	stale := 0
	for seed := range uint64(40) {
		s := newShelf(t, types.BillingModePayPerRequest, fault.Options{Seed: seed, Stale: fault.Stale{UpTo: 1000 * time.Hour}})
		for i := range 7 {
			s.paint(t, fmt.Sprint(i), "red", 0)
		}
		s.now = s.now.Add(1001 * time.Hour)
		for i := range 7 {
			if i%2 == 1 {
				s.paint(t, fmt.Sprint(i), "blue", 0)
			}
		}
		rows, err := s.colored(t.Context(), s.db, "red")
		require.NoError(t, err)
		got := strings.Join(names(rows), " ")
		require.Equal(t, "box0=red box1=red box2=red box3=red box4=red box5=red box6=red", got, "nobody can draw 0")
		for i, n := range s.faults.Injected() {
			require.Equal(t, fault.Injection{Kind: fault.StaleRead, Operation: "Query", Resource: shelfTable + "/index/" + shelfIndex}, i)
			stale += int(n)
		}
	}
	require.Positive(t, stale)
}
