package engine

import (
	"strconv"
	"time"

	"github.com/tidegate/tidegate/engine/attr"
)

// oldestExpiry is the maximum age of an expiry. DynamoDB ignores expiries more than
// five years ago, because they are probably not times.
const oldestExpiry = 5 * 365 * 24 * time.Hour

// sweepPage is the number of items that Expire reads each time it takes the lock.
const sweepPage = 1000

type ttlSpecification struct {
	AttributeName string
	Enabled       *bool
}

func (e *Engine) updateTimeToLive(c *call) ([]byte, error) {
	var in struct {
		TableName               string
		TimeToLiveSpecification *ttlSpecification
	}
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	spec := in.TimeToLiveSpecification
	if spec == nil {
		return nil, missing("timeToLiveSpecification")
	}
	if err := checkAttributeName(spec.AttributeName); err != nil {
		return nil, err
	}
	if spec.Enabled == nil {
		return nil, missing("timeToLiveSpecification.enabled")
	}
	t, err := e.lookup(in.TableName)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.still(t) != nil:
		return nil, tableNotFound()
	case *spec.Enabled && t.ttl != "":
		return nil, validation("TimeToLive is already enabled")
	case !*spec.Enabled && t.ttl == "":
		return nil, validation("TimeToLive is already disabled")
	case !*spec.Enabled && t.ttl != spec.AttributeName:
		return nil, validation("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.ttl)
	case *spec.Enabled:
		t.ttl = spec.AttributeName
	default:
		t.ttl = ""
	}
	e.recordTable(t)
	return mustJSON(map[string]any{"TimeToLiveSpecification": spec}), nil
}

func (e *Engine) describeTimeToLive(c *call) ([]byte, error) {
	var in tableNameInput
	if err := decodeStruct(c.body, &in); err != nil {
		return nil, err
	}
	t, err := e.lookup(in.TableName)
	if err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	d := map[string]string{"TimeToLiveStatus": "DISABLED"}
	if t.ttl != "" {
		d = map[string]string{"TimeToLiveStatus": "ENABLED", "AttributeName": t.ttl}
	}
	return mustJSON(map[string]any{"TimeToLiveDescription": d}), nil
}

// Expire deletes the items whose time to live is at or before now, like DynamoDB's
// background process, and returns their number. The engine does not expire items by
// itself: its owner calls Expire regularly. Expire holds the lock only briefly, and
// checks each item again before it deletes it, in case its time was extended.
func (e *Engine) Expire(now time.Time) int {
	if e.Health() != nil {
		return 0 // nothing may change before the pending records are written
	}
	e.mu.RLock()
	var tables []*table
	for _, t := range e.tables {
		if t.ttl != "" {
			tables = append(tables, t)
		}
	}
	e.mu.RUnlock()
	deleted := 0
	for _, t := range tables {
		for from, more := "", true; more; {
			var due []string
			due, from, more = e.expired(t, from, now)
			deleted += e.expireItems(t, due, now)
		}
	}
	_ = e.await(0) // after a disk failure, every later request reports it
	return deleted
}

// expired reads a page of items from a storage key on. It returns the keys of the due
// items and the start of the next page.
func (e *Engine) expired(t *table, from string, now time.Time) (due []string, next string, more bool) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	seen := 0
	t.rows.Ascend(from, func(key string, r *row) bool {
		if seen++; seen > sweepPage {
			next, more = key, true
			return false
		}
		if t.isExpired(r.now.item, now) {
			due = append(due, key)
		}
		return true
	})
	return due, next, more
}

func (e *Engine) expireItems(t *table, due []string, now time.Time) int {
	if len(due) == 0 {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.still(t) != nil {
		return 0
	}
	deleted := 0
	for _, key := range due {
		found := t.find(key)
		if found == nil || !t.isExpired(found.item, now) {
			continue
		}
		// These deletions are not billed.
		e.commit(TimeToLive, 1, &call{}, Commit{}, mutation{table: t, key: key, before: found})
		deleted++
	}
	return deleted
}

// isExpired reports whether the item's ttl, a number of epoch seconds, has passed.
// The caller holds mu.
func (t *table) isExpired(item attr.Item, now time.Time) bool {
	v, ok := item[t.ttl]
	if !ok || v.Kind() != attr.KindN {
		return false
	}
	at, err := strconv.ParseFloat(v.Number().String(), 64)
	if err != nil {
		return false
	}
	second := float64(now.UnixNano()) / 1e9
	return at <= second && at >= second-oldestExpiry.Seconds()
}
