package config

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

// Policy reads the policies of a level. It fails with the code not_found if the
// level stores no policy.
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

// SetPolicy changes the policies that a request names, and leaves the other
// policies and the limits of the level alone. It returns the level as stored; if
// the change removes the last setting, the version is 0. It fails as Set does.
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

// wantedPolicies returns the policies of a level after a request.
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

// wirePolicy returns the policies of a config item as the wire shows them; c may be
// nil.
func wirePolicy(target api.LimitsTarget, c *table.Config) api.PolicyLevel {
	p := c.Policies()
	level := api.PolicyLevel{LimitsTarget: target, OnUnavailable: p.OnUnavailable, AuditRetentionDays: p.RetentionDays}
	if c != nil {
		level.Version = c.Version
	}
	return level
}
