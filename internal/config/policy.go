package config

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// Policy reads the policies of one level; it fails with the code not_found
// where the level stores none.
func (s *LimitStore) Policy(ctx context.Context, ns string, target api.LimitsTarget) (api.PolicyLevel, error) {
	if err := target.Check(); err != nil {
		return api.PolicyLevel{}, err
	}
	c, err := s.level(ctx, configItem(ns, target))
	if err != nil {
		return api.PolicyLevel{}, err
	}
	if c.Policies() == (table.Policies{}) {
		return api.PolicyLevel{}, api.Errorf(api.CodeNotFound, "", "no policy is stored for %s", targetText(target))
	}
	return wirePolicy(target, c), nil
}

// SetPolicy changes the policies of a level that a request names, and leaves
// the others and the level's limits as they are. It returns the level as it is
// then; where nothing is left of it, its version is 0. It fails as Set does.
func (s *LimitStore) SetPolicy(ctx context.Context, ns string, by api.Principal, req api.PolicySetRequest) (api.PolicyLevel, error) {
	if err := req.Check(); err != nil {
		return api.PolicyLevel{}, err
	}
	var after *table.Config
	err := s.change(ctx, ns, by, api.AuditPolicySet, req.LimitsTarget, func(known *table.Config) (audit.Plan, error) {
		wanted := wantedPolicies(known, req)
		switch {
		case wanted == known.Policies():
			after = known
			return audit.Plan{}, errUnchanged
		case wanted == (table.Policies{}) && known.OnlyPolicy():
			after = nil
			form := table.DeleteConfig{Known: known}
			return oneWrite(form.Write(s.table), shownLevel(known), nil), nil
		}
		form := table.SetPolicy{Key: configItem(ns, req.LimitsTarget), Known: known, Policies: wanted, Nonce: rand.Text()}
		after = form.Apply()
		return oneWrite(form.Write(s.table), shownLevel(known), shownLevel(after)), nil
	})
	if err != nil {
		return api.PolicyLevel{}, fmt.Errorf("set the policy of %s: %w", targetText(req.LimitsTarget), err)
	}
	return wirePolicy(req.LimitsTarget, after), nil
}

// wantedPolicies are those of a level once a request is done.
func wantedPolicies(known *table.Config, req api.PolicySetRequest) table.Policies {
	p := known.Policies()
	switch req.OnUnavailable {
	case "":
	case api.PolicyUnset:
		p.OnUnavailable = ""
	default:
		p.OnUnavailable = req.OnUnavailable
	}
	if req.AuditRetentionDays != nil {
		p.RetentionDays = *req.AuditRetentionDays
	}
	return p
}

// wirePolicy is a config as requests for policies see it; nil for none.
func wirePolicy(target api.LimitsTarget, c *table.Config) api.PolicyLevel {
	p := c.Policies()
	level := api.PolicyLevel{LimitsTarget: target, OnUnavailable: p.OnUnavailable, AuditRetentionDays: p.RetentionDays}
	if c != nil {
		level.Version = c.Version
	}
	return level
}
