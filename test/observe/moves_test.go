package observe_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/shards"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const resource = "gpt-4"

// move is something that happens to a system, and the metrics that show it: each
// rises by it.
type move struct {
	does    string
	do      func(*system)
	rises   []string
	again   bool          // it passes, or may come too late: it is done until it shows
	mending func(*system) // what happened; the metrics have risen by then
}

func moves() []move {
	return []move{
		{
			does: "acquires, a denial and a settlement", do: (*system).spend,
			rises: []string{
				"tidegate_admission_requests_total", "tidegate_admission_request_seconds", "tidegate_admission_batch_size",
				"tidegate_admission_store_calls_total", "tidegate_admission_store_seconds", "tidegate_admission_capacity_units_total",
				"tidegate_admission_operations_total", "tidegate_admission_denials_total", "tidegate_admission_remembered_buckets", "tidegate_admission_remembered_bytes",
				"tidegate_store_calls_total", "tidegate_store_seconds",
				"tidegate_relay_records_total", "tidegate_relay_batches_total", "tidegate_relay_outside_total",
				"tidegate_feed_records_total", "tidegate_feed_lag_seconds",
				"tidegate_aggregator_writes_total", "tidegate_aggregator_write_units_total",
				"tidegate_sharder_buckets",
			},
		},
		{
			does: "more load than a partition bears", do: (*system).tooMuch,
			rises: []string{"tidegate_sharder_load_reports_total", "tidegate_sharder_steps_total", "tidegate_sharder_divided_buckets", "tidegate_sharder_shards"},
		},
		{
			does: "a step that cannot be made", do: func(s *system) {
				s.sharder.each("TransactWriteItems", fault.Fault{Kind: fault.Refused})
				s.tooMuchFor("erin")
			},
			rises:   []string{"tidegate_sharder_steps_total"},
			mending: func(s *system) { s.sharder.mend() },
		},
		{
			does: "answers by the unavailable policy, and one that is too late", do: (*system).outage,
			rises:   []string{"tidegate_admission_requests_total"},
			mending: func(s *system) { s.admission.mend() },
		},
		{
			does: "changed limits, and a node that was wrong about a bucket", do: (*system).surprise,
			rises: []string{"tidegate_admission_store_calls_total"},
		},
		{
			does: "lease records without room", do: (*system).fillRecords,
			rises: []string{"tidegate_admission_lease_records_refused_total"},
			mending: func(s *system) {
				stream, err := s.js.Stream(s.t.Context(), "KV_TIDEGATE_LEASES")
				require.NoError(s.t, err)
				require.NoError(s.t, stream.Purge(s.t.Context(), jetstream.WithPurgeSubject("$KV.TIDEGATE_LEASES.other.>")))
			},
		},
		{
			does: "as many shards as there can be", do: (*system).divide,
			rises: []string{"tidegate_sharder_full_buckets"},
		},
		{
			does: "an audit event that is taken out", do: (*system).forget,
			rises: []string{"tidegate_archiver_objects_total", "tidegate_archiver_events_total", "tidegate_archiver_written_bytes_total"},
		},
		{
			does: "a throttled write", do: func(s *system) { s.admission.once("UpdateItem", fault.ThroughputExceeded()); s.acquire("alice") },
			rises:   []string{"tidegate_admission_write_failures_total"},
			mending: func(s *system) { s.admission.mend() },
		},
		{
			does: "a reply of the store that comes too late", do: (*system).acquireInVain,
			rises:   []string{"tidegate_admission_spent_unanswered_total"},
			again:   true,
			mending: func(s *system) { s.admission.mend() },
		},
		{
			does: "more requests than may wait", do: (*system).flood,
			rises: []string{"tidegate_admission_shed_total", "tidegate_admission_pending_requests", "tidegate_admission_store_turns", "tidegate_admission_store_waiting"},
			again: true,
			mending: func(s *system) {
				s.admission.mend()
				s.until("tidegate_admission_pending_requests", func(now float64) bool { return now == 0 })
			},
		},
		{
			does: "more questions than may be worked on", do: (*system).floodControl,
			rises: []string{"tidegate_admission_control_running", "tidegate_admission_control_waiting"},
			again: true,
			mending: func(s *system) {
				s.admission.mend()
				s.until("tidegate_admission_control_running", func(now float64) bool { return now == 0 })
			},
		},
		{
			does: "a store that hangs, while another node serves", do: (*system).depart,
			rises: []string{"tidegate_admission_departures_total"}, again: true,
			mending: func(s *system) {
				s.admission.mend()
				s.until("tidegate_admission_on_duty", func(now float64) bool { return now == 1 })
			},
		},
		{
			does: "a bug", do: func(s *system) { s.admission.panics.Store(1); s.ask("bob") },
			rises: []string{"tidegate_admission_panics_total"},
		},
		{
			does: "a clock that is set", do: func(s *system) { s.clockAhead.Store(int64(time.Hour)); s.ask("alice") },
			rises:   []string{"tidegate_admission_clock_correction_seconds"},
			mending: func(s *system) { s.clockAhead.Store(0) },
		},
		{
			does: "a stream that cannot be read", do: func(s *system) {
				s.relay.each("GetRecords", fault.Fault{Kind: fault.Refused})
				s.acquire("alice")
			},
			rises:   []string{"tidegate_relay_failures_total", "tidegate_relay_lag_seconds"},
			mending: func(s *system) { s.relay.mend() },
		},
		{
			does: "records that are kept no longer", do: func(s *system) {
				s.relay.once("GetRecords", fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{
					Status: 400, Type: "com.amazonaws.dynamodb.v20120810#TrimmedDataAccessException", Message: "The requested records are no longer kept.",
				}})
			},
			rises: []string{"tidegate_relay_trimmed_total"},
		},
		{
			does: "another relay that is faster", do: (*system).fence,
			rises: []string{"tidegate_relay_fenced_total"},
		},
		{
			does: "a feed that is full", do: func(s *system) { s.feedSize(1); s.acquire("alice") },
			rises:   []string{"tidegate_relay_feed_full_total", "tidegate_relay_buckets_wait"},
			mending: func(s *system) { s.feedSize(1 << 30) },
		},
		{
			does: "a kind that a service follows too slowly", do: (*system).overflow,
			rises:   []string{"tidegate_relay_feed_bytes", "tidegate_relay_feed_unseen_seconds", "tidegate_relay_dropped_total"},
			again:   true,
			mending: func(s *system) { s.feedSize(1 << 30) },
		},
		{
			does: "an item that is damaged", do: (*system).damage,
			rises: []string{"tidegate_relay_dead_letters_total"},
		},
		{
			does: "records that nobody can read", do: func(s *system) {
				s.publish(`{"v":1,"kind":"weather"}`)
				s.publish(`no record`)
				_, err := s.js.Publish(s.t.Context(), events.Subject(events.KindAudit, 7), []byte("no record"))
				require.NoError(s.t, err)
			},
			rises: []string{"tidegate_feed_skipped_total", "tidegate_feed_dead_letters_total"},
		},
		{
			does: "a change of configuration that nobody can read", do: func(s *system) {
				_, err := s.js.Publish(s.t.Context(), events.Subject(events.KindConfig, 0), []byte("no record"))
				require.NoError(s.t, err)
			},
			rises: []string{"tidegate_admission_settings_dropped_total"},
		},
		{
			does: "snapshots of the embedded store that find no room", do: func(s *system) { require.NoError(s.t, s.embedded.write(s, "snapshot-")) },
			rises: []string{"tidegate_engine_snapshot_failures_total"}, again: true,
			mending: func(s *system) { s.embedded.full.Store(nil) },
		},
		{
			does: "a disk without room", do: func(s *system) { require.Error(s.t, s.embedded.write(s, "log-")) },
			rises:   []string{"tidegate_engine_failed"},
			mending: func(s *system) { s.embedded.full.Store(nil) },
		},
		{
			does: "snapshots that cannot be written", do: func(s *system) {
				s.aggregator.each("UpdateItem", fault.Fault{Kind: fault.Refused})
				s.acquire("alice")
			},
			rises:   []string{"tidegate_feed_failures_total", "tidegate_feed_lanes_waiting", "tidegate_feed_oldest_seconds"},
			mending: func(s *system) { s.aggregator.mend() },
		},
	}
}

