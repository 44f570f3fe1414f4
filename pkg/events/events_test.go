package events_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

var update = flag.Bool("update", false, "write the golden files anew")

const ns = "AAAAAAAAAAA"

func position(t require.TestingT, sequence string) events.Position {
	p, err := events.NewPosition("2026-11-21T08:00:00.000", sequence)
	require.NoError(t, err)
	return p
}

// samples is one event of each kind, and what else looks different.
func samples(t require.TestingT) map[string]*events.Event {
	at := position(t, "100000000000000000042")
	rpm := events.BucketLimit{Name: "rpm", Capacity: 100_000, Refill: 100_000, PeriodMs: 60_000, Drawn: 98_412_000, Consumed: 7_000}
	before := rpm
	before.Drawn, before.Consumed = rpm.Drawn-2000, rpm.Consumed-2000
	bucket := keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4", Shard: 1}
	return map[string]*events.Event{
		"bucket": {Position: at, AtMs: 1763712000000, Key: bucket, Bucket: &events.Change[events.Bucket]{
			Old: &events.Bucket{ShardCount: 2, Limits: []events.BucketLimit{before}, Fingerprint: "c2V0dGluZ3M", Acquires: 3, WriteUnits: 3},
			New: &events.Bucket{ShardCount: 2, Limits: []events.BucketLimit{rpm}, Fingerprint: "c2V0dGluZ3M", Acquires: 5, WriteUnits: 4},
		}},
		"bucket_made": {Position: at, AtMs: 1763712000000, Key: keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4"}, Bucket: &events.Change[events.Bucket]{
			New: &events.Bucket{
				ShardCount: 1, Want: 4, Limits: []events.BucketLimit{rpm}, Fingerprint: "c2V0dGluZ3M",
				Cascade: true, Parent: "team", Acquires: 1, WriteUnits: 1, ExpiresAt: 1763715600,
			},
		}},
		"bucket_expired": {Position: at, AtMs: 1763712000000, Expired: true, Key: bucket, Bucket: &events.Change[events.Bucket]{
			Old: &events.Bucket{ShardCount: 2, Limits: []events.BucketLimit{rpm}, Fingerprint: "c2V0dGluZ3M"},
		}},
		"config": {Position: at, AtMs: 1763712000000, Key: keys.EntityConfig{Namespace: ns, Entity: "alice", Resource: "gpt-4"}, Config: &events.Change[events.Config]{
			New: &events.Config{
				Limits:        []events.ConfigLimit{{Name: "rpm", Capacity: 100, RefillAmount: 100, RefillPeriodSeconds: 60}},
				OnUnavailable: "allow", Version: 3,
			},
		}},
		"entity": {Position: at, AtMs: 1763712000000, Key: keys.Entity{Namespace: ns, ID: "alice"}, Entity: &events.Change[events.Entity]{
			New: &events.Entity{Name: "Alice", Parent: "team", Cascade: true, Metadata: map[string]string{"plan": "pro"}, Version: 2},
		}},
		"audit": {
			Position: at, AtMs: 1763712000000, Expired: true,
			Key:   keys.Audit{Namespace: ns, ID: "alice", AtMs: 1755000000000, Sequence: 12},
			Audit: &events.Change[events.Audit]{Old: &events.Audit{Record: json.RawMessage(`{"action":"limits.set"}`)}},
		},
		"namespace": {Position: at, AtMs: 1763712000000, Key: keys.NamespaceName{Name: "acme"}, Namespace: &events.Change[events.Namespace]{
			Old: &events.Namespace{ID: ns}, New: &events.Namespace{ID: ns, DeletedMs: 1763712000000},
		}},
	}
}

