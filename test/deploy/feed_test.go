package deploy_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
)

// patience is how long a test waits for what takes long only if it hangs.
const patience = time.Minute

// jetStream is JetStream as a user may use it.
func (w *world) jetStream(t *testing.T, user string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(w.nats.connect(t, user, options...))
	require.NoError(t, err)
	return js
}

// feed is the change feed, as the server itself sees it.
func (w *world) feed(t *testing.T) jetstream.Stream {
	t.Helper()
	stream, err := w.jetStream(t, relayUser).Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	return stream
}

// drained waits until all that is in the feed was acknowledged, and something was.
func (w *world) drained(t *testing.T) {
	t.Helper()
	feed := w.feed(t)
	require.Eventually(t, func() bool {
		var done uint64
		for info := range feed.ListConsumers(t.Context()).Info() {
			if info.NumPending > 0 || info.NumAckPending > 0 {
				return false
			}
			done += info.AckFloor.Consumer
		}
		return done > 0
	}, patience, 5*time.Millisecond, "the feed is not handled to its end")
}

// used is what an entity of a tenant has used today.
func (w *world) used(t *testing.T, tenant string) int64 {
	t.Helper()
	reply, err := w.client(t, tenant+"-admin", tenant).Admin().Usage(t.Context(), api.UsageRequest{
		Entity: "key", Resource: resource, Window: api.WindowDaily,
	})
	require.NoError(t, err)
	var sum int64
	for _, snapshot := range reply.Snapshots {
		for _, limit := range snapshot.Limits {
			sum += limit.Used
		}
	}
	return sum
}

// Usage is counted by aggregators that come and go, each with its own
// permissions, and a record that none can read goes to the dead letters and back.
func TestTheFeedIsFollowed(t *testing.T) {
	w := newWorld(t, "acme")
	w.runAdmission(t)
	w.runRelay(t)
	stopOne := w.runAggregator(t, "one")
	acme := limited(t, w, "acme")
	spend := func() {
		_, err := acme.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 2})
		require.NoError(t, err)
	}
	spend()
	require.Eventually(t, func() bool { return w.used(t, "acme") == 2 }, patience, 5*time.Millisecond)
	w.runAggregator(t, "two") // the lanes are shared
	spend()
	require.Eventually(t, func() bool { return w.used(t, "acme") == 4 }, patience, 5*time.Millisecond)
	stopOne() // and handed over
	spend()
	require.Eventually(t, func() bool { return w.used(t, "acme") == 6 }, patience, 5*time.Millisecond)

	_, err := w.jetStream(t, relayUser).Publish(t.Context(), events.Subject(events.KindBucket, 0), []byte("no event"))
	require.NoError(t, err)
	dead := feed.NewDeadLetters(w.jetStream(t, lettersUser))
	first := w.letter(t, dead, 1)
	require.Equal(t, "no event", string(first.Data))
	require.NoError(t, dead.Replay(t.Context(), first.Number))
	w.letter(t, dead, 2) // it is as unreadable as it was
}

// letter waits for a dead letter of the aggregators that is the only one.
func (w *world) letter(t *testing.T, dead *feed.DeadLetters, number uint64) (letter feed.DeadLetter) {
	t.Helper()
	require.Eventually(t, func() bool {
		letters, _, err := dead.List(t.Context(), aggregatorUser, 0, 10)
		require.NoError(t, err)
		if len(letters) != 1 || letters[0].Number != number {
			return false
		}
		letter, err = dead.Get(t.Context(), number)
		require.NoError(t, err)
		return true
	}, patience, 5*time.Millisecond, "there is no dead letter %d", number)
	return letter
}

// What an aggregator does when a lane has come to it by a crash, it may do too.
func TestALaneCanBeTakenOver(t *testing.T) {
	w := newWorld(t)
	w.runAggregator(t, "one")()
	stream, err := w.jetStream(t, aggregatorUser).Stream(t.Context(), events.StreamName)
	require.NoError(t, err)
	for info := range w.feed(t).ListConsumers(t.Context()).Info() {
		_, err := stream.ResetConsumer(t.Context(), info.Name)
		require.NoError(t, err)
		require.NoError(t, stream.UnpinConsumer(t.Context(), info.Name, "lane"))
	}
}