// Every metric that docs/metrics.md lists is there, none is missing from it, and
// each moves when what it counts happens.
func TestEveryMetricMoves(t *testing.T) {
	s := newSystem(t)
	s.startAdmission()
	s.startRelay()
	first := s.startAggregator("a")
	s.startArchiver()
	s.startSharder("a")
	s.embedded = s.disk()
	moved := map[string]bool{}

	// What shows as soon as a process is ready.
	s.until("tidegate_feed_lanes", func(lanes float64) bool { return lanes == 3*events.Lanes })
	s.until("tidegate_admission_feed_followed", func(followed float64) bool { return followed == 1 })
	s.until("tidegate_relay_stream_shards", func(shards float64) bool { return shards == 1 })
	s.until("tidegate_relay_feed_bound_bytes", func(bytes float64) bool { return bytes > 0 })
	s.until("tidegate_sharder_surveys_total", func(surveys float64) bool { return surveys == 1 })
	require.InDelta(t, queue, s.value("tidegate_admission_pending_limit"), 0)
	s.until("tidegate_admission_store_turns_limit", func(turns float64) bool { return turns > 0 })
	require.InDelta(t, len(s.all()), s.value("tidegate_build_info"), 0, "one for each process")
	for _, name := range []string{"tidegate_sharder_surveys_total", "tidegate_feed_lanes", "tidegate_admission_feed_followed", "tidegate_admission_on_duty", "tidegate_relay_stream_shards", "tidegate_relay_feed_bound_bytes", "tidegate_admission_pending_limit", "tidegate_admission_store_turns_limit", "tidegate_admission_lease_record_bytes", "tidegate_admission_lease_record_limit_bytes", "tidegate_build_info"} {
		moved[name] = true
	}
	for _, m := range moves() {
		t.Log(m.does)
		before := map[string]float64{}
		for _, name := range m.rises {
			before[name] = s.value(name)
		}
		m.do(s)
		for _, name := range m.rises {
			s.until(name, func(now float64) bool {
				risen := now > before[name]
				if m.again && !risen {
					m.do(s)
				}
				return risen
			})
			moved[name] = true
		}
		if m.mending != nil {
			m.mending(s)
		}
	}
	// All is well again, and gauges say so.
	s.acquire("alice")
	for _, name := range []string{"tidegate_feed_lanes_waiting", "tidegate_admission_pending_requests", "tidegate_admission_store_turns", "tidegate_admission_store_waiting"} {
		s.until(name, func(now float64) bool { return now == 0 })
	}
	s.until("tidegate_admission_clock_correction_seconds", func(ahead float64) bool { return ahead < 2 })
	s.until("tidegate_relay_purged_sequence", func(sequence float64) bool { return sequence > 0 })
	moved["tidegate_relay_purged_sequence"] = true

	s.takeOver(first)
	s.until("tidegate_feed_resets_total", func(resets float64) bool { return resets > 0 })
	moved["tidegate_feed_resets_total"] = true

	s.goesBack()
	for _, name := range []string{
		"tidegate_relay_forgotten_total", "tidegate_feed_forgotten_total", "tidegate_settlements_forgotten_total", "tidegate_settlements_unseen_total",
	} {
		s.until(name, func(times float64) bool { return times > 0 })
		moved[name] = true
	}

	require.Equal(t, slices.Sorted(maps.Keys(described(t, s.all()))), slices.Sorted(maps.Keys(moved)), "metrics that exist, and those that were seen to move")
	requireDocumented(t, s.all())
	requireAsked(t, s.all())
}

