package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type servicesCmd struct {
	natsFlags
	Quiet time.Duration `name:"quiet" default:"1s" placeholder:"TIME" help:"Time without a further answer after which the list is complete; default: 1s."`
}

func (servicesCmd) Help() string {
	return `LANES: the lanes of the change feed that the process follows (relay: the stream shards that it reads). WAITING: the records in them still to be handled. LAG: the age of the oldest of these (relay: how far the feed is behind the table). DEAD LETTERS: of the whole service. Needs an operator's NATS credentials. Exit code 1 if no service runs.`
}

// Run prints all processes that answer.
func (c servicesCmd) Run(ctx context.Context, o output) error {
	if c.Quiet <= 0 {
		return usageError{errors.New("--quiet must be above 0")}
	}
	return c.operator(func(operator tidegate.Operator) error {
		all, err := operator.Services(ctx, c.Quiet)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return advise(fmt.Errorf("no service reports to the NATS server at %s", c.where()),
				"Start everything in one process with `tidegate up`, or point --nats and --creds at an operator's account.")
		}
		return o.write(map[string]any{"services": all}, func(p *page) { printServices(p, all, time.Now()) })
	})
}

func printServices(p *page, all []api.Service, now time.Time) {
	table := [][]string{{"SERVICE", "ID", "VERSION", "UP", "LANES", "WAITING", "LAG", "DEAD LETTERS", "WARNING"}}
	for i := range all {
		s := &all[i]
		lag := "-"
		if s.LagSeconds != nil {
			lag = strconv.FormatFloat(*s.LagSeconds, 'f', 1, 64) + " s"
		}
		up := now.Sub(time.UnixMilli(s.StartedMs)).Truncate(time.Second)
		table = append(table, []string{
			s.Service, s.ID, s.Version, max(0, up).String(), count(s.Lanes), count(s.Waiting), lag, count(s.DeadLetters), orDash(s.Warning),
		})
	}
	p.table(table)
}

// count is a cell of a number that may not be known.
func count(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}
