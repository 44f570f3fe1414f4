package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/dirtest"
)

func openBackend(t require.TestingT, c *clock, d engine.Durability) backend {
	embedded, err := engine.Open(engine.Options{Now: c.Now}, d)
	require.NoError(t, err)
	db := dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
	return backend{db: db, engine: embedded, clock: c, tables: new(atomic.Int64)}
}

// durable is an engine in a directory of its own, closed at the test's end.
func durable(t *testing.T, d engine.Durability) backend {
	t.Helper()
	if d.Dir == "" {
		d.Dir = t.TempDir()
	}
	b := openBackend(t, newClock(), d)
	t.Cleanup(func() { _ = b.engine.Close() })
	return b
}

// crashed copies a directory as a crash would leave it.
func crashed(t require.TestingT, dir, to string) string {
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// ask calls an operation and returns the reply, decoded.
func ask(t require.TestingT, h http.Handler, operation string, in any) map[string]any {
	body, err := json.Marshal(in)
	require.NoError(t, err)
	w := rawCall(h, "DynamoDB_20120810."+operation, string(body))
	require.Equal(t, http.StatusOK, w.Code, "%s %s: %s", operation, body, w.Body)
	var out map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	return out
}

// state is all that can be seen of an engine.
func state(t require.TestingT, e *engine.Engine) map[string]any {
	all := map[string]any{"sequence": e.Sequence()}
	for _, name := range ask(t, e, "ListTables", struct{}{})["TableNames"].([]any) {
		table := map[string]any{"TableName": name}
		described := ask(t, e, "DescribeTable", table)["Table"].(map[string]any)
		seen := []any{described, ask(t, e, "ListTagsOfResource", map[string]any{"ResourceArn": described["TableArn"]}), ask(t, e, "DescribeTimeToLive", table), ask(t, e, "Scan", table)}
		if indexes, ok := described["GlobalSecondaryIndexes"].([]any); ok {
			for _, x := range indexes {
				table["IndexName"] = x.(map[string]any)["IndexName"]
				seen = append(seen, ask(t, e, "Scan", table))
			}
		}
		all[name.(string)] = seen
	}
	return all
}

// TestReopen is any history of operations, snapshots, crashes and restarts:
// what is there after is what was there before.
func TestReopen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		root := dirtest.New(t)
		h := history{clock: newClock(), d: engine.Durability{
			Dir: filepath.Join(root, "0"), Sync: journal.Never, CutBytes: rapid.Int64Range(500, 20_000).Draw(rt, "cut bytes"),
		}}
		h.backend = openBackend(rt, h.clock, h.d)
		rt.Repeat(map[string]func(*rapid.T){
			"table": h.table, "settings": h.settings, "drop": h.drop,
			"put": h.put, "update": h.update, "delete": h.delete, "transact": h.transact, "expire": h.expire,
			"snapshot": func(rt *rapid.T) { require.NoError(rt, h.backend.engine.Snapshot()) },
			"reopen": func(rt *rapid.T) {
				before := state(rt, h.backend.engine)
				require.NoError(rt, h.backend.engine.Close())
				h.backend = openBackend(rt, h.clock, h.d)
				require.Equal(rt, before, state(rt, h.backend.engine))
			},
			"crash": func(rt *rapid.T) {
				before := state(rt, h.backend.engine)
				// Close, for the copy must not see a snapshot come and go; a copy of a
				// closed directory and of a crashed one are the same.
				require.NoError(rt, h.backend.engine.Close())
				h.crashes++
				h.d.Dir = crashed(rt, h.d.Dir, filepath.Join(root, strconv.Itoa(h.crashes)))
				h.backend = openBackend(rt, h.clock, h.d)
				require.Equal(rt, before, state(rt, h.backend.engine))
			},
		})
		require.NoError(rt, h.backend.engine.Close())
	})
}

// history calls operations with whatever parameters. Some are refused: that is
// as good.
type history struct {
	backend backend
	clock   *clock
	d       engine.Durability
	crashes int
}

