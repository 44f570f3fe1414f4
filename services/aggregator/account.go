package aggregator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// entry is the addition of a record to a snapshot.
type entry struct {
	record   int    // its index in the batch
	shard    int    // of the bucket
	at       string // its position in the table's stream
	replay   string // its mark, where it comes from the dead letters
	used     map[string]int64
	acquires int64
}

// account holds the additions of a batch to a snapshot, in order. It is settled from the
// front.
type account struct {
	key     keys.Usage
	ttl     int64
	entries []entry

	made    bool // a write may have made the snapshot
	unknown bool // a write has an unknown outcome, and may still arrive
}

// accounts sorts the usage in the records of a batch by snapshot. Records without usage
// have no account.
func accounts(records []feed.Record, windows []api.Window, keep time.Duration) []*account {
	var all []*account
	byKey := map[keys.Usage]*account{}
	for i, r := range records {
		bucket, ok := r.Key.(keys.Bucket)
		if !ok || r.Bucket == nil {
			continue
		}
		used, acquires := events.Consumed(r.Bucket), events.Acquired(r.Bucket)
		if len(used) == 0 && acquires == 0 {
			continue
		}
		for _, w := range windows {
			start, end := w.Span(r.AtMs)
			key := keys.Usage{
				Namespace: bucket.Namespace, Entity: bucket.Entity, Resource: bucket.Resource,
				Window: string(w), Start: keys.UsageStart(start),
			}
			a := byKey[key]
			if a == nil {
				a = &account{key: key, ttl: end.Add(keep).Unix()}
				byKey[key] = a
				all = append(all, a)
			}
			a.enter(entry{record: i, shard: bucket.Shard, at: r.Position.String(), replay: r.Replay, used: used, acquires: acquires})
		}
	}
	return all
}

// enter adds an entry, unless the batch has it already: an entry with a shard that has come
// as far, or a mark that is there.
func (a *account) enter(e entry) {
	for _, other := range a.entries {
		switch {
		case e.replay != "":
			if other.replay == e.replay {
				return
			}
		case other.replay == "" && other.shard == e.shard && other.at >= e.at:
			return
		}
	}
	a.entries = append(a.entries, e)
}

// write returns the form that counts the account's first n entries: the entries up to a
// replay, or a replay alone, and as many as a single write can count, at most so many.
func (a *account) write(most int) (form *table.CountUsage, n int) {
	form = &table.CountUsage{Key: a.key, TTL: a.ttl}
	sums := map[string]int64{}
	for _, e := range a.entries[:min(len(a.entries), most)] {
		if n > 0 && (e.replay != "" || tooMuch(sums, e.used)) {
			break
		}
		n++
		for limit, milli := range e.used {
			sums[limit] += milli
		}
		form.Acquires += e.acquires
		if e.replay != "" {
			form.Replay = e.replay
			break
		}
		form.Shards = moved(form.Shards, e)
	}
	for limit, milli := range sums {
		form.Used = append(form.Used, table.Used{Limit: limit, Milli: milli})
	}
	slices.SortFunc(form.Used, func(x, y table.Used) int { return cmp.Compare(x.Limit, y.Limit) })
	slices.SortFunc(form.Shards, func(x, y table.CountedShard) int { return cmp.Compare(x.Shard, y.Shard) })
	return form, n
}

// tooMuch reports whether a write cannot count more: it would count too many limits, or
// a sum that is no int64.
func tooMuch(sums, more map[string]int64) bool {
	n := len(sums)
	for limit, milli := range more {
		sum, counted := sums[limit]
		if !counted {
			n++
		}
		if milli > 0 && sum > math.MaxInt64-milli || milli < 0 && sum < math.MinInt64-milli {
			return true
		}
	}
	return n > table.MaxUsedLimits
}

// moved is the shards with an entry more.
func moved(shards []table.CountedShard, e entry) []table.CountedShard {
	for i := range shards {
		if shards[i].Shard == e.shard {
			shards[i].Last = e.at
			return shards
		}
	}
	return append(shards, table.CountedShard{Shard: e.shard, First: e.at, Last: e.at})
}

// leaveOut drops the entries that a snapshot counts already, and reports whether
// there were any.
func (a *account) leaveOut(counted *table.Usage) bool {
	before := len(a.entries)
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool {
		if e.replay != "" {
			return slices.Contains(counted.Replays, e.replay)
		}
		return counted.Counted[e.shard] >= e.at
	})
	return len(a.entries) < before
}
