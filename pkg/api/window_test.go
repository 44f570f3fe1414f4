package api_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Every moment is in one span of each window, which begins where the one before
// ends, and the start says which it is.
func TestSpans(t *testing.T) {
	for _, w := range api.UsageWindows() {
		require.NoError(t, w.Check())
		at := time.Date(2023, 12, 30, 22, 0, 0, 0, time.UTC)
		start, end := w.Span(at.UnixMilli())
		for range 1000 {
			require.False(t, at.Before(start))
			require.True(t, at.Before(end))
			from, to := w.Span(end.UnixMilli() - 1)
			require.Equal(t, []time.Time{start, end}, []time.Time{from, to})
			parsed, err := keys.ParseUsageStart(keys.UsageStart(start))
			require.NoError(t, err)
			require.Equal(t, start, parsed)
			next, nextEnd := w.Span(end.UnixMilli())
			require.Equal(t, end, next)
			require.Less(t, keys.UsageStart(start), keys.UsageStart(next))
			start, end, at = next, nextEnd, next
		}
	}
	require.True(t, slices.Contains(api.UsageWindows(), api.WindowMonthly))
	requireCode(t, api.Window("weekly").Check(), api.CodeInvalidWindow, "")
}