func (h *history) call(operation string, in map[string]any) {
	body, err := json.Marshal(in)
	if err != nil {
		panic(err) // a mistake in the test
	}
	rawCall(h.backend.engine, "DynamoDB_20120810."+operation, string(body))
}

func (h *history) name(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "table")
}

func (h *history) key(rt *rapid.T) map[string]any {
	s := func(label string) map[string]any {
		return map[string]any{"S": rapid.SampledFrom([]string{"a", "b", "\x00", "é\"\\"}).Draw(rt, label)}
	}
	return map[string]any{"pk": s("pk"), "sk": s("sk")}
}

func (h *history) table(rt *rapid.T) {
	name := h.name(rt)
	_, err := h.backend.db.CreateTable(rt.Context(), definition(name, rapid.Bool().Draw(rt, "indexes")))
	if err != nil {
		requireInUse(rt, err)
	}
}

func requireInUse(t require.TestingT, err error) {
	var known *types.ResourceInUseException
	require.ErrorAs(t, err, &known)
}

func (h *history) drop(rt *rapid.T) { h.call("DeleteTable", map[string]any{"TableName": h.name(rt)}) }

func (h *history) settings(rt *rapid.T) {
	name := h.name(rt)
	switch rapid.IntRange(0, 5).Draw(rt, "setting") {
	case 5:
		h.call("TagResource", map[string]any{
			"ResourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/" + name,
			"Tags":        []any{map[string]any{"Key": rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "tag"), "Value": "x"}},
		})
	case 0:
		h.call("UpdateTable", map[string]any{
			"TableName": name, "BillingMode": "PROVISIONED",
			"ProvisionedThroughput": map[string]any{"ReadCapacityUnits": 5, "WriteCapacityUnits": 7},
		})
	case 1:
		h.call("UpdateTable", map[string]any{"TableName": name, "DeletionProtectionEnabled": rapid.Bool().Draw(rt, "protected")})
	case 2:
		h.call("UpdateTimeToLive", map[string]any{"TableName": name, "TimeToLiveSpecification": map[string]any{
			"AttributeName": "v", "Enabled": rapid.Bool().Draw(rt, "ttl"),
		}})
	case 3:
		h.call("UpdateTable", map[string]any{"TableName": name, "GlobalSecondaryIndexUpdates": []any{
			map[string]any{"Delete": map[string]any{"IndexName": "gall"}},
		}})
	case 4:
		h.call("UpdateTable", map[string]any{
			"TableName":            name,
			"AttributeDefinitions": []any{map[string]any{"AttributeName": "g1", "AttributeType": "S"}},
			"GlobalSecondaryIndexUpdates": []any{map[string]any{"Create": map[string]any{
				"IndexName": "gall", "KeySchema": []any{map[string]any{"AttributeName": "g1", "KeyType": "HASH"}},
				"Projection": map[string]any{"ProjectionType": "ALL"},
			}}},
		})
	}
}

func (h *history) value(rt *rapid.T) map[string]any {
	return rapid.SampledFrom([]map[string]any{
		{"N": "1"},
		{"N": "-12345678901234567890.123456789012345678"},
		{"N": "1772366400"},
		{"S": "\u2028 text"},
		{"B": "AAH/"},
		{"SS": []string{"x", "y"}},
		{"NULL": true},
		{"M": map[string]any{"m": map[string]any{"L": []any{map[string]any{"BOOL": false}}}}},
	}).Draw(rt, "value")
}

func (h *history) put(rt *rapid.T) {
	item := h.key(rt)
	item["v"] = h.value(rt)
	if rapid.Bool().Draw(rt, "indexed") {
		item["g1"], item["g1n"] = map[string]any{"S": "g"}, map[string]any{"N": rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "g1n")}
	}
	h.call("PutItem", map[string]any{"TableName": h.name(rt), "Item": item})
}

