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
		serves   = "runs until it is stopped; the test's own `tidegate up` is the same"
		long     = "takes minutes; it is what runs this test, or is run beside it"
		rewrite  = "would make wrong golden files right"
		nested   = "is this test"
		engine   = "fetches another engine over the network"
		python   = "needs Python and nats-py; make test-python fetches it and runs this"
		docker   = "needs a container engine; test/deploy runs what the files name"
		users    = "needs the users of deploy/nats; test/deploy has them"
		template = "writes into the tree; test/deploy does it to a copy"
		cloud    = "needs an AWS account or servers elsewhere"
	)
	return []excuse{
		{"make run", serves},
		{"make build", "writes into the tree; the test builds elsewhere"},
		{"make test", long},
		{"make test-fast", long},
		{"make check", long},
		{"make fuzz FUZZTIME=30s", long},
		{"make bench", long},
		{"make test-dynoxide", engine},
		{"make test-alerts", long},
		{"docker compose -f deploy/compose/compose.yaml --profile observe up --build --wait", docker},
		{"make test-nats-cli", "builds the nats command, which takes minutes the first time"},
		{"make test-python", python},
		{"python3 test/python/tidegate.py nats://127.0.0.1:4222", python},
		{"make test-dynamodb-local", engine},
		{"go test -race -short -shuffle=on ./services/admission", long},
		{"go test ./pkg/api ./pkg/bucket", long},
		{"go test ./pkg/api -update", rewrite},
		{"go test ./pkg/client -update", rewrite},
		{"go test ./pkg/keys -update", rewrite},
		{"go test ./internal/table -update", rewrite},
		{"go test ./internal/config -update", rewrite},
		{"go test ./engine -update", rewrite},
		{"go test ./internal/loadgen -update", rewrite},
		{"go test ./cmd/tidegate -update", rewrite},
		{"go test ./test/readme -run TestCodesAreListed -update", rewrite},
		{"go test ./test/readme", nested},
		{"tidegate table create --region eu-central-1", cloud},
		{"tidegate admission --nats nats://nats.example.com:4222 --creds admission.creds --region eu-central-1", cloud},
		{"tidegate table create --region eu-central-1 --table tidegate", cloud},
		{`tidegate admission --region eu-central-1 --table tidegate --nats nats://nats.example.com:4222 --creds admission.creds --lease-replicas 3 --trust-request-info --archive "s3://tidegate-audit?region=eu-central-1"`, cloud},
		{"tidegate relay --region eu-central-1 --table tidegate --nats nats://nats.example.com:4222 --creds relay.creds --feed-replicas 3", cloud},
		{`tidegate archiver --nats nats://nats.example.com:4222 --creds archiver.creds --archive "s3://tidegate-audit?region=eu-central-1"`, cloud},
		{`tidegate archiver --archive "s3://tidegate-audit?region=eu-central-1" --nats nats://nats.example.com:4222 --creds archiver.creds --feed-replicas 3`, cloud},
		{"tidegate aggregator --region eu-central-1 --table tidegate --nats nats://nats.example.com:4222 --creds aggregator.creds --feed-replicas 3", cloud},
		{"tidegate sharder --region eu-central-1 --table tidegate --nats nats://nats.example.com:4222 --creds sharder.creds --feed-replicas 3", cloud},
		{"tidegate check --region eu-central-1 --nats-monitor http://nats-1.example.com:8222,http://nats-2.example.com:8222", cloud},
		{"aws cloudformation deploy --template-file deploy/aws/table.yaml --stack-name tidegate --parameter-overrides TableName=tidegate", cloud},
		{"docker compose -f deploy/compose/compose.yaml up --build --wait", docker},
		{"docker compose -f deploy/compose/compose.yaml up --scale aggregator=3 --wait", docker},
		{"docker compose -f deploy/compose/compose.yaml -f deploy/compose/compose.dynamodb-local.yaml up --build --wait", docker},
		{"docker compose -f deploy/compose/compose.yaml -f deploy/compose/compose.aws.yaml up --build --wait", docker},
		{"TIDEGATE_TLS_DIR=/etc/tidegate-tls docker compose -f deploy/compose/compose.yaml -f deploy/compose/compose.tls.yaml up --build --wait", docker},
		{"TIDEGATE_NATS=nats://default-admin:local-admin@127.0.0.1:4222 tidegate limits set --resource gpt-4 rpm=100/min", users},
		{"TIDEGATE_NATS=nats://default:local-tenant@127.0.0.1:4222 tidegate acquire api-key-123 gpt-4 rpm=1", users},
		{"TIDEGATE_NATS=nats://default:local-tenant@127.0.0.1:4222 tidegate bench --resource gpt-4 --duration 3s --metrics http://127.0.0.1:9464/metrics,http://127.0.0.1:9465/metrics", users},
		{"TIDEGATE_NATS=nats://operator:local-operator@127.0.0.1:4222 tidegate namespace create acme", users},
		{"sed 's/default/acme/g' deploy/nats/tenants/default.conf > deploy/nats/tenants/acme.conf", template},
		{`sed -i 's#^  include ./tenants/default.conf$#&\n  include ./tenants/acme.conf#' deploy/nats/nats-server.conf`, template},
		{"tidegate relay --nats nats://nats.example.com:4222 --creds relay.creds --region eu-central-1 --feed-replicas 3", cloud},
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

// Every command works as it stands, in order, on a system of its document's own, and
// every request, after the commands, gets the reply that is written below it.
func TestCommandsAndExchanges(t *testing.T) {
	for _, d := range documents(t) {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel() // mostly they wait for processes that start and stop
			commands, exchanges := runnable(t, d), d.exchanges(t)
			if len(commands)+len(exchanges) == 0 {
				return
			}
			s := start(t)
			for _, c := range commands {
				output, code := s.shell(t, c.text)
				require.Equal(t, c.code, code, "%s:%d: %s\n%s", d.name, c.line, c.text, output)
			}
			nc, lease := s.connect(t), ""
			for _, x := range exchanges {
				lease = play(t, d, nc, x, lease)
			}
		})
	}
}

// natsCLI is about a program that make test-nats-cli builds, and runs what it says of
// it.
const natsCLI = "docs/nats-cli.md"

// runnable are the document's commands that have no excuse.
func runnable(t *testing.T, d document) []command {
	t.Helper()
	var all []command
	for _, f := range d.fences(t) {
		if f.language != "sh" {
			continue
		}
		for _, c := range f.commands(t) {
			if d.name == natsCLI && strings.HasPrefix(c.text, "nats ") {
				continue
			}
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

	s := share(t, "greeting")
	_, code := s.shell(t, printed[0])
	require.Zero(t, code)
	output, code := s.shell(t, printed[1])
	require.Zero(t, code, output)
	answer, _, ok := strings.Cut(output, "lease ")
	require.True(t, ok, output)
	require.Contains(t, readme, answer)
}
