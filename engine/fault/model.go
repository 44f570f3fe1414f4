package fault

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// carry sends a request towards the back end; the body may differ from the caller's.
type carry func(ctx context.Context, s *shipment, body []byte) (*http.Response, error)

// model holds the partitions of all tables and indexes of a back end.
type model struct {
	o       Partitions
	next    carry
	schemas *schemas

	mu      sync.Mutex
	spaces  map[string]*space // by resource; guarded by mu, with all in them
	learned map[string]cost   // last cost of the requests of a shape; guarded by mu
}

// cost holds the units of a part of a request.
type cost struct {
	table   float64
	indexes map[string]float64
}

// maxShapes bounds the learned costs. A program has few shapes of requests.
const maxShapes = 4096

// part is the part of a request that concerns a single item or query.
type part struct {
	table    *schema
	request  *request
	action   string // PutItem, UpdateItem, ..., also within batches and transactions
	shape    string
	accesses []access
	refused  []*access // after reserve, the accesses that found no capacity
}

func newModel(o Partitions, schemas *schemas, next carry) *model {
	return &model{
		o: o.orDefaults(), next: next, schemas: schemas,
		spaces: map[string]*space{}, learned: map[string]cost{},
	}
}

// report returns the load of all partitions so far, in order.
func (m *model) report() []Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Partition
	for _, s := range m.spaces {
		out = append(out, s.report()...)
	}
	slices.SortFunc(out, func(a, b Partition) int {
		if c := strings.Compare(a.Resource, b.Resource); c != 0 {
			return c
		}
		if a.From < b.From {
			return -1
		}
		return 1
	})
	return out
}

// carry passes a request if the partitions that it needs have capacity. It passes
// requests that the model does not understand; the back end may refuse them.
func (m *model) carry(ctx context.Context, s *shipment, body []byte) (*http.Response, error) {
	var r request
	if !isItemOperation(s.operation) || json.Unmarshal(body, &r) != nil {
		return m.next(ctx, s, body)
	}
	parts, err := m.partsOf(ctx, s, &r)
	if err != nil || len(parts) == 0 {
		return m.next(ctx, s, body)
	}
	switch s.operation {
	case "BatchGetItem", "BatchWriteItem":
		return m.carryBatch(ctx, s, body, &r, parts)
	}
	if !m.reserve(s, parts) {
		return m.refuse(s, parts), nil
	}
	return m.pass(ctx, s, body, r.ReturnConsumedCapacity, parts)
}

func isItemOperation(operation string) bool {
	switch operation {
	case "GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan",
		"BatchGetItem", "BatchWriteItem", "TransactGetItems", "TransactWriteItems":
		return true
	}
	return false
}

// partsOf splits a request into its items and estimates the need of each.
func (m *model) partsOf(ctx context.Context, s *shipment, r *request) ([]*part, error) {
	var parts []*part
	add := func(table, action string, r *request) error {
		known, err := m.schemas.of(ctx, s, table)
		if err != nil {
			return err
		}
		parts = append(parts, &part{
			table: known, request: r, action: action,
			shape: strings.Join([]string{s.operation, action, table, r.IndexName, r.UpdateExpression, r.ConditionExpression}, "\n"),
		})
		return nil
	}
	err := eachItem(s.operation, r, add)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		m.foresee(s, p)
	}
	return parts, nil
}

// eachItem calls visit with each item of a request, and the equivalent operation on
// a single item.
func eachItem(operation string, r *request, visit func(table, action string, r *request) error) error {
	switch operation {
	case "TransactGetItems", "TransactWriteItems":
		for _, actions := range r.TransactItems {
			for name, a := range actions {
				if err := visit(a.TableName, name+"Item", &a); err != nil {
					return err
				}
			}
		}
		return nil
	case "BatchGetItem":
		return eachBatchKey(r, func(table string, key *request) error { return visit(table, "GetItem", key) })
	case "BatchWriteItem":
		return eachBatchWrite(r, visit)
	}
	return visit(r.TableName, operation, r)
}

// foresee sets the accesses of a part. The caller holds mu.
func (m *model) foresee(s *shipment, p *part) {
	now := s.t.o.Now()
	expected, known := m.learned[p.shape]
	if !known {
		expected.table = leastUnits(s.operation, p)
	}
	write := !reads(s.operation)
	if p.request.IndexName != "" {
		expected = cost{indexes: map[string]float64{p.request.IndexName: max(expected.indexes[p.request.IndexName], expected.table)}}
	}
	if expected.table > 0 {
		m.need(p, m.space(p.table, "", now), p.table.partition, write, expected.table)
	}
	for _, name := range p.table.indexNames() {
		if units := expected.indexes[name]; units > 0 {
			m.need(p, m.space(p.table, name, now), p.table.indexes[name], write, units)
		}
	}
}

