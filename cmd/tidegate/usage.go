package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

type usageCmd struct {
	clientFlags
	Resource string `name:"resource" placeholder:"RESOURCE" help:"Only of this resource."`
	Window   string `name:"window" default:"hourly" placeholder:"WINDOW" help:"hourly, daily or monthly; default: hourly."`
	From     string `name:"from" placeholder:"TIME" help:"Start of the time range: 2026-03-01, 2026-03-01T12:00 (UTC), or an age such as 24h. Default: 24h for hourly, otherwise unbounded."`
	To       string `name:"to" placeholder:"TIME" help:"End of the time range. Default: now."`
	Plot     bool   `name:"plot" help:"Draw bars."`
	Entity   string `arg:"" help:"Entity: an API key, a user."`
}

func (usageCmd) Help() string {
	return `What was spent, net of what was given back, by window, in UTC. It follows the change feed, so that the last second or two may be missing.`
}

// entityUsage is the report over all pages.
type entityUsage struct {
	Entity    string              `json:"entity"`
	Window    api.Window          `json:"window"`
	Snapshots []api.UsageSnapshot `json:"snapshots"`
	Totals    api.UsageTotals     `json:"totals"`
}

// Run reads all pages and prints them.
func (c usageCmd) Run(ctx context.Context, o output) error {
	query, err := c.request(time.Now())
	if err != nil {
		return usageError{err}
	}
	return c.client(func(client *tidegate.Client) error {
		report := entityUsage{Entity: c.Entity, Window: query.Window, Snapshots: []api.UsageSnapshot{}, Totals: api.UsageTotals{}}
		for {
			part, err := client.Admin().Usage(ctx, query)
			if err != nil {
				return err
			}
			for _, s := range part.Snapshots {
				report.Totals.Count(s)
			}
			report.Snapshots = append(report.Snapshots, part.Snapshots...)
			if query.Cursor = part.Cursor; query.Cursor == "" {
				return o.write(report, func(p *page) { printUsage(p, report, c.Plot) })
			}
		}
	})
}

// request builds the request from the flags.
func (c usageCmd) request(now time.Time) (q api.UsageRequest, err error) {
	q = api.UsageRequest{Entity: c.Entity, Resource: c.Resource, Window: api.Window(c.Window), Limit: api.MaxPage}
	from := c.From
	if from == "" && q.Window == api.WindowHourly {
		from = "24h"
	}
	if q.FromMs, err = timeFlag("--from", from, now); err != nil {
		return q, err
	}
	if q.ToMs, err = timeFlag("--to", c.To, now); err != nil {
		return q, err
	}
	return q, q.Check()
}

// timeFlag parses a time, or an age, as Unix milliseconds; an empty text is 0.
func timeFlag(flag, text string, now time.Time) (int64, error) {
	if text == "" {
		return 0, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil && at.UnixMilli() > 0 {
			return at.UnixMilli(), nil
		}
	}
	ago, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); err != nil && ok {
		var n int
		n, err = strconv.Atoi(days)
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago < 0 || now.Add(-ago).UnixMilli() <= 0 {
		return 0, fmt.Errorf("%s %q is not a time such as 2026-03-01, 2026-03-01T12:00 or 24h", flag, text)
	}
	return now.Add(-ago).UnixMilli(), nil
}

// printUsage adds a table of the snapshots, or bars, and the totals.
func printUsage(p *page, report entityUsage, plot bool) {
	if len(report.Snapshots) == 0 {
		p.line("%s used nothing in these times", report.Entity)
		return
	}
	if plot {
		printBars(p, report)
	} else {
		printSnapshots(p, report)
	}
	p.line("")
	rows := [][]string{{"RESOURCE", "LIMIT", "TOTAL", "AVERAGE", "PEAK", "PEAK AT"}}
	for _, t := range report.Totals {
		rows = append(rows, []string{
			resourceName(t.Resource, t.Override), t.Name, number(t.Used), strconv.FormatFloat(t.Average, 'f', 1, 64),
			number(t.Peak), startOf(report.Window, t.PeakStartMs),
		})
	}
	p.table(rows)
}

func printSnapshots(p *page, report entityUsage) {
	rows := [][]string{{"FROM (UTC)", "RESOURCE", "ACQUIRES", "USED"}}
	for _, s := range report.Snapshots {
		used := make([]string, len(s.Limits))
		for i, l := range s.Limits {
			used[i] = l.Name + "=" + number(l.Used)
		}
		rows = append(rows, []string{
			startOf(report.Window, s.StartMs), resourceName(s.Resource, s.Override), number(s.Acquires), strings.Join(used, " "),
		})
	}
	p.table(rows)
}

// resourceName marks usage under limits that requests brought.
func resourceName(resource, override string) string {
	if override != "" {
		return resource + " (limits " + override + ")"
	}
	return resource
}

// startOf is when a window begins, as exactly as it takes to tell it.
func startOf(window api.Window, ms int64) string {
	layout := map[api.Window]string{api.WindowDaily: "2006-01-02", api.WindowMonthly: "2006-01"}[window]
	if layout == "" {
		layout = "2006-01-02 15:04"
	}
	return time.UnixMilli(ms).UTC().Format(layout)
}

// barWidth is how many characters the longest bar has.
const barWidth = 40

// printBars draws a chart for each limit of each resource, each on its own scale.
func printBars(p *page, report entityUsage) {
	for i, t := range report.Totals {
		if i > 0 {
			p.line("")
		}
		p.line("%s %s", resourceName(t.Resource, t.Override), t.Name)
		var rows [][]string
		for _, s := range report.Snapshots {
			at := slices.IndexFunc(s.Limits, func(l api.LimitUsage) bool { return l.Name == t.Name })
			if s.Resource == t.Resource && s.Override == t.Override && at >= 0 {
				rows = append(rows, []string{"  " + startOf(report.Window, s.StartMs), bar(s.Limits[at].Used, t.Peak) + " " + number(s.Limits[at].Used)})
			}
		}
		p.table(rows)
	}
}

// bar is used in proportion to the peak, in eighths of a character; anything above
// 0 shows.
func bar(used, peak int64) string {
	if used <= 0 {
		return ""
	}
	eighths := max(1, int(float64(used)/float64(peak)*barWidth*8+0.5))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}
