// Package program builds the programs that tests run as processes, and keeps them in
// .cache/test of the repository: the tests of several packages share them, and the go
// command links a program again only when what it is made of has changed.
package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Image is how the Dockerfile builds the program.
const Image = "CGO_ENABLED=0 go build -trimpath -buildvcs=auto -o /tidegate ./cmd/tidegate"

// Tidegate builds the program of this repository as the Dockerfile does, and returns
// its file.
func Tidegate(ctx context.Context) (file string, err error) {
	return build(ctx, "tidegate", strings.ReplaceAll(Image, " -o /tidegate ", ` -o "$FILE" `))
}

// NATSServer builds the server of the module that the program embeds, and returns its
// file.
func NATSServer(ctx context.Context) (file string, err error) {
	return build(ctx, "nats-server", `go build -o "$FILE" github.com/nats-io/nats-server/v2`)
}

// build runs a line of a shell that writes $FILE, one process at a time.
func build(ctx context.Context, name, line string) (file string, err error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	if err := touch(root); err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", "test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	lock, err := os.Create(filepath.Join(dir, "LOCK"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("build %s: wait for others that build: %w", name, err)
	}
	file = filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "FILE="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, out)
	}
	return file, nil
}

// repository returns the folder above the tested package that has the program. A go.mod
// does not tell: some tests are modules of their own.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "cmd", "tidegate"))
		switch parent := filepath.Dir(dir); {
		case err == nil:
			return dir, nil
		case parent == dir:
			return "", fmt.Errorf("find the repository: %w", err)
		default:
			dir = parent
		}
	}
}

// touch looks at everything that the program is built from. What go build reads is
// hidden from the test cache, which would keep the results of older sources.
func touch(root string) error {
	for _, part := range []string{"cmd", "engine", "internal", "pkg", "services", "go.mod", "go.sum"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
				return err
			}
			_, err = os.Stat(file)
			return err
		})
		if err != nil {
			return fmt.Errorf("look at the sources: %w", err)
		}
	}
	return nil
}
