package engine_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
)

// recorded is a table whose engine keeps every Commit it hands out.
func recorded(t *testing.T) (*table, *[]engine.Commit) {
	t.Helper()
	var commits []engine.Commit
	c := newClock()
	embedded, db := newClient(engine.Options{Now: c.Now, OnCommit: func(c engine.Commit) { commits = append(commits, c) }})
	return backend{db: db, engine: embedded, clock: c, tables: new(atomic.Int64)}.table(t), &commits
}

func TestCommitsRecordChangesOnly(t *testing.T) {
	x, commits := recorded(t)
	x.put(item("s", "1", "v", num(1)))
	x.allNew("s", "1", "ADD v :o", nil, attrs{":o": num(1)})
	x.put(item("s", "1", "v", num("2.0")))
	x.allNew("s", "1", "SET v = :v REMOVE nothing ADD z :zero", nil, attrs{":v": num(2), ":zero": num(0)})
	x.allNew("s", "1", "REMOVE z", nil, nil)
	for range 2 {
		_, err := x.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: x.name, Key: key("s", "1")})
		require.NoError(t, err)
	}
	_, err := x.tryUpdate("s", "1", change{update: "SET v = :v", condition: "attribute_exists(pk)", values: attrs{":v": num(1)}})
	requireCode(t, err, "ConditionalCheckFailedException")

	// The third write puts what is there already, the second deletion finds
	// nothing, the last is refused: none of them is a change.
	kinds := ""
	for i, c := range *commits {
		require.Len(t, c.Changes, 1)
		ch := c.Changes[0]
		require.EqualValues(t, i+1, ch.Sequence)
		require.Equal(t, *x.name, ch.Table)
		require.Len(t, ch.Keys(), 2)
		require.Equal(t, engine.Client, ch.By)
		require.Equal(t, x.backend.clock.Now(), ch.At)
		switch {
		case ch.Old == nil:
			kinds += "I"
		case ch.New == nil:
			kinds += "R"
		default:
			kinds += "M"
		}
	}
	require.Equal(t, "IMMMR", kinds)
	require.Equal(t, "1", (*commits)[1].Changes[0].Old["v"].Number().String())
	require.Equal(t, "2", (*commits)[1].Changes[0].New["v"].Number().String())
}

func TestCommitOfATransactionIsOne(t *testing.T) {
	x, commits := recorded(t)
	require.NoError(t, x.transact(x.add("t", "1", 1, "", nil), x.add("t", "2", 1, "", nil)))
	require.Len(t, *commits, 1)
	c := (*commits)[0]
	require.Len(t, c.Changes, 2)
	require.NotEmpty(t, c.Token, "the SDK pins one by itself")
	require.NotZero(t, c.Digest)
}

func TestExpiryIsRecordedAsTheEngines(t *testing.T) {
	x, commits := recorded(t)
	_, err := x.db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               x.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("exp"), Enabled: aws.Bool(true)},
	})
	require.NoError(t, err)
	now := x.backend.clock.Now()
	x.put(item("a", "1", "exp", num(now.Unix())), item("a", "2", "exp", num(now.Unix())))
	x.update("a", "2", change{update: "SET exp = :e", values: attrs{":e": num(now.Unix() + 60)}})
	require.Equal(t, 1, x.backend.engine.Expire(now), "the item with more time stays")
	last := (*commits)[len(*commits)-1].Changes[0]
	require.Equal(t, engine.TimeToLive, last.By)
	require.Nil(t, last.New)
	require.Equal(t, "1", last.Keys()["sk"].Text())
}

// A write may come between the moment Expire finds an item due and the moment
// it deletes it. The observer is where a test can put itself between the two.
func TestExpiryLooksAgain(t *testing.T) {
	const items = 3000 // several sweep pages
	c := newClock()
	var x *table
	renewed := make(chan error, 1)
	first := true
	embedded, db := newClient(engine.Options{Now: c.Now, OnCommit: func(commit engine.Commit) {
		if len(commit.Changes) == 1 && commit.Changes[0].By == engine.TimeToLive && first {
			first = false
			// Queues behind the lock that this deletion holds, ahead of later pages.
			go func() {
				_, err := x.tryUpdate("a", "2999", change{update: "SET renewed = :y REMOVE exp", values: attrs{":y": num(1)}})
				renewed <- err
			}()
		}
	}})
	x = backend{db: db, engine: embedded, clock: c, tables: new(atomic.Int64)}.table(t)
	_, err := db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName:               x.name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("exp"), Enabled: aws.Bool(true)},
	})
	require.NoError(t, err)
	for i := range items {
		x.put(item("a", num4(i), "exp", num(c.Now().Unix())))
	}
	deleted := embedded.Expire(c.Now())
	require.NoError(t, <-renewed)
	left := x.query("pk = :p", attrs{":p": text("a")}, nil).Items
	// Either the renewal came first and the item stayed, or it came last and
	// made the item anew; in no case does an item with time left disappear.
	require.Len(t, left, 1)
	require.Equal(t, item("a", "2999", "renewed", num(1)), left[0])
	require.Contains(t, []int{items - 1, items}, deleted)
}

