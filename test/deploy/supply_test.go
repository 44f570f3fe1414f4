package deploy_test

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The image carries the licence of every module that is linked into the program, and of Go.
func TestNoticesAreComplete(t *testing.T) {
	t.Parallel()
	notices, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/notices")).Output()
	require.NoError(t, err)
	linked, err := buildinfo.ReadFile(ourProgram(t))
	require.NoError(t, err)
	require.Greater(t, len(linked.Deps), 50)
	parts := map[string]string{}
	for part := range strings.SplitSeq(string(notices), "\n==== ") {
		name, text, _ := strings.Cut(part, "\n")
		parts[name] = text
	}
	require.Contains(t, parts["Go "+linked.GoVersion], "Redistribution and use in source and binary forms")
	for _, module := range linked.Deps {
		require.Greater(t, len(parts[module.Path+" "+module.Version]), 500, "the licence of %s", module.Path)
	}
	require.Contains(t, parts, "github.com/nats-io/nats-server/v2 "+versionOf(linked, "github.com/nats-io/nats-server/v2"))
	require.Contains(t, directive(t, "RUN", "notices"), "scripts/notices > /THIRD_PARTY_NOTICES")
	require.Contains(t, directive(t, "COPY", "NOTICES"), "--from=build /THIRD_PARTY_NOTICES /src/LICENSE /")
}

func versionOf(linked *buildinfo.BuildInfo, path string) string {
	for _, module := range linked.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return ""
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// copied returns a folder with the files that name images, and one with a docker that says
// a digest.
func copied(t *testing.T, says string) (dir, bin string) {
	t.Helper()
	dir, bin = t.TempDir(), t.TempDir()
	files, err := filepath.Glob(filepath.Join(root, "deploy/compose/*.yaml"))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "deploy/compose"), 0o750))
	for _, file := range append(files, filepath.Join(root, "Dockerfile")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		to, err := filepath.Rel(root, file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, to), text, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(bin, "docker"), []byte("#!/bin/sh\n"+says+"\n"), 0o700))
	return dir, bin
}

func pinImages(t *testing.T, bin string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/pin-images"), args...)
	command.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	return string(out), err
}

// Every image of others is pinned, and an image that is not is named.
func TestImagesCanBePinned(t *testing.T) {
	t.Parallel()
	dir, bin := copied(t, "echo "+digest)
	out, err := pinImages(t, bin, dir)
	require.NoError(t, err, out)
	for _, again := range []string{"--check", ""} { // and again, as at the next release
		args := []string{dir}
		if again != "" {
			args = []string{again, dir}
		}
		out, err = pinImages(t, bin, args...)
		require.NoError(t, err, out)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	require.Regexp(t, `(?m)^FROM golang:[0-9.]+@`+digest+` AS build$`, read("Dockerfile"))
	require.Contains(t, read("Dockerfile"), "\nFROM scratch\n")
	compose := read("deploy/compose/compose.yaml")
	require.Equal(t, 3, strings.Count(compose, "@"+digest+"\n"), "nats, prometheus, grafana")
	require.Contains(t, compose, "image: ${TIDEGATE_IMAGE:-tidegate:local}\n")

	loose := strings.Replace(compose, "@"+digest, "", 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deploy/compose/compose.yaml"), []byte(loose), 0o600))
	out, err = pinImages(t, bin, "--check", dir)
	require.Error(t, err)
	require.Contains(t, out, "deploy/compose/compose.yaml: nats:")
	require.Equal(t, 1, strings.Count(out, "not pinned"))
}

// A registry that does not answer with a digest pins nothing.
func TestABadDigestPinsNothing(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"exit 1", "echo sha256:short", "true"} {
		dir, bin := copied(t, says)
		_, err := pinImages(t, bin, dir)
		require.Error(t, err)
		for _, name := range []string{"Dockerfile", "deploy/compose/compose.yaml"} {
			before, err := os.ReadFile(filepath.Join(root, name))
			require.NoError(t, err)
			after, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
		}
	}
}

// Once an image is pinned, all are.
func TestImagesArePinnedTogether(t *testing.T) {
	t.Parallel()
	pinned := false
	files, err := filepath.Glob(filepath.Join(root, "deploy/compose/*.yaml"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join(root, "Dockerfile")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		pinned = pinned || strings.Contains(string(text), "@sha256:")
	}
	out, err := pinImages(t, t.TempDir(), "--check")
	require.Equal(t, pinned, err == nil, out)
}
