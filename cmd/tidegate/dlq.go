package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/feed"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
)

func (dlqCmd) Help() string {
	return `A dead letter is a change that a service could not decode or has rejected. Dead letters are kept until they are replayed. Needs an operator's NATS credentials.`
}

// dlqPage is how many dead letters are read at once.
const dlqPage = 100

// deadLetters calls do with access to the dead letters.
func (f natsFlags) deadLetters(do func(*feed.DeadLetters) error) error {
	nc, err := f.dial("tidegate command line", tidegate.OperatorInboxPrefix())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	err = do(feed.NewDeadLetters(js))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return advise(err, "There is no change feed on this server yet: start `tidegate relay`, or everything in one process with `tidegate up`.")
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return advise(err, "Point --nats at a server with JetStream, and --creds at an operator's credentials.")
	case errors.Is(err, feed.ErrTakesNoReplays):
		return advise(err, "The service has never run on this server: start it, and replay then.")
	case errors.Is(err, feed.ErrNoDeadLetter):
		return advise(err, "List them with `tidegate dlq list`.")
	}
	return err
}

type dlqListCmd struct {
	natsFlags
	Service string `name:"service" placeholder:"SERVICE" help:"Only of this service: aggregator."`
}

// letterRow is a dead letter in a list.
type letterRow struct {
	Number  uint64    `json:"number"`
	Service string    `json:"service"`
	At      time.Time `json:"at"`
	Subject string    `json:"subject"`
	Reason  string    `json:"reason"`
}

// Run lists all dead letters, without their payloads.
func (c dlqListCmd) Run(ctx context.Context, o output) error {
	return c.deadLetters(func(dead *feed.DeadLetters) error {
		rows := []letterRow{}
		for from := uint64(1); from != 0; {
			letters, next, err := dead.List(ctx, c.Service, from, dlqPage)
			if err != nil {
				return err
			}
			for _, l := range letters {
				rows = append(rows, letterRow{l.Number, l.Service, l.At, l.Subject, l.Reason})
			}
			from = next
		}
		return o.write(map[string]any{"dead_letters": rows}, func(p *page) { printLetters(p, rows) })
	})
}

func printLetters(p *page, rows []letterRow) {
	if len(rows) == 0 {
		p.line("no dead letters")
		return
	}
	table := [][]string{{"NUMBER", "SERVICE", "GIVEN UP AT", "REASON"}}
	for _, l := range rows {
		table = append(table, []string{strconv.FormatUint(l.Number, 10), l.Service, l.At.UTC().Format(time.RFC3339), l.Reason})
	}
	p.table(table)
}

type dlqShowCmd struct {
	natsFlags
	Number uint64 `arg:"" help:"Dead letter, as listed."`
}

// shownLetter is a dead letter and its change, where that can be read.
type shownLetter struct {
	letterRow
	Kind     events.Kind     `json:"kind,omitempty"`
	PK       string          `json:"pk,omitempty"`
	SK       string          `json:"sk,omitempty"`
	ChangeAt *time.Time      `json:"change_at,omitempty"`
	Event    json.RawMessage `json:"event,omitempty"` // as it came, where it is JSON
	Raw      []byte          `json:"raw,omitempty"`   // otherwise
}

// show decodes as much of a dead letter as possible.
func show(l feed.DeadLetter) shownLetter {
	s := shownLetter{letterRow: letterRow{l.Number, l.Service, l.At, l.Subject, l.Reason}}
	if e, err := events.Decode(l.Data); err == nil {
		key, at := e.Key.Key(), time.UnixMilli(e.AtMs).UTC()
		s.Kind, s.PK, s.SK, s.ChangeAt = e.Kind(), key.PK, key.SK, &at
	}
	if json.Valid(l.Data) {
		s.Event = l.Data
	} else {
		s.Raw = l.Data
	}
	return s
}

// Run prints a dead letter.
func (c dlqShowCmd) Run(ctx context.Context, o output) error {
	return c.deadLetters(func(dead *feed.DeadLetters) error {
		letter, err := dead.Get(ctx, c.Number)
		if err != nil {
			return err
		}
		s := show(letter)
		return o.write(s, func(p *page) { printLetter(p, s) })
	})
}

func printLetter(p *page, s shownLetter) {
	rows := [][]string{
		{"number", strconv.FormatUint(s.Number, 10)},
		{"service", s.Service},
		{"given up at", s.At.UTC().Format(time.RFC3339)},
		{"reason", s.Reason},
		{"subject", s.Subject},
	}
	if s.ChangeAt != nil {
		rows = append(rows, []string{"kind", string(s.Kind)}, []string{"item", s.PK + "  " + s.SK}, []string{"changed at", s.ChangeAt.Format(time.RFC3339)})
	}
	p.table(rows)
	var pretty bytes.Buffer
	if s.Event == nil || json.Indent(&pretty, s.Event, "", "  ") != nil {
		p.line("\n%q", s.Raw)
		return
	}
	p.line("\n%s", pretty.String())
}

type dlqReplayCmd struct {
	natsFlags
	All     bool     `name:"all" help:"All of them."`
	Service string   `name:"service" placeholder:"SERVICE" help:"With --all: only of this service."`
	Numbers []uint64 `arg:"" optional:"" help:"Dead letter, as listed."`
}

func (dlqReplayCmd) Help() string {
	return `Replay a dead letter once a new release can decode it, or once the cause of its failure is gone. It is appended to its lane and counts once; if it fails again, it becomes a dead letter again.`
}

// Run replays the dead letters that are there when it begins.
func (c dlqReplayCmd) Run(ctx context.Context, o output) error {
	if c.All == (len(c.Numbers) > 0) || c.Service != "" && !c.All {
		return usageError{errors.New("give the numbers of dead letters, or --all with or without --service")}
	}
	return c.deadLetters(func(dead *feed.DeadLetters) error {
		numbers, err := c.which(ctx, dead)
		if err != nil {
			return err
		}
		replayed, left := 0, 0
		for _, number := range numbers {
			switch err := dead.Replay(ctx, number); {
			case err == nil:
				replayed++
			case c.All && errors.Is(err, feed.ErrNoDeadLetter): // somebody else was faster
			case c.All && errors.Is(err, feed.ErrTakesNoReplays):
				left++
			default:
				return fmt.Errorf("%d of %d were replayed: %w", replayed, len(numbers), err)
			}
		}
		return o.write(map[string]any{"replayed": replayed, "left": left}, func(p *page) {
			p.line("replayed %d", replayed)
			if left > 0 {
				p.line("left %d, whose services take no replays", left)
			}
		})
	})
}

// which are the numbers that are meant.
func (c dlqReplayCmd) which(ctx context.Context, dead *feed.DeadLetters) ([]uint64, error) {
	if !c.All {
		return c.Numbers, nil
	}
	var numbers []uint64
	for from := uint64(1); from != 0; {
		letters, next, err := dead.List(ctx, c.Service, from, dlqPage)
		if err != nil {
			return nil, err
		}
		for _, l := range letters {
			numbers = append(numbers, l.Number)
		}
		from = next
	}
	return numbers, nil
}