func (h *history) update(rt *rapid.T) {
	h.call("UpdateItem", map[string]any{
		"TableName": h.name(rt), "Key": h.key(rt),
		"UpdateExpression":          rapid.SampledFrom([]string{"SET v = :v", "SET v = :v REMOVE g1", "SET extra = :v"}).Draw(rt, "update"),
		"ExpressionAttributeValues": map[string]any{":v": h.value(rt)},
	})
}

func (h *history) delete(rt *rapid.T) {
	h.call("DeleteItem", map[string]any{"TableName": h.name(rt), "Key": h.key(rt)})
}

func (h *history) transact(rt *rapid.T) {
	update := func() map[string]any {
		return map[string]any{"Update": map[string]any{
			"TableName": h.name(rt), "Key": h.key(rt), "UpdateExpression": "ADD n :n",
			"ExpressionAttributeValues": map[string]any{":n": map[string]any{"N": "1"}},
		}}
	}
	h.call("TransactWriteItems", map[string]any{
		"TransactItems":      []any{update(), update()},
		"ClientRequestToken": rapid.SampledFrom([]string{"k", "l", "m"}).Draw(rt, "token"),
	})
}

func (h *history) expire(*rapid.T) {
	h.clock.Advance(time.Minute)
	h.backend.engine.Expire(h.clock.Now())
}

func TestSequenceAndTokensGoOn(t *testing.T) {
	for name, snapshot := range map[string]bool{"from the log": false, "from a snapshot": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := durable(t, engine.Durability{Dir: dir})
			x := b.table(t)
			in := &dynamodb.TransactWriteItemsInput{
				ClientRequestToken: aws.String("token"), TransactItems: []types.TransactWriteItem{x.add("a", "1", 1, "", nil)},
			}
			_, err := b.db.TransactWriteItems(t.Context(), in)
			require.NoError(t, err)
			x.put(item("a", "2"))
			if snapshot {
				require.NoError(t, b.engine.Snapshot())
			}
			require.NoError(t, b.engine.Close())

			var commits []engine.Commit
			embedded, err := engine.Open(engine.Options{
				Now: b.clock.Now, OnCommit: func(c engine.Commit) { commits = append(commits, c) },
			}, engine.Durability{Dir: dir})
			require.NoError(t, err)
			defer func() { require.NoError(t, embedded.Close()) }()
			require.Empty(t, commits, "what was restored is not new")
			x.db = dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), "us-east-1"))
			_, err = x.db.TransactWriteItems(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, "1", numberOf(x.get("a", "1")["cnt"]), "the token was remembered")
			x.put(item("a", "3"))
			require.Len(t, commits, 1)
			require.EqualValues(t, 3, commits[0].Changes[0].Sequence)
		})
	}
}

