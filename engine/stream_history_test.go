package engine_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/dirtest"
)

// told is one change as OnCommit told of it, and where it belongs.
type told struct {
	sequence uint64
	arn      string
	line     string // as short shows its record
}

// streamHistory is an engine under random writes, with all that its streams have
// to show.
type streamHistory struct {
	t        *testing.T
	options  engine.StreamOptions
	d        engine.Durability // without Dir: in memory
	clock    *clock
	x        *streamed
	arns     map[string]string // the stream that is on, by table
	ever     []string          // all streams
	commits  []told
	follower map[string]*cursor // by stream and shard
	followed []uint64           // sequence numbers that the follower was shown
	missed   bool               // records went before the follower came
	crashes  int
}

// cursor is a reader's place in a shard.
type cursor struct {
	arn, shard string
	last       string // sequence number of the last record; empty: none
	iterator   *string
	ended      bool
}

func (h *streamHistory) open(t require.TestingT) {
	o := engine.Options{Now: h.clock.Now, Streams: h.options, OnCommit: h.committed}
	embedded := engine.New(o)
	if h.d.Dir != "" {
		var err error
		embedded, err = engine.Open(o, h.d)
		require.NoError(t, err)
	}
	h.x = clientsOf(t, embedded, h.clock)
}

func (h *streamHistory) committed(c engine.Commit) {
	for _, change := range c.Changes {
		arn := h.arns[change.Table]
		if arn == "" {
			continue
		}
		name := "MODIFY"
		if change.Old == nil {
			name = "INSERT"
		} else if change.New == nil {
			name = "REMOVE"
		}
		text := func(v fmt.Stringer, ok bool) string {
			if !ok {
				return "-"
			}
			return v.String()
		}
		old, hadOld := change.Old["v"]
		after, hasNew := change.New["v"]
		keys := change.Keys()
		h.commits = append(h.commits, told{sequence: change.Sequence, arn: arn, line: fmt.Sprintf("%s %s/%s %s>%s", name,
			keys["pk"].Text(), keys["sk"].Text(), text(old.Number(), hadOld), text(after.Number(), hasNew))})
	}
}

// TestStreamHistories is any history of writes, of streams switched on and off,
// of snapshots, crashes and restarts, with stream shards that close and split all
// the time: a stream shows each change once and in order, from the oldest that it
// still has, and whoever follows it sees all.
func TestStreamHistories(t *testing.T) {
	for name, onDisk := range map[string]bool{"in memory": false, "on disk": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				h := newStreamHistory(t, rt, onDisk)
				actions := map[string]func(*rapid.T){
					"write": h.write, "write more": h.write, "transact": h.transact, "switch": h.toggle, "drop": h.drop,
					"wait": h.wait, "follow": h.follow, "read": h.read,
				}
				if onDisk {
					actions["snapshot"] = func(rt *rapid.T) { require.NoError(rt, h.x.engine.Snapshot()) }
					actions["reopen"] = h.reopen
				}
				rt.Repeat(actions)
				h.read(rt)
				h.follow(rt)
				require.NoError(rt, h.x.engine.Close())
			})
		})
	}
}

func newStreamHistory(t *testing.T, rt *rapid.T, onDisk bool) *streamHistory {
	h := &streamHistory{
		t: t, clock: newClock(), arns: map[string]string{}, follower: map[string]*cursor{},
		options: engine.StreamOptions{
			ShardRecords:   rapid.IntRange(1, 20).Draw(rt, "shard records"),
			ShardAge:       time.Duration(rapid.IntRange(1, 600).Draw(rt, "shard age")) * time.Minute,
			OpenShards:     rapid.IntRange(1, 6).Draw(rt, "open shards"),
			RetentionBytes: int64(rapid.SampledFrom([]int{1 << 10, 8 << 10, 1 << 30}).Draw(rt, "retention")),
			WindowBytes:    int64(rapid.SampledFrom([]int{1, 2 << 10, 1 << 20}).Draw(rt, "window")),
		},
	}
	if onDisk {
		h.d = engine.Durability{
			Dir: filepath.Join(dirtest.New(t), "0"), Sync: journal.Never, CutBytes: rapid.Int64Range(5_000, 100_000).Draw(rt, "cut bytes"),
		}
	}
	h.open(rt)
	for _, name := range []string{"one", "two"} {
		_, err := h.x.db.CreateTable(rt.Context(), definition(name, false))
		require.NoError(rt, err)
		h.learn(rt, name)
	}
	return h
}

// learn asks for a table's stream.
func (h *streamHistory) learn(rt *rapid.T, name string) {
	out, err := h.x.db.DescribeTable(rt.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	require.NoError(rt, err)
	h.arns[name] = ""
	if out.Table.StreamSpecification != nil {
		h.arns[name] = *out.Table.LatestStreamArn
		if !slices.Contains(h.ever, h.arns[name]) {
			h.ever = append(h.ever, h.arns[name])
		}
	}
}

func (h *streamHistory) table(rt *rapid.T) string {
	return rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "table")
}

