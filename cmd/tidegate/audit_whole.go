package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// auditFlags choose events.
type auditFlags struct {
	levelFlags
	Action api.AuditAction `name:"action" placeholder:"ACTION" help:"Only changes of this kind: limits.set, entity.delete."`
	auditTimeFlags
}

// auditTimeFlags choose a time.
type auditTimeFlags struct {
	From string `name:"from" placeholder:"TIME" help:"Start of the time range: 2026-03-01, 2026-03-01T12:00:00Z, or an age such as 24h."`
	To   string `name:"to" placeholder:"TIME" help:"End of the time range, in the same forms."`
}

// times returns the bounds in Unix milliseconds; 0 means unbounded.
func (f auditTimeFlags) times(now time.Time) (from, to int64, err error) {
	if from, err = parseTime("--from", f.From, now); err != nil {
		return 0, 0, err
	}
	if to, err = parseTime("--to", f.To, now); err != nil {
		return 0, 0, err
	}
	return from, to, nil
}

func (f auditFlags) query(now time.Time) (q api.AuditListRequest, err error) {
	q = api.AuditListRequest{
		LimitsTarget: api.LimitsTarget{System: f.System, Entity: f.Entity, Resource: f.Resource}, Action: f.Action, Limit: api.MaxPage,
	}
	if q.FromMs, q.ToMs, err = f.times(now); err != nil {
		return q, err
	}
	return q, q.Check()
}

type auditExportCmd struct {
	clientFlags
	auditFlags
	Out string `name:"out" placeholder:"FILE" help:"Write to a new file; default: standard output."`
}

func (auditExportCmd) Help() string {
	return `Writes an event per line as JSON, newest first.`
}

