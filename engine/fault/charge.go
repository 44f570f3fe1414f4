package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/engine"
)

// usage holds the cost of a request, as read from its reply.
type usage struct {
	status int
	failed string // the error's type
	tables capacities
	known  *Count // from the engine's header, which refusals have too
}

// askForIndexes makes the back end report the units of each index, whatever the
// caller asked for.
func askForIndexes(body []byte, asked string) ([]byte, error) {
	switch asked {
	case "INDEXES":
		return body, nil
	case "":
		rest := bytes.TrimLeft(body, " \t\r\n")
		return append([]byte(`{"ReturnConsumedCapacity":"INDEXES",`), rest[1:]...), nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("ask for the capacity of indexes: %w", err)
	}
	fields["ReturnConsumedCapacity"] = json.RawMessage(`"INDEXES"`)
	return json.Marshal(fields)
}

// takeCapacity reads the usage of a reply, and leaves in the reply the part that the
// caller asked for.
func takeCapacity(resp *http.Response, asked string) (usage, error) {
	u := usage{status: resp.StatusCode}
	if text := resp.Header.Get(engine.ConsumedHeader); text != "" {
		known, err := fromHeader(text)
		if err != nil {
			return usage{}, err
		}
		u.known = &known
	}
	if u.status != http.StatusOK {
		body, fields, err := fieldsOf(resp)
		if err != nil {
			return usage{}, err
		}
		var name string
		if json.Unmarshal(fields["__type"], &name) == nil {
			u.failed = name[strings.LastIndexByte(name, '#')+1:]
		}
		setBody(resp, body)
		return u, nil
	}
	body, err := readAll(resp.Body, resp.ContentLength)
	if err != nil {
		return usage{}, fmt.Errorf("read the reply: %w", err)
	}
	head, raw, err := splitCapacity(body)
	if err != nil {
		return usage{}, err
	}
	if raw == nil || asked == "INDEXES" {
		setBody(resp, body)
	}
	if raw == nil {
		return u, nil
	}
	if err := json.Unmarshal(raw, &u.tables); err != nil {
		return usage{}, fmt.Errorf("read ConsumedCapacity: %w", err)
	}
	switch asked {
	case "INDEXES":
		return u, nil
	case "TOTAL":
		if raw, err = totals(raw); err != nil {
			return usage{}, err
		}
		replaceBody(resp, joinCapacity(head, raw))
	default:
		replaceBody(resp, append(head[:len(head):len(head)], '}'))
	}
	return u, nil
}

// splitCapacity splits a reply into its ConsumedCapacity, nil if absent, and the
// unclosed object before it. Most back ends write this field last: if only a brace
// follows its value, it belongs to no nested object. Otherwise splitCapacity decodes
// the reply.
func splitCapacity(body []byte) (head, value []byte, err error) {
	const name = `"ConsumedCapacity":`
	if !bytes.Contains(body, []byte(name[:len(name)-1])) {
		return nil, nil, nil
	}
	at, end := bytes.LastIndex(body, []byte(name)), bytes.LastIndexByte(body, '}')
	if at > 0 && end > at+len(name) && json.Valid(body[at+len(name):end]) {
		return bytes.TrimRight(body[:at], ", \t\r\n"), body[at+len(name) : end], nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, nil, fmt.Errorf("read the reply: %w", err)
	}
	value = fields["ConsumedCapacity"]
	delete(fields, "ConsumedCapacity")
	if head, err = json.Marshal(fields); err != nil {
		return nil, nil, fmt.Errorf("write the reply: %w", err)
	}
	return head[:len(head)-1], value, nil
}

// joinCapacity reverses splitCapacity.
func joinCapacity(head, value []byte) []byte {
	if len(head) > 1 {
		head = append(head[:len(head):len(head)], ',')
	}
	return slices.Concat(head, []byte(`"ConsumedCapacity":`), value, []byte{'}'})
}

// totals removes the breakdown by table and index from ConsumedCapacity.
func totals(raw json.RawMessage) (json.RawMessage, error) {
	list, one := []map[string]json.RawMessage{}, raw[0] != '['
	if one {
		raw = bytes.Join([][]byte{{'['}, raw, {']'}}, nil)
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read ConsumedCapacity: %w", err)
	}
	for _, table := range list {
		delete(table, "Table")
		delete(table, "GlobalSecondaryIndexes")
		delete(table, "LocalSecondaryIndexes")
	}
	if one {
		return json.Marshal(list[0])
	}
	return json.Marshal(list)
}

