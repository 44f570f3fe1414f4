package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// levelFlags name a config level.
type levelFlags struct {
	System   bool   `name:"system" help:"Config level that applies if no other does."`
	Resource string `name:"resource" placeholder:"NAME" help:"Config level of a resource; with --entity, of the entity on the resource."`
	Entity   string `name:"entity" placeholder:"ID" help:"Config level of an entity."`
}

// target is the level, checked.
func (f levelFlags) target() (api.LimitsTarget, error) {
	t := api.LimitsTarget{System: f.System, Entity: f.Entity, Resource: f.Resource}
	if t == (api.LimitsTarget{}) {
		return t, usageError{errors.New("name a level: --system, --resource R, --entity E, or --entity E --resource R")}
	}
	if t.System && (t.Entity != "" || t.Resource != "") {
		return t, usageError{errors.New("--system stands alone, without --entity and --resource")}
	}
	if err := t.Check(); err != nil {
		return t, usageError{err}
	}
	return t, nil
}

type limitsSetCmd struct {
	clientFlags
	levelFlags
	OnUnavailable api.Policy `name:"on-unavailable" placeholder:"POLICY" help:"Also set the unavailable policy, which applies while the store is down: block (fail closed) or allow (fail open)."`
	Limits        []string   `arg:"" help:"All limits of the level: rpm=100/min, tpm=10000/min:20000 (burst of 20000), slow=1/30s."`
}

// Run sets and prints the level as it is stored.
func (c limitsSetCmd) Run(ctx context.Context, o output) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	limits, err := parseLimits(c.Limits)
	if err != nil {
		return usageError{err}
	}
	if err := c.OnUnavailable.Check(); err != nil {
		return usageError{fmt.Errorf("--on-unavailable: %w", err)}
	}
	return c.client(func(client *tidegate.Client) error {
		level, err := client.Admin().SetLimits(ctx, api.LimitsSetRequest{
			LimitsTarget: target, Limits: limits, OnUnavailable: c.OnUnavailable,
		})
		if err != nil {
			return err
		}
		return o.level(level)
	})
}

func parseLimits(texts []string) ([]api.Limit, error) {
	limits := make([]api.Limit, 0, len(texts))
	named := map[string]bool{}
	for _, text := range texts {
		l, err := api.ParseLimit(text)
		if err != nil {
			return nil, err
		}
		if named[l.Name] {
			return nil, fmt.Errorf("%s is named twice", l.Name)
		}
		named[l.Name] = true
		limits = append(limits, l)
	}
	return limits, nil
}

type limitsGetCmd struct {
	clientFlags
	levelFlags
}

// Run prints a config level.
func (c limitsGetCmd) Run(ctx context.Context, o output) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	return c.client(func(client *tidegate.Client) error {
		level, err := client.Admin().GetLimits(ctx, target)
		if err != nil {
			return err
		}
		return o.level(level)
	})
}

type limitsDeleteCmd struct {
	clientFlags
	levelFlags
}

// Run deletes a level's limits.
func (c limitsDeleteCmd) Run(ctx context.Context, o output) error {
	target, err := c.target()
	if err != nil {
		return err
	}
	return c.client(func(client *tidegate.Client) error {
		if err := client.Admin().DeleteLimits(ctx, api.LimitsDeleteRequest{LimitsTarget: target}); err != nil {
			return err
		}
		return o.write(api.LimitsDeleteReply{Deleted: true}, func(p *page) {
			p.line("%s has no limits of its own any more", config.TargetName(target))
		})
	})
}

type limitsListCmd struct {
	clientFlags
	levelFlags
}

// Run prints all pages as a single list.
func (c limitsListCmd) Run(ctx context.Context, o output) error {
	var target api.LimitsTarget
	if c.levelFlags != (levelFlags{}) {
		var err error
		if target, err = c.target(); err != nil {
			return err
		}
	}
	return c.client(func(client *tidegate.Client) error {
		all := api.LimitsListReply{Levels: []api.LimitsLevel{}}
		for query := (api.LimitsListRequest{LimitsTarget: target, Limit: api.MaxPage}); ; {
			part, err := client.Admin().ListLimits(ctx, query)
			if err != nil {
				return err
			}
			all.Levels = append(all.Levels, part.Levels...)
			if query.Cursor = part.Cursor; query.Cursor == "" {
				break
			}
		}
		return o.write(all, func(p *page) {
			if len(all.Levels) == 0 {
				p.line("no limits are stored there; set some, for example:\n  %s",
					c.command(o.self, "limits", "set", "--system", "rpm=100/min"))
				return
			}
			printLevels(p, all.Levels)
		})
	})
}

type limitsResolveCmd struct {
	clientFlags
	Entity   string `arg:"" help:"Entity."`
	Resource string `arg:"" help:"Resource."`
}

// Run prints the config level that applies, and the levels it hides.
func (c limitsResolveCmd) Run(ctx context.Context, o output) error {
	if _, err := spending(c.Entity, c.Resource, nil); err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		reply, err := client.Admin().ResolveLimits(ctx, c.Entity, c.Resource)
		if err != nil {
			return c.adviseLimits(o, err, c.Entity, c.Resource, nil)
		}
		return o.write(reply, func(p *page) {
			p.line("the limits of %s hold; when the store cannot be asked: %s\n", config.TargetName(reply.Winner), reply.OnUnavailable)
			printLevels(p, reply.Levels)
			for _, level := range reply.Levels {
				if level.AuditRetentionDays > 0 {
					p.line("\naudit events are kept for %d days", level.AuditRetentionDays)
				}
			}
		})
	})
}

// level prints a config level.
func (o output) level(level api.LimitsLevel) error {
	return o.write(level, func(p *page) { printLevels(p, []api.LimitsLevel{level}) })
}

// printLevels adds a table of config levels.
func printLevels(p *page, levels []api.LimitsLevel) {
	rows := [][]string{{"LEVEL", "VERSION", "ON UNAVAILABLE", "LIMITS"}}
	managed := slices.ContainsFunc(levels, func(l api.LimitsLevel) bool { return l.Manifest != "" })
	if managed {
		rows[0] = slices.Insert(rows[0], 3, "MANIFEST")
	}
	for _, l := range levels {
		limits := make([]string, len(l.Limits))
		for i, limit := range l.Limits {
			limits[i] = limit.String()
		}
		row := []string{config.TargetName(l.LimitsTarget), number(l.Version), orDash(string(l.OnUnavailable)), strings.Join(limits, " ")}
		if managed {
			row = slices.Insert(row, 3, orDash(l.Manifest))
		}
		rows = append(rows, row)
	}
	p.table(rows)
}
