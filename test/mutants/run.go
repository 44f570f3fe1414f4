package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// fate is the end of a mutant.
type fate struct {
	ID string `json:"id"` // see mutant.id
	// KilledBy names the package, and the first test, that failed. Empty: the mutant survived.
	KilledBy string `json:"killed_by,omitempty"`
}

// laboratory runs mutants of the module in a folder.
type laboratory struct {
	root    string // of the module
	results string // path of the fates so far
	fates   map[string]fate
}

func open(root, results string) (*laboratory, error) {
	l := &laboratory{root: root, results: results, fates: map[string]fate{}}
	raw, err := os.ReadFile(results)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return l, nil
	case err != nil:
		return nil, err
	}
	if err := json.Unmarshal(raw, &l.fates); err != nil {
		return nil, fmt.Errorf("%s is damaged, remove it: %w", results, err)
	}
	return l, nil
}

func (l *laboratory) save() error {
	raw, err := json.MarshalIndent(l.fates, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.results), 0o750); err != nil {
		return err
	}
	return os.WriteFile(l.results, raw, 0o600)
}

// try runs the suites of a mutant until a test fails. known says that the fate was found
// by an earlier run.
func (l *laboratory) try(ctx context.Context, m *mutant, fresh bool) (f fate, known bool, err error) {
	changed, err := m.apply(l.root)
	if err != nil {
		return f, false, err
	}
	f.ID = m.id(changed)
	if before, ok := l.fates[m.name]; ok && !fresh && before.ID == f.ID && before.KilledBy != "" {
		return before, true, nil
	}
	dir, err := os.MkdirTemp("", "tidegate-mutant-")
	if err != nil {
		return f, false, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := l.overlay(dir, m, changed)
	if err != nil {
		return f, false, err
	}
	for _, s := range suites(m.file) {
		if f.KilledBy, err = l.test(ctx, overlay, s); err != nil {
			return f, false, fmt.Errorf("mutant %s: %w", m.name, err)
		}
		if f.KilledBy != "" {
			break
		}
	}
	l.fates[m.name] = f
	return f, false, l.save()
}

// overlay writes the changed file, and the file that names it to the go command.
func (l *laboratory) overlay(dir string, m *mutant, changed []byte) (string, error) {
	replacement := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(replacement, changed, 0o600); err != nil {
		return "", err
	}
	raw, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(l.root, m.file): replacement}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o600)
}

// errUnbuilt says that a mutant does not compile, and so shows nothing.
var errUnbuilt = errors.New("it does not compile")

// test runs a suite. It returns the package and the first test that failed; empty if none
// did.
func (l *laboratory) test(ctx context.Context, overlay string, s suite) (killedBy string, err error) {
	args := []string{"test", "-short", "-failfast", "-timeout", "5m", "-overlay", overlay}
	if s.run != "" {
		args = append(args, "-run", s.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+s.pkg)...)
	cmd.Dir = l.root
	out, err := cmd.CombinedOutput()
	switch exited := (*exec.ExitError)(nil); {
	case err == nil:
		return "", nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case !errors.As(err, &exited):
		return "", err
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("%w:\n%s", errUnbuilt, out)
	}
	return s.pkg + " " + firstFailure(out), nil
}

// firstFailure returns the first test that a run of tests calls failed.
func firstFailure(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			return strings.Fields(name)[0]
		}
	}
	return "by a crash, or out of time"
}
