package ledger

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Change is what one write made of an item.
type Change struct {
	At time.Time
	PK string // of the item
	// Old and New are the item's numbers before and after, by attribute; nil where
	// there was no item, or is none any more.
	Old, New map[string]int64
}

// Total is what one usage snapshot says, or is to say.
type Total struct {
	Used     map[string]int64 // millitokens by limit, none of them 0
	Acquires int64
}

// Ledger sums up changes of buckets by usage window. The zero value is ready, and
// safe for use by several goroutines.
type Ledger struct {
	mu     sync.Mutex
	totals map[keys.Usage]*Total // guarded by mu
}

// Add counts one change; what is not a bucket's has no part in usage. A bucket that
// is removed takes nothing back: all that it had was counted when it got it.
func (l *Ledger) Add(c Change) {
	item, err := keys.Parse(keys.Key{PK: c.PK, SK: "#STATE"})
	bucket, ok := item.(keys.Bucket)
	if err != nil || !ok || c.New == nil {
		return
	}
	used, acquires := Spent(c)
	if len(used) == 0 && acquires == 0 {
		return
	}
	at := c.At.UTC()
	l.mu.Lock()
	defer l.mu.Unlock()
	for window, start := range map[string]time.Time{
		"hourly": time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), 0, 0, 0, time.UTC),
		"daily":  time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC),
	} {
		l.add(keys.Usage{Namespace: bucket.Namespace, Entity: bucket.Entity, Resource: bucket.Resource, Window: window, Start: start.Format("2006-01-02T15:04:05Z")}, used, acquires)
	}
}

// Spent is what a change of a bucket spent: millitokens of each limit that it
// changed, and how many acquires it admitted.
func Spent(c Change) (used map[string]int64, acquires int64) {
	used = map[string]int64{}
	for name, value := range c.New {
		limit, counter := strings.CutSuffix(strings.TrimPrefix(name, "b_"), "_tc")
		if !counter || limit == "wcu" {
			continue
		}
		if delta := value - c.Old[name]; delta != 0 {
			used[limit] = delta
		}
	}
	return used, c.New["an"] - c.Old["an"]
}

// add is one change in one window; l.mu is held.
func (l *Ledger) add(key keys.Usage, used map[string]int64, acquires int64) {
	if l.totals == nil {
		l.totals = map[keys.Usage]*Total{}
	}
	t := l.totals[key]
	if t == nil {
		t = &Total{Used: map[string]int64{}}
		l.totals[key] = t
	}
	for limit, milli := range used {
		t.Used[limit] += milli
	}
	t.Acquires += acquires
}

// Totals are what the snapshots are to say.
func (l *Ledger) Totals() map[keys.Usage]Total {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[keys.Usage]Total, len(l.totals))
	for key, t := range l.totals {
		all[key] = Total{nonzero(t.Used), t.Acquires}
	}
	return all
}

func nonzero(used map[string]int64) map[string]int64 {
	left := maps.Clone(used)
	maps.DeleteFunc(left, func(_ string, milli int64) bool { return milli == 0 })
	return left
}

// Snapshots are the usage snapshots that a table has.
func Snapshots(ctx context.Context, db *dynamodb.Client, tableName string) (map[keys.Usage]Total, error) {
	all := map[keys.Usage]Total{}
	pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &tableName})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("scan %s: %w", tableName, err)
		}
		for _, item := range page.Items {
			key, err := table.ItemKey(item)
			if err != nil {
				return nil, err
			}
			if _, ok := key.(keys.Usage); !ok {
				continue
			}
			u, err := table.DecodeUsage(item)
			if err != nil {
				return nil, err
			}
			used := map[string]int64{}
			for _, limit := range u.Used {
				used[limit.Limit] = limit.Tokens*bucket.Milli + limit.Milli
			}
			all[u.Key] = Total{nonzero(used), u.Acquires}
		}
	}
	return all, nil
}
