package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func midnight() time.Time { return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) }

type usageFixture struct {
	*tabletest.Bench
	t     *testing.T
	store *control.Usage
	uses  int
}

func newUsageFixture(t *testing.T) *usageFixture {
	b := tabletest.New(t)
	return &usageFixture{Bench: b, t: t, store: control.NewUsage(b.DB, b.Table)}
}

// use adds tokens to the snapshots of a moment.
func (f *usageFixture) use(namespace, entity, resource string, at time.Time, rpm, tpm int64) {
	f.t.Helper()
	f.uses++
	for _, w := range api.UsageWindows() {
		start, _ := w.Span(at.UnixMilli())
		form := table.CountUsage{
			Key:      keys.Usage{Namespace: namespace, Entity: entity, Resource: resource, Window: string(w), Start: keys.UsageStart(start)},
			Used:     []table.Used{{Limit: "rpm", Milli: 1000 * rpm}, {Limit: "tpm", Milli: 1000 * tpm}},
			Acquires: rpm, TTL: 1_800_000_000, Replay: fmt.Sprint(f.uses),
		}
		_, err := f.Direct.UpdateItem(f.t.Context(), form.Input(f.Table))
		require.NoError(f.t, err)
	}
}

// list reads all pages, n snapshots a page at most, as lines.
func (f *usageFixture) list(q api.UsageRequest, n int64) []string {
	f.t.Helper()
	var lines []string
	var totals api.UsageTotals
	for q.Limit = n; ; {
		reply, err := f.store.List(f.t.Context(), ns, q)
		require.NoError(f.t, err)
		summary, err := f.store.Summary(f.t.Context(), ns, q)
		require.NoError(f.t, err)
		require.Equal(f.t, reply.Cursor, summary.Cursor)
		if n > 0 {
			require.LessOrEqual(f.t, len(reply.Snapshots), int(n))
		}
		var counted api.UsageTotals
		for _, s := range reply.Snapshots {
			counted.Count(s)
			lines = append(lines, fmt.Sprintf("%s%s %s %s %d", s.Resource, s.Override, s.Window, time.UnixMilli(s.StartMs).UTC().Format("2 15h"), s.Acquires))
			for _, l := range s.Limits {
				lines[len(lines)-1] += fmt.Sprintf(" %s=%d", l.Name, l.Used)
			}
		}
		require.Equal(f.t, append(api.UsageTotals{}, counted...), summary.Totals, "the totals are those of the page")
		totals.Add(summary.Totals)
		if q.Cursor = reply.Cursor; q.Cursor == "" {
			return lines
		}
	}
}

