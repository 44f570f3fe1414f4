package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/pkg/api"
)

// statusPages reads the status of an entity, n buckets a page at most.
func statusPages(t *testing.T, nc *nats.Conn, entity string, n int) (pages []api.StatusReply) {
	t.Helper()
	for cursor := ""; ; {
		body := fmt.Sprintf(`{"entity":%q,"limit":%d}`, entity, n)
		if cursor != "" {
			body = fmt.Sprintf(`{"entity":%q,"limit":%d,"cursor":%q}`, entity, n, cursor)
		}
		page := ask[api.StatusReply](t, nc, api.VerbStatus, body)
		pages = append(pages, page)
		if cursor = page.Cursor; cursor == "" {
			return pages
		}
	}
}

// spendEach spends a token of an entity on resources, named in their order.
func spendEach(t *testing.T, nc *nats.Conn, entity string, resources int) (names []string) {
	t.Helper()
	for i := range resources {
		name := fmt.Sprintf("model-%03d", i)
		require.True(t, acquire(t, nc, fmt.Sprintf(`{"entity":%q,"resource":%q,"consume":{"rpm":1}}`, entity, name)).Allowed)
		names = append(names, name)
	}
	return names
}

// The pages of an entity's status hold each bucket once, in order, with its ancestors'.
// The reads of a page come in batches: their number does not grow with the page.
func TestTheStatusOfAnEntityComesInPages(t *testing.T) {
	w := newWorld(t)
	w.setLimits(t, api.LimitsTarget{System: true}, perDay("rpm", 100))
	w.lineage(t, "child", "parent")
	n := w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	const buckets = 25
	names := spendEach(t, nc, "child", buckets)
	var want []api.LimitStatus
	for _, name := range names {
		for _, entity := range []string{"child", "parent"} {
			want = append(want, api.LimitStatus{Entity: entity, Resource: name, Name: "rpm", Capacity: 100, Available: 99})
		}
	}
	for _, size := range []int{1, 7, buckets, 100} {
		pages := statusPages(t, nc, "child", size)
		var got []api.LimitStatus
		for _, p := range pages {
			require.LessOrEqual(t, len(p.Limits), 2*size)
			got = append(got, p.Limits...)
		}
		require.Equal(t, want, got, "by %d", size)
		require.GreaterOrEqual(t, len(pages), (buckets+size-1)/size)
	}
	before := n.faults.Total().Calls
	statusPages(t, nc, "child", 100)
	// The list and its items; the settings of child and parent; the parent's buckets.
	require.EqualValues(t, 5, n.faults.Total().Calls-before)

	for _, body := range []string{
		`{"entity":"child","cursor":"rubbish"}`,
		`{"entity":"child","cursor":"` + strings.Repeat("A", 1000) + `"}`,
		`{"entity":"other","cursor":"` + statusPages(t, nc, "child", 1)[0].Cursor + `"}`,
	} {
		before := n.faults.Total().Calls
		require.Equal(t, api.CodeInvalidCursor, refused(t, nc, api.VerbStatus, body, patience).Code)
		require.Equal(t, before, n.faults.Total().Calls, "a wrong cursor costs a read")
	}
}

// A page ends before it is too large for a message, whatever its limit: here each bucket
// shows 16 limits with the longest names of four entities.
func TestAPageOfTheLargestBucketsFitsAMessage(t *testing.T) {
	w := newWorld(t)
	var limits []api.Limit
	for i := range api.MaxLimits {
		limits = append(limits, perDay(fmt.Sprintf("%s%02d", strings.Repeat("l", 62), i), 100_000_000_000))
	}
	w.setLimits(t, api.LimitsTarget{System: true}, limits...)
	var line []string
	for i := range maxLevels {
		line = append(line, fmt.Sprintf("%s%d", strings.Repeat("e", 255), i))
	}
	w.lineage(t, line...)
	w.node(t, Tuning{})
	nc := w.nats.Connect(t)
	const buckets = 40
	for i := range buckets {
		resource := fmt.Sprintf("%s%02d", strings.Repeat("r", 62), i)
		require.True(t, acquire(t, nc, fmt.Sprintf(`{"entity":%q,"resource":%q,"consume":{%q:1}}`, line[0], resource, limits[0].Name)).Allowed)
	}
	var pages int
	resources := map[string]int{}
	for cursor := ""; ; pages++ {
		m := send(t, nc, api.VerbStatus, fmt.Sprintf(`{"entity":%q,"limit":1000,"cursor":%q}`, line[0], cursor), patience)
		require.Empty(t, m.Header.Get(api.HeaderErrorCode), "refused: %s", m.Data)
		require.LessOrEqual(t, len(m.Data), store.PageBytes+api.MaxLimits*maxLevels*(statusBytes+3*256))
		var reply api.StatusReply
		require.NoError(t, json.Unmarshal(m.Data, &reply))
		for _, l := range reply.Limits {
			resources[l.Resource]++
		}
		if cursor = reply.Cursor; cursor == "" {
			break
		}
	}
	require.NotZero(t, pages, "all of it fits a page")
	require.Len(t, resources, buckets)
	for resource, limits := range resources {
		require.Equal(t, api.MaxLimits*maxLevels, limits, resource)
	}
}
