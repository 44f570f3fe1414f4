package usage

import (
	"time"

	"github.com/tidegate/tidegate/pkg/api"
)

// Window is how long the spans of time are that snapshots sum up. They begin and
// end in UTC.
type Window struct {
	Name  api.Window
	start func(time.Time) time.Time
	next  func(start time.Time) time.Time
}

// Windows are all there are, the shortest first.
func Windows() []Window {
	return []Window{
		{
			Name:  api.WindowHourly,
			start: func(at time.Time) time.Time { return at.Truncate(time.Hour) },
			next:  func(start time.Time) time.Time { return start.Add(time.Hour) },
		},
		{
			Name:  api.WindowDaily,
			start: func(at time.Time) time.Time { return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC) },
			next:  func(start time.Time) time.Time { return start.AddDate(0, 0, 1) },
		},
		{
			Name:  api.WindowMonthly,
			start: func(at time.Time) time.Time { return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC) },
			next:  func(start time.Time) time.Time { return start.AddDate(0, 1, 0) },
		},
	}
}

// Of is the window of a name.
func Of(name api.Window) (Window, bool) {
	for _, w := range Windows() {
		if w.Name == name {
			return w, true
		}
	}
	return Window{}, false
}

// Span is the span of time that a moment, in Unix milliseconds, is in: from its
// first moment to the first that is not in it.
func (w Window) Span(atMs int64) (start, end time.Time) {
	start = w.start(time.UnixMilli(atMs).UTC())
	return start, w.next(start)
}

// startFormat is how keys write the first moment of a span. It sorts by time.
const startFormat = "2006-01-02T15:04:05Z"

// FormatStart is the first moment of a span as keys have it.
func FormatStart(start time.Time) string { return start.UTC().Format(startFormat) }

// ParseStart reads what FormatStart wrote.
func ParseStart(text string) (time.Time, error) { return time.Parse(startFormat, text) }