// goesBack puts the feed and the lease records back to before their last changes.
func (s *system) goesBack() {
	s.t.Helper()
	handled := func() float64 { return total(gathered(s.t, s.all())["tidegate_feed_records_total"]) }
	before, had := s.nats.Moment(s.t), handled()
	require.NoError(s.t, s.acquire("alice").Release(s.t.Context()))
	require.Eventually(s.t, func() bool { return handled() > had }, patience, 10*time.Millisecond)
	s.nats.AllGoBack(s.t, map[string]*natstest.Moment{events.StreamName: before, "KV_TIDEGATE_LEASES": before}, nil)
}

// fillRecords leaves no room for the records of other leases, and settles leases until one
// is refused.
func (s *system) fillRecords() {
	s.t.Helper()
	var err error
	for i := 0; err == nil; i++ {
		_, err = s.js.Publish(s.t.Context(), "$KV.TIDEGATE_LEASES.other."+strconv.Itoa(i), make([]byte, 10_000))
	}
	require.ErrorContains(s.t, err, "maximum bytes exceeded")
	require.Eventually(s.t, func() bool { return s.acquire("alice").Release(s.t.Context()) != nil }, patience, time.Millisecond)
}

// outage asks while the store fails and while it hangs.
func (s *system) outage() {
	s.t.Helper()
	s.admission.each("UpdateItem", fault.Fault{Kind: fault.Refused})
	lease, err := s.client.Acquire(s.t.Context(), "alice", resource, tidegate.Consume{"rpm": 1}, tidegate.OnUnavailable(tidegate.Allow))
	require.NoError(s.t, err)
	require.True(s.t, lease.Degraded())
	s.admission.each("BatchGetItem", fault.Fault{Kind: fault.Hangs})
	hasty, err := tidegate.New(s.nc, tidegate.WithTimeout(storeTimeout/3))
	require.NoError(s.t, err)
	require.Eventually(s.t, func() bool { // on a busy machine the answer may come too late for the caller, too
		_, err := hasty.Admin().ResolveLimits(s.t.Context(), "alice", resource)
		var late *tidegate.Error
		return errors.As(err, &late) && late.Code == api.CodeDeadlineExceeded
	}, patience, time.Millisecond)
}

