package engine_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
)

// keeping is an engine on disk, and how to open it again.
type keeping struct {
	*streamed
	o engine.Options
	d engine.Durability
}

func keepingStreams(t *testing.T, o engine.StreamOptions, d engine.Durability) *keeping {
	t.Helper()
	if d.Dir == "" {
		d.Dir = t.TempDir()
	}
	c := newClock()
	k := &keeping{o: engine.Options{Now: c.Now, Streams: o}, d: d, streamed: &streamed{backend: backend{clock: c}}}
	k.open(t)
	return k
}

func (k *keeping) open(t *testing.T) {
	t.Helper()
	embedded, err := engine.Open(k.o, k.d)
	require.NoError(t, err)
	t.Cleanup(func() { _ = embedded.Close() })
	k.streamed = clientsOf(t, embedded, k.clock)
}

func (k *keeping) reopen(t *testing.T) {
	t.Helper()
	require.NoError(t, k.engine.Close())
	k.open(t)
}

// TestStreamGoesOn stops an engine and opens it again: the stream has the same
// shards, sequence numbers and records, an iterator from before goes on where it
// was, and an expired one stays expired.
func TestStreamGoesOn(t *testing.T) {
	for name, snapshot := range map[string]bool{"from the log": false, "behind a snapshot": true} {
		t.Run(name, func(t *testing.T) {
			k := keepingStreams(t, engine.StreamOptions{ShardRecords: 7, OpenShards: 2}, engine.Durability{})
			tab, arn := k.plain(t, "kept")
			put := func(from, to int) {
				tab.db = k.db
				for i := from; i < to; i++ {
					tab.put(item("a", fmt.Sprint(i%3), "v", num(i)))
				}
			}
			put(0, 30)
			before, records := k.describe(t, arn), k.all(t, arn)
			old := k.iterator(t, arn, before.Shards[0].ShardId, horizon)
			first := k.page(t, old, 3)
			if snapshot {
				require.NoError(t, k.engine.Snapshot())
			}
			k.reopen(t)
			require.Equal(t, before, k.describe(t, arn))
			require.Equal(t, records, k.all(t, arn))
			require.Equal(t, first.Records, k.page(t, old, 3).Records)
			require.Equal(t, records[3:6], k.page(t, first.NextShardIterator, 3).Records)
			put(30, 60)
			require.Len(t, k.all(t, arn), 60)
			k.clock.Advance(16 * time.Minute)
			k.reopen(t)
			_, err := k.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: old})
			requireCode(t, err, "ExpiredIteratorException")
		})
	}
}

// logs are the log files of a directory and their bytes.
func logs(t *testing.T, dir string) (names []string, bytes int64) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "log-*"))
	require.NoError(t, err)
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		bytes += info.Size()
	}
	return names, bytes
}

// TestStreamIsReadFromDisk has next to nothing in memory. Snapshots keep the
// logs that the stream still shows, and remove those that it does not.
func TestStreamIsReadFromDisk(t *testing.T) {
	const retention = 100_000
	k := keepingStreams(t, engine.StreamOptions{WindowBytes: 1, RetentionBytes: retention, ShardRecords: 300},
		engine.Durability{CutBytes: 20_000, Sync: journal.Never})
	tab, arn := k.plain(t, "cold")
	other, _ := k.plain(t, "busy") // whose records are between
	written := 0
	write := func(n int) {
		tab.db, other.db = k.db, k.db
		for range n {
			written++
			tab.put(item("a", "1", "v", num(written)))
			other.put(item("a", "1", "v", text(strings.Repeat("x", written%50))))
		}
	}
	write(150)
	require.NoError(t, k.engine.Snapshot())
	records := k.all(t, arn)
	require.Len(t, records, written)
	k.reopen(t)
	require.Equal(t, records, k.all(t, arn))

	write(2000)
	require.NoError(t, k.engine.Snapshot())
	_, bytes := logs(t, k.d.Dir)
	require.Less(t, bytes, int64(retention*3/2), "logs that no stream shows are gone")
	records = k.all(t, arn)
	require.Greater(t, len(records), 100)
	require.Less(t, len(records), written)
	require.Equal(t, fmt.Sprintf("MODIFY a/1 %d>%d", written-1, written), short(records[len(records)-1]))
	shards := k.describe(t, arn).Shards
	k.reopen(t)
	require.Equal(t, records, k.all(t, arn))
	require.Equal(t, shards, k.describe(t, arn).Shards)
}

