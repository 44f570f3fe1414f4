package api

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Window is the length of the time spans over which usage is summed. Spans begin and
// end at UTC boundaries.
type Window string

// The windows. Monthly usage is kept only if the aggregator is configured for it.
const (
	WindowHourly  Window = "hourly"
	WindowDaily   Window = "daily"
	WindowMonthly Window = "monthly"
)

// UsageWindows lists all windows.
func UsageWindows() []Window { return []Window{WindowHourly, WindowDaily, WindowMonthly} }

// Check fails with invalid_window if the window is not in [UsageWindows].
func (w Window) Check() error {
	if slices.Contains(UsageWindows(), w) {
		return nil
	}
	return Errorf(CodeInvalidWindow, "", "%s: the windows are %s, %s and %s", shown(string(w)), WindowHourly, WindowDaily, WindowMonthly)
}

// Span returns the span of the window that contains a moment, in Unix milliseconds: the
// span's first moment, and the first moment after it.
func (w Window) Span(atMs int64) (start, end time.Time) {
	at := time.UnixMilli(atMs).UTC()
	switch w {
	case WindowDaily:
		start = time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 0, 1)
	case WindowMonthly:
		start = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
		return start, start.AddDate(0, 1, 0)
	case WindowHourly:
	}
	start = at.Truncate(time.Hour)
	return start, start.Add(time.Hour)
}

// UsageRequest reads the usage of an entity, a page at a time: the request of
// VerbUsageList and of VerbUsageSummary.
type UsageRequest struct {
	Entity string `json:"entity" rule:"entity"`
	// Resource selects a resource; empty: all.
	Resource string `json:"resource,omitempty" rule:"resource"`
	// Window selects the length of windows; empty: WindowHourly.
	Window Window `json:"window,omitempty" rule:"window"`
	// FromMs and ToMs bound the time, in Unix milliseconds: windows that ended before
	// FromMs or began after ToMs are left out; 0 is no bound.
	FromMs int64 `json:"from_ms,omitempty" rule:"time"`
	ToMs   int64 `json:"to_ms,omitempty" rule:"time"`
	// Cursor is from the preceding page; empty for the first page.
	Cursor string `json:"cursor,omitempty"`
	// Limit is the maximum number of snapshots of the page, up to MaxPage; 0 is DefaultPage.
	Limit int64 `json:"limit,omitempty" rule:"page"`
}

// Check fails unless the request names an entity, a window and times in order.
func (q *UsageRequest) Check() error {
	switch {
	case q.Entity == "":
		return missing("entity")
	case q.FromMs < 0:
		return Errorf(CodeInvalidTime, "from_ms", "%d is before 1970", q.FromMs)
	case q.ToMs < 0 || q.ToMs != 0 && q.ToMs < q.FromMs:
		return Errorf(CodeInvalidTime, "to_ms", "%d is before from_ms, %d", q.ToMs, q.FromMs)
	}
	if err := CheckEntity(q.Entity); err != nil {
		return within("entity", err)
	}
	if q.Resource != "" {
		if err := CheckResource(q.Resource); err != nil {
			return within("resource", err)
		}
	}
	if q.Window != "" {
		return within("window", q.Window.Check())
	}
	return nil
}

// UsageListReply holds a page, ordered by resource and then by time. The last page
// has no cursor; earlier pages may hold fewer snapshots than requested, even zero.
type UsageListReply struct {
	Snapshots []UsageSnapshot `json:"snapshots"`
	Cursor    string          `json:"cursor,omitempty"`
}

// UsageSnapshot holds an entity's usage of a resource in a window. A window without
// usage has no snapshot.
type UsageSnapshot struct {
	Resource string `json:"resource"`
	// Override identifies the limits that the requests themselves supplied; usage is
	// kept apart for each set of such limits. Empty for the stored limits.
	Override string `json:"override,omitempty"`
	Window   Window `json:"window"`
	// StartMs is the window's start and EndMs its end, exclusive, in Unix milliseconds.
	StartMs int64 `json:"start_ms"`
	EndMs   int64 `json:"end_ms"`
	// Acquires is the number of admitted acquires.
	Acquires int64 `json:"acquires"`
	// Limits holds the limits with usage, by name.
	Limits []LimitUsage `json:"limits"`
}

// LimitUsage holds the net usage of a limit, in whole tokens: negative if more was
// refunded than spent in the window.
type LimitUsage struct {
	Name string `json:"name"`
	Used int64  `json:"used"`
}

// UsageSummaryReply sums up a page; the totals of the request are the sum over all
// pages. The last page has no cursor.
type UsageSummaryReply struct {
	Totals UsageTotals `json:"totals"`
	Cursor string      `json:"cursor,omitempty"`
}

// UsageTotal sums up a limit of a resource over windows, in whole tokens.
type UsageTotal struct {
	Resource string `json:"resource"`
	Override string `json:"override,omitempty"` // as in UsageSnapshot
	Name     string `json:"name"`
	Windows  int64  `json:"windows"` // number of windows with usage
	Used     int64  `json:"used"`
	// Average is Used divided by Windows.
	Average float64 `json:"average"`
	// Peak is the highest usage in a single window, and PeakStartMs the start of the
	// first such window.
	Peak        int64 `json:"peak"`
	PeakStartMs int64 `json:"peak_start_ms"`
}

// UsageTotals holds totals by resource, override and name. Sums saturate at the
// bounds of int64.
type UsageTotals []UsageTotal

// Count adds the limits of a snapshot.
func (t *UsageTotals) Count(s UsageSnapshot) {
	for _, l := range s.Limits {
		t.add(UsageTotal{
			Resource: s.Resource, Override: s.Override, Name: l.Name,
			Windows: 1, Used: l.Used, Peak: l.Used, PeakStartMs: s.StartMs,
		})
	}
}

// Add adds the totals of another page.
func (t *UsageTotals) Add(page UsageTotals) {
	for _, more := range page {
		t.add(more)
	}
}

func (t *UsageTotals) add(more UsageTotal) {
	i, found := slices.BinarySearchFunc(*t, more, func(a, b UsageTotal) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Override, b.Override), cmp.Compare(a.Name, b.Name))
	})
	if !found {
		more.Average = float64(more.Used) / float64(more.Windows)
		*t = slices.Insert(*t, i, more)
		return
	}
	total := &(*t)[i]
	total.Windows = sum(total.Windows, more.Windows)
	total.Used = netSum(total.Used, more.Used)
	total.Average = float64(total.Used) / float64(total.Windows)
	if more.Peak > total.Peak || more.Peak == total.Peak && more.PeakStartMs < total.PeakStartMs {
		total.Peak, total.PeakStartMs = more.Peak, more.PeakStartMs
	}
}

// netSum adds numbers of either sign and saturates at the bounds of int64.
func netSum(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
