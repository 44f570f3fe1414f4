package config

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// EntityStore reads and changes entities. It is safe for concurrent use by any
// number of nodes.
//
// Namespaces are ids (11 characters). An *api.Error is the caller's fault and
// final; bad input is refused before any I/O. Any other error means that the store
// failed; [audit.Log.Apply] describes the errors of changes.
type EntityStore struct {
	backend
	audit *audit.Log
}

// NewEntityStore returns a store on a table. Reads are retried as the client says;
// changes go through the table's audit log.
func NewEntityStore(client *dynamodb.Client, tableName string, log *audit.Log) *EntityStore {
	return &EntityStore{backend: backend{client, tableName}, audit: log}
}

// Get reads an entity. It fails with the code not_found if the entity does not
// exist.
func (s *EntityStore) Get(ctx context.Context, ns, id string) (api.Entity, error) {
	if err := checkEntityID(id); err != nil {
		return api.Entity{}, err
	}
	e, err := s.entity(ctx, ns, id)
	switch {
	case err != nil:
		return api.Entity{}, err
	case !created(e):
		return api.Entity{}, noEntity("entity", id)
	}
	return wireEntity(e), nil
}

// Children returns a page of the children of an entity, by id. The parent need not
// exist. A new child may be missing: the index follows the table.
func (s *EntityStore) Children(ctx context.Context, ns string, req api.EntityChildrenRequest) (api.EntityListReply, error) {
	if err := checkEntityID(req.ID); err != nil {
		return api.EntityListReply{}, err
	}
	steps := []store.Step{{Index: store.ByParent, Query: keys.ChildrenOf(ns, req.ID)}}
	return s.pageOf(ctx, steps, req.EntityListRequest, func(e *table.Entity) bool { return e.Parent == req.ID })
}

// List returns a page of all entities. A new entity may be missing: the index
// follows the table.
func (s *EntityStore) List(ctx context.Context, ns string, req api.EntityListRequest) (api.EntityListReply, error) {
	var steps []store.Step
	for _, pk := range keys.PurgePartitions(ns) {
		steps = append(steps, store.Step{Index: store.ByEverything, Query: keys.Query{PK: pk, SKPrefix: keys.Entities}})
	}
	return s.pageOf(ctx, steps, req, created)
}

func (s *EntityStore) pageOf(ctx context.Context, steps []store.Step, req api.EntityListRequest, show func(*table.Entity) bool) (api.EntityListReply, error) {
	entities, cursor, err := page(ctx, s.backend, steps, store.PageRequest{Cursor: req.Cursor, Limit: req.Limit},
		func(item table.Item) (api.Entity, int, error) {
			e, err := table.DecodeEntity(item)
			if err != nil || !show(e) {
				return api.Entity{}, 0, err
			}
			return wireEntity(e), entitySize(e), nil
		})
	if err != nil {
		return api.EntityListReply{}, fmt.Errorf("list entities: %w", err)
	}
	return api.EntityListReply{Entities: entities, Cursor: cursor}, nil
}

// entitySize returns an upper bound, close to the real size, of an entity's bytes
// on the wire.
func entitySize(e *table.Entity) int {
	const rest, entry, escaped = 128, 8, 6 // one byte may become \u003c
	size := rest + len(e.Key.ID) + len(e.Parent) + escaped*len(e.Name)
	for k, v := range e.Metadata {
		size += entry + len(k) + escaped*len(v)
	}
	return size
}

// entity returns an entity's item by a consistent read, or nil if nothing is
// stored.
func (s *EntityStore) entity(ctx context.Context, ns, id string) (*table.Entity, error) {
	item, err := s.read(ctx, keys.Entity{Namespace: ns, ID: id})
	if err != nil {
		return nil, fmt.Errorf("read entity %s: %w", id, err)
	}
	if len(item) == 0 {
		return nil, nil //nolint:nilnil // no item is an answer, not an error: the entity was never created
	}
	return table.DecodeEntity(item)
}

// created reports whether an item is an entity: neither missing nor a stub.
func created(e *table.Entity) bool { return e != nil && e.Version > 0 }

func wireEntity(e *table.Entity) api.Entity {
	return api.Entity{
		ID: e.Key.ID, Name: e.Name, Parent: e.Parent, Cascade: e.Cascade, Metadata: e.Metadata, Version: e.Version,
	}
}

func checkEntityID(id string) error {
	request := api.LimitsTarget{Entity: id}
	if id == "" {
		return api.Errorf(api.CodeMissingField, "entity", "this field is required")
	}
	return request.Check()
}

func noEntity(field, id string) *api.Error {
	return api.Errorf(api.CodeNotFound, field, "there is no entity %s", id)
}
