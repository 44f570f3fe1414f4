package fault_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
)

func TestBatchesGiveBackWhatIsThrottled(t *testing.T) {
	ctx := t.Context()
	s := newShelf(t, types.BillingModePayPerRequest, fault.Options{Partitions: &fault.Partitions{WriteUnits: 4, ReadUnits: 1}})
	var puts []types.WriteRequest
	for i := range 6 {
		puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: slot("a", fmt.Sprint(i))}})
	}
	write := func(puts []types.WriteRequest) (map[string][]types.WriteRequest, error) {
		out, err := s.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{shelfTable: puts}})
		if err != nil {
			return nil, err
		}
		return out.UnprocessedItems, nil
	}
	left, err := write(puts)
	require.NoError(t, err)
	require.Equal(t, map[string][]types.WriteRequest{shelfTable: puts[4:]}, left)
	stored, err := s.direct.Scan(ctx, &dynamodb.ScanInput{TableName: aws.String(shelfTable)})
	require.NoError(t, err)
	require.Len(t, stored.Items, 4)
	_, err = write(left[shelfTable])
	require.Len(t, reasonsOf(t, err), 1, "all throttled")
	s.now = s.now.Add(time.Second)
	left, err = write(left[shelfTable])
	require.NoError(t, err)
	require.Empty(t, left)

	keys := types.KeysAndAttributes{Keys: []map[string]types.AttributeValue{slot("a", "0"), slot("a", "1"), slot("a", "2")}}
	out, err := s.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{shelfTable: keys}})
	require.NoError(t, err)
	require.Len(t, out.Responses[shelfTable], 2, "half a unit each")
	require.Equal(t, keys.Keys[2:], out.UnprocessedKeys[shelfTable].Keys)
	require.EqualValues(t, 1, s.faults.Injected()[fault.Injection{
		Kind: fault.Refused, Error: "Unprocessed", Operation: "BatchGetItem", Resource: shelfTable,
	}])
}

func TestTransactionsSayWhichActionIsThrottled(t *testing.T) {
	s := newShelf(t, types.BillingModePayPerRequest, fault.Options{Partitions: &fault.Partitions{WriteUnits: 5}})
	put := func(box string) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: aws.String(shelfTable), Item: slot(box, "0")}}
	}
	_, err := s.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{put("a"), put("b"), put("c")},
	})
	var canceled *types.TransactionCanceledException
	require.ErrorAs(t, err, &canceled)
	var codes []string
	for _, r := range canceled.CancellationReasons {
		codes = append(codes, aws.ToString(r.Code))
	}
	require.Equal(t, []string{"None", "None", "ThrottlingError"}, codes)
	for _, box := range []string{"a", "b", "c"} {
		out, err := s.direct.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(shelfTable), Key: slot(box, "0")})
		require.NoError(t, err)
		require.Empty(t, out.Item)
	}
	_, err = s.db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{put("a"), put("b")}})
	require.NoError(t, err, "the refused transaction cost nothing")
}

// The layer asks for capacity on its own behalf; the caller sees what it asked
// for.
func TestRepliesTellTheCapacityThatWasAskedFor(t *testing.T) {
	s := newShelf(t, types.BillingModePayPerRequest, fault.Options{Partitions: &fault.Partitions{}})
	for _, asked := range []types.ReturnConsumedCapacity{
		"", types.ReturnConsumedCapacityNone, types.ReturnConsumedCapacityTotal, types.ReturnConsumedCapacityIndexes,
	} {
		through := func(db *dynamodb.Client, box string) (*types.ConsumedCapacity, []types.ConsumedCapacity) {
			item := slot(box, "0")
			item["color"] = &types.AttributeValueMemberS{Value: "red"}
			put, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(shelfTable), Item: item, ReturnConsumedCapacity: asked})
			require.NoError(t, err)
			get, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{
				RequestItems:           map[string]types.KeysAndAttributes{shelfTable: {Keys: []map[string]types.AttributeValue{slot(box, "0")}}},
				ReturnConsumedCapacity: asked,
			})
			require.NoError(t, err)
			require.Len(t, get.Responses[shelfTable], 1)
			return put.ConsumedCapacity, get.ConsumedCapacity
		}
		put, get := through(s.db, "a"+string(asked))
		wantPut, wantGet := through(s.direct, "b"+string(asked))
		require.Equal(t, wantPut, put, "asked %q", asked)
		require.Equal(t, wantGet, get, "asked %q", asked)
	}
}

// Wherever in the reply the back end tells the capacity, it is taken out of it,
// and nothing else is.
func TestCapacityIsTakenOutOfAnyReply(t *testing.T) {
	const capacity = `"ConsumedCapacity":{"TableName":"shelf","CapacityUnits":3,"Table":{"CapacityUnits":3}}`
	for reply, want := range map[string]string{
		`{` + capacity + `}`:                                                    `{}`,
		`{"Attributes":{"a":{"S":"x"}},` + capacity + `}`:                       `{"Attributes":{"a":{"S":"x"}}}`,
		`{"Attributes":{"a":{"S":"x"}} , ` + capacity + ` } `:                   `{"Attributes":{"a":{"S":"x"}}}`,
		`{` + capacity + `,"Attributes":{"a":{"S":"x"}}}`:                       `{"Attributes":{"a":{"S":"x"}}}`,
		`{` + capacity + `,"Attributes":{"ConsumedCapacity":{"S":"x"}}}`:        `{"Attributes":{"ConsumedCapacity":{"S":"x"}}}`,
		`{"Attributes":{"ConsumedCapacity":{"S":"x"}}}`:                         `{"Attributes":{"ConsumedCapacity":{"S":"x"}}}`,
		`{"Attributes":{"a":{"S":"\"ConsumedCapacity\":{}"}},` + capacity + `}`: `{"Attributes":{"a":{"S":"\"ConsumedCapacity\":{}"}}}`,
		`{"Attributes":{"a":{"S":"\"ConsumedCapacity\":1"}}}`:                   `{"Attributes":{"a":{"S":"\"ConsumedCapacity\":1"}}}`,
	} {
		s := newShelf(t, types.BillingModePayPerRequest, fault.Options{Partitions: &fault.Partitions{WriteUnits: 3}}, func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".UpdateItem") {
					return canned(reply).RoundTrip(req)
				}
				return next.RoundTrip(req)
			})
		})
		send := func() (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x.invalid", strings.NewReader(
				`{"TableName":"shelf","Key":{"box":{"S":"a"},"slot":{"S":"b"}}}`))
			require.NoError(t, err)
			req.Header.Set("X-Amz-Target", "DynamoDB_20120810.UpdateItem")
			resp, err := s.faults.RoundTrip(req)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			return resp.StatusCode, string(body)
		}
		status, body := send()
		require.Equal(t, http.StatusOK, status)
		require.JSONEq(t, want, body, reply)
		status, _ = send()
		charged := strings.Contains(reply, "CapacityUnits")
		require.Equal(t, charged, status == http.StatusBadRequest, "3 units used up by %s", reply)
	}
}
