package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/keys"
)

// partial lets BatchGetItem process a few keys at a time, as DynamoDB does when
// items are large or it is throttled.
type partial struct {
	next http.RoundTripper
	keys int // processed in one request; 0: none
}

func (p partial) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".BatchGetItem") {
		return p.next.RoundTrip(req)
	}
	type wanted struct {
		Keys           []json.RawMessage
		ConsistentRead bool
	}
	var body struct{ RequestItems map[string]wanted }
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, err
	}
	left := map[string]wanted{}
	for name, w := range body.RequestItems {
		n := min(p.keys, len(w.Keys))
		if n < len(w.Keys) {
			left[name] = wanted{w.Keys[n:], w.ConsistentRead}
		}
		body.RequestItems[name] = wanted{w.Keys[:n], w.ConsistentRead}
		if n == 0 {
			return reply(map[string]any{"Responses": map[string]any{}, "UnprocessedKeys": left})
		}
	}
	cut, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(cut)), int64(len(cut))
	resp, err := p.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	answer["UnprocessedKeys"] = left
	return reply(answer)
}

func reply(answer map[string]any) (*http.Response, error) {
	b, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b)),
	}, nil
}

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func stored(t *testing.T, b *tabletest.Bench, n int) []keys.Key {
	t.Helper()
	wanted := make([]keys.Key, n)
	for i := range wanted {
		e := &table.Entity{Key: keys.Entity{Namespace: "AAAAAAAAAAA", ID: fmt.Sprintf("e%d", i)}, Version: 1}
		wanted[i] = e.Key.Key()
		if i%10 == 3 {
			continue // not there: left out of the answer
		}
		_, err := b.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: table.EncodeEntity(e)})
		require.NoError(t, err)
	}
	return wanted
}

func TestBatchReadReadsEverythingOnce(t *testing.T) {
	for _, c := range []struct{ keys, processed, calls int }{
		{keys: 0, processed: 100, calls: 0},
		{keys: 5, processed: 100, calls: 1},
		{keys: 5, processed: 2, calls: 3},
		{keys: 230, processed: 100, calls: 3},
		{keys: 230, processed: 30, calls: 4 + 4 + 1},
	} {
		t.Run(fmt.Sprintf("%d keys %d processed", c.keys, c.processed), func(t *testing.T) {
			embedded := engine.New(engine.Options{Now: noon})
			b := tabletest.Behind(t, partial{embedded.HTTPClient(), c.processed}, noon)
			wanted := stored(t, b, c.keys)
			items, err := store.BatchRead(t.Context(), b.DB, b.Table, wanted)
			require.NoError(t, err)
			found := map[keys.Key]int{}
			for _, item := range items {
				e, err := table.DecodeEntity(item)
				require.NoError(t, err)
				found[e.Key.Key()]++
			}
			for i, k := range wanted {
				require.Equal(t, i%10 != 3, found[k] == 1, "%v", k)
			}
			require.Equal(t, c.calls, b.Calls("BatchGetItem"))
		})
	}
}

func TestBatchReadGivesUpWithItsContext(t *testing.T) {
	embedded := engine.New(engine.Options{Now: noon})
	b := tabletest.Behind(t, partial{embedded.HTTPClient(), 0}, noon)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := store.BatchRead(ctx, b.DB, b.Table, []keys.Key{keys.SystemConfig{Namespace: "AAAAAAAAAAA"}.Key()})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
