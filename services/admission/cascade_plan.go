package admission

// standing is how a level of a cascade stands towards its part of an acquire:
// what is known before it is asked, then what it answered.
type standing uint8

const (
	standingUnknown  standing = iota // nothing is known of it, or under other settings only
	standingDoubtful                 // short when last seen, too long ago to deny by
	standingAmple                    // held the cost when last seen
	standingShort                    // known to be short: denies without a write

	standingSpent   // its write is applied
	standingRefused // it was short when asked
	standingMoved   // its settings are others by now; it has spent nothing
	standingFailed  // it is not known what it would say, nor whether it has spent
)

// move is what a cascade does next.
type move uint8

const (
	moveSpend move = iota // ask more levels to spend
	moveAdmit             // all have spent
	moveDeny              // one is short: the others get back what they spent
	moveAgain             // the levels are not what they were: start again
	moveFail              // nothing can be said: the unavailable policy answers
)

// nextMove decides how a cascade goes on, and for moveSpend which levels are
// asked, all at the same time. Levels are in order, the child first.
//
// Where all that is known says yes, all are asked at once: one round trip. Else
// the likeliest to refuse is asked alone, so that its refusal leaves nothing to
// take back: one that was short before one of which nothing is known, and the
// highest of equals, because it has the most spenders.
//
// A level that is short denies whatever became of the others, unless it may not
// be a level of this acquire any more.
func nextMove(levels []standing) (m move, ask []int) {
	var count [standingFailed + 1]int
	for _, s := range levels {
		count[s]++
	}
	short := count[standingShort]+count[standingRefused] > 0
	switch {
	case count[standingMoved] > 0 && count[standingFailed] == 0:
		return moveAgain, nil
	case short && count[standingMoved] == 0:
		return moveDeny, nil
	case count[standingFailed] > 0:
		return moveFail, nil
	case count[standingSpent] == len(levels):
		return moveAdmit, nil
	case count[standingDoubtful] > 0:
		return moveSpend, []int{highest(levels, standingDoubtful)}
	case count[standingUnknown] > 0:
		return moveSpend, []int{highest(levels, standingUnknown)}
	}
	for i, s := range levels {
		if s == standingAmple {
			ask = append(ask, i)
		}
	}
	return moveSpend, ask
}

// highest is the last level that stands so.
func highest(levels []standing, s standing) int {
	for i := len(levels) - 1; i > 0; i-- {
		if levels[i] == s {
			return i
		}
	}
	return 0
}

// answeredAs is how a level stands after it was asked to spend.
func answeredAs(r *result) standing {
	switch {
	case r.err != nil:
		return standingFailed
	case r.verdict == verdictCommit:
		return standingSpent
	case r.verdict == verdictMoved:
		return standingMoved
	}
	return standingRefused
}
