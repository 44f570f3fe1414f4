package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/tidegate/tidegate/internal/localdynamo"
)

// Count is what requests of one operation came to.
type Count struct {
	Calls  int64
	Faults int64 // requests that met a fault, of any kind
	// Capacity units that the back end used. The engine tells them with every
	// reply, of refused conditions too; of other back ends only the replies with
	// ConsumedCapacity count, so ask for that.
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

type counter struct {
	mu          sync.Mutex
	byOperation map[string]*Count // guarded by mu
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

// Counts is what has gone through so far, by operation. Late requests count as
// calls when sent and their units when they arrive.
func (t *Transport) Counts() map[string]Count {
	t.counter.mu.Lock()
	defer t.counter.mu.Unlock()
	out := make(map[string]Count, len(t.counter.byOperation))
	for operation, c := range t.counter.byOperation {
		out[operation] = *c
	}
	return out
}

// Total is all counts together.
func (t *Transport) Total() Count {
	var sum Count
	for _, c := range t.Counts() {
		sum.add(c)
	}
	return sum
}

// consumed reads the capacity units off a reply, leaving it readable.
func consumed(resp *http.Response, operation string) (Count, error) {
	if text := resp.Header.Get(localdynamo.ConsumedHeader); text != "" {
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

// fromHeader reads the engine's own header: three numbers.
func fromHeader(text string) (c Count, err error) {
	for _, into := range []*float64{&c.WriteUnits, &c.ReadUnits, &c.IndexWriteUnits} {
		var number string
		number, text, _ = strings.Cut(text, " ")
		if *into, err = strconv.ParseFloat(number, 64); err != nil {
			return Count{}, fmt.Errorf("header %s: %w", localdynamo.ConsumedHeader, err)
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

// capacity is one table's ConsumedCapacity.
type capacity struct {
	CapacityUnits          float64
	GlobalSecondaryIndexes map[string]struct{ CapacityUnits float64 }
}

// capacities is ConsumedCapacity of one table or of several.
type capacities []capacity

func (c *capacities) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[]capacity)(c))
	}
	*c = make(capacities, 1)
	return json.Unmarshal(b, &(*c)[0])
}

// fromBody reads what DynamoDB tells those who ask for it.
func fromBody(body []byte, isRead bool) (Count, error) {
	var reply struct{ ConsumedCapacity capacities }
	if err := json.Unmarshal(body, &reply); err != nil {
		return Count{}, fmt.Errorf("read ConsumedCapacity: %w", err)
	}
	var c Count
	for _, table := range reply.ConsumedCapacity {
		if isRead {
			c.ReadUnits += table.CapacityUnits
			continue
		}
		c.WriteUnits += table.CapacityUnits
		for _, index := range table.GlobalSecondaryIndexes {
			c.WriteUnits -= index.CapacityUnits
			c.IndexWriteUnits += index.CapacityUnits
		}
	}
	return c, nil
}
