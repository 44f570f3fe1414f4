package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const moduleRoot = "../.."

// A row that no longer fits its file would try nothing.
func TestEveryMutantAppliesToItsFile(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants() {
		require.Regexp(t, `^[a-z]+(-[a-z]+)+$`, m.name)
		require.False(t, names[m.name], "two mutants are called %s", m.name)
		names[m.name] = true
		changed, err := m.apply(moduleRoot)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, changed, 0); err != nil {
			t.Errorf("mutant %s is no Go: %v", m.name, err)
		}
		for _, s := range suites(m.file) {
			require.DirExists(t, filepath.Join(moduleRoot, s.pkg))
		}
	}
	require.GreaterOrEqual(t, len(names), 60)
}

func TestARowThatDoesNotFitIsRefused(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.go"), []byte("package a // a\n"), 0o600))
	for _, m := range []mutant{
		{name: "missing", file: "b.go", old: "a", new: "b"},
		{name: "none", file: "a.go", old: "b", new: "a"},
		{name: "thrice", file: "a.go", old: "a", new: "b"},
		{name: "same", file: "a.go", old: "package a", new: "package a"},
		{name: "empty", file: "a.go", old: "", new: "b"},
	} {
		_, err := m.apply(root)
		require.ErrorContains(t, err, m.name)
	}
	changed, err := (&mutant{file: "a.go", old: "// a", new: "// b"}).apply(root)
	require.NoError(t, err)
	require.Equal(t, "package a // b\n", string(changed))
}

// A module with a test that notices one of two changes.
func TestMutantsAreKilledOrSurvive(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module example.test/m\n\ngo 1.26\n")
	write("sum/sum.go", "package sum\n\nfunc Sum(a, b int) int { return a + b }\n\nfunc Unused() int { return 1 }\n")
	write("sum/sum_test.go", "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n")
	lab, err := open(root, filepath.Join(root, ".cache/mutants.json"))
	require.NoError(t, err)
	minus := mutant{name: "minus", file: "sum/sum.go", old: "a + b", new: "a - b"}
	two := mutant{name: "two", file: "sum/sum.go", old: "return 1", new: "return 2"}
	broken := mutant{name: "broken", file: "sum/sum.go", old: "return 1", new: `return ""`}

	f, known, err := lab.try(t.Context(), &minus, false)
	require.NoError(t, err)
	require.False(t, known)
	require.Equal(t, "sum TestSum", f.KilledBy)
	f, _, err = lab.try(t.Context(), &two, false)
	require.NoError(t, err)
	require.Empty(t, f.KilledBy)
	_, _, err = lab.try(t.Context(), &broken, false)
	require.ErrorIs(t, err, errUnbuilt)

	again, err := open(root, filepath.Join(root, ".cache/mutants.json"))
	require.NoError(t, err)
	_, known, err = again.try(t.Context(), &minus, false)
	require.NoError(t, err)
	require.True(t, known, "a killed mutant is not tried again")
	_, known, err = again.try(t.Context(), &two, false)
	require.NoError(t, err)
	require.False(t, known, "a survivor is")
	write("sum/sum.go", "package sum\n\n// Changed.\nfunc Sum(a, b int) int { return a + b }\n")
	_, known, err = again.try(t.Context(), &minus, false)
	require.NoError(t, err)
	require.False(t, known, "nor is a result of another file")
}

func TestUnknownNamesAreRefused(t *testing.T) {
	require.ErrorContains(t, tryAll(t.Context(), &laboratory{}, regexp.MustCompile("^nothing like it$"), false, &strings.Builder{}), "no mutant")
}
