package main

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestHelp shows the help of every command there is.
func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	var lines []string
	var walk func(*kong.Node)
	walk = func(n *kong.Node) {
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(n.FullPath(), "tidegate")+" --help"))
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(grammar(t).Node)
	golden(t, "help.txt", transcript(t, nil, lines...))
}

func grammar(t *testing.T) *kong.Application {
	t.Helper()
	parser, _, err := newParser(&cli{}, newWorld().environment())
	require.NoError(t, err)
	return parser.Model
}

// What people type before they know the commands is taken as it is meant.
func TestWhatIsMeantIsDone(t *testing.T) {
	for typed, meant := range map[string]string{"": "--help", "help": "--help", "help limits set": "limits set --help", "--version": "version"} {
		first, second := newWorld(), newWorld()
		require.Equal(t, exitDone, run(context.Background(), strings.Fields(typed), first.environment()), typed)
		require.Equal(t, exitDone, run(context.Background(), strings.Fields(meant), second.environment()), meant)
		require.NotEmpty(t, first.stdout.String())
		require.Equal(t, second.stdout.String(), first.stdout.String())
	}
}

// TestMisuse shows what wrong command lines are answered with. None of them
// asks anybody.
func TestMisuse(t *testing.T) {
	t.Parallel()
	golden(t, "misuse.txt", transcript(t, nil,
		"aquire key-1 gpt-4 rpm=1",
		"acquire",
		"acquire key-1",
		"acquire key-1 gpt-4",
		"acquire key-1 gpt-4 rpm",
		"acquire key-1 gpt-4 rpm=",
		"acquire key-1 gpt-4 rpm=x",
		"acquire key-1 gpt-4 rpm=-1",
		"acquire key-1 gpt-4 rpm=1.5",
		"acquire key-1 gpt-4 rpm:1",
		"acquire key-1 gpt-4 rpm=1 rpm=2",
		"acquire key-1 gpt-4 wcu=1",
		"acquire key\u200b1 gpt-4 rpm=1",
		"acquire key-1 _default_ rpm=1",
		"acquire key-1 gpt-4 rpm=1 --on-unavailable maybe",
		"acquire key-1 gpt-4 rpm=1 --limit rpm=1",
		"acquire key-1 gpt-4 rpm=1 --limit wcu=1/min",
		"acquire key-1 gpt-4 rpm=1 --limit rpm=1/min,rpm=2/min",
		"acquire key-1 gpt-4 rpm=1 --namespace Mine",
		"acquire key-1 gpt-4 rpm=1 --nat nats://127.0.0.1:4222",
		"acquire key-1 gpt-4 rpm=1 --nats",
		"adjust",
		"adjust A tpm",
		"release",
		"status",
		"status --jsn key-1",
		"status key-1 gpt-4 rpm",
		"status key\u200b1",
		"limits",
		"limits st",
		"limits set",
		"limits set --system",
		"limits set rpm=100/min",
		"limits set --system rpm=100",
		"limits set --system rpm=100/minut",
		"limits set --system rpm=100/min:x",
		"limits set --system rpm=0/min",
		"limits set --system rpm=100/min rpm=10/s",
		"limits set --system --entity key-1 rpm=100/min",
		"limits set --entity key\u200b1 rpm=100/min",
		"limits set --resource _default_ rpm=100/min",
		"limits set --system rpm=100/min --on-unavailable maybe",
		"shards key-1",
		"shards key\u200b1 gpt-4",
		"shards key-1 gpt-4 --over 0s",
		"bucket",
		"bucket reset key-1",
		"bucket reset key-1 _default_",
		"limits get",
		"limits get key-1",
		"limits delete",
		"limits list --resource _default_",
		"limits resolve key-1",
		"limits resolve key\u200b1 gpt-4",
		"entity create",
		"entity create key\u200b1",
		"entity create key-1 --cascade",
		"entity create key-1 --parent key-1",
		"entity create key-1 --meta team",
		"entity create key-1 --meta team=a --meta team=b",
		"entity create key-1 --meta a*b=c",
		"entity get key\u200b1",
		"entity update key-1",
		"entity update key-1 --parent acme --no-parent",
		"entity update key-1 --no-parent --cascade",
		"entity update key-1 --name x --if-version -1",
		"entity delete key\u200b1",
		"entity children key\u200b1",
		"audit list --entity key-1 --resource gpt-4",
		"audit list --action limits.guess",
		"audit list --from yesterday",
		"audit list --from 2026-03-02 --to 2026-03-01T12:00:00Z",
		"audit list --limit -1",
		"audit show",
		"table",
		"table drop",
		"table status --dynamodb-endpoint 127.0.0.1:8000",
		"table delete",
		"up now",
		"up --nats-listen 4222",
		"up --log-format xml",
		"relay --log-level loud",
		"up --dynamodb-listen 8000",
		"up --dynamodb-listen 0.0.0.0:8000",
		"dynamodb --listen :8000",
		"admission --dynamodb-endpoint localhost",
		"version --short",
	))
}

func TestEveryMisuseEndsWithUsage(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"aquire", "acquire", "acquire k m rpm", "limits set rpm=1/s", "table delete", "--nope"} {
		w := newWorld()
		require.Equal(t, exitUsage, runWithin(t, strings.Fields(line), w), line)
		require.Empty(t, w.stdout.String(), line)
		require.Contains(t, w.stderr.String(), "--help", line)
	}
}

