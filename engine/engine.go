package engine

import (
	"strings"
	"sync"
	"time"

	"github.com/tidegate/tidegate/engine/expr"
)

// Options configure an engine.
type Options struct {
	// Now is the engine's clock: replies' Date, TTL, the life of idempotency
	// tokens. Required.
	Now func() time.Time
	// Region and Account stand in ARNs. Default: us-east-1 and 000000000000.
	Region, Account string
	// OnCommit, where set, is given every write that changed something, in the
	// order of Sequence, before its caller has the reply. It is called under the
	// engine's lock: it must be quick, must not call the engine, and must not
	// change what it is given.
	OnCommit func(Commit)
	// Streams are the change streams of tables that have them.
	Streams StreamOptions
}

// Engine is a DynamoDB-compatible store in memory, and on disk as well if it
// was made with Open. It is safe for concurrent use. The zero Engine is not
// usable: make one with New or Open.
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

// New makes an empty engine that is in memory only. It panics without a clock.
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

// arnPrefix begins a table's ARN, in the partition that the engine's are in.
const arnPrefix = "arn:aws:dynamodb:"

// lookup finds a table by its name or its ARN. What is read of a table besides its name and keys is
// guarded by mu.
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