// surprise lets a node write under changed limits, and under a condition that fails.
func (s *system) surprise() {
	s.t.Helper()
	s.limit(2000)
	s.acquire("alice")
	s.until("tidegate_admission_store_calls_total", func(float64) bool {
		s.acquire("alice") // until the change is heard of
		return total(having(gathered(s.t, s.all())["tidegate_admission_store_calls_total"], "form", "sync")) > 0
	})
	s.admission.once("UpdateItem", fault.Fault{Kind: fault.Refused, Refusal: fault.Refusal{
		Status: 400, Type: "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", Message: "The conditional request failed",
	}})
	s.acquire("alice")
	s.admission.mend()
}

// tooMuch is what a node reports of a bucket whose partition throws writes back.
func (s *system) tooMuch() { s.tooMuchFor("carol") }

func (s *system) tooMuchFor(entity string) {
	s.t.Helper()
	known := s.value("tidegate_sharder_buckets")
	s.acquire(entity)
	s.until("tidegate_sharder_buckets", func(now float64) bool { return now > known })
	ns, err := config.NewNamespaces(s.direct, table.DefaultName).Ensure(s.t.Context(), api.DefaultNamespace)
	require.NoError(s.t, err)
	now := time.Now().UnixMilli()
	report, err := events.EncodeLoad(&events.LoadReport{Node: "node", FromMs: now - 1000, ToMs: now, Loads: []events.Load{
		{Key: keys.Bucket{Namespace: ns, Entity: entity, Resource: resource}, FailedUnits: 900},
	}})
	require.NoError(s.t, err)
	require.NoError(s.t, s.nc.Publish(events.LoadSubject, report))
}

// divide makes all shards of a bucket that there can be.
func (s *system) divide() {
	s.t.Helper()
	ns, err := config.NewNamespaces(s.direct, table.DefaultName).Ensure(s.t.Context(), api.DefaultNamespace)
	require.NoError(s.t, err)
	s.acquire("dave")
	divided := shards.NewStore(s.direct, table.DefaultName, func() (bucket.Instant, error) { return bucket.At(time.Now()), nil }, nuid.Next)
	for from := 1; from < bucket.MaxShards; from *= 2 {
		_, err := divided.Double(s.t.Context(), keys.Bucket{Namespace: ns, Entity: "dave", Resource: resource}, from)
		require.NoError(s.t, err)
	}
}

