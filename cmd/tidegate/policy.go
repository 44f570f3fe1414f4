package main

import (
	"context"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type policyGetCmd struct {
	clientFlags
	levelFlags
}

// Run prints the policies of a config level.
func (c policyGetCmd) Run(ctx context.Context, o output) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	return c.client(func(client *tidegate.Client) error {
		level, err := client.Admin().GetPolicy(ctx, target)
		if err != nil {
			return err
		}
		return o.policy(level)
	})
}

type policySetCmd struct {
	clientFlags
	levelFlags
	OnUnavailable      api.Policy `name:"on-unavailable" placeholder:"POLICY" help:"Unavailable policy, which applies while the store is down: block (fail closed), allow (fail open), or unset to inherit."`
	AuditRetentionDays *int64     `name:"audit-retention-days" placeholder:"DAYS" help:"Retention of audit events, 1 to 3650 days; 0 for the default. Only with --system."`
}

// Run sets and prints the policies as they are stored.
func (c policySetCmd) Run(ctx context.Context, o output) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	q := api.PolicySetRequest{LimitsTarget: target, OnUnavailable: c.OnUnavailable, AuditRetentionDays: c.AuditRetentionDays}
	if err := q.Check(); err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		level, err := client.Admin().SetPolicy(ctx, q)
		if err != nil {
			return err
		}
		return o.policy(level)
	})
}

// policy prints the policies of a level.
func (o output) policy(level api.PolicyLevel) error {
	return o.write(level, func(p *page) {
		policy, days := string(level.OnUnavailable), "-"
		if policy == "" {
			policy = "-"
		}
		if level.AuditRetentionDays > 0 {
			days = number(level.AuditRetentionDays) + " days"
		}
		p.table([][]string{
			{"LEVEL", "VERSION", "ON UNAVAILABLE", "AUDIT EVENTS ARE KEPT"},
			{config.TargetName(level.LimitsTarget), number(level.Version), policy, days},
		})
	})
}
