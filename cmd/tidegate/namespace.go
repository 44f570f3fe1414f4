package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// namespaceArg names the namespace that a command is about.
type namespaceArg struct {
	natsFlags
	Name string `arg:"" help:"Name of the namespace: small letters, digits and -."`
}

// change asks for something about the namespace and prints how it is then.
func (c namespaceArg) change(o output, ask func(tidegate.Operator) (api.Namespace, error)) error {
	if err := api.CheckNamespace(c.Name); err != nil {
		return usageError{err}
	}
	return c.operator(func(operator tidegate.Operator) error {
		n, err := ask(operator)
		if err != nil {
			return err
		}
		return o.write(n, func(p *page) { printNamespaces(p, []api.Namespace{n}) })
	})
}

type namespaceCreateCmd struct{ namespaceArg }

// Run makes a namespace.
func (c namespaceCreateCmd) Run(ctx context.Context, o output) error {
	return c.change(o, func(operator tidegate.Operator) (api.Namespace, error) { return operator.CreateNamespace(ctx, c.Name) })
}

type namespaceGetCmd struct{ namespaceArg }

// Run prints a namespace.
func (c namespaceGetCmd) Run(ctx context.Context, o output) error {
	return c.change(o, func(operator tidegate.Operator) (api.Namespace, error) { return operator.GetNamespace(ctx, c.Name) })
}

type namespaceDeleteCmd struct{ namespaceArg }

// Run deletes a namespace.
func (c namespaceDeleteCmd) Run(ctx context.Context, o output) error {
	return c.change(o, func(operator tidegate.Operator) (api.Namespace, error) { return operator.DeleteNamespace(ctx, c.Name) })
}

type namespaceRecoverCmd struct{ namespaceArg }

// Run recovers a namespace.
func (c namespaceRecoverCmd) Run(ctx context.Context, o output) error {
	return c.change(o, func(operator tidegate.Operator) (api.Namespace, error) { return operator.RecoverNamespace(ctx, c.Name) })
}

type namespaceListCmd struct{ natsFlags }

// Run prints all pages as a single list.
func (c namespaceListCmd) Run(ctx context.Context, o output) error {
	return c.operator(func(operator tidegate.Operator) error {
		all := api.NamespaceListReply{Namespaces: []api.Namespace{}}
		for query := (api.NamespaceListRequest{Limit: api.MaxPage}); ; {
			part, err := operator.ListNamespaces(ctx, query)
			if err != nil {
				return err
			}
			all.Namespaces = append(all.Namespaces, part.Namespaces...)
			if query.Cursor = part.Cursor; query.Cursor == "" {
				break
			}
		}
		return o.write(all, func(p *page) { printNamespaces(p, all.Namespaces) })
	})
}

// printNamespaces adds a table of namespaces.
func printNamespaces(p *page, all []api.Namespace) {
	rows := [][]string{{"NAMESPACE", "ID", "STATE", "CREATED", "DELETED", "BY"}}
	for _, n := range all {
		rows = append(rows, []string{n.Name, n.ID, string(n.State), moment(n.CreatedMs), moment(n.DeletedMs), orDash(n.DeletedBy)})
	}
	p.table(rows)
}

// moment formats a time in Unix milliseconds; 0 is shown as a dash.
func moment(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

type namespacePurgeCmd struct {
	namespaceArg
	Yes bool `name:"yes" help:"Confirm the deletion."`
}

func (namespacePurgeCmd) Help() string {
	return `The namespace must be deleted. An interrupt ends the command and leaves the rest to the next one; once begun, a purge can only be finished.`
}

// purged reports the progress of a purge.
type purged struct {
	Name    string `json:"name"`
	Done    bool   `json:"done"`
	Deleted int64  `json:"deleted"` // items, by this command
}

// Run purges step by step, with progress.
func (c namespacePurgeCmd) Run(ctx context.Context, o output) error {
	if !c.Yes {
		return usageError{fmt.Errorf("this removes all limits, balances and usage of the namespace %s permanently; add --yes to confirm", c.Name)}
	}
	if err := api.CheckNamespace(c.Name); err != nil {
		return usageError{err}
	}
	return c.operator(func(operator tidegate.Operator) error {
		step, err := operator.PurgeNamespace(ctx, c.Name)
		if err != nil {
			return err
		}
		var removed atomic.Int64
		removed.Store(step.Deleted)
		stop := o.watch(ctx, watched{what: "purging", unit: "items", total: step.Deleted + step.Remaining, done: removed.Load})
		for err == nil && !step.Done {
			if step, err = operator.PurgeNamespace(ctx, c.Name); err == nil {
				removed.Add(step.Deleted)
			}
		}
		stop()
		if err != nil {
			return advise(err, "Run the same command again to continue.")
		}
		return o.write(purged{Name: c.Name, Done: true, Deleted: removed.Load()}, func(p *page) {
			p.line("namespace %s is purged: %d items removed; the name is free", c.Name, removed.Load())
		})
	})
}
