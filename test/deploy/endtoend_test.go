package deploy_test

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/loadgen"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/test/ledger"
)

// slack is by how much two nodes may differ over the time: beyond it they stop
// writing.
const slack = 2 * time.Second

// teller is the entity that asks for many at once.
const teller = "teller"

// The whole stack, whatever services its file has, under an LLM trace from callers
// that share a parent's limits too. One aggregator becomes three, and every process
// of every service is killed and started again once, the store and NATS among them.
// In the end no limit has admitted more than it may, every acquire was spent from
// all limits or from none, what was admitted is spent, denials told the truth, and
// usage is what the table's change stream says, counted without Tidegate's code.
func TestTheStackKeepsItsPromisesWhateverIsKilled(t *testing.T) {
	s := newStack(t, project(t, nil))
	s.up(t, nil)
	l := &load{rows: trace(t)}
	family := "team"
	s.admin(t, "entity", "create", family)
	for _, name := range []string{"a", "b", "c", "d"} {
		l.entities = append(l.entities, family+"-"+name)
		s.admin(t, "entity", "create", family+"-"+name, "--parent", family, "--cascade")
		l.entities = append(l.entities, "alone-"+name)
	}
	s.admin(t, "limits", "set", "--resource", resource, "rpm=1200/min:300", "tpm=1500000/min:300000")
	s.admin(t, "limits", "set", "--entity", family, "--resource", resource, "rpm=3000/min:700", "tpm=3000000/min:700000")
	own := []api.Limit{perMinute(loadgen.LimitRequests, 1200, 300), perMinute(loadgen.LimitTokens, 1_500_000, 300_000)}
	shared := []api.Limit{perMinute(loadgen.LimitRequests, 3000, 700), perMinute(loadgen.LimitTokens, 3_000_000, 700_000)}
	for range 4 {
		l.clients = append(l.clients, s.client(t, tidegate.WithTimeout(time.Second)))
	}

	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); l.run(ctx) }()
	defer func() { end(); <-ended }()
	l.goesOn(t, 300)
	s.start(t, "aggregator")
	s.start(t, "aggregator")
	s.mustShareLanes(t, 3)
	for _, name := range sorted(s.running) {
		for _, p := range s.running[name] {
			s.kill(t, p)
			if name != "nats" && name != "store" { // of which there is one
				l.goesOn(t, 20)
			}
			p.launch(t)
			l.goesOn(t, 100)
		}
	}
	s.mustShareLanes(t, 3)
	require.Eventually(t, func() bool { return l.denied.Load() > 100 }, patience, time.Millisecond, "the limits are not reached")
	end()
	<-ended
	if err := l.wrong.Load(); err != nil {
		require.NoError(t, *err)
	}
	t.Logf("%d admitted, %d denied, %d without an answer in %v", l.admitted.Load(), l.denied.Load(), l.unknown.Load(), time.Since(l.began).Round(time.Millisecond))
	for _, node := range []string{"admission-1", "admission-2"} {
		require.Positive(t, s.metric(t, s.running[node][0], "tidegate_admission_requests_total"), node)
	}

	l.mustNeverBeOver(t, own, l.entities...)
	l.mustNeverBeOver(t, shared, family+"-")
	s.mustTellTheTruth(t, l)
	l.mustBeSpent(t, s.mustCountUsage(t), family)
}

func perMinute(name string, tokens, burst int64) api.Limit {
	return api.Limit{Name: name, Capacity: burst, RefillAmount: tokens, RefillPeriodSeconds: 60}
}

// mustNeverBeOver: P1, for the limits of each entity, or of what spends from a
// bucket together.
func (l *load) mustNeverBeOver(t *testing.T, limits []api.Limit, prefixes ...string) {
	t.Helper()
	for _, prefix := range prefixes {
		entries := l.all(prefix)
		require.NotEmpty(t, entries, prefix)
		for _, limit := range limits {
			violation, found := loadgen.CheckLimit(limit, entries, loadgen.Rules{Slack: slack})
			require.False(t, found, "%s: %+v", prefix, violation)
		}
	}
}

// mustTellTheTruth: P4. Who waits for as long as a denial says is admitted, when
// nobody else spends.
func (s *stack) mustTellTheTruth(t *testing.T, l *load) {
	t.Helper()
	spend := func() error {
		_, err := l.clients[0].Acquire(t.Context(), teller, resource, tidegate.Consume{loadgen.LimitRequests: 200})
		return err
	}
	var err error
	for err == nil {
		err = spend()
	}
	var denied *tidegate.DeniedError
	require.ErrorAs(t, err, &denied)
	pause(t.Context(), denied.RetryAfter+slack)
	require.NoError(t, spend())
}