// TestConnectionsAndServicesHaveVariables gives flags a value that they must refuse, or
// take, by their variables alone.
func TestConnectionsAndServicesHaveVariables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, variable, value, says string
		code                        int
	}{
		{"acquire key-1 gpt-4 rpm=1", "TIDEGATE_NATS", "nats://127.0.0.1:1", "nats://127.0.0.1:1", exitError},
		{"acquire key-1 gpt-4 rpm=1", "TIDEGATE_CREDS", "/nowhere/creds", "/nowhere/creds", exitError},
		{"acquire key-1 gpt-4 rpm=1", "TIDEGATE_NAMESPACE", "No", "--namespace", exitUsage},
		{"table status", "TIDEGATE_DYNAMODB_ENDPOINT", "nowhere", "--dynamodb-endpoint", exitUsage},
		{"table delete", "TIDEGATE_TABLE", "mine", "in the table mine", exitUsage},
		{"up", "TIDEGATE_NATS_LISTEN", "4222", "--nats-listen", exitUsage},
		{"up", "TIDEGATE_DYNAMODB_LISTEN", "8000", "--dynamodb-listen", exitUsage},
		{"up", "TIDEGATE_ADMIN_LISTEN", "9464", "--admin-listen", exitUsage},
		{"up --admin-listen 127.0.0.1:0", "TIDEGATE_DIR", "/dev/null/data", "/dev/null/data", exitError},
	} {
		w := newWorld()
		w.env[c.variable] = c.value
		require.Equal(t, c.code, runWithin(t, strings.Fields(c.line), w), c.variable)
		require.Contains(t, w.stderr.String(), c.says, c.variable)
	}
	w := newWorld()
	w.env["TIDEGATE_JSON"] = "true"
	require.Equal(t, exitDone, runWithin(t, []string{"version"}, w))
	require.Contains(t, w.stdout.String(), `{"version":`)
}

// Nothing but a connection can come from the environment of a command that reads or changes
// data: a forgotten variable must not choose another target or confirm a removal.
func TestVariablesChooseNoTarget(t *testing.T) {
	t.Parallel()
	connection := map[string]bool{
		"json": true, "nats": true, "creds": true, "nats-ca": true, "nats-cert": true, "nats-key": true, "namespace": true,
		"nats-monitor": true, "dynamodb-endpoint": true, "dynamodb-ca": true, "region": true, "table": true,
	}
	var c cli
	parser, _, err := newParser(&c, newWorld().environment())
	require.NoError(t, err)
	variables := map[*kong.Flag]bool{}
	markVariables(parser.Model.Node, variables)
	asked := 0
	for _, command := range parser.Model.Leaves(true) {
		runs := command.Group != nil && command.Group.Key == "run"
		for _, flags := range command.AllFlags(false) {
			for _, flag := range flags {
				if flag.Name == "help" {
					continue
				}
				asked++
				w := newWorld()
				w.env[environmentName(flag.Name)] = "from the environment"
				value, err := fromEnvironment(w.environment().getenv, variables).Resolve(nil, nil, flag)
				require.NoError(t, err)
				stands := runs || connection[flag.Name]
				require.Equal(t, stands, value != nil, "%s --%s", command.Path(), flag.Name)
				require.Equal(t, stands, strings.Contains(describe(flag.Value, variables), environmentName(flag.Name)), "%s --%s", command.Path(), flag.Name)
			}
		}
	}
	require.Greater(t, asked, 100)
}

// TestWhatIsTypedBeatsTheVariable: flags overrule the environment.
func TestWhatIsTypedBeatsTheVariable(t *testing.T) {
	w := newWorld()
	w.env["TIDEGATE_TABLE"] = "theirs"
	require.Equal(t, exitUsage, runWithin(t, []string{"table", "delete", "--table", "mine"}, w))
	require.Contains(t, w.stderr.String(), "in the table mine")
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	env := map[string]string{"TIDEGATE_NATS": "nats://127.0.0.1:1", "TIDEGATE_DYNAMODB_ENDPOINT": "http://127.0.0.1:1"}
	golden(t, "no_server.txt", transcript(t, env,
		"status key-1",
		"status key-1 --json",
		"admission",
	))
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"tidegate": "tidegate", "/a b/tidegate": "'/a b/tidegate'", "": "''", "it's": `'it'\''s'`,
		"rpm=100/min:20": "rpm=100/min:20", "$HOME": "'$HOME'", "~x": "'~x'",
	} {
		require.Equal(t, want, quoted(word))
	}
}

func TestWait(t *testing.T) {
	for ms, want := range map[int64]string{
		1: "1 ms", 590: "590 ms", 999: "999 ms", 1000: "1.0 s", 1001: "1.1 s", 1174: "1.2 s",
		59_901: "60.0 s", 60_000: "1m0s", 60_001: "1m1s", 86_400_000: "24h0m0s",
		2 * 86_400_000: "2 days", 2*86_400_000 + 1: "3 days", math.MaxInt64 / 2: "53375995584 days",
	} {
		require.Equal(t, want, wait(ms), "%d ms", ms)
	}
}
