package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

type tableCreateCmd struct{ storeFlags }

// Run creates.
func (c tableCreateCmd) Run(ctx context.Context, o output) error {
	client, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	if err := prepareTable(ctx, client, c.Table); err != nil {
		return c.explain(err)
	}
	return c.print(ctx, o, client)
}

// prepareTable creates the table and the items that a namespace's first request needs,
// unless they exist.
func prepareTable(ctx context.Context, client *dynamodb.Client, name string) error {
	if err := table.CreateTable(ctx, client, name); err != nil {
		return err
	}
	if err := control.RefuseSchema(ctx, client, name); err != nil {
		return err
	}
	if err := control.MarkSchema(ctx, client, name); err != nil {
		return err
	}
	if _, err := config.NewNamespaces(client, name).Ensure(ctx, api.DefaultNamespace); err != nil {
		return fmt.Errorf("make the namespace %s: %w", api.DefaultNamespace, err)
	}
	return nil
}

type tableStatusCmd struct{ storeFlags }

// Run prints the table's state.
func (c tableStatusCmd) Run(ctx context.Context, o output) error {
	client, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	return c.print(ctx, o, client)
}

type tableDeleteCmd struct {
	storeFlags
	Yes bool `name:"yes" help:"Confirm the deletion."`
}

// Run deletes, and waits until the table is gone.
func (c tableDeleteCmd) Run(ctx context.Context, o output) error {
	if !c.Yes {
		return usageError{fmt.Errorf("this deletes all limits, balances and usage in the table %s permanently; add --yes to confirm", c.Table)}
	}
	client, err := c.open(ctx, o)
	if err != nil {
		return err
	}
	if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &c.Table}); err != nil {
		return c.explain(fmt.Errorf("delete the table %s: %w", c.Table, err))
	}
	const patience = 5 * time.Minute
	waiter := dynamodb.NewTableNotExistsWaiter(client, func(w *dynamodb.TableNotExistsWaiterOptions) {
		w.MinDelay, w.MaxDelay = 50*time.Millisecond, 2*time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &c.Table}, patience); err != nil {
		return c.explain(fmt.Errorf("wait until the table %s is gone: %w", c.Table, err))
	}
	return o.write(map[string]any{"table": c.Table, "deleted": true}, func(p *page) { p.line("table %s is deleted", c.Table) })
}

type tableTemplateCmd struct {
	Table string `name:"table" variable:"" default:"${table}" placeholder:"NAME" help:"Table; default: ${table}."`
}

func (tableTemplateCmd) Help() string {
	return `In YAML, also with --json. The template enables point-in-time recovery and deletion protection, which ` + "`tidegate table create`" + ` does not turn on. Run ` + "`tidegate table create`" + ` once the stack is there: it makes what has to be in the table.`
}

// Run prints, and asks no store.
func (c tableTemplateCmd) Run(o output) error {
	text, err := table.Template(c.Table)
	if err != nil {
		return err
	}
	if _, err := o.stdout.Write(text); err != nil {
		return fmt.Errorf("print the template: %w", err)
	}
	return nil
}

// open makes a client of the store.
func (f storeFlags) open(ctx context.Context, o output) (*dynamodb.Client, error) {
	log, err := logFlags{LogLevel: "warn"}.logger(o)
	if err != nil {
		return nil, err
	}
	cfg, err := f.aws(ctx, log)
	if err != nil {
		return nil, err
	}
	return dynamodb.NewFromConfig(cfg), nil
}

// tableStatus describes a table.
type tableStatus struct {
	Table   string            `json:"table"`
	Status  types.TableStatus `json:"status"`
	Indexes int               `json:"indexes"`
	Stream  string            `json:"stream,omitempty"` // its view type
	TTL     bool              `json:"ttl"`
}

func (f storeFlags) print(ctx context.Context, o output, client *dynamodb.Client) error {
	facts, err := table.Inspect(ctx, client, f.Table)
	if err != nil {
		return f.explain(err)
	}
	s := tableStatus{
		Table: f.Table, Status: facts.Table.TableStatus, Indexes: len(facts.Table.GlobalSecondaryIndexes),
		Stream: string(facts.Stream()), TTL: facts.Expires(),
	}
	err = o.write(s, func(p *page) {
		p.table([][]string{
			{"TABLE", "STATUS", "INDEXES", "STREAM", "TTL"},
			{s.Table, string(s.Status), number(int64(s.Indexes)), orNone(s.Stream), yes(s.TTL)},
		})
	})
	if err != nil {
		return err
	}
	if faults := facts.Faults(); len(faults) > 0 {
		return fmt.Errorf("the table %s is not fit for use: %s; %s", f.Table, faults[0].What, faults[0].Fix)
	}
	return nil
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func yes(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
