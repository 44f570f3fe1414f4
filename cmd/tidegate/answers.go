package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// admission prints an admitted acquire.
func (o output) admission(reply api.AcquireReply) error {
	return o.write(reply, func(p *page) {
		if reply.Degraded {
			p.line("admitted without asking the store, which cannot be reached: nothing is spent, and there is no lease")
			return
		}
		p.line("admitted\n")
		p.limits(reply.Limits, true)
		p.line("\nlease %s", reply.Lease)
	})
}

// denial prints a denied acquire.
func (o output) denial(denied *tidegate.DeniedError) error {
	reply := api.AcquireReply{Never: denied.Never, RetryAfterMs: -1, Limits: denied.Limits}
	if !denied.Never {
		reply.RetryAfterMs = denied.RetryAfter.Milliseconds()
	}
	return o.write(reply, func(p *page) {
		p.line("denied\n")
		p.limits(reply.Limits, true)
		p.line("\n%s", advice(reply.Never, reply.RetryAfterMs))
	})
}

// printStatus adds balances and, where it was asked for, whether an acquire passes.
func printStatus(p *page, entity string, reply api.StatusReply) {
	if len(reply.Damaged) > 0 {
		p.line("a stored item cannot be read, so that nothing can be said of: %s (`tidegate bucket reset` mends a bucket)\n", strings.Join(reply.Damaged, ", "))
	}
	if len(reply.Limits) == 0 && len(reply.Damaged) > 0 {
		return
	}
	if len(reply.Limits) == 0 {
		p.line("%s has used nothing yet; name a resource to see what it may use", entity)
		return
	}
	p.limits(reply.Limits, reply.Allowed != nil)
	switch {
	case reply.Allowed == nil:
	case *reply.Allowed:
		p.line("\nwould be admitted")
	default:
		p.line("\nwould be denied: %s", advice(reply.Never, reply.RetryAfterMs))
	}
}

// limits adds a table of how limits stand. Entities are shown when there are
// several, resources when the answer names them.
func (p *page) limits(limits []api.LimitStatus, requested bool) {
	entities, resources := map[string]bool{}, false
	for _, l := range limits {
		entities[l.Entity] = true
		resources = resources || l.Resource != ""
	}
	rows := [][]string{statusRow(len(entities) > 1, resources, requested, "ENTITY", "RESOURCE", "LIMIT", "REQUESTED", "AVAILABLE", "CAPACITY", "")}
	for _, l := range limits {
		rows = append(rows, statusRow(len(entities) > 1, resources, requested,
			l.Entity, l.Resource, l.Name, number(l.Requested), number(l.Available), number(l.Capacity), remark(l)))
	}
	p.table(rows)
}

func statusRow(entities, resources, requested bool, entity, resource, limit, request, available, capacity, remark string) []string {
	var row []string
	if entities {
		row = append(row, entity)
	}
	if resources {
		row = append(row, resource)
	}
	row = append(row, limit)
	if requested {
		row = append(row, request)
	}
	row = append(row, available, capacity)
	if remark != "" {
		row = append(row, remark)
	}
	return row
}

// remark says why a limit refuses.
func remark(l api.LimitStatus) string {
	switch {
	case l.Never:
		return "never enough"
	case l.Exceeded:
		return "enough in " + wait(l.RetryAfterMs)
	case l.Available < 0:
		return "in debt"
	}
	return ""
}

// advice is when to try again.
func advice(never bool, retryAfterMs int64) string {
	if never {
		return "this can never pass: it is more than a capacity"
	}
	return "try again in " + wait(retryAfterMs)
}

// wait is a wait in words, never shorter than it is.
func wait(ms int64) string {
	const second, minute, day = 1000, 60 * 1000, 24 * 60 * 60 * 1000
	switch {
	case ms < second:
		return fmt.Sprintf("%d ms", ms)
	case ms < minute:
		tenths := (ms + 99) / 100
		return fmt.Sprintf("%d.%d s", tenths/10, tenths%10)
	case ms < 2*day:
		return (time.Duration((ms+second-1)/second) * time.Second).String()
	}
	return fmt.Sprintf("%d days", (ms+day-1)/day)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