func TestEventsAreGolden(t *testing.T) {
	for name, e := range samples(t) {
		data, err := events.Encode(e)
		require.NoError(t, err)
		file := filepath.Join("testdata", name+".json")
		if *update {
			require.NoError(t, os.WriteFile(file, append(data, '\n'), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSuffix(string(want), "\n"), string(data), name)
		back, err := events.Decode(want)
		require.NoError(t, err)
		require.Equal(t, e, back)
	}
}

func TestEveryKindHasASample(t *testing.T) {
	all := samples(t)
	for _, kind := range events.Kinds() {
		require.Contains(t, all, string(kind))
		require.Equal(t, kind, all[string(kind)].Kind())
		got, ok := events.KindOf(all[string(kind)].Key)
		require.True(t, ok)
		require.Equal(t, kind, got)
	}
	for _, key := range []keys.Item{keys.LeaseKey{ID: "k"}, keys.Epoch{}, keys.AuditSeq{Namespace: ns}, keys.Version{Namespace: ns}, keys.NamespaceID{ID: ns}} {
		_, ok := events.KindOf(key)
		require.False(t, ok, "%T is no business of the feed", key)
	}
}

func TestDecodeSortsWhatIsWrong(t *testing.T) {
	good, err := events.Encode(samples(t)["bucket"])
	require.NoError(t, err)
	change := func(old, with string) string {
		require.Contains(t, string(good), old)
		return strings.Replace(string(good), old, with, 1)
	}
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"no JSON":           {`{"v":1`, events.ErrMalformed},
		"nothing":           {`{}`, events.ErrMalformed},
		"another kind":      {change(`"bucket"`, `"invoice"`), events.ErrUnknownKind},
		"a newer version":   {change(`"v":1`, `"v":2`), events.ErrUnknownVersion},
		"version 0":         {change(`"v":1`, `"v":0`), events.ErrMalformed},
		"no position":       {change(`2026-11-21T08:00:00.000/`, ``), events.ErrMalformed},
		"a short position":  {change(`/0000`, `/0`), events.ErrMalformed},
		"no key of ours":    {change(`/BUCKET#`, `/BARREL#`), events.ErrMalformed},
		"key of other kind": {change(`"kind":"bucket"`, `"kind":"entity"`), events.ErrMalformed},
		"no change":         {change(`"change":`, `"chance":`), events.ErrMalformed},
		"no image":          {string(good[:strings.Index(string(good), `"change":`)]) + `"change":{}}`, events.ErrMalformed},
		"bad image":         {change(`"acquires":5`, `"acquires":"many"`), events.ErrMalformed},
	} {
		_, err := events.Decode([]byte(c.data))
		require.ErrorIs(t, err, c.want, name)
	}
	_, err = events.Decode([]byte(change(`"v":1`, `"v":1,"hue":"blue"`)))
	require.NoError(t, err, "unknown fields are ignored")
}

func TestEncodeRefusesWhatDecodeWould(t *testing.T) {
	e := samples(t)["bucket"]
	for name, spoil := range map[string]func(*events.Event){
		"no key":         func(e *events.Event) { e.Key = nil },
		"no change":      func(e *events.Event) { e.Bucket = nil },
		"another's key":  func(e *events.Event) { e.Key = keys.Entity{Namespace: ns, ID: "alice"} },
		"a key unlisted": func(e *events.Event) { e.Key = keys.LeaseKey{ID: "k"} },
		"no position":    func(e *events.Event) { e.Position = events.Position{} },
		"no image":       func(e *events.Event) { e.Bucket = &events.Change[events.Bucket]{} },
	} {
		spoilt := *e
		spoil(&spoilt)
		_, err := events.Encode(&spoilt)
		require.ErrorIs(t, err, events.ErrMalformed, name)
	}
}

func TestPositionsSortByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.StringMatching(`[1-9][0-9]{0,39}`).Draw(t, "a")
		b := rapid.StringMatching(`[1-9][0-9]{0,39}`).Draw(t, "b")
		pa, pb := position(t, a), position(t, b)
		earlier := len(a) < len(b) || (len(a) == len(b) && a < b)
		require.Equal(t, earlier, pa.String() < pb.String())
		require.Equal(t, a, pa.Sequence())
		require.Equal(t, "2026-11-21T08:00:00.000", pa.Label())
		back, err := events.ParsePosition(pa.String())
		require.NoError(t, err)
		require.Equal(t, pa, back)
	})
	for _, bad := range [][2]string{{"", "1"}, {"a/b", "1"}, {"a", ""}, {"a", "-1"}, {"a", "1x"}, {"a", strings.Repeat("1", 41)}} {
		_, err := events.NewPosition(bad[0], bad[1])
		require.Error(t, err)
	}
	zero := position(t, "0")
	require.Equal(t, "0", zero.Sequence())
	require.Empty(t, events.Position{}.Sequence())
}

