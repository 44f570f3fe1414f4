package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/engine"
)

// Count sums up the requests of an operation.
type Count struct {
	Calls  int64
	Faults int64 // that struck, of any kind; a request may meet several
	// Capacity units that the back end used. The engine reports them with every
	// reply, also for failed conditions. For other back ends, only replies with
	// ConsumedCapacity count, so callers must ask for it.
	WriteUnits      float64 // of tables; an unknown back end's total
	ReadUnits       float64
	IndexWriteUnits float64
}

func (c *Count) add(d Count) {
	c.Calls += d.Calls
	c.Faults += d.Faults
	c.WriteUnits += d.WriteUnits
	c.ReadUnits += d.ReadUnits
	c.IndexWriteUnits += d.IndexWriteUnits
}

// Injection identifies a kind of fault in the counts.
type Injection struct {
	Kind      Kind
	Error     string // of a refusal: its type without namespace; Unprocessed: items of a batch
	Operation string
	Resource  string // table names joined by commas, table/index/name, or "" without a resource
}

type counter struct {
	mu          sync.Mutex
	byOperation map[string]*Count   // guarded by mu
	injected    map[Injection]int64 // guarded by mu
}

func (c *counter) inject(i Injection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.injected[i]++
}

// inject counts a fault that strikes.
func (t *Transport) inject(s *shipment, f Fault, kind Kind) {
	i := Injection{Kind: kind, Operation: s.operation}
	if kind == Refused || kind == FailedAfter {
		i.Error = f.Refusal.orInternalError().name()
	}
	var r request
	if json.Unmarshal(s.body, &r) == nil {
		i.Resource = strings.Join(r.tables(), ",")
	}
	t.counter.inject(i)
	t.counter.add(s.operation, Count{Faults: 1})
}

// Injected returns the faults that have struck so far, and how often.
func (t *Transport) Injected() map[Injection]int64 {
	t.counter.mu.Lock()
	defer t.counter.mu.Unlock()
	return maps.Clone(t.counter.injected)
}

// Partitions returns the load of all partitions that received requests, ordered by
// resource and hash; empty without Options.Partitions. It covers the last hour.
func (t *Transport) Partitions() []Partition {
	if t.model == nil {
		return nil
	}
	return t.model.report()
}

func (c *counter) add(operation string, d Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.byOperation[operation]
	if !ok {
		known = &Count{}
		c.byOperation[operation] = known
	}
	known.add(d)
}

// Counts returns the sums so far, by operation. A late request counts as a call when
// it is sent; its units count when it arrives.
func (t *Transport) Counts() map[string]Count {
	t.counter.mu.Lock()
	defer t.counter.mu.Unlock()
	out := make(map[string]Count, len(t.counter.byOperation))
	for operation, c := range t.counter.byOperation {
		out[operation] = *c
	}
	return out
}

// Total returns the sum of all counts.
func (t *Transport) Total() Count {
	var sum Count
	for _, c := range t.Counts() {
		sum.add(c)
	}
	return sum
}

// consumed reads the capacity units from a reply; the reply stays readable.
func consumed(resp *http.Response, operation string) (Count, error) {
	if text := resp.Header.Get(engine.ConsumedHeader); text != "" {
		return fromHeader(text)
	}
	if resp.StatusCode != http.StatusOK {
		return Count{}, nil
	}
	body, err := readAll(resp.Body, resp.ContentLength)
	if err != nil {
		return Count{}, fmt.Errorf("read the reply: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if !bytes.Contains(body, []byte(`"ConsumedCapacity"`)) {
		return Count{}, nil
	}
	return fromBody(body, reads(operation))
}

// fromHeader parses the engine's own header: three numbers.
func fromHeader(text string) (c Count, err error) {
	for _, into := range []*float64{&c.WriteUnits, &c.ReadUnits, &c.IndexWriteUnits} {
		var number string
		number, text, _ = strings.Cut(text, " ")
		if *into, err = strconv.ParseFloat(number, 64); err != nil {
			return Count{}, fmt.Errorf("header %s: %w", engine.ConsumedHeader, err)
		}
	}
	return c, nil
}

func reads(operation string) bool {
	switch operation {
	case "GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems":
		return true
	}
	return false
}

// units holds capacity units; transactions report reads and writes separately.
type units struct{ CapacityUnits, ReadCapacityUnits, WriteCapacityUnits float64 }

// of returns the units of writes, or of reads.
func (u units) of(write bool) float64 {
	switch {
	case u.ReadCapacityUnits == 0 && u.WriteCapacityUnits == 0:
		return u.CapacityUnits
	case write:
		return u.WriteCapacityUnits
	}
	return u.ReadCapacityUnits
}

// capacity is the ConsumedCapacity of a table.
type capacity struct {
	units
	TableName              string
	Table                  *units
	GlobalSecondaryIndexes map[string]units
}

// own returns the units of the table without its indexes.
func (c *capacity) own(write bool) float64 {
	if c.Table != nil {
		return c.Table.of(write)
	}
	own := c.of(write)
	for _, x := range c.GlobalSecondaryIndexes {
		own -= x.of(write)
	}
	return own
}

// capacities is the ConsumedCapacity of a table, or a list of several.
type capacities []capacity

func (c *capacities) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]capacity)(c))
	}
	*c = make(capacities, 1)
	return json.Unmarshal(b, &(*c)[0])
}

// fromBody reads the ConsumedCapacity of a reply, if the caller asked for it.
func fromBody(body []byte, isRead bool) (Count, error) {
	var reply struct{ ConsumedCapacity capacities }
	if err := json.Unmarshal(body, &reply); err != nil {
		return Count{}, fmt.Errorf("read ConsumedCapacity: %w", err)
	}
	var c Count
	for _, table := range reply.ConsumedCapacity {
		if isRead {
			c.ReadUnits += table.of(false)
			continue
		}
		c.WriteUnits += table.own(true)
		for _, index := range table.GlobalSecondaryIndexes {
			c.IndexWriteUnits += index.of(true)
		}
	}
	return c, nil
}