// TestDamagedStream flips a byte of a log that only the stream needs.
func TestDamagedStream(t *testing.T) {
	k := keepingStreams(t, engine.StreamOptions{WindowBytes: 1}, engine.Durability{CutBytes: 4000, Sync: journal.Never})
	tab, arn := k.plain(t, "damaged")
	for i := range 700 {
		tab.put(item("a", "1", "v", num(i)))
	}
	require.NoError(t, k.engine.Snapshot())
	require.Len(t, k.all(t, arn), 700)
	names, _ := logs(t, k.d.Dir)
	b, err := os.ReadFile(names[1])
	require.NoError(t, err)
	b[len(b)/2] ^= 1
	require.NoError(t, os.WriteFile(names[1], b, 0o640))

	shard := k.describe(t, arn).Shards[0].ShardId
	in := &dynamodbstreams.GetRecordsInput{ShardIterator: k.iterator(t, arn, shard, horizon)}
	_, err = k.streams.GetRecords(t.Context(), in, func(o *dynamodbstreams.Options) { o.RetryMaxAttempts = 1 })
	requireCode(t, err, "InternalServerError")
	require.ErrorContains(t, err, filepath.Base(names[1])+" is damaged at byte")
	require.NoError(t, k.engine.Close())
	_, err = engine.Open(k.o, k.d)
	var damage *journal.DamageError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, names[1], damage.File)
	require.NoError(t, os.Remove(names[1]))
	_, err = engine.Open(k.o, k.d)
	require.ErrorContains(t, err, "a file is missing")
}

// TestTornTailOfAStream cuts the last record off that never was safe, a shard's
// end with it: the stream goes on from the one before, and nothing is twice.
func TestTornTailOfAStream(t *testing.T) {
	k := keepingStreams(t, engine.StreamOptions{ShardRecords: 4, OpenShards: 1}, engine.Durability{Sync: journal.Never})
	tab, arn := k.plain(t, "torn")
	for i := range 5 {
		tab.put(item("a", "1", "v", num(i)))
	}
	records := k.all(t, arn)
	require.Len(t, k.describe(t, arn).Shards, 2)
	k.d.Dir = crashed(t, k.d.Dir, filepath.Join(t.TempDir(), "crashed"))
	names, bytes := logs(t, k.d.Dir)
	require.NoError(t, os.Truncate(names[0], bytes-1))
	var log strings.Builder
	k.d.Log = slog.New(slog.NewTextHandler(&log, nil))
	k.open(t)
	require.Contains(t, log.String(), "the end of the log was never fully written and is dropped")
	require.Len(t, k.describe(t, arn).Shards, 1)
	require.Equal(t, records[:4], k.all(t, arn))
	tab.db = k.db
	tab.put(item("a", "1", "v", num(9)))
	again := k.all(t, arn)
	require.Equal(t, "MODIFY a/1 3>9", short(again[4]))
	require.Equal(t, sequences(records), sequences(again))
}

// TestStreamShowsWhatIsSafe reads the stream while a write waits for a disk that
// then fails: the reader, who came before it failed, is shown nothing of it.
func TestStreamShowsWhatIsSafe(t *testing.T) {
	synctest.Test(t, checkStreamShowsWhatIsSafe)
}

