package deploy_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// binary makes the program when a test first asks for it.
type binary struct {
	once, nats sync.Once
	dir        string // where it goes, and the NATS server; set before any test
	err        error
}

var built binary

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tidegate-deploy")
	if err != nil {
		panic(err)
	}
	built.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program is the program of this repository, made as the Dockerfile does.
func program(t *testing.T) string {
	t.Helper()
	file := filepath.Join(built.dir, "tidegate")
	built.once.Do(func() {
		line := directive(t, "RUN", "go build")
		require.Contains(t, line, " -o /tidegate ")
		built.err = readSources()
		if built.err != nil {
			return
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(line, " -o /tidegate ", " -o "+file+" ", 1))
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, built.err)
	return file
}

// readSources looks at what go build reads: that is hidden from the test cache,
// which would keep the result of older sources.
func readSources() error {
	for _, part := range []string{"cmd", "engine", "internal", "pkg", "services", "go.mod"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			_, err = os.Stat(file)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
