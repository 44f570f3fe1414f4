// Package arch tests the shape of the code base: who may import whom, and which
// names may be spelled where.
package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const module = "github.com/tidegate/tidegate/"

// folder says what the packages in a folder may import. The longest one that
// matches a file counts; a folder without a row may not exist.
type folder struct {
	dir  string
	own  []string // prefixes of our packages, beside the folder itself
	libs []string // prefixes of third-party packages; "" is any
}

func folders() []folder {
	return []folder{
		{"pkg/bucket", nil, nil},
		{"pkg/keys", nil, nil},
		{"pkg/api", nil, []string{"github.com/go-json-experiment/json"}},
		{"pkg/events", []string{"pkg/bucket", "pkg/keys", "pkg/api"}, nil},
		{"pkg/client", []string{"pkg/api"}, []string{"github.com/nats-io/nats.go"}},
		{"pkg/client/oteltidegate", []string{"pkg/api", "pkg/client"}, []string{"github.com/nats-io/nats.go", "go.opentelemetry.io/otel"}},
		// Each package of internal has a row of its own, lowest floor first.
		{"engine", nil, []string{"github.com/aws/aws-sdk-go-v2/aws", "github.com/prometheus/client_golang/prometheus", "github.com/tidwall/btree"}},
		{"engine/attr", nil, nil},
		{"engine/expr", []string{"engine/attr"}, nil},
		{"engine/journal", nil, nil},
		{"engine/fault", []string{"engine"}, nil},
		{"engine/differential", nil, nil},
		{"internal/process", nil, []string{""}},
		{"internal/jitter", nil, nil},
		{"internal/leader", nil, []string{""}},
		{"internal/outage", []string{"internal/leader"}, []string{""}},
		{"internal/dirtest", nil, []string{""}},
		{"internal/embednats", nil, []string{""}},
		{"internal/embednats/natstest", []string{"internal/dirtest", "internal/embednats"}, []string{""}},
		{"internal/loadgen", []string{"pkg/api", "pkg/client"}, []string{""}},
		{"internal/feed", []string{"pkg/api", "pkg/events", "internal/leader", "internal/outage", "internal/process"}, []string{""}},
		{"internal/worker", []string{"pkg/api", "internal/feed", "internal/leader", "internal/outage"}, []string{""}},
		{"internal/table", []string{"pkg/api", "pkg/bucket", "pkg/keys"}, []string{""}},
		{"internal/table/tabletest", []string{"pkg/keys", "internal/table", "engine"}, []string{""}},
		{"internal/store", []string{"pkg/api", "pkg/bucket", "pkg/keys", "internal/jitter", "internal/table"}, []string{""}},
		{"internal/rollback", []string{"internal/leader", "internal/process", "internal/store", "internal/table"}, []string{""}},
		{"internal/audit", []string{"pkg/api", "pkg/keys", "internal/store", "internal/table"}, []string{"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"}},
		{"internal/audit/archive", []string{"pkg/api", "pkg/events", "pkg/keys", "internal/audit"}, []string{""}},
		{"internal/audit/archive/archivetest", []string{"internal/audit/archive", "internal/store"}, []string{""}},
		{"internal/config", []string{"pkg/api", "pkg/bucket", "pkg/keys", "internal/audit", "internal/jitter", "internal/store", "internal/table"}, []string{""}},
		{"internal/shards", []string{"pkg/api", "pkg/bucket", "pkg/keys", "internal/audit", "internal/config", "internal/store", "internal/table"}, []string{""}},
		{"internal/control", []string{"pkg/api", "pkg/bucket", "pkg/keys", "internal/audit", "internal/config", "internal/process", "internal/shards", "internal/store", "internal/table"}, []string{""}},
		{"internal/arch", nil, []string{""}},
		{"services", []string{"pkg", "internal"}, []string{""}},
		{"services/admission", []string{"pkg", "internal/config", "internal/jitter", "internal/outage", "internal/process", "internal/shards", "internal/store", "internal/table"}, []string{""}},
		{"services/admission/duty", []string{"pkg/api"}, []string{"github.com/nats-io/nats.go", "github.com/prometheus/client_golang"}},
		{"services/admission/fair", nil, nil},
		{"services/admission/lease", []string{"pkg/api", "pkg/bucket", "internal/control", "internal/leader", "internal/outage", "internal/rollback", "internal/store", "internal/table"}, []string{""}},
		{"services/admission/live", []string{"pkg/events", "pkg/keys"}, []string{"github.com/nats-io/nats.go"}},
		{"test", []string{"pkg", "internal", "services", "engine"}, []string{""}},
		{"cmd", []string{"pkg", "internal", "services", "engine"}, []string{""}},
	}
}

