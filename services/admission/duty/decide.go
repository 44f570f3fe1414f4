package duty

import "time"

const (
	// minSteady and maxSteady bound the time without a stuck signal after which a node
	// comes back.
	minSteady = time.Second
	maxSteady = time.Minute
	// relapseTime is the time on duty within which leaving again doubles the steady time.
	relapseTime = 30 * time.Second
)

// state is a node's state of duty. Times are monotonic.
type state struct {
	away    bool
	since   time.Duration // of the last change of away
	cause   string        // why the node is stuck; empty: it is not
	changed time.Duration // since when the node is stuck, or not stuck
	steady  time.Duration // that an away node must not be stuck for
}

// step returns the state that follows. cause names the stuck signal, and is empty if the
// node is not stuck; others reports whether another node is able. A node leaves only when
// the others have heard for heardTime that it is not able: so no two nodes leave because
// each relies on the other.
func (s state) step(now time.Duration, cause string, others bool) state {
	if (cause == "") != (s.cause == "") {
		s.changed = now
	}
	s.cause = cause
	switch {
	case !s.away && cause != "" && now-s.changed >= heardTime && others:
		if s.steady *= 2; s.steady == 0 || now-s.since > relapseTime {
			s.steady = minSteady
		}
		s.steady = min(s.steady, maxSteady)
		s.away, s.since = true, now
	case s.away && (!others || cause == "" && now-s.changed >= s.steady):
		s.away, s.since = false, now
	}
	return s
}

// able reports whether a node can serve the requests of a stuck node.
func (s state) able() bool { return !s.away && s.cause == "" }