// acquire spends one token for an entity.
func (s *system) acquire(entity string) *tidegate.Lease {
	s.t.Helper()
	lease, err := s.client.Acquire(s.t.Context(), entity, resource, tidegate.Consume{"rpm": 1})
	require.NoError(s.t, err)
	return lease
}

// spend sets limits, spends, is denied, and settles.
func (s *system) spend() {
	s.t.Helper()
	s.limit(1000)
	s.acquire("alice")
	lease := s.acquire("alice")
	require.NoError(s.t, lease.Adjust(s.t.Context(), tidegate.Deltas{"rpm": 2}))
	require.NoError(s.t, lease.Release(s.t.Context()))
	_, err := s.client.Acquire(s.t.Context(), "alice", resource, tidegate.Consume{"rpm": 1000})
	var denied *tidegate.DeniedError
	require.ErrorAs(s.t, err, &denied)
}

// limit sets the limit of the resource, per day.
func (s *system) limit(tokens int64) {
	s.t.Helper()
	_, err := s.client.Admin().SetLimits(s.t.Context(), api.LimitsSetRequest{
		LimitsTarget: api.LimitsTarget{Resource: resource},
		Limits:       []api.Limit{{Name: "rpm", Capacity: tokens, RefillAmount: tokens, RefillPeriodSeconds: 86400}},
	})
	require.NoError(s.t, err)
}

// ask asks for a token, and does not wait for the answer.
func (s *system) ask(entity string) {
	s.t.Helper()
	request := api.AcquireRequest{Entity: entity, Resource: resource, Consume: api.Amounts{{Name: "rpm", Tokens: 1}}}
	require.NoError(s.t, s.nc.PublishRequest(api.Subject(api.DefaultNamespace, api.VerbAcquire), nats.NewInbox(), request.AppendJSON(nil)))
}

// acquireInVain gives up before the store's answer comes, which is that the token
// is spent. On a busy machine it may give up before the store is asked.
func (s *system) acquireInVain() {
	s.t.Helper()
	s.admission.once("UpdateItem", fault.Fault{Kind: fault.ReplyHangs})
	client, err := tidegate.New(s.nc, tidegate.WithTimeout(storeTimeout/3))
	require.NoError(s.t, err)
	_, err = client.Acquire(s.t.Context(), "alice", resource, tidegate.Consume{"rpm": 1})
	var down *tidegate.UnavailableError
	var late *tidegate.Error
	require.True(s.t, errors.As(err, &down) || errors.As(err, &late) && late.Code == api.CodeDeadlineExceeded, "%v", err)
}

// flood asks for one bucket, and for many, while the store hangs.
func (s *system) flood() {
	s.t.Helper()
	for _, operation := range []string{"BatchGetItem", "UpdateItem"} {
		s.admission.each(operation, fault.Fault{Kind: fault.Hangs})
		for range queue {
			s.ask("alice")
		}
		for i := range 2 * queue {
			s.ask("flood-" + strconv.Itoa(i))
		}
	}
}

// floodControl asks for more than a node works on at a time, and lets wait, while the store
// hangs.
func (s *system) floodControl() {
	s.t.Helper()
	s.admission.each("Query", fault.Fault{Kind: fault.Hangs})
	for range 1200 {
		require.NoError(s.t, s.nc.PublishRequest(api.Subject(api.DefaultNamespace, api.VerbStatus), nats.NewInbox(), []byte(`{"entity":"alice"}`)))
	}
}

// fence puts a relay's own marker into the feed once more, as one that is faster
// would put its own, and then has it publish.
func (s *system) fence() {
	s.t.Helper()
	feed, err := s.js.Stream(s.t.Context(), events.StreamName)
	require.NoError(s.t, err)
	info, err := feed.Info(s.t.Context(), jetstream.WithSubjectFilter(events.CheckpointsAll))
	require.NoError(s.t, err)
	require.NotEmpty(s.t, info.State.Subjects)
	for subject := range info.State.Subjects {
		mark, err := feed.GetLastMsgForSubject(s.t.Context(), subject)
		require.NoError(s.t, err)
		again := nats.NewMsg(subject)
		again.Data = mark.Data
		_, err = s.js.PublishMsg(s.t.Context(), again)
		require.NoError(s.t, err)
	}
	s.acquire("alice")
}

