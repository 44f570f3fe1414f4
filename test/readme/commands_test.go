package readme_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// excuse is a command that cannot run here.
type excuse struct{ command, why string }

func excuses() []excuse {
	const (
		serves  = "runs until it is stopped; the test's own `tidegate up` is the same"
		long    = "takes minutes; it is what runs this test, or is run beside it"
		rewrite = "would make wrong golden files right"
		nested  = "is this test"
		engine  = "fetches another engine over the network"
		cloud   = "needs an AWS account or servers elsewhere"
	)
	return []excuse{
		{"make run", serves},
		{"make build", "writes into the tree; the test builds elsewhere"},
		{"make test", long},
		{"make check", long},
		{"make fuzz FUZZTIME=30s", long},
		{"make bench", long},
		{"make test-dynoxide", engine},
		{"make test-dynamodb-local", engine},
		{"go test -race -shuffle=on ./services/admission", long},
		{"go test ./pkg/api ./pkg/bucket", long},
		{"go test ./pkg/api -update", rewrite},
		{"go test ./pkg/client -update", rewrite},
		{"go test ./pkg/keys -update", rewrite},
		{"go test ./internal/table -update", rewrite},
		{"go test ./internal/limits -update", rewrite},
		{"go test ./internal/localdynamo -update", rewrite},
		{"go test ./internal/loadgen -update", rewrite},
		{"go test ./cmd/tidegate -update", rewrite},
		{"go test ./test/readme -run TestCodesAreListed -update", rewrite},
		{"go test ./test/readme", nested},
		{"tidegate table create --region eu-central-1", cloud},
		{"tidegate admission --nats nats://nats.example.com:4222 --creds admission.creds --region eu-central-1", cloud},
	}
}

// command is one line to type.
type command struct {
	text string
	code int // the exit code it ends with
	line int
}

// commands are the lines of an sh fence.
func (f fence) commands(t *testing.T) []command {
	t.Helper()
	comment := regexp.MustCompile(`\s+# exit code (\d)$`)
	var all []command
	for i, text := range strings.Split(strings.TrimSpace(f.text), "\n") {
		c := command{text: text, line: f.line + 1 + i}
		if m := comment.FindStringSubmatch(text); m != nil {
			c.text = strings.TrimSuffix(text, m[0])
			c.code, _ = strconv.Atoi(m[1]) // one digit
		}
		all = append(all, c)
	}
	return all
}

// Every command works as it stands, in order, on a system of its document's own.
func TestCommands(t *testing.T) {
	for _, d := range documents(t) {
		t.Run(d.name, func(t *testing.T) {
			commands := runnable(t, d)
			if len(commands) == 0 {
				return
			}
			s := start(t)
			for _, c := range commands {
				output, code := s.shell(t, c.text)
				require.Equal(t, c.code, code, "%s:%d: %s\n%s", d.name, c.line, c.text, output)
			}
		})
	}
}

// runnable are the document's commands that have no excuse.
func runnable(t *testing.T, d document) []command {
	t.Helper()
	var all []command
	for _, f := range d.fences(t) {
		if f.language != "sh" {
			continue
		}
		for _, c := range f.commands(t) {
			if !slices.ContainsFunc(excuses(), func(e excuse) bool { return e.command == c.text }) {
				all = append(all, c)
			}
		}
	}
	return all
}

// An excuse is for a command that some document has.
func TestExcusesAreNeeded(t *testing.T) {
	typed := map[string]bool{}
	for _, d := range documents(t) {
		for _, f := range d.fences(t) {
			if f.language == "sh" {
				for _, c := range f.commands(t) {
					typed[c.text] = true
				}
			}
		}
	}
	for _, e := range excuses() {
		require.True(t, typed[e.command], "no document says %q any more: remove its excuse", e.command)
		require.NotEmpty(t, e.why)
	}
}

// README shows the commands that `tidegate up` prints, and what the second of
// them answers.
func TestGreetingIsShown(t *testing.T) {
	greeting := read(t, "cmd/tidegate/testdata/greeting.txt").text
	var printed []string
	for line := range strings.Lines(greeting) {
		if command, ok := strings.CutPrefix(line, "  tidegate "); ok {
			printed = append(printed, "tidegate "+command)
		}
	}
	require.Len(t, printed, 3)
	readme := read(t, "README.md").text
	require.Contains(t, readme, "\n"+strings.Join(printed, ""))

	s := start(t)
	_, code := s.shell(t, printed[0])
	require.Zero(t, code)
	output, code := s.shell(t, printed[1])
	require.Zero(t, code, output)
	answer, _, ok := strings.Cut(output, "lease ")
	require.True(t, ok, output)
	require.Contains(t, readme, answer)
}
