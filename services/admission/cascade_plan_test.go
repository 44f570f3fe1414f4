package admission

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNextMoveOfACascade(t *testing.T) {
	const (
		unknown  = standingUnknown
		doubtful = standingDoubtful
		ample    = standingAmple
		short    = standingShort
		spent    = standingSpent
		refused  = standingRefused
		moved    = standingMoved
		failed   = standingFailed
	)
	for name, c := range map[string]struct {
		levels []standing
		move   move
		ask    []int
	}{
		"all allow: at the same time":     {[]standing{ample, ample, ample}, moveSpend, []int{0, 1, 2}},
		"one level":                       {[]standing{ample}, moveSpend, []int{0}},
		"nothing known: the highest":      {[]standing{unknown, unknown, unknown}, moveSpend, []int{2}},
		"then the next":                   {[]standing{unknown, unknown, spent}, moveSpend, []int{1}},
		"the unknown one alone":           {[]standing{unknown, ample, ample}, moveSpend, []int{0}},
		"short before, then unknown":      {[]standing{doubtful, unknown, unknown}, moveSpend, []int{0}},
		"the highest of the short before": {[]standing{doubtful, doubtful, ample}, moveSpend, []int{1}},
		"what is left, at the same time":  {[]standing{ample, spent, ample}, moveSpend, []int{0, 2}},
		"known to be short":               {[]standing{ample, short}, moveDeny, nil},
		"short, another unknown":          {[]standing{unknown, short}, moveDeny, nil},
		"refused after another spent":     {[]standing{spent, refused}, moveDeny, nil},
		"refused, and another failed":     {[]standing{failed, refused, spent}, moveDeny, nil},
		"one failed":                      {[]standing{spent, failed}, moveFail, nil},
		"failed before all are asked":     {[]standing{ample, failed}, moveFail, nil},
		"one moved":                       {[]standing{spent, moved}, moveAgain, nil},
		"moved, and another refused":      {[]standing{moved, refused}, moveAgain, nil},
		"moved and failed":                {[]standing{moved, failed}, moveFail, nil},
		"moved, refused and failed":       {[]standing{moved, refused, failed}, moveFail, nil},
		"all spent":                       {[]standing{spent, spent}, moveAdmit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, ask := nextMove(c.levels)
			require.Equal(t, c.move, m)
			require.Equal(t, c.ask, ask)
		})
	}
}

// Whatever levels answer, a cascade ends, never asks a level twice, admits only
// if all have spent, and denies only if one is short.
func TestACascadeEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, maxLevels).Draw(t, "levels")
		before := rapid.SliceOfN(rapid.SampledFrom([]standing{standingUnknown, standingDoubtful, standingAmple, standingShort}), n, n).Draw(t, "before")
		answers := rapid.SliceOfN(rapid.SampledFrom([]standing{
			standingSpent, standingSpent, standingSpent, standingRefused, standingMoved, standingFailed,
		}), n, n).Draw(t, "answers")
		levels := slices.Clone(before)
		for asked := 0; ; {
			m, ask := nextMove(levels)
			switch m {
			case moveSpend:
				if len(ask) == 0 {
					t.Fatalf("nobody is asked of %v", levels)
				}
				if len(ask) > 1 && slices.ContainsFunc(levels, func(s standing) bool { return s < standingAmple }) {
					t.Fatalf("%v are asked together of %v", ask, levels)
				}
				for _, i := range ask {
					if levels[i] >= standingShort {
						t.Fatalf("level %d is asked again of %v", i, levels)
					}
					levels[i] = answers[i]
					asked++
				}
				continue
			case moveAdmit:
				if slices.ContainsFunc(levels, func(s standing) bool { return s != standingSpent }) {
					t.Fatalf("admitted by %v", levels)
				}
			case moveDeny:
				if !slices.ContainsFunc(levels, func(s standing) bool { return s == standingShort || s == standingRefused }) {
					t.Fatalf("denied by %v", levels)
				}
			case moveAgain, moveFail:
			}
			if asked > n {
				t.Fatalf("%d levels asked %d times", n, asked)
			}
			return
		}
	})
}
