package admission

// standing is the state of a cascade level towards its part of an acquire: by its last
// snapshot before it is asked, by its answer afterwards.
type standing uint8

const (
	standingUnknown  standing = iota // unknown, or known under other settings only
	standingDoubtful                 // short when last seen, too long ago to deny by
	standingAmple                    // held the cost when last seen
	standingShort                    // known to be short: denies without a write

	standingSpent   // its write is applied
	standingRefused // it was short when asked
	standingMoved   // its settings are others by now; it has spent nothing
	standingFailed  // neither its answer is known, nor whether it has spent
)

// move is the next step of a cascade.
type move uint8

const (
	moveSpend move = iota // ask more levels to spend
	moveAdmit             // all have spent
	moveDeny              // a level is short: the spends of the others are refunded
	moveAgain             // the levels have changed: start again
	moveFail              // undecided: the unavailable policy answers
)

// nextMove decides how a cascade goes on, and for moveSpend which levels are asked, all at
// the same time. Levels are in order, the child first.
//
// If every known standing is ample, all levels are asked at once, in a single round trip.
// Otherwise the level that is most likely to refuse is asked alone, so that its refusal
// leaves nothing to refund: a level that was short comes before an unknown level, and the
// highest of equals first, because it has the most spenders.
//
// A short level denies, whatever the others answered, unless the settings of a level have
// changed: then it may not be a level of this acquire any more.
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

// highest returns the last level of that standing.
func highest(levels []standing, s standing) int {
	for i := len(levels) - 1; i > 0; i-- {
		if levels[i] == s {
			return i
		}
	}
	return 0
}

// answeredAs returns the standing of a level after it was asked to spend.
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
