package sim_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "run this seed alone, and tell its story")
	stepsFlag  = flag.Int("steps", 500, "steps of a run, before disturbances end")
	seedsFlag  = flag.Int("seeds", 200, "number of seeds of TestSeeds")
	firstFlag  = flag.Uint64("first", 1, "the first seed of TestSeeds and of TestNight")
	nightFlag  = flag.Duration("night", 0, "how long TestNight runs seeds; failing seeds are minimised and kept")
	harshFlag  = flag.Bool("harsh", false, "NATS forgets more, and more often")
	debugFlag  = flag.Bool("debug", false, "print each event of -seed")
	folderFlag = flag.String("story", "", "folder for the story of -seed, as text and as a picture")
)

// keptSeeds is the folder of the seeds that have failed once.
const keptSeeds = "testdata/seeds"

// kept is a seed that has failed once, minimised.
type kept struct {
	Seed     uint64
	Steps    int
	From, To int      // steps between which disturbances happen
	Without  []string // kinds of disturbances that are left out
	Found    string   // what failed
}

// plan returns the plan of the seed.
func (k kept) plan() *plan {
	p := newPlan(k.Seed, k.Steps)
	p.from, p.to = k.From, k.To
	for _, kind := range k.Without {
		p.Without[kind] = true
	}
	return p
}

// TestASeed runs the seed of -seed, and tells its story if it fails or -story is set.
func TestASeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed is given: see make sim")
	}
	p := newPlan(*seedFlag, *stepsFlag)
	r := simulate(t, p, func(w *world) {
		if *debugFlag {
			w.debug = func(line string) { fmt.Fprintln(os.Stderr, line) }
		}
	})
	t.Logf("seed %d: hash %016x, %d steps, %d operations, %v simulated in %v, disturbances %v", p.Seed, r.Hash, r.Steps, r.Ops, r.Simulated, r.Took, r.Counts)
	if again := simulate(t, newPlan(*seedFlag, *stepsFlag), nil); again.Hash != r.Hash {
		t.Logf("the second trace differs, hash %016x: docs/adr/0057 says why some differ", again.Hash)
	}
	if *folderFlag != "" {
		require.NoError(t, os.MkdirAll(*folderFlag, 0o750))
		name := filepath.Join(*folderFlag, fmt.Sprintf("seed-%d", p.Seed))
		require.NoError(t, os.WriteFile(name+".txt", []byte(r.Story.Text(0)), 0o600))
		require.NoError(t, os.WriteFile(name+".svg", r.Story.SVG(400), 0o600))
	}
	tell(t, r)
}

// tell fails with the story of a failed run.
func tell(t *testing.T, r result) {
	t.Helper()
	if len(r.Failures) > 0 {
		t.Logf("the last events:\n%s", r.Story.Text(150))
	}
	require.Empty(t, r.Failures)
}

// TestKeptSeeds runs every seed that has failed once.
func TestKeptSeeds(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(keptSeeds, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			k := read(t, file)
			tell(t, simulate(t, k.plan(), nil))
		})
	}
}

func read(t *testing.T, file string) (k kept) {
	t.Helper()
	data, err := os.ReadFile(file) //nolint:gosec // of this folder
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &k))
	return k
}

// sampled is how many seeds are run twice: every such one.
const sampled = 10

// TestSeeds runs many seeds.
func TestSeeds(t *testing.T) {
	var total result
	started, differ := time.Now(), 0
	for i := range *seedsFlag {
		seed := *firstFlag + uint64(i) //nolint:gosec // counts from 0
		r := simulate(t, newPlan(seed, *stepsFlag), nil)
		total.Steps, total.Ops, total.Simulated = total.Steps+r.Steps, total.Ops+r.Ops, total.Simulated+r.Simulated
		if len(r.Failures) > 0 {
			t.Errorf("make sim SEED=%d STEPS=%d: %v", seed, *stepsFlag, r.Failures)
		}
		if i%sampled == 0 && simulate(t, newPlan(seed, *stepsFlag), nil).Hash != r.Hash {
			differ++
			t.Logf("seed %d has another trace the second time", seed)
		}
	}
	took := time.Since(started)
	t.Logf("%d seeds, %d steps, %d operations, %v simulated in %v: %.0f simulated seconds and %.0f steps a second; %d traces of %d differ",
		*seedsFlag, total.Steps, total.Ops, total.Simulated.Round(time.Second), took.Round(time.Millisecond), total.Simulated.Seconds()/took.Seconds(),
		float64(total.Steps)/took.Seconds(), differ, (*seedsFlag+sampled-1)/sampled)
	require.Less(t, differ, (*seedsFlag+sampled-1)/sampled, "some seeds make the same trace again: docs/adr/0057 says why some differ")
}

// TestNight runs seeds for as long as -night says, and keeps the seeds that fail.
func TestNight(t *testing.T) {
	if *nightFlag == 0 {
		t.Skip("no -night is given: see make sim-night")
	}
	steps, seeds, began := 0, 0, time.Now()
	for seed := *firstFlag; time.Since(began) < *nightFlag; seed++ {
		r := simulate(t, newPlan(seed, *stepsFlag), nil)
		steps, seeds = steps+r.Steps, seeds+1
		if seeds%500 == 0 {
			t.Logf("%d seeds, %d steps", seeds, steps)
		}
		if len(r.Failures) == 0 {
			continue
		}
		k := minimise(t, kept{Seed: seed, Steps: *stepsFlag, To: *stepsFlag, Found: r.Failures[0]}, r.Counts)
		data, err := json.MarshalIndent(k, "", "\t")
		require.NoError(t, err)
		file := filepath.Join(keptSeeds, fmt.Sprintf("%d.json", seed))
		require.NoError(t, os.WriteFile(file, append(data, '\n'), 0o600))
		t.Errorf("seed %d failed, and is kept in %s: %s", seed, file, k.Found)
	}
	t.Logf("%d seeds and %d steps in %v", seeds, steps, time.Since(began))
}

// minimise takes away what a failure of the same promise does not need: steps,
// disturbances, and the steps in which disturbances happen.
func minimise(t *testing.T, k kept, counts map[string]int) kept {
	promise := k.Found[:2]
	fails := func(k kept) bool {
		r := simulate(t, k.plan(), nil)
		return len(r.Failures) > 0 && r.Failures[0][:2] == promise
	}
	for smaller := k; smaller.Steps > 20; k = smaller {
		smaller.Steps /= 2
		smaller.To = smaller.Steps
		if !fails(smaller) {
			break
		}
	}
	kinds := []string{"store", "delay", "lose", "repeat", "cut", "partition", "kill", "pause", "step", "forget"}
	for _, kind := range kinds {
		smaller := k
		smaller.Without = append(slices.Clone(k.Without), kind)
		if fails(smaller) {
			k = smaller
		}
	}
	for part := (k.To - k.From) / 2; part > 10; part /= 2 {
		if smaller := k; smaller.From+part < smaller.To {
			if smaller.From += part; fails(smaller) {
				k = smaller
			}
		}
		if smaller := k; smaller.To-part > smaller.From {
			if smaller.To -= part; fails(smaller) {
				k = smaller
			}
		}
	}
	t.Logf("seed %d is minimised: %+v; disturbances before: %v", k.Seed, k, counts)
	return k
}
