package config

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// LimitStore reads and changes stored limits. It is safe for concurrent use by any
// number of nodes.
//
// Namespaces are ids (11 characters). Entities and resources are names that passed
// the checks of package api. An *api.Error is the caller's fault and final; any
// other error means that the store failed.
type LimitStore struct {
	backend
	audit *audit.Log
}

// NewLimitStore returns a store on a table. Reads are retried as the client says;
// changes go through the table's audit log.
func NewLimitStore(client *dynamodb.Client, tableName string, log *audit.Log) *LimitStore {
	return &LimitStore{backend: backend{client, tableName}, audit: log}
}

// Get reads a level. It fails with the code not_found if nothing is stored. A level
// may have a policy and no limits.
func (s *LimitStore) Get(ctx context.Context, ns string, target api.LimitsTarget) (api.LimitsLevel, error) {
	if err := target.Check(); err != nil {
		return api.LimitsLevel{}, err
	}
	c, err := s.level(ctx, configItem(ns, target))
	if err != nil {
		return api.LimitsLevel{}, err
	}
	if c == nil {
		return api.LimitsLevel{}, noLimitsAt(target)
	}
	return wireLevel(c), nil
}

// Set replaces all limits of a level, and its policy if the request has a policy.
// It returns the level as stored. If the request names a manifest, the manifest
// manages the level from then on; otherwise no manifest does. Bounds are checked
// before any I/O; the error's field names the limit, such as "limits.rpm.capacity".
// The code conflict with the field if_version means that the level does not have
// the requested version. [audit.Log.Apply] describes the other errors.
func (s *LimitStore) Set(ctx context.Context, ns string, by api.Principal, req api.LimitsSetRequest) (api.LimitsLevel, error) {
	limits, err := checkedLimits(req)
	if err != nil {
		return api.LimitsLevel{}, err
	}
	var after api.LimitsLevel
	err = s.change(ctx, ns, by, api.AuditLimitsSet, req.LimitsTarget, func(known *table.Config) (audit.Plan, error) {
		if err := wrongVersion(known, req.LimitsTarget, req.IfVersion); err != nil {
			return audit.Plan{}, err
		}
		form := table.SetConfig{
			Key: configItem(ns, req.LimitsTarget), Known: known, Limits: limits,
			OnUnavailable: req.OnUnavailable, Manifest: req.Manifest, Nonce: rand.Text(),
		}
		after = wireLevel(form.Apply())
		return oneWrite(form.Write(s.table), shownLevel(known), after), nil
	})
	if err != nil {
		return api.LimitsLevel{}, fmt.Errorf("set the limits of %s: %w", targetText(req.LimitsTarget), err)
	}
	return after, nil
}

// Delete removes all limits from a level, so that the next level wins. A policy and
// settings of later releases stay; otherwise the item is deleted. Delete fails with
// not_found if the level has no limits, and otherwise as Set does.
func (s *LimitStore) Delete(ctx context.Context, ns string, by api.Principal, req api.LimitsDeleteRequest) error {
	target := req.LimitsTarget
	if err := target.Check(); err != nil {
		return err
	}
	err := s.change(ctx, ns, by, api.AuditLimitsDelete, target, func(known *table.Config) (audit.Plan, error) {
		if known == nil || len(known.Limits) == 0 {
			return audit.Plan{}, noLimitsAt(target)
		}
		if err := wrongVersion(known, target, req.IfVersion); err != nil {
			return audit.Plan{}, err
		}
		if known.OnlyLimits() {
			form := table.DeleteConfig{Known: known}
			return oneWrite(form.Write(s.table), shownLevel(known), nil), nil
		}
		form := table.SetConfig{Key: known.Key, Known: known, Nonce: rand.Text()}
		return oneWrite(form.Write(s.table), shownLevel(known), shownLevel(form.Apply())), nil
	})
	if err != nil {
		return fmt.Errorf("delete the limits of %s: %w", targetText(target), err)
	}
	return nil
}

