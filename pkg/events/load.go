package events

import (
	"encoding/json"
	"fmt"

	"github.com/tidegate/tidegate/pkg/keys"
)

// LoadSubject is the subject on which admission nodes report their load once a
// second. Reports are neither stored nor acknowledged: a lost report would have been
// out of date within a second.
const LoadSubject = "tidegate.load.v1"

// LoadEvery is the interval of a node's reports, in milliseconds. A report leaves out
// bucket shards with little load since the last report.
const LoadEvery = 1000

// MaxLoads is the maximum number of bucket shards in a report; a node with more
// loads sends several reports.
const MaxLoads = 500

// loadVersion is the version of the JSON form.
const loadVersion = 1

// LoadReport holds an admission node's load in the interval that has just ended, as
// far as the change feed does not show it.
type LoadReport struct {
	Node   string // random, chosen at the node's start
	FromMs int64  // Unix milliseconds by the store's clock
	ToMs   int64
	Loads  []Load
}

// Load holds the load on a bucket shard in the interval of a report. Requests,
// Denied and Costs cover the whole bucket and are set on shard 0 only.
type Load struct {
	Key keys.Bucket
	// FailedUnits counts the write units of failed writes to the shard that no image
	// shows: throttled writes, and refused writes that no later write has counted.
	FailedUnits int64
	Requests    int64 // acquires that arrived
	Denied      int64 // of these, for lack of tokens in the bucket
	// Costs holds, by limit, the 99th percentile of the costs of recent requests,
	// in whole tokens. It is empty if too few requests arrived.
	Costs map[string]int64
}

// jsonLoads and jsonLoad are the JSON form.
type jsonLoads struct {
	Version int        `json:"v"`
	Node    string     `json:"node"`
	FromMs  int64      `json:"from_ms"`
	ToMs    int64      `json:"to_ms"`
	Loads   []jsonLoad `json:"loads"`
}

type jsonLoad struct {
	PK          string           `json:"pk"`
	FailedUnits int64            `json:"failed_units,omitempty"`
	Requests    int64            `json:"requests,omitempty"`
	Denied      int64            `json:"denied,omitempty"`
	Costs       map[string]int64 `json:"costs,omitempty"`
}

// EncodeLoad returns the report's JSON. It fails if DecodeLoad would refuse the report.
func EncodeLoad(r *LoadReport) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("encode load report: %w", err)
	}
	x := jsonLoads{Version: loadVersion, Node: r.Node, FromMs: r.FromMs, ToMs: r.ToMs, Loads: make([]jsonLoad, len(r.Loads))}
	for i, l := range r.Loads {
		x.Loads[i] = jsonLoad{PK: l.Key.Key().PK, FailedUnits: l.FailedUnits, Requests: l.Requests, Denied: l.Denied, Costs: l.Costs}
	}
	data, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("encode load report: %w", err)
	}
	return data, nil
}

// DecodeLoad reads a report. Its error is ErrUnknownVersion or ErrMalformed. Callers
// drop the report either way, because the next report is a second away.
func DecodeLoad(data []byte) (*LoadReport, error) {
	var x jsonLoads
	if err := json.Unmarshal(data, &x); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if x.Version > loadVersion {
		return nil, fmt.Errorf("%w: a load report has version %d, known is %d", ErrUnknownVersion, x.Version, loadVersion)
	}
	if x.Version < 1 {
		return nil, fmt.Errorf("%w: a load report has version %d", ErrMalformed, x.Version)
	}
	r := &LoadReport{Node: x.Node, FromMs: x.FromMs, ToMs: x.ToMs, Loads: make([]Load, len(x.Loads))}
	for i, l := range x.Loads {
		item, err := keys.Parse(keys.Key{PK: l.PK, SK: keys.Bucket{}.Key().SK})
		key, isBucket := item.(keys.Bucket)
		if err != nil || !isBucket {
			return nil, fmt.Errorf("%w: a load report tells of %.300q, which is no bucket shard", ErrMalformed, l.PK)
		}
		r.Loads[i] = Load{Key: key, FailedUnits: l.FailedUnits, Requests: l.Requests, Denied: l.Denied, Costs: l.Costs}
	}
	return r, r.check()
}

// check refuses reports that a correct node never sends.
func (r *LoadReport) check() error {
	bad := func(problem string) error { return fmt.Errorf("%w: a load report %s", ErrMalformed, problem) }
	switch {
	case r.ToMs < r.FromMs:
		return bad("ends before it begins")
	case len(r.Loads) > MaxLoads:
		return bad(fmt.Sprintf("tells of %d bucket shards, at most are %d", len(r.Loads), MaxLoads))
	}
	for _, l := range r.Loads {
		if l.FailedUnits < 0 || l.Requests < 0 || l.Denied < 0 {
			return bad("counts less than nothing")
		}
		for _, tokens := range l.Costs {
			if tokens < 0 {
				return bad("says that requests cost less than nothing")
			}
		}
		if !l.Key.Valid() {
			return bad("tells of what is no bucket shard")
		}
	}
	return nil
}
