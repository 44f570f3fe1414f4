package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

// TestDeadLetters puts into the feed what nobody can read.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := startUp(t)
	env := s.environment()
	nc, err := nats.Connect(s.nats)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	dead := feed.NewDeadLetters(js)
	none := transcript(t, env, "dlq list", "dlq replay --all", "dlq replay", "dlq replay 1 --all", "dlq replay 1 --service aggregator", "dlq show x")

	const sequence = "0000000000000000000000000000000000000017"
	for lane, data := range []string{
		`{"v":1,"kind":"bucket","id":"nowhere"}`, "no JSON",
		`{"v":1,"kind":"bucket","id":"2026-03-01T00:00:00.000/` + sequence + `","pk":"AAAAAAAAAAA/BUCKET#alice#gpt-4#0","sk":"#STATE","change":{}}`,
	} {
		_, err := js.Publish(t.Context(), events.Subject(events.KindBucket, lane), []byte(data))
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			all, _, err := dead.List(t.Context(), "aggregator", 0, 10)
			require.NoError(t, err)
			return len(all) == lane+1
		}, patience, 5*time.Millisecond)
	}
	// One of a service that never ran here.
	require.NoError(t, dead.Put(t.Context(), "elsewhere", feed.DeadRecord{
		Subject: events.ReplaySubject("elsewhere", 0), Mark: "x", Data: []byte(`{"stream":"2026-03-01T00:00:00.000"}`), Reason: events.ErrMalformed,
	}))
	text := none + transcript(t, env,
		"dlq list", "dlq list --service elsewhere", "dlq list --json", "dlq show 1", "dlq show 2", "dlq show 2 --json", "dlq show 4", "dlq show 99",
		"dlq replay 99", "dlq replay 4", "dlq replay 1 99",
	)
	at := regexp.MustCompile(`"at":"[^"]+"`)
	golden(t, "dlq.txt", at.ReplaceAllString(steady(text), `"at":"<moment>"`))

	// The aggregator gives up again what was replayed.
	require.Eventually(t, func() bool {
		all, _, err := dead.List(t.Context(), "aggregator", 0, 10)
		require.NoError(t, err)
		return len(all) == 3 && all[2].Number == 5
	}, patience, 5*time.Millisecond)
	require.Contains(t, transcript(t, env, "dlq replay --all"), "replayed 3\nleft 1, whose services take no replays\n")
}

// A letter with an event that can be read is shown with what it tells.
func TestALetterThatCanBeRead(t *testing.T) {
	data := `{"v":1,"kind":"bucket","id":"2026-03-01T00:00:00.000/` + strings.Repeat("0", 38) + `17","at_ms":1772366400000,` +
		`"pk":"AAAAAAAAAAA/BUCKET#alice#gpt-4#0","sk":"#STATE","change":{"new":{"shard_count":1,"limits":[],"cfg":"","acquires":1,"write_units":1}}}`
	var text page
	printLetter(&text, show(feed.DeadLetter{
		Number: 7, Service: "aggregator", Reason: "there is no room", Subject: "tidegate.changes.v1.bucket.3",
		At: time.Date(2026, 3, 1, 12, 0, 1, 0, time.UTC), Data: []byte(data),
	}))
	golden(t, "dlq_event.txt", text.String())
}