func TestSubjectsRoundTrip(t *testing.T) {
	for _, kind := range events.Kinds() {
		for _, lane := range []int{0, 7, events.Lanes - 1} {
			k, l, err := events.ParseSubject(events.Subject(kind, lane))
			require.NoError(t, err)
			require.Equal(t, kind, k)
			require.Equal(t, lane, l)
		}
	}
	for _, bad := range []string{"", "tidegate.changes.v1.bucket", "tidegate.changes.v1.bucket.64", "tidegate.changes.v1.bucket.-1", "tidegate.changes.v1..1", "tidegate.changes.v1.bucket.01", "tidegate.changes.v2.bucket.1"} {
		_, _, err := events.ParseSubject(bad)
		require.Error(t, err, bad)
	}
	const shard = "shardId-00000001763712000000-0000000a"
	got, err := events.ParseCheckpointSubject(events.CheckpointSubject(shard))
	require.NoError(t, err)
	require.Equal(t, shard, got)
	for _, bad := range []string{"", events.CheckpointSubject(""), "tidegate.checkpoint.v1.a.b", "tidegate.changes.v1.bucket.1"} {
		_, err := events.ParseCheckpointSubject(bad)
		require.Error(t, err, bad)
	}
}

// Other programs rely on which lane an item is in.
func TestLanesAreGolden(t *testing.T) {
	// Computed with another implementation of FNV-1a.
	for name, want := range map[string]int{"alice": 17, "bob": 34, "carol": 52} {
		require.Equal(t, want, events.Lane(keys.Bucket{Namespace: ns, Entity: name, Resource: "gpt-4", Shard: 3}), name)
	}
	require.Equal(t, 55, events.Lane(keys.SystemConfig{Namespace: ns}))
	first := keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4"}
	for shard := range 32 {
		key := first
		key.Shard = shard
		require.Equal(t, events.Lane(first), events.Lane(key), "all shards of a bucket are in one lane")
	}
	entity := keys.Entity{Namespace: ns, ID: "alice"}
	require.Equal(t, events.Lane(entity), events.Lane(keys.EntityConfig{Namespace: ns, Entity: "alice", Resource: "gpt-4"}), "what has one partition key is in one lane")
}

func TestConsumedFollowsTheCounters(t *testing.T) {
	limit := func(name string, consumed int64) events.BucketLimit {
		return events.BucketLimit{Name: name, Consumed: consumed}
	}
	image := func(acquires int64, ls ...events.BucketLimit) *events.Bucket {
		return &events.Bucket{Acquires: acquires, Limits: ls}
	}
	for name, c := range map[string]struct {
		change   events.Change[events.Bucket]
		want     map[string]int64
		acquires int64
	}{
		"a spend":              {events.Change[events.Bucket]{Old: image(1, limit("rpm", 5), limit("tpm", 9)), New: image(3, limit("rpm", 7), limit("tpm", 9))}, map[string]int64{"rpm": 2}, 2},
		"a credit":             {events.Change[events.Bucket]{Old: image(1, limit("rpm", 5)), New: image(1, limit("rpm", 2))}, map[string]int64{"rpm": -3}, 0},
		"the first image":      {events.Change[events.Bucket]{New: image(1, limit("rpm", 5))}, map[string]int64{"rpm": 5}, 1},
		"a limit is added":     {events.Change[events.Bucket]{Old: image(1), New: image(2, limit("rpm", 5))}, map[string]int64{"rpm": 5}, 1},
		"a limit is dropped":   {events.Change[events.Bucket]{Old: image(1, limit("rpm", 5)), New: image(1)}, map[string]int64{}, 0},
		"the shard is gone":    {events.Change[events.Bucket]{Old: image(9, limit("rpm", 5))}, nil, 0},
		"nothing was consumed": {events.Change[events.Bucket]{Old: image(1, limit("rpm", 5)), New: image(1, limit("rpm", 5))}, map[string]int64{}, 0},
	} {
		require.Equal(t, c.want, events.Consumed(&c.change), name)
		require.Equal(t, c.acquires, events.Acquired(&c.change), name)
	}
}

func FuzzDecode(f *testing.F) {
	for _, e := range samples(f) {
		data, err := events.Encode(e)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"v":1,"kind":"bucket","change":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := events.Decode(data)
		if err != nil {
			return
		}
		again, err := events.Encode(e)
		require.NoError(t, err)
		back, err := events.Decode(again)
		require.NoError(t, err)
		twice, err := events.Encode(back)
		require.NoError(t, err)
		require.Equal(t, string(again), string(twice))
	})
}