func TestPagesOfUsage(t *testing.T) {
	f := newUsageFixture(t)
	f.use(ns, "alice", "gpt-4", midnight().Add(-time.Minute), 3, 300)
	f.use(ns, "alice", "gpt-4", midnight(), 1, -100)
	f.use(ns, "alice", "gpt-4", midnight().Add(90*time.Minute), 2, 7)
	f.use(ns, "alice", keys.OverrideResource("gpt-4", "fp"), midnight(), 5, 5)
	f.use(ns, "alice", "gpt-3", midnight(), 4, 4)
	// What no answer may show.
	f.use(ns, "bob", "gpt-4", midnight(), 9, 9)
	f.use("AAAAAAAAAAE", "alice", "gpt-4", midnight(), 9, 9)

	ms := func(d time.Duration) int64 { return midnight().Add(d).UnixMilli() }
	for name, c := range map[string]struct {
		q    api.UsageRequest
		want []string
	}{
		"hours of a resource": {api.UsageRequest{Resource: "gpt-4"}, []string{
			"gpt-4 hourly 1 23h 3 rpm=3 tpm=300", "gpt-4 hourly 2 00h 1 rpm=1 tpm=-100", "gpt-4 hourly 2 01h 2 rpm=2 tpm=7", "gpt-4fp hourly 2 00h 5 rpm=5 tpm=5",
		}},
		"days of a resource": {api.UsageRequest{Resource: "gpt-4", Window: api.WindowDaily}, []string{
			"gpt-4 daily 1 00h 3 rpm=3 tpm=300", "gpt-4 daily 2 00h 3 rpm=3 tpm=-93", "gpt-4fp daily 2 00h 5 rpm=5 tpm=5",
		}},
		"a month": {api.UsageRequest{Resource: "gpt-3", Window: api.WindowMonthly}, []string{"gpt-3 monthly 1 00h 4 rpm=4 tpm=4"}},
		"days of all": {api.UsageRequest{Window: api.WindowDaily}, []string{
			"gpt-3 daily 2 00h 4 rpm=4 tpm=4", "gpt-4 daily 1 00h 3 rpm=3 tpm=300", "gpt-4 daily 2 00h 3 rpm=3 tpm=-93", "gpt-4fp daily 2 00h 5 rpm=5 tpm=5",
		}},
		"from within an hour": {api.UsageRequest{Resource: "gpt-4", FromMs: ms(30 * time.Minute)}, []string{
			"gpt-4 hourly 2 00h 1 rpm=1 tpm=-100", "gpt-4 hourly 2 01h 2 rpm=2 tpm=7", "gpt-4fp hourly 2 00h 5 rpm=5 tpm=5",
		}},
		"until an hour begins":         {api.UsageRequest{Resource: "gpt-4", FromMs: ms(0), ToMs: ms(time.Hour)}, []string{"gpt-4 hourly 2 00h 1 rpm=1 tpm=-100", "gpt-4 hourly 2 01h 2 rpm=2 tpm=7", "gpt-4fp hourly 2 00h 5 rpm=5 tpm=5"}},
		"until a moment before":        {api.UsageRequest{Resource: "gpt-4", ToMs: ms(-1)}, []string{"gpt-4 hourly 1 23h 3 rpm=3 tpm=300"}},
		"of all, until a moment later": {api.UsageRequest{FromMs: ms(-time.Hour), ToMs: ms(-1)}, []string{"gpt-4 hourly 1 23h 3 rpm=3 tpm=300"}},
		"never":                        {api.UsageRequest{Resource: "gpt-4", FromMs: 1 << 62, ToMs: 1 << 62}, nil},
		"nothing":                      {api.UsageRequest{Resource: "gpt"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			c.q.Entity = "alice"
			for _, n := range []int64{0, 1, 2, api.MaxPage} {
				require.Equal(t, c.want, f.list(c.q, n), "by %d", n)
			}
		})
	}
}

func TestASummary(t *testing.T) {
	f := newUsageFixture(t)
	for i, tpm := range []int64{10, 41, -1, 41} {
		f.use(ns, "alice", "gpt-4", midnight().Add(time.Duration(i)*time.Hour), 1, tpm)
	}
	got, err := f.store.Summary(t.Context(), ns, api.UsageRequest{Entity: "alice", Resource: "gpt-4"})
	require.NoError(t, err)
	peak := midnight().Add(time.Hour).UnixMilli()
	require.Equal(t, api.UsageTotals{
		{Resource: "gpt-4", Name: "rpm", Windows: 4, Used: 4, Average: 1, Peak: 1, PeakStartMs: midnight().UnixMilli()},
		{Resource: "gpt-4", Name: "tpm", Windows: 4, Used: 91, Average: 22.75, Peak: 41, PeakStartMs: peak},
	}, got.Totals)
}

func TestBadRequestsOfUsageReadNothing(t *testing.T) {
	f := newUsageFixture(t)
	for field, q := range map[string]api.UsageRequest{
		"entity":   {},
		"resource": {Entity: "alice", Resource: "4\tgpt"},
		"window":   {Entity: "alice", Window: "weekly"},
		"from_ms":  {Entity: "alice", FromMs: -1},
		"to_ms":    {Entity: "alice", FromMs: 2, ToMs: 1},
		"limit":    {Entity: "alice", Limit: api.MaxPage + 1},
		"cursor":   {Entity: "alice", Cursor: "x"},
	} {
		_, err := f.store.List(t.Context(), ns, q)
		var refused *api.Error
		require.ErrorAs(t, err, &refused, field)
		require.Equal(t, field, refused.Field)
	}
	require.Zero(t, f.Calls(""))
}

func TestFailuresOfTheStore(t *testing.T) {
	f := newUsageFixture(t)
	f.Fail("Query", fault.Fault{Kind: fault.Unreachable}, fault.Fault{Kind: fault.Unreachable})
	_, err := f.store.List(t.Context(), ns, api.UsageRequest{Entity: "alice"})
	require.ErrorContains(t, err, "usage of entity alice")
	_, err = f.store.Summary(t.Context(), ns, api.UsageRequest{Entity: "alice"})
	require.ErrorContains(t, err, "usage of entity alice")
}
