package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/internal/namespace"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
)

type tableCmd struct {
	Create tableCreateCmd `cmd:"" help:"Make the table and the namespace default, unless they are there."`
	Status tableStatusCmd `cmd:"" help:"Show whether the table is there and fit for use."`
	Delete tableDeleteCmd `cmd:"" help:"Delete the table and all that is in it."`
}

type tableCreateCmd struct{ storeFlags }

// Run creates.
func (c tableCreateCmd) Run(ctx context.Context, o output) error {
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	if err := prepareTable(ctx, client, c.Table); err != nil {
		return c.explain(err)
	}
	return c.print(ctx, o, client)
}

// prepareTable makes what a namespace's first request needs, where it is not
// there yet.
func prepareTable(ctx context.Context, client *dynamodb.Client, name string) error {
	if err := table.CreateTable(ctx, client, name); err != nil {
		return err
	}
	if _, err := namespace.NewRegistry(client, name).Ensure(ctx, api.DefaultNamespace); err != nil {
		return fmt.Errorf("make the namespace %s: %w", api.DefaultNamespace, err)
	}
	return nil
}

type tableStatusCmd struct{ storeFlags }

// Run prints the table's state.
func (c tableStatusCmd) Run(ctx context.Context, o output) error {
	client, err := c.open(ctx)
	if err != nil {
		return err
	}
	return c.print(ctx, o, client)
}

type tableDeleteCmd struct {
	storeFlags
	Yes bool `name:"yes" help:"Really."`
}

// Run deletes, and waits until the table is gone.
func (c tableDeleteCmd) Run(ctx context.Context, o output) error {
	if !c.Yes {
		return usageError{fmt.Errorf("this deletes all limits, balances and usage in the table %s for good; add --yes if that is meant", c.Table)}
	}
	client, err := c.open(ctx)
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

// open makes a client of the store.
func (f storeFlags) open(ctx context.Context) (*dynamodb.Client, error) {
	cfg, err := f.aws(ctx)
	if err != nil {
		return nil, err
	}
	return dynamodb.NewFromConfig(cfg), nil
}

// tableStatus is what is known of a table.
type tableStatus struct {
	Table   string            `json:"table"`
	Status  types.TableStatus `json:"status"`
	Indexes int               `json:"indexes"`
	Stream  string            `json:"stream,omitempty"` // what its records hold
	TTL     bool              `json:"ttl"`
}

func (f storeFlags) print(ctx context.Context, o output, client *dynamodb.Client) error {
	s, err := describeTable(ctx, client, f.Table)
	if err != nil {
		return f.explain(err)
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
	return s.check()
}

func describeTable(ctx context.Context, client *dynamodb.Client, name string) (tableStatus, error) {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		return tableStatus{}, fmt.Errorf("look at the table %s: %w", name, err)
	}
	ttl, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return tableStatus{}, fmt.Errorf("look at the ttl setting of table %s: %w", name, err)
	}
	s := tableStatus{Table: name, Status: out.Table.TableStatus, Indexes: len(out.Table.GlobalSecondaryIndexes)}
	if stream := out.Table.StreamSpecification; stream != nil {
		s.Stream = string(stream.StreamViewType)
	}
	if d := ttl.TimeToLiveDescription; d != nil {
		s.TTL = d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling
	}
	return s, nil
}

// check fails unless the table is as Tidegate makes it.
func (s tableStatus) check() error {
	want := table.Definition(s.Table)
	switch {
	case s.Status != types.TableStatusActive:
		return fmt.Errorf("the table %s is %s: wait until it is active", s.Table, s.Status)
	case s.Indexes != len(want.GlobalSecondaryIndexes):
		return fmt.Errorf("the table %s has %d indexes, not %d: it was not made by `tidegate table create`; choose another --table",
			s.Table, s.Indexes, len(want.GlobalSecondaryIndexes))
	case s.Stream != string(want.StreamSpecification.StreamViewType):
		return fmt.Errorf("the table %s has no stream of %s: it was not made by `tidegate table create`; choose another --table",
			s.Table, want.StreamSpecification.StreamViewType)
	case !s.TTL:
		return errors.New("items do not expire: run `tidegate table create`, which turns that on")
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
