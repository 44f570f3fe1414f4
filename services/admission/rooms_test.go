package admission

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lowerRooms are the files of the rooms below the shell, the lowest room first. All other
// files are the shell.
func lowerRooms() [][]string {
	return [][]string{
		{
			"alarm", "call", "commit", "deliver", "dynamo", "env", "flight", "governance", "knowledge", "metrics", "metrics_decided",
			"plan", "refund", "renewal", "settings_source", "trace", "worker_pool", "writer",
		},
		{
			"balances", "bucket_state", "cascade", "cascade_answer", "cascade_plan", "choose", "load", "member", "merge", "multi_shard_spend",
			"relief", "remembered", "result", "router", "spend", "task",
		},
	}
}

// Calls run downwards: a file names nothing that a higher room declares.
func TestCallsRunDownwards(t *testing.T) {
	floors, declared := map[string]int{}, map[string]int{} // by file and by name
	for floor, files := range lowerRooms() {
		for _, file := range files {
			require.FileExists(t, file+".go")
			floors[file] = floor
		}
	}
	paths, err := filepath.Glob("*.go")
	require.NoError(t, err)
	parsed := map[string]*ast.File{}
	for _, path := range paths {
		file, isGo := strings.CutSuffix(path, ".go")
		if !isGo || strings.HasSuffix(file, "_test") {
			continue
		}
		if _, low := floors[file]; !low {
			floors[file] = len(lowerRooms())
		}
		src, err := os.ReadFile(path)
		require.NoError(t, err)
		parsed[file], err = parser.ParseFile(token.NewFileSet(), path, src, 0)
		require.NoError(t, err)
		for name := range parsed[file].Scope.Objects {
			declared[name] = floors[file]
		}
	}
	for file, tree := range parsed {
		for _, use := range tree.Unresolved {
			if floor, ours := declared[use.Name]; ours && floor > floors[file] {
				t.Errorf("%s.go uses %s of a higher room", file, use.Name)
			}
		}
	}
}
