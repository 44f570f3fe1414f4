package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type capacityCmd struct {
	clientFlags
	Entities bool   `name:"entities" help:"Also show each entity."`
	Resource string `arg:"" help:"Resource: a model, an endpoint."`
}

func (capacityCmd) Help() string {
	return `Entities that never spent from the resource, or whose buckets have long been full again, are not counted.`
}

// resourceCapacity is the report over all pages.
type resourceCapacity struct {
	Resource string               `json:"resource"`
	Entities int64                `json:"entities"`
	Changing int64                `json:"changing,omitempty"` // of them, not in the totals
	Damaged  []string             `json:"damaged,omitempty"`  // of them, not in the totals
	Totals   api.CapacityTotals   `json:"totals"`
	Rows     []api.EntityCapacity `json:"rows,omitempty"`
}

// Run sums up all pages and prints them.
func (c capacityCmd) Run(ctx context.Context, o output) error {
	if err := api.CheckResource(c.Resource); err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		report, err := c.read(ctx, client.Admin())
		if err != nil {
			return err
		}
		return o.write(report, func(p *page) { printCapacity(p, report) })
	})
}

// read keeps the rows only where they are to be shown: there may be millions.
func (c capacityCmd) read(ctx context.Context, admin tidegate.Admin) (resourceCapacity, error) {
	report := resourceCapacity{Resource: c.Resource, Totals: api.CapacityTotals{}}
	for query := (api.CapacityRequest{Resource: c.Resource, Limit: api.MaxPage}); ; {
		part, err := admin.Capacity(ctx, query)
		if err != nil {
			return report, err
		}
		report.Totals.Add(part.Totals)
		report.Entities += int64(len(part.Entities))
		for _, row := range part.Entities {
			if row.Changing {
				report.Changing++
			}
			if row.Damaged {
				report.Damaged = append(report.Damaged, row.Entity)
			}
		}
		if c.Entities {
			report.Rows = append(report.Rows, part.Entities...)
		}
		if query.Cursor = part.Cursor; query.Cursor == "" {
			slices.Sort(report.Damaged)
			slices.SortFunc(report.Rows, func(a, b api.EntityCapacity) int { return strings.Compare(a.Entity, b.Entity) })
			return report, nil
		}
	}
}

// printCapacity adds the totals and, where there are some, the rows.
func printCapacity(p *page, report resourceCapacity) {
	if report.Entities == 0 {
		p.line("nobody has spent from %s lately: all is available", report.Resource)
		return
	}
	if len(report.Totals) == 0 {
		p.line("no limits hold for those who spent from %s", report.Resource)
	} else {
		rows := [][]string{{"LIMIT", "ENTITIES", "AVAILABLE", "CAPACITY", "LEFT", "EXHAUSTED", "IN DEBT", "DEBT"}}
		for _, t := range report.Totals {
			rows = append(rows, []string{
				t.Name, number(t.Entities), number(t.Available), number(t.Capacity), percent(t.Available, t.Capacity),
				number(t.Exhausted), number(t.InDebt), number(t.Debt),
			})
		}
		p.table(rows)
	}
	if report.Changing > 0 {
		p.line("\n%d of %d entities are not counted: their buckets kept splitting or merging; ask again", report.Changing, report.Entities)
	}
	if len(report.Damaged) > 0 {
		p.line("\n%d of %d entities are not counted: a stored item of theirs cannot be read (`tidegate bucket reset` mends a bucket): %s",
			len(report.Damaged), report.Entities, strings.Join(report.Damaged, ", "))
	}
	if len(report.Rows) > 0 {
		p.line("")
		printEntityCapacities(p, report.Rows)
	}
}

// printEntityCapacities adds a table with a line for each limit of each entity.
func printEntityCapacities(p *page, entities []api.EntityCapacity) {
	rows := [][]string{{"ENTITY", "SHARDS", "LIMIT", "AVAILABLE", "CAPACITY"}}
	for _, e := range entities {
		if len(e.Limits) == 0 {
			rows = append(rows, []string{e.Entity, number(e.Shards), "-", "-", "-"})
		}
		for _, l := range e.Limits {
			rows = append(rows, []string{e.Entity, number(e.Shards), l.Name, number(l.Available), number(l.Capacity)})
		}
	}
	p.table(rows)
}

// percent is a part of a whole above 0.
func percent(part, whole int64) string {
	return fmt.Sprintf("%.0f%%", 100*float64(part)/float64(whole))
}
