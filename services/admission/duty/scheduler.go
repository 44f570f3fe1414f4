package duty

import "time"

const (
	// schedulerWindow is the time over which lost time counts.
	schedulerWindow = 10 * time.Second
	// schedulerPatience is the part of it that a process may lose, to its machine or to a
	// quota, before the node is stuck.
	schedulerPatience = 3 * time.Second
)

// scheduler measures the time in which the process did not run, by ticks that come late.
type scheduler struct {
	tick time.Duration
	last time.Duration   // when the last tick came; 0: none has
	late []time.Duration // how late the ticks of the window were, the newest at the end
}

// note notes a tick.
func (s *scheduler) note(now time.Duration) {
	if s.last > 0 {
		if len(s.late) == int(schedulerWindow/s.tick) {
			s.late = s.late[1:]
		}
		s.late = append(s.late, max(0, now-s.last-s.tick))
	}
	s.last = now
}

// stalled returns the time that was lost within the window. A single pause does not
// count: it is over.
func (s *scheduler) stalled(time.Duration) (lost time.Duration) {
	var longest time.Duration
	for _, d := range s.late {
		lost += d
		longest = max(longest, d)
	}
	return lost - longest
}
