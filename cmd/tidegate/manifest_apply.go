package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sourcegraph/conc/pool"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

const (
	// manifestRequests bounds the requests in flight for a manifest.
	manifestRequests = 16
	// manifestFailures, conflicts left out, end an apply: something is wrong
	// that the next level will meet as well.
	manifestFailures = 10
	// shownFailures are printed for people; JSON has them all.
	shownFailures = 20
)

// storedLevels returns the config levels with limits, and each level that the manifest
// declares. Declared levels missing from the listing are read individually.
func storedLevels(ctx context.Context, o output, admin tidegate.Admin, m *config.Manifest) ([]api.LimitsLevel, error) {
	var stored []api.LimitsLevel
	listed := map[api.LimitsTarget]bool{}
	for query := (api.LimitsListRequest{Limit: api.MaxPage}); ; {
		part, err := admin.ListLimits(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, level := range part.Levels {
			stored = append(stored, level)
			listed[level.LimitsTarget] = true
		}
		if query.Cursor = part.Cursor; query.Cursor == "" {
			break
		}
	}
	var missing []api.LimitsTarget
	for _, level := range m.Levels {
		if !listed[level.LimitsTarget] {
			missing = append(missing, level.LimitsTarget)
		}
	}
	found, err := readLevels(ctx, o, admin, missing)
	if err != nil {
		return nil, err
	}
	return append(stored, found...), nil
}

// readLevels reads the given levels and omits those that are not stored.
func readLevels(ctx context.Context, o output, admin tidegate.Admin, missing []api.LimitsTarget) ([]api.LimitsLevel, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	var asked atomic.Int64
	stop := o.watch(ctx, watched{what: "reading", unit: "levels", total: int64(len(missing)), done: asked.Load})
	defer stop()
	reads := pool.NewWithResults[*api.LimitsLevel]().WithMaxGoroutines(manifestRequests).WithContext(ctx).WithCancelOnError().WithFirstError()
	for _, target := range missing {
		reads.Go(func(ctx context.Context) (*api.LimitsLevel, error) {
			defer asked.Add(1)
			level, err := admin.GetLimits(ctx, target)
			if isCode(err, api.CodeNotFound) {
				return nil, nil //nolint:nilnil // nothing stored is an answer, not an error
			}
			return &level, err
		})
	}
	found, err := reads.Wait()
	if err != nil {
		return nil, err
	}
	var stored []api.LimitsLevel
	for _, level := range found {
		if level != nil {
			stored = append(stored, *level)
		}
	}
	return stored, nil
}

func isCode(err error, code api.Code) bool {
	var refused *api.Error
	return errors.As(err, &refused) && refused.Code == code
}

// applied reports the outcome of a plan.
type applied struct {
	*config.ManifestPlan
	Done    int          `json:"done"`
	Failed  []failedStep `json:"failed"`
	Pending int          `json:"pending"` // steps left to do, including failed steps
}

// failedStep is a step that was refused, or of which it is not known whether it
// was carried out.
type failedStep struct {
	Kind config.StepKind `json:"kind"`
	api.LimitsTarget
	Code  api.Code `json:"code,omitempty"`
	Error string   `json:"error"`
}

// err says that something is left to do.
func (r *applied) err() error {
	if r.Pending == 0 {
		return nil
	}
	return advise(fmt.Errorf("%d of %d steps are left to do", r.Pending, len(r.Steps)), "Run the same command again: it plans anew, and goes on with what is left.")
}

// applying is a plan being carried out.
type applying struct {
	admin tidegate.Admin
	plan  *config.ManifestPlan
	tried atomic.Int64

	mu     sync.Mutex
	done   int          // guarded by mu
	failed []failedStep // guarded by mu
	faults int          // failed steps other than conflicts; guarded by mu
}

// apply carries out a plan: deletions last, and only once nothing else is left,
// so that no bucket is without limits in between.
func (limitsApplyCmd) apply(ctx context.Context, o output, admin tidegate.Admin, plan *config.ManifestPlan) applied {
	a := &applying{admin: admin, plan: plan, failed: []failedStep{}}
	stop := o.watch(ctx, watched{what: "applying", unit: "levels", total: int64(len(plan.Steps)), done: a.tried.Load})
	sets := len(plan.Steps) - plan.Count(config.StepDelete)
	a.run(ctx, plan.Steps[:sets])
	if a.done == sets {
		a.run(ctx, plan.Steps[sets:])
	}
	stop()
	return applied{ManifestPlan: plan, Done: a.done, Failed: a.failed, Pending: len(plan.Steps) - a.done}
}

// run carries out steps, several at a time, until too many have failed.
func (a *applying) run(ctx context.Context, steps []config.ManifestStep) {
	workers := pool.New().WithMaxGoroutines(manifestRequests)
	for i := range steps {
		if ctx.Err() != nil || a.hopeless() {
			break
		}
		workers.Go(func() { a.note(&steps[i], a.carryOut(ctx, &steps[i])) })
	}
	workers.Wait()
}

func (a *applying) hopeless() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.faults >= manifestFailures
}

// carryOut changes a level, if it still is as the plan saw it.
func (a *applying) carryOut(ctx context.Context, s *config.ManifestStep) error {
	version := s.Version()
	if s.Kind != config.StepDelete {
		_, err := a.admin.SetLimits(ctx, api.LimitsSetRequest{
			LimitsTarget: s.LimitsTarget, Limits: s.Limits, OnUnavailable: s.OnUnavailable, Manifest: a.plan.Manifest, IfVersion: &version,
		})
		return err
	}
	err := a.admin.DeleteLimits(ctx, api.LimitsDeleteRequest{LimitsTarget: s.LimitsTarget, IfVersion: &version})
	if isCode(err, api.CodeNotFound) {
		return nil // somebody else took them
	}
	return err
}

// note records the outcome of a step.
func (a *applying) note(s *config.ManifestStep, err error) {
	a.tried.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.done++
		return
	}
	failed := failedStep{Kind: s.Kind, LimitsTarget: s.LimitsTarget, Error: err.Error()}
	var refused *api.Error
	if errors.As(err, &refused) {
		failed.Code = refused.Code
	}
	if failed.Code != api.CodeConflict {
		a.faults++
	}
	a.failed = append(a.failed, failed)
}

// printApplied adds the outcome of a plan.
func printApplied(p *page, r *applied) {
	p.line("\n%d of %d steps are done", r.Done, len(r.Steps))
	for i, f := range r.Failed {
		if i == shownFailures {
			p.line("and %d more", len(r.Failed)-i)
			break
		}
		p.line("failed: %s %s: %s", f.Kind.Mark(), config.TargetName(f.LimitsTarget), f.Error)
	}
}

// setting is limits and a policy as people write them.
func setting(limits []api.Limit, policy api.Policy) string {
	var words []string
	for _, l := range limits {
		words = append(words, l.String())
	}
	if policy != "" {
		words = append(words, "on_unavailable="+string(policy))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, " ")
}
