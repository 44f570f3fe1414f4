package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tidegate/tidegate/internal/config"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// manifestFlags name a manifest file. The manifest names its namespace.
type manifestFlags struct {
	natsFlags
	File string `arg:"" help:"YAML file; - reads standard input."`
}

type limitsPlanCmd struct{ manifestFlags }

func (limitsPlanCmd) Help() string {
	return `Changes nothing. Each line is a config level to create (+), change (~), take over from another owner (!) or delete (-).`
}

// Run prints the plan.
func (c limitsPlanCmd) Run(ctx context.Context, o output) error {
	return c.planned(ctx, o, func(_ tidegate.Admin, plan config.ManifestPlan) error {
		return o.write(plan, func(p *page) { printPlan(p, &plan) })
	})
}

type limitsApplyCmd struct {
	manifestFlags
	TakeOver bool `name:"take-over" help:"Also change levels that were set by hand or by another manifest."`
	Yes      bool `name:"yes" help:"Do not ask for confirmation; required without a terminal."`
}

func (limitsApplyCmd) Help() string {
	return `Shows the plan and, once confirmed, carries it out. A config level that changes in the meantime is left alone and reported; so is a failure. Exit code 1: steps are left; run it again to continue.`
}

// Run plans, asks and applies.
func (c limitsApplyCmd) Run(ctx context.Context, o output) error {
	return c.planned(ctx, o, func(admin tidegate.Admin, plan config.ManifestPlan) error {
		if !o.json || len(plan.Steps) == 0 {
			report := applied{ManifestPlan: &plan, Failed: []failedStep{}}
			if err := o.write(report, func(p *page) { printPlan(p, &plan) }); err != nil || len(plan.Steps) == 0 {
				return err
			}
		}
		if n := plan.Count(config.StepTakeOver); n > 0 && !c.TakeOver {
			return advise(fmt.Errorf("levels set by hand or by another manifest: %d; nothing was changed", n),
				"Add --take-over if manifest %s shall manage them, or remove them from %s.", plan.Manifest, c.File)
		}
		if err := c.confirm(o, &plan); err != nil {
			return err
		}
		report := c.apply(ctx, o, admin, &plan)
		if err := o.write(report, func(p *page) { printApplied(p, &report) }); err != nil {
			return err
		}
		return report.err()
	})
}

// errDeclined ends an apply that was not confirmed.
var errDeclined = errors.New("not confirmed; nothing was changed")

// confirm asks on the terminal.
func (c limitsApplyCmd) confirm(o output, plan *config.ManifestPlan) error {
	if c.Yes {
		return nil
	}
	if !o.terminal || o.json || c.File == standardInput {
		return usageError{errors.New("there is no terminal to confirm on, and nothing was changed; add --yes to carry out the plan")}
	}
	_, _ = fmt.Fprintf(o.stderr, "\nCarry this out in namespace %s? [y/N] ", plan.Namespace) // if stderr is gone, the answer is no
	answer, err := bufio.NewReader(o.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// standardInput is the file name that stands for standard input.
const standardInput = "-"

// planned reads the file, compares it with the stored state, and calls do.
func (f manifestFlags) planned(ctx context.Context, o output, do func(tidegate.Admin, config.ManifestPlan) error) error {
	data, name, err := f.read(o)
	if err != nil {
		return err
	}
	m, problems := config.ParseManifest(name, data)
	if len(problems) > 0 {
		return o.problems(problems)
	}
	asking := clientFlags{natsFlags: f.natsFlags, Namespace: m.Namespace}
	return asking.client(func(client *tidegate.Client) error {
		stored, err := storedLevels(ctx, o, client.Admin(), m)
		if err != nil {
			return err
		}
		return do(client.Admin(), m.Diff(stored))
	})
}

// read reads the file up to its maximum size plus a byte, which is enough to refuse a
// longer file.
func (f manifestFlags) read(o output) (data []byte, name string, err error) {
	in, name := o.stdin, "stdin"
	if f.File != standardInput {
		file, err := os.Open(f.File)
		if err != nil {
			return nil, "", usageError{fmt.Errorf("open the manifest: %w", err)}
		}
		defer func() { _ = file.Close() }() // it was only read
		in, name = file, f.File
	}
	data, err = io.ReadAll(io.LimitReader(in, config.MaxManifestBytes+1))
	if err != nil {
		return nil, "", fmt.Errorf("read the manifest: %w", err)
	}
	return data, name, nil
}

// problems prints the faults of a file: as JSON to the output, or as lines to standard
// error.
func (o output) problems(problems []config.ManifestProblem) error {
	if o.json {
		if err := o.write(map[string]any{"problems": problems}, nil); err != nil {
			return err
		}
	} else {
		for _, p := range problems {
			_, _ = fmt.Fprintln(o.stderr, p) // an error here means that stderr is gone
		}
	}
	return fmt.Errorf("errors in %s: %d; nothing was changed", problems[0].File, len(problems))
}

// printPlan adds a line for each step, and their numbers.
func printPlan(p *page, plan *config.ManifestPlan) {
	p.line("manifest %s, namespace %s\n", plan.Manifest, plan.Namespace)
	if len(plan.Steps) == 0 {
		p.line("nothing to do: %d levels are as declared", plan.Unchanged)
		return
	}
	rows := make([][]string, len(plan.Steps))
	for i := range plan.Steps {
		rows[i] = stepRow(&plan.Steps[i])
	}
	p.table(rows)
	p.line("\n%d to create, %d to change, %d to take over, %d to delete, %d unchanged",
		plan.Count(config.StepCreate), plan.Count(config.StepChange), plan.Count(config.StepTakeOver), plan.Count(config.StepDelete), plan.Unchanged)
}

func stepRow(s *config.ManifestStep) []string {
	row := []string{s.Kind.Mark(), config.TargetName(s.LimitsTarget)}
	var before, after string
	if s.Stored != nil {
		before = setting(s.Stored.Limits, s.Stored.OnUnavailable)
	}
	after = setting(s.Limits, s.OnUnavailable)
	switch s.Kind {
	case config.StepCreate:
		return append(row, after)
	case config.StepChange:
		return append(row, after, "was "+before)
	case config.StepTakeOver:
		owner := "by hand"
		if s.Stored.Manifest != "" {
			owner = "by manifest " + s.Stored.Manifest
		}
		return append(row, after, "set "+owner+" to "+before)
	case config.StepDelete:
		return append(row, setting(s.Stored.Limits, ""))
	}
	return row
}