// Run writes all events that are asked for, page by page.
func (c auditExportCmd) Run(ctx context.Context, o output) (err error) {
	query, err := c.query(time.Now())
	if err != nil {
		return usageError{err}
	}
	to := o.stdout
	if c.Out != "" {
		file, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	var done int64
	err = c.client(func(client *tidegate.Client) (err error) {
		done, err = o.export(ctx, client.Admin(), query, to)
		return err
	})
	if err == nil && c.Out != "" {
		err = o.write(map[string]any{"events": done, "file": c.Out}, func(p *page) { p.line("%d events are in %s", done, c.Out) })
	}
	return err
}

// export writes events as lines, and shows how far it is.
func (o output) export(ctx context.Context, admin tidegate.Admin, query api.AuditListRequest, to io.Writer) (int64, error) {
	lines := bufio.NewWriter(to)
	encoder := json.NewEncoder(lines)
	var done atomic.Int64
	stop := func() {}
	defer func() { stop() }()
	for first := true; ; first = false {
		part, err := admin.ListAudit(ctx, query)
		if err != nil {
			return done.Load(), err
		}
		if first && len(part.Events) > 0 && part.Cursor != "" {
			// The newest sequence number is an upper bound: the exact count is unknown.
			stop = o.watch(ctx, watched{what: "exporting", unit: "events, at most", total: part.Events[0].Sequence, done: done.Load})
		}
		for i := range part.Events {
			if err := encoder.Encode(&part.Events[i]); err != nil {
				return done.Load(), fmt.Errorf("write events: %w", err)
			}
			done.Add(1)
		}
		if err := lines.Flush(); err != nil {
			return done.Load(), fmt.Errorf("write events: %w", err)
		}
		if query.Cursor = part.Cursor; query.Cursor == "" {
			return done.Load(), nil
		}
	}
}

type auditVerifyCmd struct {
	clientFlags
	auditTimeFlags
	Settle time.Duration `name:"settle" default:"15s" placeholder:"TIME" help:"Time that missing events may take to reach the archive before they are looked for again; default: 15s."`
}

func (auditVerifyCmd) Help() string {
	return `Checks the numbers and seals of a namespace's events, in the table and in the archive. Exit code 1 if an event is missing, doubled or altered.`
}

// errNotWhole ends audit verify where something is not as it should be.
var errNotWhole = errors.New("the audit log is incomplete or altered")

// Run verifies, a second time where something is missing, and prints the findings.
func (c auditVerifyCmd) Run(ctx context.Context, o output) error {
	if c.Settle < 0 {
		return usageError{errors.New("--settle must be 0 or above")}
	}
	from, to, err := c.times(time.Now())
	if err != nil {
		return usageError{err}
	}
	request := api.AuditVerifyRequest{FromMs: from, ToMs: to}
	var all api.AuditVerifyReply
	err = c.client(func(client *tidegate.Client) (err error) {
		if all, err = o.verify(ctx, client.Admin(), request); err != nil || !isMissing(all) {
			return err
		}
		settle := time.NewTimer(c.Settle)
		defer settle.Stop()
		select {
		case <-settle.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		before := all.Findings
		all, err = o.verify(ctx, client.Admin(), request)
		all.Findings = stillMissing(before, all.Findings)
		return err
	})
	if err != nil {
		return err
	}
	if err := o.write(all, func(p *page) { printVerified(p, all) }); err != nil {
		return err
	}
	switch {
	case len(all.Findings) == 0:
		return nil
	case isMissing(all) && !all.ArchiveSearched:
		return advise(errNotWhole, "This node reads no archive: start admission with --archive to look for events that have left the table.")
	case isMissing(all):
		return advise(errNotWhole, "If an archiver is behind (see `tidegate services`), what is missing may still be on its way.")
	}
	return errNotWhole
}

func isMissing(r api.AuditVerifyReply) bool {
	for i := range r.Findings {
		if r.Findings[i].Kind == api.AuditMissing {
			return true
		}
	}
	return false
}

// stillMissing keeps only the findings that both verifications report. An event that
// was present at the first has left the table since, and is in the archive.
func stillMissing(before, now []api.AuditFinding) []api.AuditFinding {
	still := []api.AuditFinding{}
	for _, f := range now {
		if f.Kind != api.AuditMissing {
			still = append(still, f)
			continue
		}
		for _, b := range before {
			if first, last := max(f.First, b.First), min(f.Last, b.Last); b.Kind == api.AuditMissing && first <= last {
				still = append(still, api.AuditFinding{Kind: api.AuditMissing, First: first, Last: last})
			}
		}
	}
	return still
}

// verify asks for all parts, and shows how far it is.
func (o output) verify(ctx context.Context, admin tidegate.Admin, request api.AuditVerifyRequest) (api.AuditVerifyReply, error) {
	all := api.AuditVerifyReply{Findings: []api.AuditFinding{}}
	newest, err := admin.ListAudit(ctx, api.AuditListRequest{FromMs: request.FromMs, ToMs: request.ToMs, Limit: 1})
	if err != nil {
		return all, err
	}
	var done atomic.Int64
	if len(newest.Events) > 0 {
		defer o.watch(ctx, watched{what: "verifying", unit: "events, at most", total: newest.Events[0].Sequence, done: done.Load})()
	}
	for {
		part, err := admin.VerifyAudit(ctx, request)
		if err != nil {
			return all, err
		}
		all.Checked, all.ArchiveSearched = done.Add(part.Checked), part.ArchiveSearched
		all.Findings = append(all.Findings, part.Findings...)
		if request.Cursor = part.Cursor; request.Cursor == "" {
			return all, nil
		}
	}
}

// printVerified adds the findings of a verification.
func printVerified(p *page, all api.AuditVerifyReply) {
	places := "in the table"
	if all.ArchiveSearched {
		places += " and in the archive"
	}
	if len(all.Findings) == 0 {
		p.line("%d events %s: none is missing, doubled or altered", all.Checked, places)
		return
	}
	p.line("%d events %s; not as it should be:\n", all.Checked, places)
	rows := [][]string{{"FINDING", "NUMBER", "ID", "WHERE", "DETAIL"}}
	for _, f := range all.Findings {
		numbers := "-"
		if f.First > 0 {
			numbers = strconv.FormatInt(f.First, 10)
		}
		if f.Last > f.First {
			numbers += " to " + strconv.FormatInt(f.Last, 10)
		}
		rows = append(rows, []string{string(f.Kind), numbers, cmp.Or(f.ID, "-"), cmp.Or(f.Where, "-"), cmp.Or(f.Detail, "-")})
	}
	p.table(rows)
}