// spelling is text that only some folders may have in a string literal.
type spelling struct {
	text *regexp.Regexp
	dirs []string
	why  string
}

func spellings() []spelling {
	const attributes = "attribute names are spelled in internal/table"
	// What counts usage another way shares no names either.
	tables := []string{"internal/table", "test/ledger"}
	return []spelling{
		{
			regexp.MustCompile(`^tidegate\.[a-z0-9]+\.`),
			[]string{"pkg/api", "pkg/events"},
			"NATS subjects are spelled in pkg/api and pkg/events",
		},
		// Names that are nothing else, also within an expression. What internal/table
		// stores under plain words (name, version, want, cascade) or under the words of the
		// wire contract (on_unavailable) cannot be told from other uses of them.
		{
			regexp.MustCompile(`\b(shard_count|parent_id|config_version|schema_version|namespace_id|created_ms|total_events|hw_\d+|GSI[1-9](PK|SK)?|b_\w+_(dr|cp|ra|rp|tc)|l_\w+_(cp|ra|rp))\b`),
			tables,
			attributes,
		},
		// Names too short to look for within other text, and parts of names.
		{
			regexp.MustCompile(`^(PK|SK|ttl|cfg|lw|an|b_|l_|u_|hw_|_(dr|cp|ra|rp|tc))$`),
			tables,
			attributes,
		},
	}
}

// wallClock lists where the wall clock may be read; everything else is given
// the time.
func wallClock() []string { return []string{"cmd", "pkg/client"} }

// check returns what is wrong with a tree of Go files, tests left out.
func check(tree fs.FS) (faults []string, err error) {
	err = fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != ".":
			return fs.SkipDir
		case path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
		if err != nil {
			return err
		}
		faults = append(faults, imports(file, parsed)...)
		faults = append(faults, literals(file, parsed)...)
		faults = append(faults, clocks(file, parsed)...)
		return nil
	})
	return faults, err
}

func imports(file string, parsed *ast.File) (faults []string) {
	row, ok := folderOf(path.Dir(file))
	if !ok {
		return []string{file + ": its folder has no row in folders()"}
	}
	for _, spec := range parsed.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err != nil || !row.allows(path.Dir(file), imported) {
			faults = append(faults, fmt.Sprintf("%s must not import %s", file, imported))
		}
	}
	return faults
}

func folderOf(dir string) (best folder, ok bool) {
	for _, f := range folders() {
		if within(dir, f.dir) && len(f.dir) > len(best.dir) {
			best, ok = f, true
		}
	}
	return best, ok
}

func (f folder) allows(dir, imported string) bool {
	own, ours := strings.CutPrefix(imported, module)
	if !ours {
		if !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
			return true // the standard library
		}
		return withinAny(imported, f.libs)
	}
	if f.dir == "services" && within(own, "services") {
		return within(own, serviceOf(dir)) // never another service
	}
	return withinAny(own, f.own) || within(own, f.dir)
}

func serviceOf(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return path.Join(parts[0], parts[1])
}

func literals(file string, parsed *ast.File) (faults []string) {
	ast.Inspect(parsed, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			field.Tag = nil // names on the wire, not in the table
		}
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		for _, s := range spellings() {
			if s.text.MatchString(text) && !withinAny(path.Dir(file), s.dirs) {
				faults = append(faults, fmt.Sprintf("%s spells %q: %s", file, text, s.why))
			}
		}
		return true
	})
	return faults
}

