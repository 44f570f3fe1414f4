package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1) //nolint:gocritic,forbidigo // this is the main function, and the process ends either way
	}
}

// run tries the selected mutants and reports each. Its error says that mutants survived
// that are not equivalent, or that a mutant could not be tried.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(out)
	only := flags.String("only", "", "try mutants with a matching name, a regular expression; empty: all")
	fresh := flags.Bool("fresh", false, "try mutants again that were killed before")
	root := flags.String("root", ".", "folder of the module")
	results := flags.String("results", ".cache/mutants.json", "file of the results so far, within the module")
	if err := flags.Parse(args); err != nil {
		return err
	}
	selected, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	at, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	lab, err := open(at, filepath.Join(at, *results))
	if err != nil {
		return err
	}
	return tryAll(ctx, lab, selected, *fresh, out)
}

func tryAll(ctx context.Context, lab *laboratory, selected *regexp.Regexp, fresh bool, out io.Writer) error {
	var chosen []mutant
	for _, m := range mutants() {
		if selected.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return errors.New("no mutant has such a name")
	}
	var faults []error
	killed, equivalent := 0, 0
	for i := range chosen {
		m := &chosen[i]
		f, known, err := lab.try(ctx, m, fresh)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, _ = fmt.Fprintf(out, "%3d/%d  %-40s ", i+1, len(chosen), m.name)
		var word string
		switch {
		case err != nil:
			word = "not tried"
			faults = append(faults, err)
		case f.KilledBy == "" && m.equivalent != "":
			word = "equivalent: " + m.equivalent
			equivalent++
		case f.KilledBy == "":
			word = "SURVIVED"
			faults = append(faults, fmt.Errorf("mutant %s of %s survives: add a test that notices it, or say in its row why it is equivalent", m.name, m.file))
		default:
			word = "killed by " + f.KilledBy
			killed++
			if m.equivalent != "" {
				faults = append(faults, fmt.Errorf("mutant %s is killed, and its row calls it equivalent", m.name))
			}
		}
		if known {
			word += " (before)"
		}
		_, _ = fmt.Fprintln(out, word)
	}
	_, _ = fmt.Fprintf(out, "%d mutants: %d killed, %d equivalent, %d at fault\n", len(chosen), killed, equivalent, len(faults))
	return errors.Join(faults...)
}
