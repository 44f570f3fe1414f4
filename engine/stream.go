package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// StreamOptions configures the shards of change streams and the retention of their
// records.
type StreamOptions struct {
	// Retention is the time for which records are kept. Default: 24 hours, as in
	// DynamoDB. Records are removed by segment, up to 1/24 later.
	Retention time.Duration
	// RetentionBytes bounds the records of all streams together. For a durable engine
	// it counts bytes of log; default 1 GiB, which is about 400,000 writes of a
	// bucket. For an engine in memory it counts bytes of images; default 64 MiB,
	// which is about 40,000 writes, because each takes several times its size.
	RetentionBytes int64
	// WindowBytes is the number of bytes of the newest records that a durable engine
	// also keeps in memory, so that current readers need no disk. Default: 16 MiB.
	WindowBytes int64
	// ShardRecords and ShardAge limit a stream shard. The first write beyond them
	// closes the shard and opens its children, so a shard without writes stays open.
	// Defaults: 100,000 records, and 4 hours as in DynamoDB.
	ShardRecords int
	ShardAge     time.Duration
	// OpenShards is the maximum number of open shards in a stream. A stream starts
	// with a single shard. A full shard gets two children, each with half of its
	// keys, until the stream has the maximum. Default: 4.
	OpenShards int
}

func (o StreamOptions) withDefaults(onDisk bool) StreamOptions {
	if onDisk {
		o.RetentionBytes = cmp.Or(o.RetentionBytes, 1<<30)
	}
	return StreamOptions{
		Retention:      cmp.Or(o.Retention, 24*time.Hour),
		RetentionBytes: cmp.Or(o.RetentionBytes, 64<<20),
		WindowBytes:    cmp.Or(o.WindowBytes, 16<<20),
		ShardRecords:   cmp.Or(o.ShardRecords, 100_000),
		ShardAge:       cmp.Or(o.ShardAge, 4*time.Hour),
		OpenShards:     cmp.Or(o.OpenShards, 4),
	}
}

// streams holds the change streams of all tables. It includes disabled streams and
// the streams of deleted tables, as long as they have records.
//
// It has its own lock, so that readers of streams do not block readers of items. They
// hold the lock briefly, and never while they read the disk or encode.
type streams struct {
	options StreamOptions

	mu     sync.RWMutex            // locked after Engine.mu where both are needed
	all    map[string]*stream      // by ARN; guarded by mu
	shards map[uint64]*streamShard // by number; guarded by mu
	number uint64                  // of the newest shard ever; guarded by mu
	label  time.Time               // of the newest stream ever; guarded by mu
	kept   records                 // guarded by mu
}

// stream is a change stream of a table with its label: all changes between enabling
// and disabling it.
type stream struct {
	table, label, arn string
	view              string
	keys              keySchema
	created           time.Time
	labelled          time.Time // the time in the label

	off    time.Time      // when it was switched off; zero: it is on; guarded by streams.mu
	shards []*streamShard // by number; guarded by streams.mu
}

// streamShard is an ordered part of a stream: the records of a range of keys in a
// range of sequence numbers. An item's changes go to a single open shard at a time, so
// its later records are in that shard or in a descendant.
type streamShard struct {
	of       *stream
	number   uint64 // rising over all streams: parents before children
	id       string
	parent   string // id; empty: no parent
	from, to uint64 // hashes of partition keys, both included
	start    uint64 // no record has a lower sequence number
	opened   time.Time

	// Guarded by streams.mu.
	count   int       // records ever
	last    uint64    // sequence number of the last record; 0: no record
	trimmed uint64    // sequence number of the last trimmed record; 0: no record trimmed
	closed  time.Time // zero: open
}

// end returns the highest sequence number in the shard so far; it is final once the
// shard is closed.
func (s *streamShard) end() uint64 { return max(s.start, s.last) }

func (s *streamShard) isOpen() bool { return s.closed.IsZero() }

func newStreams(o StreamOptions) *streams {
	return &streams{options: o, all: map[string]*stream{}, shards: map[uint64]*streamShard{}}
}

// begin enables a table's stream, with a new label and a single shard. The caller
// holds Engine.mu.
func (s *streams) begin(t *table, view string, sequence uint64, now time.Time) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A label is never used twice, even if the clock does not advance.
	s.label = later(now.Truncate(time.Millisecond), s.label.Add(time.Millisecond))
	st := &stream{table: t.name, labelled: s.label, view: view, keys: t.keys, created: now}
	st.label = streamLabel(st.labelled)
	st.arn = streamARN(t.arn, st.label)
	s.all[st.arn] = st
	s.open(st, &streamShard{from: 0, to: math.MaxUint64, start: sequence + 1, opened: now})
	return st
}

func (st *stream) isOn() bool { return st.off.IsZero() }

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func streamARN(table, label string) string { return table + "/stream/" + label }

