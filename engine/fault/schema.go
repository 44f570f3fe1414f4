package fault

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// schema holds the properties of a table that the layer needs.
type schema struct {
	name, arn string
	onDemand  bool
	partition string            // name of the partition key
	sort      string            // name of the sort key, or ""
	indexes   map[string]string // name of the partition key, by index
	sorts     map[string]string // name of the sort key, by index
	raw       []byte            // CreateTable's parameters, for a table of the same shape
}

func (s *schema) indexNames() []string { return slices.Sorted(maps.Keys(s.indexes)) }

// schemas asks the back end once for each table, and again after a request through
// this transport has changed the table.
type schemas struct {
	mu      sync.Mutex
	byTable map[string]*schema // guarded by mu
}

// description is the part of DescribeTable's reply that the layer needs.
type description struct {
	TableName            string
	TableArn             string
	KeySchema            []keyElement
	AttributeDefinitions json.RawMessage
	BillingModeSummary   struct{ BillingMode string }

	GlobalSecondaryIndexes []struct {
		IndexName  string
		KeySchema  []keyElement
		Projection json.RawMessage
	}
}

type keyElement struct{ AttributeName, KeyType string }

func (s *schemas) of(ctx context.Context, from *shipment, table string) (*schema, error) {
	s.mu.Lock()
	known := s.byTable[table]
	s.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var reply struct{ Table description }
	if err := from.ask(ctx, "DescribeTable", map[string]any{"TableName": table}, &reply); err != nil {
		return nil, err
	}
	found, err := reply.Table.schema()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTable[table] = found
	return found, nil
}

// forget drops the schema of a table that the request may have changed.
func (s *schemas) forget(operation string, body []byte) {
	switch operation {
	case "CreateTable", "UpdateTable", "DeleteTable":
	default:
		return
	}
	var r request
	if json.Unmarshal(body, &r) == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byTable, r.TableName)
	}
}

func (d *description) schema() (*schema, error) {
	s := &schema{
		name: d.TableName, arn: d.TableArn,
		onDemand: d.BillingModeSummary.BillingMode == "PAY_PER_REQUEST",
		indexes:  map[string]string{}, sorts: map[string]string{},
	}
	s.partition, s.sort = keyNames(d.KeySchema)
	for _, x := range d.GlobalSecondaryIndexes {
		s.indexes[x.IndexName], s.sorts[x.IndexName] = keyNames(x.KeySchema)
	}
	same := map[string]any{
		"TableName": d.TableName, "KeySchema": d.KeySchema, "AttributeDefinitions": d.AttributeDefinitions,
		"BillingMode": "PAY_PER_REQUEST",
	}
	if len(d.GlobalSecondaryIndexes) > 0 {
		same["GlobalSecondaryIndexes"] = d.GlobalSecondaryIndexes
	}
	var err error
	s.raw, err = json.Marshal(same)
	return s, err
}

func keyNames(elements []keyElement) (partition, sort string) {
	for _, e := range elements {
		if e.KeyType == "HASH" {
			partition = e.AttributeName
		} else {
			sort = e.AttributeName
		}
	}
	return partition, sort
}

// space returns the hash range of a table, or of an index. The caller holds mu.
func (m *model) space(table *schema, index string, now time.Time) *space {
	resource, arn := table.name, table.arn
	if index != "" {
		resource, arn = resource+"/index/"+index, arn+"/index/"+index
	}
	s, ok := m.spaces[resource]
	if !ok {
		s = newSpace(resource, arn, m.o, now)
		m.spaces[resource] = s
	}
	return s
}

// ask sends a request of the layer, with the credentials of the caller, and decodes
// the reply. It is not counted and meets no fault.
func (s *shipment) ask(ctx context.Context, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("%s for a fault: %w", operation, err)
	}
	req := s.request(ctx, body)
	service, _, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	req.Header = req.Header.Clone()
	req.Header.Set("X-Amz-Target", service+"."+operation)
	resp, err := s.t.o.Next.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%s for a fault: %w", operation, err)
	}
	reply, err := readAll(resp.Body, resp.ContentLength)
	if err != nil {
		return fmt.Errorf("%s for a fault: %w", operation, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s for a fault: status %d: %s", operation, resp.StatusCode, reply)
	}
	return json.Unmarshal(reply, out)
}