// mustCountUsage: P7. Snapshots are what the change stream says, and stay so. It
// returns what each entity spent. P3: each acquire has spent one of the limit of
// requests, wherever it has spent at all.
func (s *stack) mustCountUsage(t *testing.T) map[string]ledger.Total {
	t.Helper()
	cfg := aws.Config{
		Region: region, BaseEndpoint: aws.String("http://" + s.reached["store:8000"]),
		Credentials: credentials.NewStaticCredentialsProvider("tidegate", "tidegate", ""),
		HTTPClient:  store.OwnBody(store.NewHTTPClient()),
	}
	db := dynamodb.NewFromConfig(cfg)
	var books ledger.Ledger
	spent := map[string]ledger.Total{}
	for _, change := range changesOf(t, db, dynamodbstreams.NewFromConfig(cfg)) {
		books.Add(change)
		_, rest, ok := strings.Cut(change.PK, "/BUCKET#")
		if !ok || change.New == nil {
			continue
		}
		used, acquires := ledger.Spent(change)
		total, ok := spent[strings.Split(rest, "#")[0]]
		if !ok {
			total.Used = map[string]int64{}
		}
		for limit, milli := range used {
			total.Used[limit] += milli
		}
		total.Acquires += acquires
		spent[strings.Split(rest, "#")[0]] = total
		if !strings.HasPrefix(rest, teller+"#") {
			require.Equal(t, acquires*1000, used[loadgen.LimitRequests], "%+v", change)
		}
	}
	var err error
	require.Eventually(t, func() bool {
		var have any
		have, err = ledger.Snapshots(t.Context(), db, table.DefaultName)
		return err != nil || reflect.DeepEqual(books.Totals(), have)
	}, patience, 100*time.Millisecond, "usage is not what the stream says")
	require.NoError(t, err)
	out := s.admin(t, "usage", "alone-a", "--window", "daily", "--json")
	require.Contains(t, out, `"acquires":`+strconv.FormatInt(spent["alone-a"].Acquires, 10))
	return spent
}

// changesOf are the changes of the table, by its stream.
func changesOf(t *testing.T, db *dynamodb.Client, streams *dynamodbstreams.Client) (all []ledger.Change) {
	t.Helper()
	name := table.DefaultName
	described, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	require.NoError(t, err)
	arn := described.Table.LatestStreamArn
	for more := (*string)(nil); ; {
		page, err := streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn, ExclusiveStartShardId: more})
		require.NoError(t, err)
		for _, shard := range page.StreamDescription.Shards {
			all = append(all, changesIn(t, streams, arn, shard.ShardId)...)
		}
		if more = page.StreamDescription.LastEvaluatedShardId; more == nil {
			return all
		}
	}
}

// changesIn are those of one shard of a stream to which nobody writes buckets any
// more.
func changesIn(t *testing.T, streams *dynamodbstreams.Client, arn, shard *string) (all []ledger.Change) {
	t.Helper()
	start, err := streams.GetShardIterator(t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: arn, ShardId: shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	require.NoError(t, err)
	for at := start.ShardIterator; at != nil; {
		page, err := streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: at})
		require.NoError(t, err)
		if len(page.Records) == 0 {
			return all
		}
		for _, r := range page.Records {
			pk, ok := r.Dynamodb.Keys["PK"].(*types.AttributeValueMemberS)
			require.True(t, ok)
			all = append(all, ledger.Change{
				At: *r.Dynamodb.ApproximateCreationDateTime, PK: pk.Value, Old: numbers(t, r.Dynamodb.OldImage), New: numbers(t, r.Dynamodb.NewImage),
			})
		}
		at = page.NextShardIterator
	}
	return all
}

// numbers are an item's by attribute; nil where there is no item.
func numbers(t *testing.T, item map[string]types.AttributeValue) map[string]int64 {
	t.Helper()
	if item == nil {
		return nil
	}
	all := map[string]int64{}
	for name, v := range item {
		if number, ok := v.(*types.AttributeValueMemberN); ok {
			n, err := strconv.ParseInt(number.Value, 10, 64)
			require.NoError(t, err, name)
			all[name] = n
		}
	}
	return all
}

// mustBeSpent: P6. What callers know to be admitted is spent, by them and by their
// parent, less what they may have given back; nothing was given back twice.
func (l *load) mustBeSpent(t *testing.T, spent map[string]ledger.Total, family string) {
	t.Helper()
	for _, entity := range append([]string{family + "-"}, l.entities...) {
		least := map[string]int64{}
		for _, e := range l.all(entity) {
			for _, a := range e.Amounts {
				if e.Received != loadgen.Unknown || a.Tokens < 0 {
					least[a.Name] += a.Tokens * 1000
				}
			}
		}
		for limit, milli := range least {
			require.GreaterOrEqual(t, spent[strings.TrimSuffix(entity, "-")].Used[limit], milli, "%s of %s", limit, entity)
		}
	}
}

// mustShareLanes waits until so many aggregators have all lanes of the feed among
// them.
func (s *stack) mustShareLanes(t *testing.T, members int) {
	t.Helper()
	all := s.running["aggregator"]
	require.Len(t, all, members)
	require.Eventually(t, func() bool {
		sum := 0
		for _, p := range all {
			own := s.metric(t, p, "tidegate_feed_lanes")
			if sum += own; own == 0 {
				return false
			}
		}
		return sum == events.Lanes
	}, patience, 50*time.Millisecond, "lanes belong to nobody, or to two")
}

// metric is the sum of a process's metric over its labels.
func (s *stack) metric(t *testing.T, p *process, name string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+"/metrics", http.NoBody)
	require.NoError(t, err)
	reply, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, reply.Body.Close()) }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(reply.Body)
	require.NoError(t, err)
	sum := 0.0
	for _, m := range families[name].GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return int(sum)
}