func clocks(file string, parsed *ast.File) (faults []string) {
	if withinAny(path.Dir(file), wallClock()) {
		return nil
	}
	name := nameOf("time", parsed)
	if name == "." {
		return []string{file + " imports time with a dot, which hides who reads the wall clock"}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if ok && pkg.Name == name && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since" || sel.Sel.Name == "Until") {
			faults = append(faults, fmt.Sprintf("%s reads the wall clock: take the time as an argument", file))
		}
		return true
	})
	return faults
}

// nameOf is what a file calls a package of the standard library.
func nameOf(imported string, parsed *ast.File) string {
	for _, spec := range parsed.Imports {
		if spec.Path.Value == strconv.Quote(imported) && spec.Name != nil {
			return spec.Name.Name
		}
	}
	return path.Base(imported)
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func withinAny(p string, dirs []string) bool {
	for _, dir := range dirs {
		if dir == "" || within(p, dir) {
			return true
		}
	}
	return false
}

func TestTheTreeKeepsTheRules(t *testing.T) {
	faults, err := check(os.DirFS("../.."))
	require.NoError(t, err)
	require.Empty(t, strings.Join(faults, "\n"))
}

// The checker finds what it is there to find.
func TestViolationsAreFound(t *testing.T) {
	file := func(imports, body string) string { return "package p\n" + imports + "\n" + body }
	for name, c := range map[string]struct{ at, src, fault string }{
		"a library in a pure package": {"pkg/bucket/x.go", file(`import _ "github.com/nats-io/nats.go"`, ""), "must not import"},
		"our own in a pure package":   {"pkg/keys/x.go", file(`import _ "github.com/tidegate/tidegate/pkg/api"`, ""), "must not import"},
		"the client on the store":     {"pkg/client/x.go", file(`import _ "github.com/aws/aws-sdk-go-v2/aws"`, ""), "must not import"},
		"a service on another":        {"services/relay/x.go", file(`import _ "github.com/tidegate/tidegate/services/admission"`, ""), "must not import"},
		"a floor on a higher one":     {"internal/table/x.go", file(`import _ "github.com/tidegate/tidegate/internal/config"`, ""), "must not import"},
		"internal without a row":      {"internal/x/x.go", file("", ""), "has no row"},
		"internal on a service":       {"internal/store/x.go", file(`import _ "github.com/tidegate/tidegate/services/admission"`, ""), "must not import"},
		"our own in the engine":       {"engine/x.go", file(`import _ "github.com/tidegate/tidegate/pkg/keys"`, ""), "must not import"},
		"the engine in its values":    {"engine/attr/x.go", file(`import _ "github.com/tidegate/tidegate/engine"`, ""), "must not import"},
		"a service on the engine":     {"services/relay/x.go", file(`import _ "github.com/tidegate/tidegate/engine/attr"`, ""), "must not import"},
		"a folder of its own":         {"utils/x.go", file("", ""), "has no row"},
		"a subject":                   {"services/admission/x.go", file("", `const s = "tidegate.v1.default.acquire"`), "NATS subjects"},
		"a subject of another kind":   {"internal/feed/x.go", file("", `const s = "tidegate.dlq.v1.archiver"`), "NATS subjects"},
		"an attribute":                {"services/admission/x.go", file("", `const s = "shard_count"`), "attribute names"},
		"an attribute of a limit":     {"services/sharder/x.go", file("", `const s = "b_wcu_tc"`), "attribute names"},
		"an attribute's ending":       {"services/sharder/x.go", file("", `func f(x string) string { return x + "_dr" }`), "attribute names"},
		"a short attribute":           {"internal/config/x.go", file("", `const s = "PK"`), "attribute names"},
		"an index":                    {"services/sharder/x.go", file("", `const s = "GSI2"`), "attribute names"},
		"an attribute, in expression": {"services/relay/x.go", file("", `const s = "SET parent_id = :v0"`), "attribute names"},
		"the wall clock":              {"services/admission/x.go", file(`import "time"`, `var now = time.Now`), "wall clock"},
		"the wall clock renamed":      {"internal/store/x.go", file(`import t "time"`, `var age = t.Since`), "wall clock"},
		"the wall clock hidden":       {"internal/store/x.go", file(`import . "time"`, `var now = Now`), "with a dot"},
		"a name on the wire":          {"pkg/api/x.go", file("", "type t struct{ V int `json:\"config_version\"` }"), ""},
		"the wall clock in main":      {"cmd/tidegate/x.go", file(`import "time"`, `var now = time.Now`), ""},
		"another's Now":               {"internal/store/x.go", file("", `var now = clock.Now`), ""},
		"a file name":                 {"cmd/tidegate/x.go", file("", `const s = "tidegate.yaml"`), ""},
		"anything, in a test":         {"pkg/keys/x_test.go", file(`import _ "github.com/nats-io/nats.go"`, `const s = "shard_count"`), ""},
		"nothing":                     {"services/admission/x.go", file(`import _ "github.com/tidegate/tidegate/internal/table"`, ""), ""},
		"the service itself":          {"services/admission/x/x.go", file(`import _ "github.com/tidegate/tidegate/services/admission"`, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			faults, err := check(fstest.MapFS{c.at: {Data: []byte(c.src)}})
			require.NoError(t, err)
			if c.fault == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], c.fault)
		})
	}
}