// change makes a change of a level, planned from the stored item. The writes of the
// plan are conditional on the version and the nonce that were read.
func (s *LimitStore) change(ctx context.Context, ns string, by api.Principal, action api.AuditAction, target api.LimitsTarget,
	plan func(known *table.Config) (audit.Plan, error),
) error {
	key := configItem(ns, target)
	return change(ctx, s.audit, audit.Change{
		Namespace: ns, By: by, Action: action, Target: audit.TargetOf(target),
		Plan: func(ctx context.Context) (audit.Plan, error) {
			known, err := s.level(ctx, key)
			if err != nil {
				return audit.Plan{}, err
			}
			return plan(known)
		},
	})
}

// shownLevel returns a level for an audit event; nil if nothing is stored.
func shownLevel(c *table.Config) any {
	if c == nil {
		return nil
	}
	return wireLevel(c)
}

// level returns a config item by a consistent read, or nil if nothing is stored.
func (s *LimitStore) level(ctx context.Context, key keys.Item) (*table.Config, error) {
	item, err := s.read(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read the limits of %s: %w", targetText(configTarget(key)), err)
	}
	if len(item) == 0 {
		return nil, nil //nolint:nilnil // no item is an answer, not an error: a level without settings
	}
	return table.DecodeConfig(item)
}

// checkedLimits returns the limits of a request by name, after all checks of the
// request.
func checkedLimits(req api.LimitsSetRequest) ([]api.Limit, error) {
	if err := cmp.Or(req.Check(), req.OnUnavailable.Check()); err != nil {
		return nil, err
	}
	if req.Manifest != "" {
		if err := api.CheckManifest(req.Manifest); err != nil {
			return nil, err
		}
	}
	switch {
	case len(req.Limits) == 0:
		return nil, api.Errorf(api.CodeMissingField, "limits", "name at least one limit; to take all limits away, delete the level")
	case len(req.Limits) > bucket.MaxLimits:
		return nil, api.Errorf(api.CodeTooManyLimits, "limits", "a bucket has at most %d limits", bucket.MaxLimits)
	}
	limits := slices.SortedFunc(slices.Values(req.Limits), func(a, b api.Limit) int { return cmp.Compare(a.Name, b.Name) })
	for i, l := range limits {
		if err := checkLimit(l); err != nil {
			return nil, err
		}
		if i > 0 && limits[i-1].Name == l.Name {
			return nil, api.Errorf(api.CodeInvalidLimit, "limits."+l.Name, "%q is named twice", l.Name)
		}
	}
	return limits, nil
}

// checkLimit prefixes the field of a limit's error with the limit's name. An
// invalid name is not repeated.
func checkLimit(l api.Limit) error {
	err := l.Check()
	var bad *api.Error
	if !errors.As(err, &bad) {
		return err
	}
	path := "limits." + bad.Field
	if bad.Code != api.CodeInvalidLimitName {
		path = "limits." + l.Name + "." + bad.Field
	}
	return &api.Error{Code: bad.Code, Field: path, Message: bad.Message}
}

// wrongVersion fails with the code conflict unless a level has the wanted version.
// If want is nil, any version is right.
func wrongVersion(known *table.Config, target api.LimitsTarget, want *int64) error {
	is := int64(0)
	if known != nil {
		is = known.Version
	}
	if want == nil || *want == is {
		return nil
	}
	return api.Errorf(api.CodeConflict, "if_version", "%s has version %d, not %d: somebody changed it meanwhile", targetText(target), is, *want)
}

// wireLevel returns a config item as the wire shows it.
func wireLevel(c *table.Config) api.LimitsLevel {
	limits := c.Limits
	if limits == nil {
		limits = []api.Limit{} // an array on the wire
	}
	return api.LimitsLevel{
		LimitsTarget: configTarget(c.Key), Limits: limits, OnUnavailable: c.OnUnavailable, Manifest: c.Manifest,
		AuditRetentionDays: c.RetentionDays, Version: c.Version,
	}
}

func noLimitsAt(target api.LimitsTarget) *api.Error {
	return api.Errorf(api.CodeNotFound, "", "no limits are stored for %s", targetText(target))
}