func checkStreamShowsWhatIsSafe(t *testing.T) {
	t.Helper()
	verdict := make(chan error)
	var armed atomic.Bool
	k := keepingStreams(t, engine.StreamOptions{}, engine.Durability{Wrap: func(f journal.File) journal.File {
		return failing{File: f, verdict: verdict, armed: &armed}
	}})
	tab, arn := k.plain(t, "unsafe")
	tab.put(item("a", "1", "v", num(1)))
	i := k.iterator(t, arn, k.describe(t, arn).Shards[0].ShardId, horizon)
	latest := k.page(t, i, 0).NextShardIterator
	armed.Store(true)
	get := func(i *string) func() int {
		return func() int {
			return rawCall(k.engine, "DynamoDBStreams_20120810.GetRecords", `{"ShardIterator":"`+*i+`"}`).Code
		}
	}
	put := func(sk string) func() int {
		return func() int {
			return rawCall(k.engine, "DynamoDB_20120810.PutItem", `{"TableName":"unsafe","Item":{"pk":{"S":"a"},"sk":{"S":"`+sk+`"}}}`).Code
		}
	}
	var answered atomic.Int64
	var all sync.WaitGroup
	for _, call := range []func() int{put("2"), get(latest), get(i), put("3")} {
		all.Go(func() {
			if code := call(); code != http.StatusInternalServerError {
				t.Errorf("answered with %d", code)
			}
			answered.Add(1)
		})
		synctest.Wait()
	}
	require.EqualValues(t, 3, k.engine.Sequence(), "readers who wait hold no writer up")
	require.Zero(t, answered.Load())
	verdict <- errors.New("planted")
	all.Wait()
}

// TestFollowersUnderLoad has readers who follow a stream, from memory and from
// the disk, while it is written, rolls over and is cut: each sees every change
// once and each item's in order.
func TestFollowersUnderLoad(t *testing.T) {
	const writers, each, followers = 6, 150, 4
	k := keepingStreams(t, engine.StreamOptions{ShardRecords: 60, OpenShards: 3, WindowBytes: 4 << 10},
		engine.Durability{CutBytes: 30_000, Sync: journal.Never})
	tab, arn := k.plain(t, "followed")
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				in := item(fmt.Sprint("writer-", w), fmt.Sprint(i%2), "v", num(i))
				if _, err := k.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: tab.name, Item: in}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range followers {
		all.Go(func() {
			if err := followAll(t, k.streamed, arn, writers*each); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// followAll reads shards as they appear until it has seen so many records.
func followAll(t *testing.T, x *streamed, arn string, want int) error {
	open, done := map[string]*string{}, map[string]bool{}
	last := map[string]string{} // v, by item
	for seen := 0; seen < want; {
		out, err := x.streams.DescribeStream(t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
		if err != nil {
			return err
		}
		for _, s := range out.StreamDescription.Shards {
			id := *s.ShardId
			if s.ParentShardId != nil && !done[*s.ParentShardId] || done[id] {
				continue // parents first
			}
			if open[id] == nil {
				if open[id], err = x.tryIterator(t, arn, s.ShardId, horizon); err != nil {
					return err
				}
			}
			page, err := x.streams.GetRecords(t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: open[id]})
			if err != nil {
				return err
			}
			seen += len(page.Records)
			if err := inOrder(page.Records, last); err != nil {
				return err
			}
			open[id], done[id] = page.NextShardIterator, page.NextShardIterator == nil
		}
	}
	return nil
}

func inOrder(records []streamtypes.Record, last map[string]string) error {
	for _, r := range records {
		name, change, _ := strings.Cut(strings.SplitN(short(r), " ", 2)[1], " ")
		before, after, _ := strings.Cut(change, ">")
		if was, ok := last[name]; ok && was != before || !ok && before != "-" {
			return fmt.Errorf("%s was %q, and then %s", name, was, short(r))
		}
		last[name] = after
	}
	return nil
}