// Decisions stay short and keep their form, which docs/adr/README.md describes,
// and that file lists them all.
func TestDecisionsKeepTheirForm(t *testing.T) {
	faults, err := decisions(os.DirFS("../../docs/adr"))
	require.NoError(t, err)
	require.Empty(t, strings.Join(faults, "\n"))
}

const longestDecision = 100 // lines

// decisions returns what is wrong with a folder of decision records.
func decisions(dir fs.FS) (faults []string, err error) {
	index, err := fs.ReadFile(dir, "README.md")
	if err != nil {
		return nil, err
	}
	files, err := fs.Glob(dir, "*")
	for _, name := range files {
		if name == "README.md" {
			continue
		}
		if !regexp.MustCompile(`^\d{4}(-[a-z0-9]+)+\.md$`).MatchString(name) {
			faults = append(faults, name+": its name is not like 0007-what-was-decided.md")
		}
		if !strings.Contains(string(index), "("+name+")") {
			faults = append(faults, name+": README.md does not list it")
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return faults, err
		}
		if lines := strings.Count(string(text), "\n"); lines > longestDecision {
			faults = append(faults, fmt.Sprintf("%s: %d lines, at most %d", name, lines, longestDecision))
		}
		for _, heading := range []string{"## Context", "## Decision", "## Consequences", "## Alternatives"} {
			if !strings.Contains(string(text), "\n"+heading+"\n") {
				faults = append(faults, name+" lacks "+heading)
			}
		}
	}
	return faults, err
}

// The checker of decisions finds what it is there to find.
func TestMisshapenDecisionsAreFound(t *testing.T) {
	const good = "# 1. x\n\n## Context\n\n## Decision\n\n## Consequences\n\n## Alternatives\n"
	for name, c := range map[string]struct{ file, text, fault string }{
		"good":     {"0001-x.md", good, ""},
		"long":     {"0001-x.md", good + strings.Repeat("\n", longestDecision), "at most 100"},
		"headless": {"0001-x.md", strings.Replace(good, "## Decision", "## Thoughts", 1), "lacks ## Decision"},
		"unlisted": {"0002-y.md", good, "does not list"},
		"unnamed":  {"X.md", good, "is not like"},
	} {
		t.Run(name, func(t *testing.T) {
			faults, err := decisions(fstest.MapFS{
				"README.md": {Data: []byte("[1](0001-x.md) [x](X.md)\n")},
				c.file:      {Data: []byte(c.text)},
			})
			require.NoError(t, err)
			if c.fault == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.Contains(t, faults[0], c.fault)
		})
	}
}
