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

// StreamOptions say how change streams are cut into stream shards and how long
// their records are kept.
type StreamOptions struct {
	// Retention is how old records get. Default: 24 hours, as in DynamoDB. Records
	// go in bunches, so one may stay 1/24 longer.
	Retention time.Duration
	// RetentionBytes bounds the records of all streams together: bytes of log of an
	// engine on disk, default 1 GiB, which is about 400,000 writes of a bucket;
	// bytes of images of one in memory, default 64 MiB, which is about 40,000,
	// because there each takes several times its size as long as it is kept.
	RetentionBytes int64
	// WindowBytes is how many bytes of the newest records an engine on disk also
	// keeps in memory, so that readers who follow need no disk. Default: 16 MiB.
	WindowBytes int64
	// ShardRecords and ShardAge are when a stream shard is closed and has children.
	// A write closes it, so a shard without writes stays open. Defaults: 100,000
	// records, and 4 hours as in DynamoDB.
	ShardRecords int
	ShardAge     time.Duration
	// OpenShards is how many shards of a stream are open at most. A stream begins
	// with one; a shard that is full is followed by two children, each for half of
	// its keys, as long as there may be more. Default: 4.
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

// streams is the change streams of all tables, those included that were switched
// off or whose table is gone, as long as they have records.
//
// It has a lock of its own, so that those who follow a stream do not stand in the
// way of those who read items; they hold it for moments, and never while they
// read the disk or encode.
type streams struct {
	options StreamOptions

	mu     sync.RWMutex            // taken after Engine.mu by whoever needs both
	all    map[string]*stream      // by ARN; guarded by mu
	shards map[uint64]*streamShard // by number; guarded by mu
	number uint64                  // of the newest shard ever; guarded by mu
	label  time.Time               // of the newest stream ever; guarded by mu
	kept   records                 // guarded by mu
}

// stream is one label of a table's change stream: all of it between one time of
// being switched on and off.
type stream struct {
	table, label, arn string
	view              string
	keys              keySchema
	created           time.Time
	labelled          time.Time // what the label says

	off    time.Time      // when it was switched off; zero: it is on; guarded by streams.mu
	shards []*streamShard // by number; guarded by streams.mu
}

// streamShard is a part of a stream in order: the records of a range of keys,
// from one sequence number to another. An item's records are in one open shard at
// a time, so its later ones are in that shard or a descendant.
type streamShard struct {
	of       *stream
	number   uint64 // rising over all streams: parents before children
	id       string
	parent   string // id; empty: none
	from, to uint64 // hashes of partition keys, both included
	start    uint64 // no record has a lower sequence number
	opened   time.Time

	// All guarded by streams.mu.
	count   int       // records ever
	last    uint64    // sequence number of the last record; 0: none
	trimmed uint64    // sequence number of the last record that is gone; 0: none
	closed  time.Time // zero: open
}

// end is the highest sequence number that belongs to the shard so far, and for
// good once it is closed.
func (s *streamShard) end() uint64 { return max(s.start, s.last) }

func (s *streamShard) isOpen() bool { return s.closed.IsZero() }

func newStreams(o StreamOptions) *streams {
	return &streams{options: o, all: map[string]*stream{}, shards: map[uint64]*streamShard{}}
}

// begin switches a table's stream on: under a label of its own, and with one
// shard. The caller holds Engine.mu.
func (s *streams) begin(t *table, view string, sequence uint64, now time.Time) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	// No label is ever given twice, not even when the clock stands still.
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

// streamLabel is a moment as DynamoDB labels streams with it.
func streamLabel(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000") }

// end switches a stream off; what it has stays readable. The caller holds
// Engine.mu.
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

// shardID has the form of DynamoDB's: a moment and something to tell shards of
// one moment apart.
func shardID(opened time.Time, number uint64) string {
	return fmt.Sprintf("shardId-%020d-%08x", opened.UnixMilli(), number)
}

// shardNumber is the number in an id; 0 where there is none.
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

// roll is the end of a shard and the begin of its children, as it is recorded.
type roll struct {
	Shard uint64 // number
	Start uint64 // sequence number from which on the children have the records
	Split bool   `json:",omitempty"` // two children instead of one
}

// place says which shard a change goes to, and closes one that is full or old:
// the change is then its child's first. The caller holds mu for writing.
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

// openShard is where an item's changes go; the newest shards are at the end.
func (st *stream) openShard(hash uint64) *streamShard {
	for i := len(st.shards) - 1; ; i-- {
		if s := st.shards[i]; s.isOpen() && s.from <= hash && hash <= s.to {
			return s
		}
	}
}

// partitionHash spreads partition keys over the shards of a stream. It is for
// good: after a restart each item must find its shard again.
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

// forget drops closed shards that have no records left, and streams that are
// switched off and have no shards left. The caller holds mu for writing.
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