func TestClosedEngineRefuses(t *testing.T) {
	b := durable(t, engine.Durability{})
	x := b.table(t)
	require.NoError(t, b.engine.Close())
	w := rawCall(b.engine, "DynamoDB_20120810.Scan", `{"TableName":"`+*x.name+`"}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.Contains(t, w.Body.String(), "closed")
	require.ErrorIs(t, b.engine.Close(), journal.ErrClosed)
	require.NoError(t, engine.New(engine.Options{Now: b.clock.Now}).Close(), "nothing to close")
}

func TestSecondEngineIsRefused(t *testing.T) {
	dir := t.TempDir()
	durable(t, engine.Durability{Dir: dir})
	_, err := engine.Open(engine.Options{Now: newClock().Now}, engine.Durability{Dir: dir})
	require.ErrorIs(t, err, journal.ErrInUse)
}

// failing is a disk whose fsync waits for the test's word.
type failing struct {
	journal.File
	verdict <-chan error
	armed   *atomic.Bool
}

func (f failing) Sync() error {
	if !f.armed.Load() {
		return f.File.Sync()
	}
	if err := <-f.verdict; err != nil {
		return err
	}
	return f.File.Sync()
}

// TestNothingIsShownBeforeItIsSafe writes to a disk that fails in the end:
// neither the writer nor any reader, who all come before the end, is told of the
// write.
func TestNothingIsShownBeforeItIsSafe(t *testing.T) {
	synctest.Test(t, checkNothingIsShownBeforeItIsSafe)
}

func checkNothingIsShownBeforeItIsSafe(t *testing.T) {
	t.Helper()
	verdict := make(chan error)
	var armed atomic.Bool
	b := durable(t, engine.Durability{Wrap: func(f journal.File) journal.File {
		return failing{File: f, verdict: verdict, armed: &armed}
	}})
	x := b.table(t)
	x.put(item("a", "1", "v", num(1)))
	armed.Store(true)
	key := `"TableName":"` + *x.name + `","Key":{"pk":{"S":"a"},"sk":{"S":"1"}}`
	calls := []string{
		"UpdateItem", `{` + key + `,"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"N":"2"}}}`,
		"GetItem", `{` + key + `}`,
		"GetItem", `{` + key + `,"ConsistentRead":true}`,
		"TransactGetItems", `{"TransactItems":[{"Get":{` + key + `}}]}`,
		"Scan", `{"TableName":"` + *x.name + `"}`,
		// Refused because of the write, or without effect because of it.
		"PutItem", `{"TableName":"` + *x.name + `","Item":{"pk":{"S":"a"},"sk":{"S":"1"}},"ConditionExpression":"v = :v","ExpressionAttributeValues":{":v":{"N":"1"}}}`,
		"UpdateItem", `{` + key + `,"UpdateExpression":"SET v = :v","ExpressionAttributeValues":{":v":{"N":"2"}}}`,
	}
	var all sync.WaitGroup
	var answered atomic.Int64
	for i := 0; i < len(calls); i += 2 {
		all.Go(func() {
			w := rawCall(b.engine, "DynamoDB_20120810."+calls[i], calls[i+1])
			answered.Add(1)
			if w.Code != http.StatusInternalServerError {
				t.Errorf("%s was answered %d %s", calls[i], w.Code, w.Body)
			}
		})
		synctest.Wait() // the first is in memory then, and waits for the disk
	}
	require.Zero(t, answered.Load())
	verdict <- errors.New("planted")
	all.Wait()
	for i := 0; i < len(calls); i += 2 { // and that stays so
		w := rawCall(b.engine, "DynamoDB_20120810."+calls[i], calls[i+1])
		require.Equal(t, http.StatusInternalServerError, w.Code, calls[i])
		require.Contains(t, w.Body.String(), "planted")
	}
}

// TestSnapshotsUnderLoad has the log cut again and again while tables are
// written, made and dropped.
func TestSnapshotsUnderLoad(t *testing.T) {
	const writers, each = 8, 300
	dir := t.TempDir()
	b := durable(t, engine.Durability{Dir: dir, Sync: journal.Never, CutBytes: 20_000})
	x := b.table(t)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				in := item("a", fmt.Sprintf("%d-%d", w, i%50), "v", num(i), "g1", text("g"), "g1n", num(i%7))
				_, err := b.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: x.name, Item: in})
				if err == nil && i%10 == 9 {
					_, err = b.db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: x.name, Key: key("a", fmt.Sprintf("%d-%d", w, i%25))})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 20 {
			if err := churn(t, b); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	before := state(t, b.engine)
	require.NoError(t, b.engine.Close())
	snapshots, err := filepath.Glob(filepath.Join(dir, "snapshot-*"))
	require.NoError(t, err)
	require.Len(t, snapshots, 1)
	again := durable(t, engine.Durability{Dir: dir})
	require.Equal(t, before, state(t, again.engine))
}

// churn makes a table, writes to it and drops it, always under the same name.
func churn(t *testing.T, b backend) error {
	name := aws.String("churned")
	_, err := b.db.CreateTable(t.Context(), definition(*name, true))
	if err != nil {
		return err
	}
	_, err = b.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: name, Item: item("a", "1", "g1", text("g"))})
	if err != nil {
		return err
	}
	_, err = b.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: name})
	return err
}