// leastUnits returns the minimum cost of a request.
func leastUnits(operation string, p *part) float64 {
	switch {
	case strings.HasPrefix(operation, "Transact"):
		return 2
	case reads(operation) && !p.request.ConsistentRead:
		return .5
	}
	return 1
}

// need adds the accesses of a part to a space. A scan, and a query whose partition
// key is unknown, take evenly from all partitions.
func (m *model) need(p *part, in *space, partitionKey string, write bool, units float64) {
	if hash, ok := p.hash(partitionKey); ok {
		p.accesses = append(p.accesses, access{space: in, hash: hash, write: write, units: units})
		return
	}
	for _, each := range in.parts {
		p.accesses = append(p.accesses, access{
			space: in, part: each, hash: each.from, write: write, units: units / float64(len(in.parts)),
		})
	}
}

// hash finds the partition key's value in the request. If an update does not change
// an index key, the request does not contain it; then the item's own key is used, as
// if index keys were spread as well as items.
func (p *part) hash(partitionKey string) (uint64, bool) {
	r := p.request
	if v, ok := r.key()[partitionKey]; ok {
		return hashOf(v), true
	}
	if v, ok := r.equated(r.UpdateExpression, partitionKey); ok {
		return hashOf(v), true
	}
	if v, ok := r.equated(r.KeyConditionExpression, partitionKey); ok {
		return hashOf(v), true
	}
	if v, ok := r.key()[p.table.partition]; ok {
		return hashOf(v), true
	}
	return 0, false
}

// reserve reserves the units of all parts, or of no part.
func (m *model) reserve(s *shipment, parts []*part) bool {
	var all []access
	for _, p := range parts {
		all = append(all, p.accesses...)
	}
	now := s.t.o.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	refused := reserve(all, now)
	next := 0
	for _, p := range parts {
		begin := next
		next += copy(p.accesses, all[begin:begin+len(p.accesses)])
		for i := range p.accesses {
			if slices.Contains(refused, &all[begin+i]) {
				p.refused = append(p.refused, &p.accesses[i])
				p.accesses[i].space.throttled(&p.accesses[i], m.o.SplitAfter, now)
			}
		}
	}
	return len(refused) == 0
}

// refuse returns the throttle of a request.
func (m *model) refuse(s *shipment, parts []*part) *http.Response {
	var reasons []Reason
	codes := make([]string, len(parts))
	onDemand := true
	for i, p := range parts {
		codes[i] = "None"
		if len(p.refused) == 0 {
			continue
		}
		codes[i] = "ProvisionedThroughputExceeded"
		if p.table.onDemand {
			codes[i] = "ThrottlingError"
		}
		onDemand = onDemand && p.table.onDemand
		for _, a := range p.refused {
			if reason := a.reason(); !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		}
	}
	f := ThroughputExceeded(reasons...)
	switch {
	case strings.HasPrefix(s.operation, "Transact"):
		f = TransactionCanceled(codes...)
	case onDemand:
		f = Throttling(reasons...)
	}
	m.count(s, parts, f.Refusal.name())
	return s.refuse(&f.Refusal)
}

// count counts a throttle for each throttled resource.
func (m *model) count(s *shipment, parts []*part, what string) {
	var resources []string
	for _, p := range parts {
		for _, a := range p.refused {
			if !slices.Contains(resources, a.space.resource) {
				resources = append(resources, a.space.resource)
				s.t.counter.inject(Injection{Kind: Refused, Error: what, Operation: s.operation, Resource: a.space.resource})
			}
		}
	}
	s.t.counter.add(s.operation, Count{Faults: 1})
}

// reason names the exhausted limit like DynamoDB.
func (a *access) reason() Reason {
	kind := "Table"
	if strings.Contains(a.space.resource, "/") {
		kind = "Index"
	}
	if a.write {
		kind += "Write"
	} else {
		kind += "Read"
	}
	return Reason{Reason: kind + "KeyRangeThroughputExceeded", Resource: a.space.arn}
}

// pass sends the request and settles its actual cost.
func (m *model) pass(ctx context.Context, s *shipment, body []byte, asked string, parts []*part) (*http.Response, error) {
	body, err := askForIndexes(body, asked)
	if err != nil {
		return nil, err
	}
	resp, err := m.next(ctx, s, body)
	if err != nil {
		return nil, err // carried out or not: the units stay spent
	}
	used, err := takeCapacity(resp, asked)
	if err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	m.settle(s, parts, used)
	return resp, nil
}
