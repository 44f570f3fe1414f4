package journal

import (
	"fmt"
	"time"
)

// Sync is when records are forced to the disk: Always, Never, or the interval
// between two times. Whatever it says, records are handed to the operating
// system before their callers are answered: a process that is killed loses
// nothing, and Sync is about a machine that fails.
type Sync time.Duration

const (
	// Always forces before callers are answered; those that come meanwhile
	// share the next time.
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
