package engine

import (
	"sort"
	"time"
)

// segmentBytes is the approximate size of a segment, the unit of trimming and of
// reading from the disk.
const segmentBytes = 64 << 10

// records holds the changes that streams still show: the newest in memory, and for a
// durable engine all of them in its journal. streams.mu guards it.
//
//	oldest                                              newest
//	│ segment │ segment │ segment │ segment │ segment ◀── keep
//	 ◀─ trim   └── in the journal ──┘ └─ in memory as well ─┘
type records struct {
	segments []*segment // oldest first
	onDisk   int        // so many of the oldest are in the journal alone
	restored bool       // the changes are being restored from the journal, so they stay there
	bytes    int64      // of all segments
	window   int64      // of the segments in memory
}

// segment holds all changes between the previous segment and its own last change.
type segment struct {
	last            uint64 // sequence number
	position, until uint64 // of the first and the last commit in the journal; 0: no journal
	from, at        time.Time
	bytes           int64
	changes         []Change // in memory; append-only, so readers may keep the slice
	shards          []shardEnd
}

// shardEnd is the last record of a shard in a segment.
type shardEnd struct {
	shard *streamShard
	last  uint64 // sequence number
}

// note records the last record of a shard in the segment.
func (g *segment) note(shard *streamShard, sequence uint64) {
	for i := range g.shards {
		if g.shards[i].shard == shard {
			g.shards[i].last = sequence
			return
		}
	}
	g.shards = append(g.shards, shardEnd{shard, sequence})
}

// end returns the sequence number of a shard's last record in the segment; 0 if it has
// no record.
func (g *segment) end(shard *streamShard) uint64 {
	for _, e := range g.shards {
		if e.shard == shard {
			return e.last
		}
	}
	return 0
}

// stay returns the time for which a segment accepts changes.
func (o *StreamOptions) stay() time.Duration { return o.Retention / 24 }

// keep keeps the changes of a commit that streams show. bytes is its size in the
// journal; without a journal, position and bytes are 0.
func (s *streams) keep(c *Commit, position uint64, bytes int64) {
	shown := 0
	for i := range c.Changes {
		if change := &c.Changes[i]; change.shard != nil {
			shown++
			if position == 0 {
				bytes += int64(change.size)
			}
		}
	}
	k := &s.kept
	g := s.segmentFor(c, position, shown > 0)
	if g == nil {
		return
	}
	for i := range c.Changes {
		change := &c.Changes[i]
		g.last = change.Sequence
		if change.shard == nil {
			continue
		}
		g.note(change.shard, change.Sequence)
		if !k.restored {
			g.changes = append(g.changes, *change)
		}
	}
	if len(c.Changes) > 0 {
		g.until, g.at = position, c.at
	}
	g.bytes += bytes
	k.bytes += bytes
	if k.restored {
		k.onDisk = len(k.segments)
	} else {
		k.window += bytes
	}
}

// segmentFor returns the segment for a commit; nil if the commit need not be kept. A
// commit that no stream shows counts if it lies between other commits, because it
// occupies the journal's logs for as long.
func (s *streams) segmentFor(c *Commit, position uint64, shown bool) *segment {
	k := &s.kept
	var newest *segment
	if n := len(k.segments); n > k.onDisk || n > 0 && k.restored {
		newest = k.segments[n-1]
	}
	switch {
	case newest != nil && (len(c.Changes) == 0 || newest.bytes < s.segmentBytes() && c.at.Sub(newest.from) < s.options.stay()):
		return newest
	case !shown && (len(k.segments) == 0 || len(c.Changes) == 0):
		return nil
	}
	g := &segment{position: position, from: c.at}
	k.segments = append(k.segments, g)
	return g
}

func (s *streams) segmentBytes() int64 { return min(segmentBytes, s.options.RetentionBytes/16) }

// evict removes from memory the oldest changes beyond the window, which the journal
// also has. settled is the journal's settled position.
func (s *streams) evict(settled uint64) {
	k := &s.kept
	for k.window > s.options.WindowBytes && k.onDisk < len(k.segments)-1 && k.segments[k.onDisk].until <= settled {
		g := k.segments[k.onDisk]
		g.changes = nil
		k.window -= g.bytes
		k.onDisk++
	}
}

// due reports whether a segment must be trimmed.
func (s *streams) due(now time.Time) bool {
	k := &s.kept
	return len(k.segments) > 0 && (k.bytes > s.options.RetentionBytes && len(k.segments) > 1 ||
		now.Sub(k.segments[0].at) > s.options.Retention)
}

// trim drops segments beyond the retention. The caller holds mu for writing.
func (s *streams) trim(now time.Time) {
	if !s.due(now) {
		return
	}
	k := &s.kept
	for s.due(now) {
		g := k.segments[0]
		k.segments[0], k.segments = nil, k.segments[1:]
		k.bytes -= g.bytes
		if k.onDisk > 0 {
			k.onDisk--
		} else {
			k.window -= g.bytes
		}
		for _, e := range g.shards {
			e.shard.trimmed = max(e.shard.trimmed, e.last)
		}
	}
	s.forget(now)
}

// needed returns the first position in the journal that streams need; next if they
// need no position.
func (s *streams) needed(next uint64) uint64 {
	if len(s.kept.segments) == 0 {
		return next
	}
	return s.kept.segments[0].position
}

// part is a reader's immutable copy of the data of a segment.
type part struct {
	last            uint64 // sequence number of the shard's last record in it
	position, until uint64
	inMemory        bool
	changes         []Change
}

// find returns the first segment that has a record of the shard at or behind a
// sequence number. The caller holds mu.
func (s *streams) find(shard *streamShard, sequence uint64) (part, bool) {
	all := s.kept.segments
	i := sort.Search(len(all), func(i int) bool { return all[i].last >= sequence })
	for ; i < len(all); i++ {
		g := all[i]
		if last := g.end(shard); last >= sequence {
			return part{
				last: last, position: g.position, until: g.until, inMemory: i >= s.kept.onDisk, changes: g.changes,
			}, true
		}
	}
	return part{}, false
}
