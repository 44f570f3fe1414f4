package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is a change of a file that breaks the system, or is equivalent.
type mutant struct {
	name string
	file string // path in the module
	old  string // text that the file has exactly once
	new  string // text in its place
	// equivalent states why no test can notice the change; empty: a test must.
	equivalent string
}

// mutants returns all mutants.
func mutants() []mutant {
	return slices.Concat(bucketMutants(), formMutants(), planMutants(), flightMutants(), leaseMutants(),
		relayMutants(), consumerMutants(), followerMutants())
}

// suite is a run of a package's tests.
type suite struct {
	pkg string
	run string // regular expression of the tests; empty: all
}

// suites returns the tests that should notice a change of a file, the quickest first.
func suites(file string) []suite {
	admission := suite{pkg: "services/admission"}
	explorer := suite{pkg: "services/admission", run: "^TestEverySmallCase"}
	own := suite{pkg: path.Dir(file)}
	switch own.pkg {
	case "pkg/bucket":
		return []suite{own, explorer, {pkg: "internal/shards"}, admission}
	case "internal/table":
		if path.Base(file) == "usage.go" {
			return []suite{own, {pkg: "services/aggregator"}}
		}
		return []suite{explorer, {pkg: "internal/shards"}, own, admission}
	case "internal/shards":
		return []suite{own, explorer, admission}
	case "services/admission":
		return []suite{explorer, own}
	case "services/admission/lease":
		return []suite{own, admission}
	case "internal/feed":
		return []suite{own, {pkg: "services/aggregator"}}
	}
	return []suite{own}
}

// apply returns the file with the mutant's change.
func (m *mutant) apply(root string) (changed []byte, err error) {
	src, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return nil, fmt.Errorf("mutant %s: %w", m.name, err)
	}
	switch n := strings.Count(string(src), m.old); {
	case m.old == "" || m.old == m.new:
		return nil, fmt.Errorf("mutant %s changes nothing", m.name)
	case n != 1:
		return nil, fmt.Errorf("mutant %s: %s has its text %d times: adapt the row to the file, or remove it", m.name, m.file, n)
	}
	return []byte(strings.Replace(string(src), m.old, m.new, 1)), nil
}

// id returns a name that changes with the mutant's row and with its file.
func (m *mutant) id(changed []byte) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q %q %q ", m.file, m.old, m.new)
	_, _ = h.Write(changed)
	return hex.EncodeToString(h.Sum(nil)[:12])
}
