package engine

import (
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/engine/expr"
)

// Options configure an engine.
type Options struct {
	// Now is the engine's clock, for the Date of replies, TTL and the lifetime of
	// idempotency tokens. Required.
	Now func() time.Time
	// Region and Account appear in ARNs. Default: us-east-1 and 000000000000.
	Region, Account string
	// OnCommit, if set, receives every write that changed an item, in the order of
	// Sequence, before the caller of the write gets its reply. The engine calls it
	// under its lock: it must be quick, must not call the engine, and must not
	// change the Commit.
	OnCommit func(Commit)
	// Streams configures the change streams of tables.
	Streams StreamOptions
}

// Engine is a DynamoDB-compatible store in memory; an engine returned by Open is
// also durable. It is safe for concurrent use. The zero Engine is not usable: call
// New or Open.
type Engine struct {
	now             func() time.Time
	region, account string
	onCommit        func(Commit)
	date            dateHeader
	requests        requestIDs
	parser          expr.Parser // remembers expressions that recur
	storage         *storage    // nil: in memory only
	streams         *streams

	mu       sync.RWMutex
	tables   map[string]*table // guarded by mu
	sequence uint64            // of the last change; guarded by mu
	tokens   tokenMemory       // guarded by mu
}

// New returns an empty engine in memory. It panics without a clock.
func New(o Options) *Engine { return newEngine(o, false) }

func newEngine(o Options, onDisk bool) *Engine {
	if o.Now == nil {
		panic("engine: Options.Now is required")
	}
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	if o.Account == "" {
		o.Account = "000000000000"
	}
	return &Engine{
		now: o.Now, region: o.Region, account: o.Account, onCommit: o.OnCommit,
		requests: newRequestIDs(),
		streams:  newStreams(o.Streams.withDefaults(onDisk)),
		tables:   map[string]*table{},
		tokens:   tokenMemory{digests: map[string][32]byte{}},
	}
}

// arnPrefix is the prefix of a table's ARN up to the region.
const arnPrefix = "arn:aws:dynamodb:"

// lookup finds a table by its name or its ARN. The name and keys of a table are
// immutable; mu guards all other fields.
func (e *Engine) lookup(name string) (*table, error) {
	if strings.HasPrefix(name, arnPrefix) {
		own, ok := strings.CutPrefix(name, e.tableARN(""))
		if !ok {
			return nil, tableNotFound() // of another account or region
		}
		name = own
	}
	if err := checkTableName(name); err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	t, ok := e.tables[name]
	if !ok {
		return nil, tableNotFound()
	}
	return t, nil
}

// still refuses a table that was deleted since lookup. The caller holds mu.
func (e *Engine) still(t *table) error {
	if e.tables[t.name] != t {
		return tableNotFound()
	}
	return nil
}