func (h *streamHistory) key(rt *rapid.T) attrs {
	return key(strconv.Itoa(rapid.IntRange(0, 9).Draw(rt, "pk")), strconv.Itoa(rapid.IntRange(0, 1).Draw(rt, "sk")))
}

func (h *streamHistory) write(rt *rapid.T) {
	for range rapid.IntRange(1, 8).Draw(rt, "writes") {
		name := h.table(rt)
		var err error
		if rapid.IntRange(0, 5).Draw(rt, "delete") == 0 {
			_, err = h.x.db.DeleteItem(rt.Context(), &dynamodb.DeleteItemInput{TableName: &name, Key: h.key(rt)})
		} else {
			_, err = h.x.db.UpdateItem(rt.Context(), &dynamodb.UpdateItemInput{
				TableName: &name, Key: h.key(rt), UpdateExpression: aws.String("ADD v :n"),
				ExpressionAttributeValues: attrs{":n": num(rapid.IntRange(0, 3).Draw(rt, "n"))},
			})
		}
		require.NoError(rt, err)
	}
}

func (h *streamHistory) transact(rt *rapid.T) {
	var actions []types.TransactWriteItem
	for pk := range rapid.IntRange(1, 10).Draw(rt, "actions") {
		actions = append(actions, types.TransactWriteItem{Update: &types.Update{
			TableName: aws.String(h.table(rt)), Key: key(strconv.Itoa(pk), "0"), UpdateExpression: aws.String("ADD v :n"),
			ExpressionAttributeValues: attrs{":n": num(1)},
		}})
	}
	_, err := h.x.db.TransactWriteItems(rt.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	require.NoError(rt, err)
}

func (h *streamHistory) toggle(rt *rapid.T) {
	name := h.table(rt)
	spec := &types.StreamSpecification{StreamEnabled: aws.Bool(h.arns[name] == "")}
	if h.arns[name] == "" {
		spec.StreamViewType = types.StreamViewTypeNewAndOldImages
	}
	_, err := h.x.db.UpdateTable(rt.Context(), &dynamodb.UpdateTableInput{TableName: &name, StreamSpecification: spec})
	require.NoError(rt, err)
	h.learn(rt, name)
}

func (h *streamHistory) drop(rt *rapid.T) {
	name := h.table(rt)
	_, err := h.x.db.DeleteTable(rt.Context(), &dynamodb.DeleteTableInput{TableName: &name})
	require.NoError(rt, err)
	_, err = h.x.db.CreateTable(rt.Context(), definition(name, false))
	require.NoError(rt, err)
	h.learn(rt, name)
}

func (h *streamHistory) wait(rt *rapid.T) {
	h.clock.Advance(time.Duration(rapid.IntRange(1, 400).Draw(rt, "minutes")) * time.Minute)
}

// reopen stops the engine, or lets it crash, and goes on where it was.
func (h *streamHistory) reopen(rt *rapid.T) {
	require.NoError(rt, h.x.engine.Close())
	if rapid.Bool().Draw(rt, "crash") {
		h.crashes++
		h.d.Dir = crashed(rt, h.d.Dir, filepath.Join(filepath.Dir(h.d.Dir), strconv.Itoa(h.crashes)))
	}
	h.open(rt)
	for name, arn := range h.arns {
		h.learn(rt, name)
		require.Equal(rt, arn, h.arns[name], "the same stream")
	}
}

// shardsOf is a stream's shards, with their lineage checked.
func (h *streamHistory) shardsOf(rt *rapid.T, arn string) []streamtypes.Shard {
	var shards []streamtypes.Shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn, Limit: aws.Int32(3)}
	for {
		out, err := h.x.streams.DescribeStream(rt.Context(), in)
		var gone *streamtypes.ResourceNotFoundException
		if errors.As(err, &gone) {
			return nil
		}
		require.NoError(rt, err)
		shards = append(shards, out.StreamDescription.Shards...)
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			break
		}
	}
	known := map[string]streamtypes.Shard{}
	for _, s := range shards {
		require.NotContains(rt, known, *s.ShardId)
		if s.ParentShardId != nil {
			if parent, ok := known[*s.ParentShardId]; ok {
				require.Less(rt, *parent.SequenceNumberRange.EndingSequenceNumber, *s.SequenceNumberRange.StartingSequenceNumber)
			}
		}
		known[*s.ShardId] = s
	}
	return shards
}

func (h *streamHistory) pages(rt *rapid.T, i *string) (records []streamtypes.Record, next *string) {
	limit := rapid.SampledFrom([]int32{1000, 300, 20, 3}).Draw(rt, "limit")
	for {
		out, err := h.x.streams.GetRecords(rt.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: i, Limit: &limit})
		require.NoError(rt, err)
		records = append(records, out.Records...)
		if i = out.NextShardIterator; i == nil || len(out.Records) == 0 {
			return records, i
		}
	}
}

