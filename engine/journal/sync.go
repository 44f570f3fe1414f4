package journal

import (
	"fmt"
	"time"
)

// Sync is the policy for forcing records to the disk: Always, Never, or the interval
// between two fsyncs. With every policy, records are handed to the operating system
// before callers are answered. So a killed process loses no record; the policy
// matters only if the machine fails.
type Sync time.Duration

const (
	// Always forces records to the disk before callers are answered; callers that
	// arrive during an fsync share the next.
	Always Sync = 0
	// Never leaves it to the operating system.
	Never Sync = -1
)

// UnmarshalText reads "always", "never" or a duration such as "100ms".
func (s *Sync) UnmarshalText(text []byte) error {
	switch string(text) {
	case "always":
		*s = Always
		return nil
	case "never":
		*s = Never
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is neither always, nor never, nor a time such as 100ms", text)
	}
	*s = Sync(d)
	return nil
}

func (s Sync) String() string {
	switch {
	case s == Always:
		return "always"
	case s < 0:
		return "never"
	}
	return time.Duration(s).String()
}
