package sim_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run this seed alone, and tell its story")
	stepsFlag = flag.Int("steps", 1000, "steps of a run")
	debugFlag = flag.Bool("debug", false, "print each event")
)

func TestASeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed given")
	}
	p := newPlan(*seedFlag, *stepsFlag)
	r := simulate(t, p, func(w *world) {
		if *debugFlag {
			w.debug = func(line string) { fmt.Fprintln(os.Stderr, line) }
		}
	})
	t.Logf("seed %d: hash %016x, %d steps, %d operations, %v simulated in %v, disturbances %v", p.Seed, r.Hash, r.Steps, r.Ops, r.Simulated, r.Took, r.Counts)
	if len(r.Failures) > 0 {
		t.Log(r.Failures)
		t.Log("\n" + r.Story.Text(150))
	}
	require.Empty(t, r.Failures)
}
