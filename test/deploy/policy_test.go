package deploy_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// access is one thing that IAM allows or not.
type access struct {
	action, resource string
	leading          string // partition key of an item; empty for an index, a scan or a stream
}

// recorder carries requests to a store and keeps what IAM would be asked for.
type recorder struct {
	next http.RoundTripper

	// guarded by mu until nobody calls any more
	mu    sync.Mutex
	asked map[access]bool
	calls map[string]int64 // by operation
}

func newRecorder(next http.RoundTripper) *recorder {
	return &recorder{next: next, asked: map[access]bool{}, calls: map[string]int64{}}
}

func (r *recorder) Do(req *http.Request) (*http.Response, error) { return r.RoundTrip(req) }

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	_, operation, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	asked := accesses(operation, body)
	r.mu.Lock()
	r.calls[operation]++
	for _, a := range asked {
		r.asked[a] = true
	}
	r.mu.Unlock()
	return r.next.RoundTrip(req)
}

// accesses are what IAM asks of a request. A transaction needs what its members
// do on their own, and nothing for itself.
func accesses(operation string, body []byte) []access {
	const arn = "arn:aws:dynamodb:us-east-1:000000000000:"
	var q struct {
		TableName, IndexName, StreamArn, ShardIterator string
		RequestItems                                   map[string]json.RawMessage
		TransactItems                                  []map[string]json.RawMessage
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return []access{{operation, "unreadable: " + err.Error(), ""}}
	}
	switch {
	case operation == "ListStreams":
		return []access{{operation, "*", ""}}
	case q.StreamArn != "" || q.ShardIterator != "":
		return []access{{operation, arn + "table/" + table.DefaultName + "/stream/any", ""}}
	case q.IndexName != "":
		return []access{{operation, arn + "table/" + q.TableName + "/index/" + q.IndexName, ""}}
	case q.TableName != "":
		return each(operation, arn+"table/"+q.TableName, body)
	}
	var all []access
	for name, items := range q.RequestItems {
		all = append(all, each(operation, arn+"table/"+name, items)...)
	}
	actions := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}
	for _, member := range q.TransactItems {
		for kind, on := range member {
			var named struct{ TableName string }
			if err := json.Unmarshal(on, &named); err != nil {
				return []access{{operation, "unreadable: " + err.Error(), ""}}
			}
			all = append(all, each(actions[kind], arn+"table/"+named.TableName, on)...)
		}
	}
	return all
}

// partitionKeys are the partition keys in a request, as key, as item, or as the value that a
// query's condition compares with.
var partitionKeys = regexp.MustCompile(`"(?:PK|:[^"]*)":\{"S":"((?:[A-Za-z0-9_-]{11}|_)/[^"]*)"\}`)

// each is an action on each partition key of a request.
func each(action, resource string, request []byte) []access {
	var all []access
	for _, found := range partitionKeys.FindAllSubmatch(request, -1) {
		all = append(all, access{action, resource, string(found[1])})
	}
	if all == nil {
		all = []access{{action, resource, ""}}
	}
	return all
}

// objectRecorder carries requests to an object store, and keeps with the others what
// IAM would be asked for.
type objectRecorder struct{ *recorder }

func (r objectRecorder) Do(req *http.Request) (*http.Response, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
	a := access{map[string]string{http.MethodGet: "s3:GetObject", http.MethodPut: "s3:PutObject"}[req.Method], "arn:aws:s3:::" + bucket + "/" + key, ""}
	if req.Method == http.MethodGet && key == "" {
		a = access{"s3:ListBucket", "arn:aws:s3:::" + bucket, ""}
	}
	r.mu.Lock()
	r.asked[a] = true
	r.mu.Unlock()
	return http.DefaultClient.Do(req)
}

// exchange is one request that is answered without an error.
type exchange struct {
	user string
	verb api.Verb
	body string // $LEASE is the last lease that came, $EVENT the last audit event, $KEY the first lease key
}