func num4(i int) string { return strings.Repeat("0", 4-len(numberOf(num(i)))) + numberOf(num(i)) }

func TestRepliesKeepTheirImages(t *testing.T) {
	x, commits := recorded(t)
	x.put(item("a", "1", "m", nested(attrs{"n": num(1)}), "l", list(num(1))))
	_, err := x.tryUpdate("a", "1", change{update: "SET z = :z", condition: "attribute_exists(z)", values: attrs{":z": num(1)}})
	var refused *types.ConditionalCheckFailedException
	require.ErrorAs(t, err, &refused)
	x.update("a", "1", change{update: "SET m.n = :n, l[0] = :n", values: attrs{":n": num(2)}})
	require.Equal(t, item("a", "1", "m", nested(attrs{"n": num(1)}), "l", list(num(1))), refused.Item, "a copy")
	require.Equal(t, "1", (*commits)[0].Changes[0].New["m"].Map()["n"].Number().String(), "images never change")
}

// rawCall posts a body to the handler and returns the reply.
func rawCall(h http.Handler, operation, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	req.Header.Set("X-Amz-Target", operation)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestReplyHeaders(t *testing.T) {
	c := newClock()
	embedded := engine.New(engine.Options{Now: c.Now})
	w := rawCall(embedded, "DynamoDB_20120810.ListTables", "{}")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "Sun, 01 Mar 2026 12:00:00 GMT", w.Header().Get("Date"))
	require.Equal(t, "application/x-amz-json-1.0", w.Header().Get("Content-Type"))
	require.NotEmpty(t, w.Header().Get("X-Amzn-RequestId"))
	require.NotEmpty(t, w.Header().Get("X-Amz-Crc32"))
	c.Advance(time.Second)
	require.Equal(t, "Sun, 01 Mar 2026 12:00:01 GMT", rawCall(embedded, "", "").Header().Get("Date"), "on refusals, too")
}

func TestAFailedConditionIsCharged(t *testing.T) {
	x, _ := recorded(t)
	x.put(item("a", "1", "d", text(strings.Repeat("x", 1500))))
	w := rawCall(x.backend.engine, "DynamoDB_20120810.DeleteItem",
		`{"TableName":"`+*x.name+`","Key":{"pk":{"S":"a"},"sk":{"S":"1"}},"ConditionExpression":"attribute_not_exists(pk)"}`)
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Equal(t, "2 0 0", w.Header().Get(engine.ConsumedHeader))
}

func TestInProcessHonoursTheContext(t *testing.T) {
	x, commits := recorded(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := x.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: x.name, Item: item("a", "1")})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, *commits)
}

func TestAPanicIsAnInternalServerError(t *testing.T) {
	c := newClock()
	boom := false
	embedded, db := newClient(engine.Options{Now: c.Now, OnCommit: func(engine.Commit) {
		if boom {
			panic("planted")
		}
	}})
	x := backend{db: db, engine: embedded, clock: c, tables: new(atomic.Int64)}.table(t)
	boom = true
	w := rawCall(embedded, "DynamoDB_20120810.PutItem", `{"TableName":"`+*x.name+`","Item":{"pk":{"S":"a"},"sk":{"S":"1"}}}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "InternalServerError")
	boom = false
	x.put(item("a", "2")) // the lock was given back
}

func TestTheTransportServesAnyHTTPClient(t *testing.T) {
	c := newClock()
	embedded := engine.New(engine.Options{Now: c.Now})
	client := &http.Client{Transport: embedded.HTTPClient()}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://engine.invalid/", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810.ListTables")
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"TableNames":[]}`, string(body))
}