// Who works for the services within their account does his own work alone: each
// subject is one of another's.
func TestServicesDoTheirOwnWork(t *testing.T) {
	w := newWorld(t)
	feed := []string{
		events.Subject(events.KindBucket, 0), events.CheckpointSubject("shard"), "$JS.API.STREAM.PURGE." + events.StreamName,
	}
	// Whoever follows the feed may pull any service's lanes.
	follow := []string{"$JS.API.CONSUMER.MSG.NEXT." + events.StreamName + ".aggregator-00", "$JS.API.CONSUMER.RESET." + events.StreamName + ".archiver-00"}
	followers := []string{aggregatorUser, sharderUser, archiverUser}
	records := []string{"$KV.TIDEGATE_LEASES.x", "$JS.API.STREAM.UPDATE.KV_TIDEGATE_LEASES", "$JS.API.STREAM.MSG.GET.KV_TIDEGATE_LEASES"}
	config := []string{api.ConfigSubject("acme")}
	own := map[string][]string{
		admissionUser: append(records, append(config, events.LoadSubject, api.EpochSubject)...), relayUser: feed,
		aggregatorUser: {events.DeadLetters(aggregatorUser), "$KV.TIDEGATE_MEMBERS_aggregator.x"},
		sharderUser:    {"$KV.TIDEGATE_MEMBERS_sharder.x"},
		archiverUser:   {events.DeadLetters(archiverUser), "$KV.TIDEGATE_MEMBERS_archiver.x"},
		lettersUser:    {"$JS.API.STREAM.MSG.DELETE.TIDEGATE_DLQ", events.ReplaySubject(aggregatorUser, 0)},
		"nobody": {
			events.DeadLetters(sharderUser),
			"$JS.API.STREAM.DELETE." + events.StreamName, "$JS.API.STREAM.DELETE.TIDEGATE_DLQ", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES",
			"$JS.API.STREAM.CREATE.ELSEWHERE", "$JS.API.CONSUMER.DELETE." + events.StreamName + ".aggregator-00",
			"$JS.API.STREAM.MSG.DELETE." + events.StreamName, "$JS.API.STREAM.SNAPSHOT." + events.StreamName,
			"$JS.API.STREAM.DELETE.KV_TIDEGATE_LEASES", "$KV.ELSEWHERE.x", "$SYS.REQ.SERVER.PING", "_INBOX.x", "elsewhere",
			api.Subject("acme", api.VerbAcquire), api.Subject("acme", api.VerbLimitsSet), api.Subject(api.OperatorNamespace, api.VerbKeyRotate),
		},
	}
	for _, user := range []string{admissionUser, relayUser, aggregatorUser, sharderUser, archiverUser, lettersUser} {
		for owner, subjects := range own {
			for _, subject := range subjects {
				nc := w.nats.connect(t, user)
				got := refused(t, nc, func() error { return nc.Publish(subject, nil) })
				require.Equal(t, owner != user, got, "%s publishes to %s, which is for %s", user, subject, owner)
				nc.Close()
			}
		}
		for _, subject := range follow {
			nc := w.nats.connect(t, user)
			got := refused(t, nc, func() error { return nc.Publish(subject, nil) })
			require.Equal(t, !slices.Contains(followers, user), got, "%s publishes to %s", user, subject)
			nc.Close()
		}
	}
	for user, foreign := range map[string][]string{
		relayUser: {events.ChangesAll, api.SubjectAll, api.ConfigSubjectAll, "$KV.>", ">"},
		// An aggregator pulls what it reads: it cannot listen.
		aggregatorUser: {events.ChangesAll, events.DeadLettersAll, api.SubjectAll, api.ConfigSubjectAll, "$KV.>", ">"},
		// A sharder hears what admission nodes are asked for, besides.
		sharderUser:   {events.ChangesAll, events.DeadLettersAll, api.SubjectAll, api.ConfigSubjectAll, "$KV.>", ">"},
		archiverUser:  {events.ChangesAll, events.DeadLettersAll, api.SubjectAll, api.ConfigSubjectAll, "$KV.>", ">"},
		lettersUser:   {events.ChangesAll, events.DeadLettersAll, api.SubjectAll, "_INBOX.>", "$KV.>", ">"},
		admissionUser: {events.ChangesAll, events.DeadLettersAll, api.SubjectAll, "$KV.>", ">"}, // requests come to its queue group alone
	} {
		for _, subject := range foreign {
			nc := w.nats.connect(t, user)
			got := refused(t, nc, func() error { _, err := nc.SubscribeSync(subject); return err })
			require.True(t, got, "%s listens to %s", user, subject)
			nc.Close()
		}
	}
}