// everything asks for each verb, in the states that make a difference to the
// store: made and there, with and without a parent, one and many.
func everything() []exchange {
	const limits = `"limits":[{"name":"rpm","capacity":100,"refill_amount":1,"refill_period_seconds":60}]`
	const acquire = `{"entity":"key","resource":"gpt-4","consume":{"rpm":1}}`
	const admin, spender, override = "acme-admin", "acme", "acme-override"
	return []exchange{
		{admin, api.VerbLimitsSet, `{"system":true,` + limits + `}`},
		{admin, api.VerbLimitsSet, `{"resource":"gpt-4",` + limits + `}`},
		{admin, api.VerbLimitsSet, `{"entity":"key",` + limits + `}`},
		{admin, api.VerbLimitsSet, `{"entity":"key","resource":"gpt-4",` + limits + `}`},
		{admin, api.VerbLimitsGet, `{"resource":"gpt-4"}`},
		{admin, api.VerbLimitsList, `{}`},
		{admin, api.VerbLimitsList, `{"entity":"key"}`},
		{admin, api.VerbLimitsList, `{"resource":"gpt-4"}`},
		{admin, api.VerbLimitsResolve, `{"entity":"key","resource":"gpt-4"}`},
		{admin, api.VerbPolicySet, `{"system":true,"on_unavailable":"allow"}`},
		{admin, api.VerbPolicyGet, `{"system":true}`},
		{admin, api.VerbEntityCreate, `{"entity":"team"}`},
		// A move within a family relies on who is above both parents.
		{admin, api.VerbEntityCreate, `{"entity":"old","parent":"team"}`},
		{admin, api.VerbEntityCreate, `{"entity":"new","parent":"team"}`},
		{admin, api.VerbEntityCreate, `{"entity":"mover","parent":"old"}`},
		{admin, api.VerbEntityUpdate, `{"entity":"mover","parent":"new"}`},
		{admin, api.VerbEntityCreate, `{"entity":"key","parent":"team","cascade":true}`},
		{admin, api.VerbEntityGet, `{"entity":"key"}`},
		{admin, api.VerbEntityList, `{}`},
		{admin, api.VerbEntityChildren, `{"entity":"team"}`},
		{spender, api.VerbAcquire, acquire},
		{spender, api.VerbAcquire, acquire},
		{spender, api.VerbAdjust, `{"lease":"$LEASE","deltas":{"rpm":1}}`},
		{spender, api.VerbRelease, `{"lease":"$LEASE"}`},
		{spender, api.VerbStatus, `{"entity":"key","resource":"gpt-4"}`},
		{spender, api.VerbStatus, `{"entity":"key"}`},
		{override, api.VerbAcquireOverride, `{"entity":"key","resource":"gpt-4","consume":{"rpm":1},` + limits + `}`},
		{admin, api.VerbCapacity, `{"resource":"gpt-4"}`},
		{admin, api.VerbBucketGet, `{"entity":"key","resource":"gpt-4"}`},
		{admin, api.VerbBucketReset, `{"entity":"key","resource":"gpt-4"}`},
		{admin, api.VerbUsageList, `{"entity":"key","resource":"gpt-4"}`},
		{admin, api.VerbUsageSummary, `{"entity":"key","resource":"gpt-4"}`},
		{admin, api.VerbEntityUpdate, `{"entity":"key","name":"Key"}`},
		{admin, api.VerbEntityUpdate, `{"entity":"key","parent":""}`},
		{admin, api.VerbEntityDelete, `{"entity":"team","orphan":true}`},
		{admin, api.VerbLimitsDelete, `{"entity":"key"}`},
		{admin, api.VerbAuditList, `{"system":true}`},
		{admin, api.VerbAuditShow, `{"id":"$EVENT"}`},
		{admin, api.VerbAuditVerify, `{}`},
		{operatorUser, api.VerbNamespaceCreate, `{"name":"gamma"}`},
		{operatorUser, api.VerbNamespaceList, `{}`},
		{operatorUser, api.VerbNamespaceGet, `{"name":"gamma"}`},
		{operatorUser, api.VerbNamespaceDelete, `{"name":"gamma"}`},
		{operatorUser, api.VerbNamespaceRecover, `{"name":"gamma"}`},
		{operatorUser, api.VerbNamespaceDelete, `{"name":"acme"}`},
		{operatorUser, api.VerbNamespacePurge, `{"name":"acme"}`},
		{operatorUser, api.VerbKeyList, `{}`},
		{operatorUser, api.VerbKeyRotate, `{}`},
		{operatorUser, api.VerbKeyRevoke, `{"id":"$KEY"}`},
	}
}

// ask makes the requests, in order, each by the user that may.
func ask(t *testing.T, w *world, exchanges []exchange) {
	t.Helper()
	lease, event, key := "", "", ""
	for _, x := range exchanges {
		nc := w.nats.connect(t, x.user)
		body := strings.NewReplacer("$LEASE", lease, "$EVENT", event, "$KEY", key).Replace(x.body)
		reply, err := nc.Request(api.Subject(homeOf(x.user), x.verb), []byte(body), patience)
		require.NoError(t, err, x)
		require.Empty(t, reply.Header.Get(api.HeaderErrorCode), "%s %s: %s", x.verb, body, reply.Data)
		var came struct {
			Lease  string           `json:"lease"`
			Events []api.AuditEvent `json:"events"`
			Keys   []api.LeaseKey   `json:"keys"`
		}
		require.NoError(t, json.Unmarshal(reply.Data, &came))
		if came.Lease != "" {
			lease = came.Lease
		}
		if len(came.Events) > 0 {
			event = came.Events[0].ID
		}
		if len(came.Keys) > 0 {
			key = came.Keys[0].ID
		}
		nc.Close()
	}
}

