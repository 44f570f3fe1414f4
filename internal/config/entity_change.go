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

// Create makes an entity. It fails with the code already_exists where it is
// there, with not_found where its parent is not, and with invalid_parent where
// there would be a cycle or too many levels.
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

// Update changes what the request names. It fails with the code not_found where
// the entity or its new parent is not there, with conflict where the entity has
// another version than the one asked for, and otherwise as Create does.
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

// apply makes the changes that a request names.
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

// Delete takes an entity away. Its children keep it as their parent, if the
// request says so; otherwise they are a refusal with the code has_children. It
// fails with the code not_found where it is not there.
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

// move brings the counts of ancestors along when an entity has, or had, another
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

// change makes a change of one entity, and of its ancestors' counts.
func (s *EntityStore) change(ctx context.Context, ns string, by api.Principal, action api.AuditAction, id string,
	plan func(ctx context.Context, f *family, known *table.Entity) error,
) error {
	return change(ctx, s.audit, audit.Change{
		Namespace: ns, By: by, Action: action, Target: id,
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

// shown is an entity in an audit event; nil for none.
func shownEntity(e *table.Entity) any {
	if !created(e) {
		return nil
	}
	return wireEntity(e)
}
