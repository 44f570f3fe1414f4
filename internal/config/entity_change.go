package config

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Create makes an entity. It fails with already_exists if the entity exists, with
// not_found if its parent does not, and with invalid_parent if the change would
// make a cycle or too many levels.
func (s *EntityStore) Create(ctx context.Context, ns string, by api.Principal, req api.EntityCreateRequest) (api.Entity, error) {
	if err := req.Check(); err != nil {
		return api.Entity{}, err
	}
	var after table.Entity
	err := s.change(ctx, ns, by, api.AuditEntityCreate, req.ID, func(ctx context.Context, f *family, known *table.Entity) error {
		if created(known) {
			return api.Errorf(api.CodeAlreadyExists, "entity", "there is an entity %s already: update it", req.ID)
		}
		after = table.Entity{
			Key: keys.Entity{Namespace: ns, ID: req.ID}, Name: req.Name, Parent: req.Parent, Cascade: req.Cascade,
			Metadata: req.Metadata, Version: 1,
		}
		if known != nil {
			after.Below = known.Below // a stub's
		}
		f.set(&after)
		return f.move(ctx, "", &after)
	})
	if err != nil {
		return api.Entity{}, fmt.Errorf("create entity %s: %w", req.ID, err)
	}
	return wireEntity(&after), nil
}

// Update changes the fields that the request names. It fails with not_found if the
// entity or its new parent does not exist, with conflict if the entity does not
// have the requested version, and otherwise as Create does.
func (s *EntityStore) Update(ctx context.Context, ns string, by api.Principal, req api.EntityUpdateRequest) (api.Entity, error) {
	if err := req.Check(); err != nil {
		return api.Entity{}, err
	}
	var after table.Entity
	err := s.change(ctx, ns, by, api.AuditEntityUpdate, req.ID, func(ctx context.Context, f *family, known *table.Entity) error {
		switch {
		case !created(known):
			return noEntity("entity", req.ID)
		case req.Version != 0 && req.Version != known.Version:
			return api.Errorf(api.CodeConflict, "version", "the entity has version %d by now: read it, and change it again if need be", known.Version)
		}
		after = *known
		after.Version++
		applyUpdate(&after, &req)
		if after.Cascade && after.Parent == "" {
			return api.Errorf(api.CodeMissingField, "parent", "cascade needs a parent to spend from")
		}
		f.set(&after)
		return f.move(ctx, known.Parent, &after)
	})
	if err != nil {
		return api.Entity{}, fmt.Errorf("update entity %s: %w", req.ID, err)
	}
	return wireEntity(&after), nil
}

// applyUpdate sets the fields that a request names.
func applyUpdate(e *table.Entity, req *api.EntityUpdateRequest) {
	if req.Name != nil {
		e.Name = *req.Name
	}
	if req.Parent != nil {
		e.Parent = *req.Parent
		e.Cascade = e.Cascade && e.Parent != ""
	}
	if req.Cascade != nil {
		e.Cascade = *req.Cascade
	}
	if req.Metadata != nil {
		e.Metadata = req.Metadata
	}
}

// Delete deletes an entity. If the entity has children, the request must say
// orphan: they keep it as their parent. Otherwise Delete fails with has_children.
// It fails with not_found if the entity does not exist.
func (s *EntityStore) Delete(ctx context.Context, ns string, by api.Principal, req api.EntityDeleteRequest) error {
	if err := checkEntityID(req.ID); err != nil {
		return err
	}
	err := s.change(ctx, ns, by, api.AuditEntityDelete, req.ID, func(ctx context.Context, f *family, known *table.Entity) error {
		switch {
		case !created(known):
			return noEntity("entity", req.ID)
		case known.Below[0] > 0 && !req.Orphan:
			return api.Errorf(api.CodeHasChildren, "entity", "children of %s: %d; give them another parent, or say orphan to let them keep this one",
				req.ID, known.Below[0])
		}
		stub := &table.Entity{Key: known.Key, Below: known.Below}
		f.set(stub)
		return f.move(ctx, known.Parent, stub)
	})
	if err != nil {
		return fmt.Errorf("delete entity %s: %w", req.ID, err)
	}
	return nil
}

// move updates the counts of the old and the new ancestors if an entity changes its
// parent.
func (f *family) move(ctx context.Context, from string, e *table.Entity) error {
	if from == e.Parent {
		return nil
	}
	if from != "" {
		line, _, err := f.ancestors(ctx, e.Key.ID, from)
		if err != nil {
			return err
		}
		f.join(line, e.Below, -1)
	}
	if e.Parent == "" {
		return nil
	}
	line, cycle, err := f.ancestors(ctx, e.Key.ID, e.Parent)
	switch {
	case err != nil:
		return err
	case cycle:
		return api.Errorf(api.CodeInvalidParent, "parent", "%s is below %s already: it cannot be above it as well", e.Parent, e.Key.ID)
	case !created(f.read[e.Parent]):
		return noEntity("parent", e.Parent)
	}
	if err := fits(line, e.Below); err != nil {
		return err
	}
	f.join(line, e.Below, +1)
	return nil
}

// change makes a change of an entity and of its ancestors' counts.
func (s *EntityStore) change(ctx context.Context, ns string, by api.Principal, action api.AuditAction, id string,
	plan func(ctx context.Context, f *family, known *table.Entity) error,
) error {
	return change(ctx, s.audit, audit.Change{
		Namespace: ns, By: by, Action: action, Target: keys.AuditEntity(id),
		Plan: func(ctx context.Context) (audit.Plan, error) {
			f := s.family(ns)
			known, err := f.member(ctx, id)
			if err != nil {
				return audit.Plan{}, err
			}
			if err := plan(ctx, f, known); err != nil {
				return audit.Plan{}, err
			}
			return audit.Plan{Writes: f.writes(rand.Text()), Before: shownEntity(known), After: shownEntity(f.after[id])}, nil
		},
	})
}

// shownEntity returns an entity for an audit event; nil if it does not exist.
func shownEntity(e *table.Entity) any {
	if !created(e) {
		return nil
	}
	return wireEntity(e)
}