// forget deletes the audit events that there are.
func (s *system) forget() {
	s.t.Helper()
	s.objects.Fail("PUT", archivetest.Failed)
	page, err := s.client.Admin().ListAudit(s.t.Context(), api.AuditListRequest{})
	require.NoError(s.t, err)
	require.NotEmpty(s.t, page.Events)
	name := table.DefaultName
	for _, e := range page.Events {
		key := keys.Audit{Namespace: e.Namespace, ID: e.Target, AtMs: e.AtMs, Sequence: e.Sequence}
		_, err := s.direct.DeleteItem(s.t.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: table.KeyItem(key.Key())})
		require.NoError(s.t, err)
	}
}

// feedSize is how many bytes the feed may have.
func (s *system) feedSize(bytes int64) {
	s.t.Helper()
	feed, err := s.js.Stream(s.t.Context(), events.StreamName)
	require.NoError(s.t, err)
	config := feed.CachedInfo().Config
	config.MaxBytes = bytes
	_, err = s.js.UpdateStream(s.t.Context(), config)
	require.NoError(s.t, err)
}

// overflow publishes more namespaces than the feed may have, which a service follows
// that is not there.
func (s *system) overflow() {
	s.t.Helper()
	feed, err := s.js.Stream(s.t.Context(), events.StreamName)
	require.NoError(s.t, err)
	_, err = feed.CreateOrUpdateConsumer(s.t.Context(), jetstream.ConsumerConfig{
		Durable: "away", FilterSubject: events.KindSubject(events.KindNamespace), AckPolicy: jetstream.AckExplicitPolicy,
	})
	require.NoError(s.t, err)
	for range 20 {
		_, err := s.js.Publish(s.t.Context(), events.Subject(events.KindNamespace, 0), make([]byte, 10<<10))
		require.NoError(s.t, err)
	}
	s.until("tidegate_relay_feed_unseen_seconds", func(age float64) bool { return age > 0 })
	s.feedSize(4 << 20)
}

// damage writes a bucket that is none.
func (s *system) damage() {
	s.t.Helper()
	key := keys.Bucket{Namespace: "AAAAAAAAAAA", Entity: "mallory", Resource: resource}.Key()
	item := table.ReadInput(table.DefaultName, key).Key
	item["b_rpm_dr"] = &types.AttributeValueMemberS{Value: "no number"}
	name := table.DefaultName
	_, err := s.direct.PutItem(s.t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item})
	require.NoError(s.t, err)
}

// publish puts a message into a lane of buckets.
func (s *system) publish(data string) {
	s.t.Helper()
	_, err := s.js.Publish(s.t.Context(), events.Subject(events.KindBucket, 7), []byte(data))
	require.NoError(s.t, err)
}

// takeOver kills an aggregator with a batch in its hands; another one has to set
// the lane back, because what comes next is not what was acknowledged last.
func (s *system) takeOver(first *serviceProcess) {
	s.t.Helper()
	calls := s.aggregator.Counts()["UpdateItem"].Calls
	s.aggregator.each("UpdateItem", fault.Fault{Kind: fault.Hangs})
	s.acquire("alice")
	require.Eventually(s.t, func() bool { return s.aggregator.Counts()["UpdateItem"].Calls > calls }, patience, time.Millisecond)
	first.crash()
	s.aggregator.mend()
	s.acquire("alice")
	s.startAggregator("b")
}

// depart makes the store hang for the node, which hears of another node that serves.
func (s *system) depart() {
	s.t.Helper()
	s.admission.all(fault.Fault{Kind: fault.Hangs})
	s.ask("alice")
	require.NoError(s.t, s.js.Conn().Publish(api.DutySubject, []byte(`{"node":"another","able":true}`)))
}
