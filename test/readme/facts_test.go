package readme_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A name such as TestSomething in a document is that of a function.
func TestTestsThatAreNamedExist(t *testing.T) {
	declared := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	require.NoError(t, filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		for _, m := range function.FindAllStringSubmatch(string(source), -1) {
			declared[m[1]] = true
		}
		return err
	}))
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)`")
	found := 0
	for _, d := range everyText(t) {
		for _, m := range named.FindAllStringSubmatch(d.text, -1) {
			found++
			require.True(t, declared[m[1]], "%s names %s, which is nowhere", d.name, m[1])
		}
	}
	require.Positive(t, found)
}

// README has every promise, each with a test.
func TestPromisesAreShown(t *testing.T) {
	rows := regexp.MustCompile("(?m)^\\| (P\\d)\\. .* \\| .*`Test\\w+`.* \\|$").FindAllStringSubmatch(read(t, "README.md").text, -1)
	promises := make([]string, len(rows))
	for i, row := range rows {
		promises[i] = row[1]
	}
	require.Equal(t, []string{"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9"}, promises)
}

// A target of make that a document names is there.
func TestMakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile").text
	target := regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)")
	for _, d := range everyText(t) {
		for _, m := range target.FindAllStringSubmatch(d.text, -1) {
			require.Contains(t, makefile, "\n"+m[1]+":", "%s", d.name)
		}
	}
}

// What a document links to, or names as a folder, is there.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	folder := regexp.MustCompile("`((?:cmd|internal|pkg|scripts|services|test)(?:/[a-z-]+)+)`")
	for _, d := range everyText(t) {
		for _, m := range link.FindAllStringSubmatch(d.text, -1) {
			require.FileExists(t, filepath.Join(root, filepath.Dir(d.name), m[1]), d.name)
		}
		for _, m := range folder.FindAllStringSubmatch(d.text, -1) {
			_, err := os.Stat(filepath.Join(root, m[1]))
			require.NoError(t, err, d.name)
		}
	}
}

// The addresses that README gives to operators answer.
func TestAddressesAnswer(t *testing.T) {
	s := share(t, "")
	address := regexp.MustCompile("`(http://127\\.0\\.0\\.1:9464/[a-z/]*)`")
	found := address.FindAllStringSubmatch(read(t, "README.md").text, -1)
	require.NotEmpty(t, found)
	for _, m := range found {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.here(m[1]), http.NoBody)
		require.NoError(t, err)
		reply, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusOK, reply.StatusCode, m[1])
	}
}

// Every decision has a row in the index.
func TestDecisionsAreListed(t *testing.T) {
	index := read(t, "docs/adr/README.md").text
	files, err := filepath.Glob(filepath.Join(root, "docs", "adr", "[0-9]*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		name := filepath.Base(file)
		title, _, _ := strings.Cut(read(t, filepath.Join("docs", "adr", name)).text, "\n")
		require.Contains(t, index, "["+name[:4]+"]("+name+") | "+strings.TrimPrefix(title, "# "+name[:4]+": ")+" |")
	}
}