// streamLabel formats a time like DynamoDB's stream labels.
func streamLabel(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000") }

// end disables a stream; its records stay readable. The caller holds Engine.mu.
func (s *streams) end(st *stream, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st == nil || !st.isOn() {
		return
	}
	st.off = now
	for _, shard := range st.shards {
		if shard.isOpen() {
			shard.closed = now
		}
	}
}

// open numbers a shard and adds it to its stream.
func (s *streams) open(st *stream, shard *streamShard) {
	s.number++
	shard.number = s.number
	s.add(st, shard)
}

func (s *streams) add(st *stream, shard *streamShard) {
	shard.of = st
	shard.id = shardID(shard.opened, shard.number)
	st.shards = append(st.shards, shard)
	s.shards[shard.number] = shard
}

// shardID returns an ID in DynamoDB's format: a time, and the number that
// distinguishes shards opened at the same time.
func shardID(opened time.Time, number uint64) string {
	return fmt.Sprintf("shardId-%020d-%08x", opened.UnixMilli(), number)
}

// shardNumber returns the number in an ID; 0 if it has no number.
func shardNumber(id string) uint64 {
	var number uint64
	i := strings.LastIndexByte(id, '-')
	if _, err := fmt.Sscanf(id[i+1:], "%x", &number); err != nil {
		return 0
	}
	return number
}

// shard finds a stream's shard. The caller holds mu.
func (s *streams) shard(st *stream, id string) *streamShard {
	if shard := s.shards[shardNumber(id)]; shard != nil && shard.of == st && shard.id == id {
		return shard
	}
	return nil
}

// roll is the recorded end of a shard and start of its children.
type roll struct {
	Shard uint64 // number
	Start uint64 // sequence number from which on the children have the records
	Split bool   `json:",omitempty"` // two children instead of a single child
}

// place assigns a change to a shard. It closes a full or old shard; the change is then
// the first of its child. The caller holds mu for writing.
func (s *streams) place(c *Commit, change *Change) {
	st := change.stream
	hash := partitionHash(change.key)
	shard := st.openShard(hash)
	if full := shard.count >= s.options.ShardRecords; full || shard.count > 0 && change.At.Sub(shard.opened) >= s.options.ShardAge {
		r := roll{Shard: shard.number, Start: change.Sequence, Split: full && st.openShards() < s.options.OpenShards && shard.from < shard.to}
		s.roll(shard, r, change.At)
		c.rolls = append(c.rolls, r)
		shard = st.openShard(hash)
	}
	change.shard = shard
	shard.count++
	shard.last = change.Sequence
}

func (s *streams) roll(shard *streamShard, r roll, now time.Time) {
	shard.closed = now
	child := func(from, to uint64) {
		s.open(shard.of, &streamShard{parent: shard.id, from: from, to: to, start: r.Start, opened: now})
	}
	if !r.Split {
		child(shard.from, shard.to)
		return
	}
	middle := shard.from + (shard.to-shard.from)/2
	child(shard.from, middle)
	child(middle+1, shard.to)
}

func (st *stream) openShards() (n int) {
	for _, shard := range st.shards {
		if shard.isOpen() {
			n++
		}
	}
	return n
}

// openShard returns the shard for an item's changes; the newest shards are at the end.
func (st *stream) openShard(hash uint64) *streamShard {
	for i := len(st.shards) - 1; ; i-- {
		if s := st.shards[i]; s.isOpen() && s.from <= hash && hash <= s.to {
			return s
		}
	}
}

// partitionHash spreads partition keys over the shards of a stream. It must never
// change: after a restart, each item must find its shard again.
func partitionHash(storageKey string) uint64 {
	if i := strings.Index(storageKey, valueEnd); i >= 0 {
		storageKey = storageKey[:i]
	}
	const fnvOffset, fnvPrime, spread = 0xcbf29ce484222325, 0x100000001b3, 0x9e3779b97f4a7c15
	hash := uint64(fnvOffset) // FNV-1a
	for i := range len(storageKey) {
		hash = (hash ^ uint64(storageKey[i])) * fnvPrime
	}
	return hash * spread // for keys that differ in their end hardly differ in FNV's high bits
}

// forget drops closed shards without records, and disabled streams without shards.
// The caller holds mu for writing.
func (s *streams) forget(now time.Time) {
	for arn, st := range s.all {
		st.shards = slices.DeleteFunc(st.shards, func(shard *streamShard) bool {
			gone := !shard.isOpen() && shard.last <= shard.trimmed &&
				(shard.last > 0 || now.Sub(shard.closed) > s.options.Retention)
			if gone {
				delete(s.shards, shard.number)
			}
			return gone
		})
		if !st.isOn() && len(st.shards) == 0 {
			delete(s.all, arn)
		}
	}
}
