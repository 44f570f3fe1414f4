// Package arch tests the shape of the code base: who may import whom, and which
// names may be spelled where.
package arch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
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
		{"pkg/api", nil, nil},
		{"pkg/events", []string{"pkg/bucket", "pkg/keys", "pkg/api"}, nil},
		{"pkg/client", []string{"pkg/api"}, []string{"github.com/nats-io/nats.go"}},
		{"internal", []string{"pkg", "internal"}, []string{""}},
		{"services", []string{"pkg", "internal"}, []string{""}},
		{"test", []string{"pkg", "internal", "services"}, []string{""}},
		{"cmd", []string{"pkg", "internal", "services"}, []string{""}},
	}
}

// spelling is text that only some folders may have in a string literal.
type spelling struct {
	prefix string
	dirs   []string
	why    string
}

func spellings() []spelling {
	return []spelling{
		{"tidegate.v1.", []string{"pkg/api"}, "NATS subjects are spelled in pkg/api and pkg/events"},
		{"tidegate.config.", []string{"pkg/api"}, "NATS subjects are spelled in pkg/api and pkg/events"},
		{"tidegate.changes.", []string{"pkg/events"}, "NATS subjects are spelled in pkg/api and pkg/events"},
		{"shard_count", []string{"internal/table"}, "attribute names are spelled in internal/table"},
		{"b_wcu_tc", []string{"internal/table"}, "attribute names are spelled in internal/table"},
		{"config_version", []string{"internal/table"}, "attribute names are spelled in internal/table"},
		{"GSI1PK", []string{"internal/table"}, "attribute names are spelled in internal/table"},
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
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		text, err := strconv.Unquote(lit.Value)
		if err != nil {
			return true
		}
		for _, s := range spellings() {
			if strings.HasPrefix(text, s.prefix) && !withinAny(path.Dir(file), s.dirs) {
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
	ast.Inspect(parsed, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ok := sel.X.(*ast.Ident)
		if ok && pkg.Name == "time" && (sel.Sel.Name == "Now" || sel.Sel.Name == "Since" || sel.Sel.Name == "Until") {
			faults = append(faults, fmt.Sprintf("%s reads the wall clock: take the time as an argument", file))
		}
		return true
	})
	return faults
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
		"internal on a service":       {"internal/x/x.go", file(`import _ "github.com/tidegate/tidegate/services/admission"`, ""), "must not import"},
		"a folder of its own":         {"utils/x.go", file("", ""), "has no row"},
		"a subject":                   {"services/admission/x.go", file("", `const s = "tidegate.v1.default.acquire"`), "NATS subjects"},
		"an attribute":                {"services/admission/x.go", file("", `const s = "shard_count"`), "attribute names"},
		"the wall clock":              {"services/admission/x.go", file(`import "time"`, `var now = time.Now`), "wall clock"},
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

// Decisions stay short: at most 100 lines each.
func TestDecisionsAreShort(t *testing.T) {
	const most = 100
	entries, err := os.ReadDir("../../docs/adr")
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatal("docs/adr is missing")
	}
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(path.Join("../../docs/adr", e.Name()))
		require.NoError(t, err)
		lines := 0
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			lines++
		}
		require.LessOrEqual(t, lines, most, e.Name())
	}
}