// Each role may do what it does, and no more: every verb is asked for, the usage
// is counted, and every call to the store is looked at.
func TestPoliciesAllowWhatIsNeeded(t *testing.T) {
	w := newWorld(t, "acme")
	w.calls.Match(rejectASnapshot())
	stopAdmission := w.runAdmission(t)
	stopRelay := w.runRelay(t)
	stopAggregator := w.runAggregator(t, "one")
	stopSharder := w.runSharder(t, "one")
	stopArchiver := w.runArchiver(t, "one")
	requireEveryVerb(t, w)
	ask(t, w, everything())
	w.dividedAndMerged(t)
	w.purgedTooEarly(t)
	w.drained(t)
	stopAdmission()
	stopRelay()
	stopAggregator()
	stopSharder()
	stopArchiver()
	require.NotEmpty(t, w.objects.Keys(t), "what the purge deletes is archived")
	policies, err := filepath.Glob(filepath.Join(root, "deploy", "aws", "*-policy.json"))
	require.NoError(t, err)
	require.Len(t, policies, len(roles()))
	made := map[string]int64{}
	for _, role := range roles() {
		r := w.record[role]
		requireExact(t, role+"-policy.json", r.asked)
		for operation, n := range r.calls {
			made[operation] += n
		}
	}
	for operation, count := range w.calls.Counts() {
		require.Equal(t, count.Calls, made[operation], "%s: somebody is in no role", operation)
	}
}

// rejectASnapshot has the store reject a usage snapshot once, which makes the
// aggregator look for the reason.
func rejectASnapshot() func(operation string, body []byte) fault.Fault {
	var once sync.Once
	return func(operation string, body []byte) (f fault.Fault) {
		if operation == "UpdateItem" && bytes.Contains(body, []byte("#USAGE#")) {
			once.Do(func() {
				f = fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{
					Status: http.StatusBadRequest, Type: "com.amazon.coral.validate#ValidationException", Message: "not today",
				}}
			})
		}
		return f
	}
}

// dividedAndMerged has the sharder end what others left half done: a doubling of
// four shards, and a merge to one.
func (w *world) dividedAndMerged(t *testing.T) {
	t.Helper()
	db := dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), region))
	at := func() (bucket.Instant, error) { return bucket.At(time.Now()), nil }
	store := shards.NewStore(db, table.DefaultName, at, rand.Text)
	id, err := config.NewNamespaces(db, table.DefaultName).Ensure(t.Context(), api.DefaultNamespace)
	require.NoError(t, err)
	key := keys.Bucket{Namespace: id, Entity: "divided", Resource: resource}
	limit := bucket.Limit{Name: "rpm", Capacity: 100 * bucket.Milli, Refill: bucket.Milli, Period: 1000}
	now, _ := at()
	item := table.EncodeBucket(&table.Bucket{Key: key, Level: 1, Fingerprint: "print", LastWrite: "test", Limits: []table.Limit{
		{Limit: limit, Drawn: limit.Window(bucket.Whole(), now).Full()},
	}})
	name := table.DefaultName
	_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item})
	require.NoError(t, err)
	tree, err := store.Double(t.Context(), key, 1)
	require.NoError(t, err)
	tree, err = store.Double(t.Context(), key, len(tree))
	require.NoError(t, err)
	for _, wanted := range []int{8, 1} {
		zero := tree.Find(0)
		form := table.Want{Key: key, Change: table.WantChange{From: zero.Want, To: wanted}, Level: zero.Level, WriteUnits: 1, Nonce: rand.Text()}
		_, err = db.UpdateItem(t.Context(), form.Input(table.DefaultName))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			tree, err = store.Read(t.Context(), key, 0)
			require.NoError(t, err)
			return len(tree) == wanted
		}, patience, 50*time.Millisecond, "the sharder does not make them %d", wanted)
	}
}

// purgedTooEarly lets a bucket of a namespace be used that is gone, so that the aggregator
// deletes what it counts.
func (w *world) purgedTooEarly(t *testing.T) {
	t.Helper()
	db := dynamodb.NewFromConfig(engine.Config(w.engine.HTTPClient(), region))
	name := table.DefaultName
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: table.EncodeBucket(&table.Bucket{
		Key: keys.Bucket{Namespace: "AAAAAAAAAAE", Entity: "late", Resource: resource}, Level: 1, Fingerprint: "print", LastWrite: "test", Acquires: 1,
	})})
	require.NoError(t, err)
}

// requireEveryVerb: what is not asked for is not served.
func requireEveryVerb(t *testing.T, w *world) {
	t.Helper()
	nc := w.nats.connect(t, "acme-admin")
	for _, verb := range api.Verbs() {
		if slices.ContainsFunc(everything(), func(x exchange) bool { return x.verb == verb }) {
			continue
		}
		reply, err := nc.Request(api.Subject("acme", verb), []byte("{}"), patience)
		require.NoError(t, err, verb)
		require.Equal(t, api.CodeUnknownVerb, api.DecodeError(reply.Data).Code, "%s is served: ask for it here", verb)
	}
}