// fieldsOf reads a reply's body. The caller must set a body again.
func fieldsOf(resp *http.Response) (body []byte, fields map[string]json.RawMessage, err error) {
	if body, err = readAll(resp.Body, resp.ContentLength); err != nil {
		return nil, nil, fmt.Errorf("read the reply: %w", err)
	}
	if err := json.Unmarshal(body, &fields); err != nil && resp.StatusCode == http.StatusOK {
		return nil, nil, fmt.Errorf("read the reply: %w", err)
	}
	return body, fields, nil
}

func setFields(resp *http.Response, fields map[string]json.RawMessage) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("write the reply: %w", err)
	}
	replaceBody(resp, body)
	return nil
}

// replaceBody sets another body, with its checksum.
func replaceBody(resp *http.Response, body []byte) {
	resp.Header = resp.Header.Clone()
	if resp.Header.Get("X-Amz-Crc32") != "" {
		resp.Header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	}
	setBody(resp, body)
}

func setBody(resp *http.Response, body []byte) {
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if resp.Header.Get("Content-Length") != "" {
		resp.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}

// settle replaces the reserved units by the units that were used. If the use is
// unknown, after a server failure, the reserved units stay spent.
func (m *model) settle(s *shipment, parts []*part, u usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := s.t.o.Now()
	switch {
	case u.status == http.StatusOK:
		for i := range u.tables {
			m.settleTable(s, parts, &u.tables[i])
		}
	case u.failed == "ConditionalCheckFailedException" || u.failed == "TransactionCanceledException":
		m.settleRefusal(s, parts, u.known)
	case u.status < http.StatusInternalServerError:
		for _, p := range parts {
			for i := range p.accesses {
				p.accesses[i].settle(0, now)
			}
		}
	}
}

// settleRefusal charges a failed condition: the units of the table, and nothing for
// indexes. Only the engine reports these units; with other back ends, the reserved
// units stay spent.
func (m *model) settleRefusal(s *shipment, parts []*part, known *Count) {
	now := s.t.o.Now()
	for _, p := range parts {
		for i := range p.accesses {
			a := &p.accesses[i]
			switch {
			case a.space.resource != p.table.name:
				a.settle(0, now)
			case known != nil && len(parts) == 1:
				a.settle(known.ReadUnits+known.WriteUnits, now)
			}
		}
	}
}

// settleTable settles all parts of a table in proportion to their reserved units,
// and learns their cost.
func (m *model) settleTable(s *shipment, all []*part, used *capacity) {
	var parts []*part
	for _, p := range all {
		if p.table.name == used.TableName || len(all) == 1 {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return
	}
	write := !reads(s.operation)
	table := parts[0].table
	m.settleSpace(s, parts, "", used.own(write))
	for _, name := range table.indexNames() {
		if x, charged := used.GlobalSecondaryIndexes[name]; charged || foreseen(parts, table.name+"/index/"+name) {
			m.settleSpace(s, parts, name, x.of(write))
		}
	}
	for _, p := range parts {
		m.learn(p)
	}
}

func foreseen(parts []*part, resource string) bool {
	return slices.ContainsFunc(parts, func(p *part) bool {
		return slices.ContainsFunc(p.accesses, func(a access) bool { return a.space.resource == resource })
	})
}

// settleSpace settles the parts' accesses to the table, or to an index.
func (m *model) settleSpace(s *shipment, parts []*part, index string, used float64) {
	now := s.t.o.Now()
	write := !reads(s.operation)
	in := m.space(parts[0].table, index, now)
	var mine []*access
	aside := 0.
	for _, p := range parts {
		for i := range p.accesses {
			if a := &p.accesses[i]; a.space == in {
				mine = append(mine, a)
				aside += a.units
			}
		}
	}
	if aside > 0 {
		for _, a := range mine {
			a.settle(used*a.units/aside, now)
		}
		return
	}
	if used == 0 {
		return
	}
	// The model did not foresee this use and reserved nothing: all of it becomes debt.
	key := parts[0].table.partition
	if index != "" {
		key = parts[0].table.indexes[index]
	}
	for _, p := range parts {
		share, first := used/float64(len(parts)), len(p.accesses)
		m.need(p, in, key, write, share)
		for i := range p.accesses[first:] {
			a := &p.accesses[first+i]
			share := a.units
			if a.part == nil {
				a.part = in.at(a.hash)
			}
			a.units = 0
			a.settle(share, now)
		}
	}
}

// learn records the cost of a part for the next request of the same shape.
func (m *model) learn(p *part) {
	c := cost{}
	for _, a := range p.accesses {
		index, ok := strings.CutPrefix(a.space.resource, p.table.name+"/index/")
		if !ok {
			c.table += a.units
			continue
		}
		if c.indexes == nil {
			c.indexes = map[string]float64{}
		}
		c.indexes[index] += a.units
	}
	if len(m.learned) >= maxShapes {
		clear(m.learned)
	}
	m.learned[p.shape] = c
}
