package main

import (
	"context"
	"errors"
	"slices"

	"github.com/tidegate/tidegate/internal/control"
)

type checkCmd struct {
	storeFlags
	monitorFlags
}

func (checkCmd) Help() string {
	return `Looks at the table's keys, indexes, stream and ttl, and at the schema it and its namespaces are written in; it changes nothing.
With --nats-monitor also at whether NATS may forget what it has acknowledged.
Exit code 0: they fit; 1: they do not, and what to do is printed.`
}

// Run prints the report.
func (c checkCmd) Run(ctx context.Context, o output) error {
	client, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	report, err := control.CheckSchema(ctx, client, c.Table)
	if err != nil {
		return c.explain(err)
	}
	verdict := struct {
		Compatible bool `json:"compatible"`
		*control.SchemaReport
		NATS []durability `json:"nats,omitempty"`
	}{report.Compatible(), report, c.durabilities(ctx)}
	if err := o.write(verdict, func(p *page) { printCheck(p, report); printDurable(p, verdict.NATS) }); err != nil {
		return err
	}
	if !report.Compatible() {
		return errors.New("this release cannot use the table " + c.Table + " as it is")
	}
	if slices.ContainsFunc(verdict.NATS, func(d durability) bool { return !d.Durable }) {
		return errors.New("NATS may forget what it has acknowledged")
	}
	return nil
}

// printDurable adds how each NATS server syncs the data it acknowledges.
func printDurable(p *page, found []durability) {
	if len(found) == 0 {
		return
	}
	rows := [][]string{{"NATS SERVER", "FORCED TO DISK", "DURABLE", "WHAT TO DO"}}
	for _, d := range found {
		verdict := "no"
		if d.Durable {
			verdict = "yes"
		}
		rows = append(rows, []string{d.Server, orDash(d.Sync), verdict, orDash(d.Fix)})
	}
	p.line("")
	p.table(rows)
}

// printCheck adds each finding, and for each fault how to mend it.
func printCheck(p *page, r *control.SchemaReport) {
	rows := [][]string{{"", "SCHEMA", "VERDICT", "WHAT TO DO"}}
	row := func(what string, w control.Written) {
		rows = append(rows, []string{what + " " + w.Name, schemaName(w.Schema), string(w.Verdict), orDash(w.Fix)})
	}
	p.line("this release reads and writes schema %d\n", r.Release)
	row("table", r.Table)
	for _, n := range r.Misfits {
		row("namespace", n)
	}
	p.table(rows)
	if r.Namespaces > 0 {
		p.line("\n%d of %d namespaces are compatible", r.Namespaces-len(r.Misfits), r.Namespaces)
	}
	if len(r.Faults) > 0 {
		p.line("")
	}
	for _, f := range r.Faults {
		p.line("%s: %s", f.What, f.Fix)
	}
}

func schemaName(schema int64) string {
	if schema == 0 {
		return "-"
	}
	return number(schema)
}
