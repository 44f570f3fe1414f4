package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type shardsCmd struct {
	clientFlags
	Over     time.Duration `name:"over" default:"1s" placeholder:"TIME" help:"Period over which WRITES/S is measured; default: 1s."`
	Entity   string        `arg:"" help:"Entity: an API key, a user."`
	Resource string        `arg:"" help:"Resource: a model, an endpoint."`
}

func (shardsCmd) Help() string {
	return `A shard's share is 1/LEVEL of each limit; each limit shows the balance of its share. A DynamoDB partition takes 1,000 write units per second; sharders add shards from 800 on.`
}

// bucketShards is the output of the command.
type bucketShards struct {
	Wanted int64       `json:"wanted"`
	Shards []shardRate `json:"shards"`
	// Limits are how the bucket stands as a whole, and Damaged the shards that cannot be read.
	Limits  []api.LimitCapacity `json:"limits,omitempty"`
	Damaged []int64             `json:"damaged,omitempty"`
}

// shardRate is a shard and how fast it is written to. The rate is not known where the
// shard was split off between two looks.
type shardRate struct {
	api.BucketShard
	WritesPerSecond *float64 `json:"write_units_per_second,omitempty"`
}

// Run looks twice and prints the second look.
func (c shardsCmd) Run(ctx context.Context, o output) error {
	if err := checkBucket(c.Entity, c.Resource); err != nil {
		return err
	}
	if c.Over <= 0 {
		return usageError{errors.New("--over must be above 0")}
	}
	return c.client(func(client *tidegate.Client) error {
		before, err := client.Admin().Bucket(ctx, c.Entity, c.Resource)
		if err != nil {
			return err
		}
		timer := time.NewTimer(c.Over)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		after, err := client.Admin().Bucket(ctx, c.Entity, c.Resource)
		if err != nil {
			return err
		}
		report := rates(before, after)
		return o.write(report, func(p *page) { printShards(p, c.Entity, c.Resource, report) })
	})
}

// rates returns the shards of the second look, with their cost since the first.
func rates(before, after api.BucketReply) bucketShards {
	units := map[int64]int64{}
	for _, s := range before.Shards {
		units[s.Shard] = s.WriteUnits
	}
	report := bucketShards{Wanted: after.Wanted, Shards: []shardRate{}, Limits: after.Limits, Damaged: after.Damaged}
	for _, s := range after.Shards {
		row := shardRate{BucketShard: s}
		was, known := units[s.Shard]
		if ms := after.AtMs - before.AtMs; known && ms > 0 && s.WriteUnits >= was {
			rate := float64(s.WriteUnits-was) * 1000 / float64(ms)
			row.WritesPerSecond = &rate
		}
		report.Shards = append(report.Shards, row)
	}
	return report
}

// printShards adds a table with a line for each shard, and a column for each limit.
func printShards(p *page, entity, resource string, report bucketShards) {
	if len(report.Damaged) > 0 {
		p.line("these shards cannot be read, and nothing can be spent until `tidegate bucket reset %s %s`: %s\n",
			entity, resource, strings.Trim(fmt.Sprint(report.Damaged), "[]"))
	}
	if len(report.Shards) == 0 && len(report.Damaged) > 0 {
		return
	}
	if len(report.Shards) == 0 {
		p.line("nobody has spent from %s for %s lately: all is available", resource, entity)
		return
	}
	header := []string{"SHARD", "LEVEL", "WRITES/S"}
	columns := map[string]int{}
	for _, s := range report.Shards {
		for _, l := range s.Limits {
			if _, ok := columns[l.Name]; !ok {
				columns[l.Name] = len(header)
				header = append(header, l.Name)
			}
		}
	}
	rows := [][]string{header}
	for _, s := range report.Shards {
		row := slices.Repeat([]string{"-"}, len(header))
		row[0], row[1] = number(s.Shard), number(s.Level)
		if s.WritesPerSecond != nil {
			row[2] = strconv.FormatFloat(*s.WritesPerSecond, 'f', 0, 64)
		}
		fill(row, columns, s.Limits)
		rows = append(rows, row)
	}
	if len(report.Shards) > 1 && len(report.Limits) > 0 {
		row := slices.Repeat([]string{"-"}, len(header))
		row[0] = "all"
		fill(row, columns, report.Limits)
		rows = append(rows, row)
	}
	p.table(rows)
	if len(report.Damaged) > 0 {
		return
	}
	if missing := report.Wanted - int64(len(report.Shards)); missing > 0 {
		p.line("\nwanted, and not split off yet: %d", missing)
	} else if missing < 0 {
		p.line("\nnot wanted, and not merged yet: %d", -missing)
	}
}

// fill puts limits into their columns.
func fill(row []string, columns map[string]int, limits []api.LimitCapacity) {
	for _, l := range limits {
		row[columns[l.Name]] = fmt.Sprintf("%d of %d", l.Available, l.Capacity)
	}
}

// checkBucket refuses names that no bucket has.
func checkBucket(entity, resource string) error {
	err := api.CheckEntity(entity)
	if err == nil {
		err = api.CheckResource(resource)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

type bucketResetCmd struct {
	clientFlags
	Entity   string `arg:"" help:"Entity: an API key, a user."`
	Resource string `arg:"" help:"Resource: a model, an endpoint."`
}

func (bucketResetCmd) Help() string {
	return `Debts are forgiven, and the bucket has a single shard again. Nodes may deny from their known state for another second.`
}

// Run resets the bucket.
func (c bucketResetCmd) Run(ctx context.Context, o output) error {
	if err := checkBucket(c.Entity, c.Resource); err != nil {
		return err
	}
	return c.client(func(client *tidegate.Client) error {
		shards, err := client.Admin().ResetBucket(ctx, c.Entity, c.Resource)
		if err != nil {
			return err
		}
		return o.write(api.BucketResetReply{Shards: shards}, func(p *page) {
			if shards == 0 {
				p.line("nobody has spent from it lately: it was full")
				return
			}
			p.line("full again, shards before: %d", shards)
		})
	})
}
