package config

import (
	"context"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// NamespaceOperator changes namespaces, each change with an audit event in the
// registry. Every change may be repeated. Its errors are those of [audit.Log.Apply]
// and of the registry.
type NamespaceOperator struct {
	*Namespaces
	audit *audit.Log
	now   func() (time.Time, error)
}

// NewNamespaceOperator returns an operator's access to a registry, with the audit
// log of the same table. The clock tells the store's time; its error stops changes.
func NewNamespaceOperator(r *Namespaces, log *audit.Log, now func() (time.Time, error)) *NamespaceOperator {
	return &NamespaceOperator{Namespaces: r, audit: log, now: now}
}

// Create makes a namespace. It fails with already_exists if the namespace exists,
// and with conflict if it is deleted and not yet purged.
func (o *NamespaceOperator) Create(ctx context.Context, name string, by api.Principal) (api.Namespace, error) {
	var made api.Namespace
	err := o.apply(ctx, name, by, api.AuditNamespaceCreate, func(ctx context.Context, nowMs int64) (audit.Plan, error) {
		known, err := o.find(ctx, name)
		switch {
		case err == nil:
			return audit.Plan{}, nameTaken(&known)
		case !isUnknownNamespace(err):
			return audit.Plan{}, err
		}
		fresh, err := o.draw(name)
		if err != nil {
			return audit.Plan{}, err
		}
		fresh.CreatedMs = nowMs
		made = wireNamespace(&fresh)
		return audit.Plan{Writes: table.CreateNamespaceItems(o.table, fresh), After: made}, nil
	})
	if err != nil {
		return api.Namespace{}, fmt.Errorf("create namespace %s: %w", name, err)
	}
	return made, nil
}

// nameTaken returns the reason for which a name cannot be used.
func nameTaken(n *table.Namespace) *api.Error {
	switch {
	case n.PurgeMs != 0:
		return api.Errorf(api.CodeConflict, "name",
			"the namespace %q is being purged; its name is free when that is done: tidegate namespace purge %s", n.Name, n.Name)
	case n.Deleted():
		return api.Errorf(api.CodeConflict, "name",
			"the namespace %q is deleted; bring it back with: tidegate namespace recover %s; or free its name with: tidegate namespace purge %s",
			n.Name, n.Name, n.Name)
	}
	return api.Errorf(api.CodeAlreadyExists, "name", "the namespace %q exists already", n.Name)
}

// Delete makes all requests in a namespace fail and keeps its items. Deleting a
// deleted namespace changes nothing. The default namespace cannot be deleted.
func (o *NamespaceOperator) Delete(ctx context.Context, name string, by api.Principal) (api.Namespace, error) {
	if name == api.DefaultNamespace {
		return api.Namespace{}, api.Errorf(api.CodeForbidden, "name",
			"the namespace %q always exists: it holds where none is named", name)
	}
	n, err := o.alter(ctx, name, by, api.AuditNamespaceDelete, func(n *table.Namespace, nowMs int64) error {
		if !n.Deleted() {
			n.DeletedMs, n.DeletedBy = nowMs, principalName(by)
		}
		return nil
	})
	return wireNamespace(&n), err
}

// principalName names a principal in output.
func principalName(by api.Principal) string {
	switch {
	case by.Verified:
		return by.User
	case by.User == "":
		return "unverified"
	}
	return by.User + " (unverified)"
}

// Recover restores a deleted namespace, with its id and all its items. If the
// namespace is not deleted, nothing changes. If its purge has begun, Recover fails
// with the code conflict.
func (o *NamespaceOperator) Recover(ctx context.Context, name string, by api.Principal) (api.Namespace, error) {
	n, err := o.alter(ctx, name, by, api.AuditNamespaceRecover, func(n *table.Namespace, _ int64) error {
		if n.PurgeMs != 0 {
			return api.Errorf(api.CodeConflict, "name",
				"the purge of namespace %q has begun, and what it removed is lost; finish it with: tidegate namespace purge %s", name, name)
		}
		n.DeletedMs, n.DeletedBy = 0, ""
		return nil
	})
	return wireNamespace(&n), err
}

// alter changes the state of a namespace.
func (o *NamespaceOperator) alter(ctx context.Context, name string, by api.Principal, action api.AuditAction,
	alter func(n *table.Namespace, nowMs int64) error,
) (table.Namespace, error) {
	var after table.Namespace
	err := o.apply(ctx, name, by, action, func(ctx context.Context, nowMs int64) (audit.Plan, error) {
		known, err := o.find(ctx, name)
		if err != nil {
			return audit.Plan{}, err
		}
		after = known
		if err := alter(&after, nowMs); err != nil {
			return audit.Plan{}, err
		}
		if after == known {
			return audit.Plan{}, errUnchanged
		}
		after.Version++
		return oneWrite(table.ChangeNamespaceItem(o.table, known, after), wireNamespace(&known), wireNamespace(&after)), nil
	})
	if err != nil {
		return table.Namespace{}, fmt.Errorf("%s %s: %w", action, name, err)
	}
	return after, nil
}

// apply makes a change of the registry with its audit event.
func (o *NamespaceOperator) apply(ctx context.Context, name string, by api.Principal, action api.AuditAction,
	plan func(ctx context.Context, nowMs int64) (audit.Plan, error),
) error {
	if err := api.CheckNamespace(name); err != nil {
		return err
	}
	return change(ctx, o.audit, audit.Change{
		Namespace: keys.Registry, By: by, Action: action, Target: keys.AuditNamespace(name),
		Plan: func(ctx context.Context) (audit.Plan, error) {
			now, err := o.now()
			if err != nil {
				return audit.Plan{}, fmt.Errorf("date the change: %w", err)
			}
			return plan(ctx, now.UnixMilli())
		},
	})
}