// read compares all streams with what was committed: they may lack the oldest
// changes, and nothing else.
func (h *streamHistory) read(rt *rapid.T) {
	var got []told
	for _, arn := range h.ever {
		for _, s := range h.shardsOf(rt, arn) {
			out, err := h.x.streams.GetShardIterator(rt.Context(), &dynamodbstreams.GetShardIteratorInput{
				StreamArn: &arn, ShardId: s.ShardId, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
			})
			require.NoError(rt, err)
			records, next := h.pages(rt, out.ShardIterator)
			require.Equal(rt, s.SequenceNumberRange.EndingSequenceNumber == nil, next != nil, "a closed shard has an end")
			for _, r := range records {
				n := aws.ToString(r.Dynamodb.SequenceNumber)
				require.GreaterOrEqual(rt, n, *s.SequenceNumberRange.StartingSequenceNumber)
				if end := s.SequenceNumberRange.EndingSequenceNumber; end != nil {
					require.LessOrEqual(rt, n, *end)
				}
				got = append(got, told{sequence: number(rt, n), arn: arn, line: short(r)})
			}
		}
	}
	slices.SortFunc(got, func(a, b told) int { return int(a.sequence) - int(b.sequence) })
	require.LessOrEqual(rt, len(got), len(h.commits))
	want := h.commits[len(h.commits)-len(got):]
	require.Equal(rt, append([]told{}, want...), append([]told{}, got...))
	if h.options.RetentionBytes == 1<<30 && len(got) < len(h.commits) {
		require.Greater(rt, h.clock.Now().Sub(newClock().Now()), 24*time.Hour, "nothing is too old")
	}
}

func number(t require.TestingT, sequence string) uint64 {
	n, err := strconv.ParseUint(sequence, 10, 64)
	require.NoError(t, err)
	return n
}

// follow reads what is new, parents before children, with iterators as long as
// they live and from the last sequence number after that.
func (h *streamHistory) follow(rt *rapid.T) {
	for _, arn := range h.ever {
		for _, s := range h.shardsOf(rt, arn) {
			name := arn + *s.ShardId
			if h.follower[name] == nil {
				h.follower[name] = &cursor{arn: arn, shard: *s.ShardId}
			}
			h.advance(rt, h.follower[name])
		}
	}
	require.Len(rt, slices.Compact(slices.Sorted(slices.Values(h.followed))), len(h.followed), "shown twice")
	if !h.missed {
		h.checkFollowed(rt)
	}
}

func (h *streamHistory) checkFollowed(rt *rapid.T) {
	want := make([]uint64, len(h.commits))
	for i, c := range h.commits {
		want[i] = c.sequence
	}
	got := slices.Sorted(slices.Values(h.followed))
	if len(got) == len(want) {
		require.Equal(rt, want, append([]uint64{}, got...))
		return
	}
	// Only what was trimmed before the follower came may be missing.
	h.missed = true
	require.True(rt, h.options.RetentionBytes < 1<<30 || h.clock.Now().Sub(newClock().Now()) > 24*time.Hour,
		"%d of %d records", len(got), len(want))
}

func (h *streamHistory) advance(rt *rapid.T, c *cursor) {
	if c.ended {
		return
	}
	if c.iterator == nil || rapid.IntRange(0, 3).Draw(rt, "forget the iterator") == 0 {
		if !h.restart(rt, c) {
			return
		}
	}
	records, next := h.tryPages(rt, c)
	for _, r := range records {
		c.last = *r.Dynamodb.SequenceNumber
		h.followed = append(h.followed, number(rt, c.last))
	}
	c.iterator, c.ended = next, next == nil
}

func (h *streamHistory) restart(rt *rapid.T, c *cursor) bool {
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &c.arn, ShardId: &c.shard, ShardIteratorType: streamtypes.ShardIteratorTypeTrimHorizon,
	}
	if c.last != "" {
		in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeAfterSequenceNumber, &c.last
	}
	out, err := h.x.streams.GetShardIterator(rt.Context(), in)
	var trimmed *streamtypes.TrimmedDataAccessException
	if errors.As(err, &trimmed) {
		h.missed = true
		in.ShardIteratorType, in.SequenceNumber = streamtypes.ShardIteratorTypeTrimHorizon, nil
		out, err = h.x.streams.GetShardIterator(rt.Context(), in)
	}
	require.NoError(rt, err)
	c.iterator = out.ShardIterator
	return true
}

// tryPages is pages, again from the last sequence number where the iterator does
// not serve.
func (h *streamHistory) tryPages(rt *rapid.T, c *cursor) ([]streamtypes.Record, *string) {
	_, err := h.x.streams.GetRecords(rt.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: c.iterator})
	if err != nil {
		var (
			trimmed *streamtypes.TrimmedDataAccessException
			expired *streamtypes.ExpiredIteratorException
		)
		require.True(rt, errors.As(err, &trimmed) || errors.As(err, &expired), err)
		h.missed = h.missed || trimmed != nil
		h.restart(rt, c)
	}
	return h.pages(rt, c.iterator)
}
