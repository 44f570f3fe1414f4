package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type auditListCmd struct {
	clientFlags
	auditFlags
	Limit int `name:"limit" default:"100" placeholder:"N" help:"Maximum number, 0 for all; default: 100."`
}

// Run prints up to --limit events as a single list, over as many pages as needed.
func (c auditListCmd) Run(ctx context.Context, o output) error {
	query, err := c.query(time.Now())
	if err == nil && c.Limit < 0 {
		err = errors.New("--limit must be 0 or above")
	}
	if err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		all := api.AuditListReply{Events: []api.AuditEvent{}}
		for {
			query.Limit = api.MaxPage
			if c.Limit > 0 {
				query.Limit = int64(min(api.MaxPage, c.Limit-len(all.Events)))
			}
			part, err := client.Admin().ListAudit(ctx, query)
			if err != nil {
				return err
			}
			all.Events = append(all.Events, part.Events...)
			query.Cursor = part.Cursor
			if query.Cursor == "" || len(all.Events) == c.Limit {
				break
			}
		}
		return o.write(all, func(p *page) {
			if len(all.Events) == 0 {
				p.line("no changes are recorded there")
				return
			}
			printEvents(p, all.Events)
			if query.Cursor != "" {
				p.line("\nthere may be more: see all with --limit 0")
			}
		})
	})
}

// parseTime reads a time, a day in UTC, or how long ago something was, and gives
// Unix milliseconds; 0 for an empty text.
func parseTime(flag, text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago).UnixMilli(), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("%s %q is not a time: write 2026-03-01, 2026-03-01T12:00:00Z, or an age such as 24h", flag, text)
}

type auditShowCmd struct {
	clientFlags
	ID string `arg:"" help:"The event's id, as list shows it."`
}

func (auditShowCmd) Help() string {
	return `Exit code 1 if the event's seal is broken.`
}

// errAltered ends audit show where the event's seal does not match.
var errAltered = errors.New("the event's seal is broken: it was altered")

// Run prints an event and reports whether its seal is intact.
func (c auditShowCmd) Run(ctx context.Context, o output) error {
	return c.client(func(client *tidegate.Client) error {
		reply, err := client.Admin().ShowAudit(ctx, c.ID)
		if err != nil {
			return err
		}
		err = o.write(reply, func(p *page) {
			printEvents(p, []api.AuditEvent{reply.AuditEvent})
			p.line("\nbefore: %s", orDash(string(reply.Before)))
			p.line("after:  %s", orDash(string(reply.After)))
			if gone := reply.Deleted; gone != nil {
				p.line("\nin the archive: %s on %s", deletedBy(gone.By), time.UnixMilli(gone.AtMs).UTC().Format(time.RFC3339))
			}
		})
		if err == nil && !reply.Intact {
			return errAltered
		}
		return err
	})
}

// deletedBy says how an event left the table.
func deletedBy(by api.AuditDeleter) string {
	if by == api.DeletedByTTL {
		return "its time in the table was over"
	}
	return "somebody took it out of the table"
}

// printEvents adds a table of audit events.
func printEvents(p *page, events []api.AuditEvent) {
	rows := [][]string{{"ID", "TIME", "ACTION", "TARGET", "WHO"}}
	for _, e := range events {
		at := time.UnixMilli(e.AtMs).UTC().Format("2006-01-02 15:04:05.000Z")
		rows = append(rows, []string{e.ID, at, string(e.Action), e.Target, principal(e.Who)})
	}
	p.table(rows)
}

// principal formats the author of a change.
func principal(w api.Principal) string {
	name := w.User
	if w.Account != "" {
		name += "@" + w.Account
	}
	switch {
	case w.Verified:
		return name
	case name == "":
		return "unverified"
	}
	return name + " (unverified)"
}
