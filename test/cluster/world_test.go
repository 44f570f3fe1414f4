//go:build cluster

package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
	"github.com/tidegate/tidegate/test/program"
)

// world is a cluster of three NATS servers, the embedded store, and all services.
type world struct {
	dir      string
	tidegate string // the program
	env      []string
	store    string // the store's endpoint
	urls     []string
	monitors []string
	servers  []*process
	services []*process
}

// users of deploy/nats, and a tester, who may do everything in the services' account.
const tester = "tester"

func password(user string) string { return "secret-of-" + user }

// newWorld starts the store and makes the table. NATS and the services do not run yet.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: dirtest.New(t)}
	var err error
	w.tidegate, err = program.Tidegate(t.Context())
	require.NoError(t, err)
	w.env = []string{"HOME=" + w.dir, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"}
	store := w.process(t, "store", w.tidegate, "dynamodb", "--listen", "127.0.0.1:0", "--json")
	store.start(t)
	w.store = store.logged(t, `"dynamodb":\s*"(http://[^"]+)"`)
	out, err := w.run(t, "table", "create", "--dynamodb-endpoint", w.store)
	require.NoError(t, err, "%s", out)
	w.defineServers(t)
	w.defineServices(t)
	return w
}

// process defines a process that ends with the test.
func (w *world) process(t *testing.T, name, file string, words ...string) *process {
	t.Helper()
	p := &process{name: name, program: file, words: words, env: w.env, dir: w.dir}
	require.NoError(t, os.WriteFile(p.logFile(), nil, 0o600))
	t.Cleanup(func() { p.cleanup(t) })
	return p
}

// run runs a command line to its end.
func (w *world) run(t *testing.T, words ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), w.tidegate, words...)
	cmd.Env = w.env
	return cmd.CombinedOutput()
}

// defineServers prepares three servers with the files of deploy/nats.
func (w *world) defineServers(t *testing.T) {
	t.Helper()
	file, err := program.NATSServer(t.Context())
	require.NoError(t, err)
	clients, monitors, routes := freeAddresses(t, 3), freeAddresses(t, 3), freeAddresses(t, 3)
	env := []string{"TIDEGATE_ROUTE_PASSWORD=" + password("route")}
	for _, user := range []string{"admission", "relay", "aggregator", "sharder", "archiver", "letters", "operator"} {
		env = append(env, "TIDEGATE_"+strings.ToUpper(user)+"_PASSWORD="+password(user))
	}
	for _, role := range []string{"TENANT", "OVERRIDE", "ADMIN"} {
		env = append(env, "TIDEGATE_"+role+"_PASSWORD_default="+password(role))
	}
	for i, route := range routes {
		env = append(env, fmt.Sprintf("TIDEGATE_NATS_ROUTE_%d=nats://route:%s@%s", i+1, password("route"), route))
	}
	for i := range clients {
		name := fmt.Sprintf("nats-%d", i+1)
		dir := filepath.Join(w.dir, name)
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "deploy", "nats"))))
		replace(t, filepath.Join(dir, "nats-server.conf"), "0.0.0.0:4222", clients[i])
		replace(t, filepath.Join(dir, "nats-server.conf"), "0.0.0.0:8222", monitors[i])
		replace(t, filepath.Join(dir, "nats-server.conf"), "store_dir: /data", fmt.Sprintf("store_dir: %q", filepath.Join(dir, "data")))
		replace(t, filepath.Join(dir, "nats-server-cluster.conf"), "0.0.0.0:6222", routes[i])
		replace(t, filepath.Join(dir, "nats-server-cluster.conf"), `lame_duck_grace_period: "5s"`, `lame_duck_grace_period: "3s"`)
		replace(t, filepath.Join(dir, "services.conf"), "  users: [\n", fmt.Sprintf("  users: [\n    { user: %s, password: %q }\n", tester, password(tester)))
		p := w.process(t, name, file, "--config", filepath.Join(dir, "nats-server-cluster.conf"))
		p.env = append([]string{"TIDEGATE_NATS_NAME=" + name}, env...)
		w.servers = append(w.servers, p)
		w.urls = append(w.urls, "nats://"+clients[i])
		w.monitors = append(w.monitors, "http://"+monitors[i])
	}
}

// replace replaces text in a file that has it once.
func replace(t *testing.T, file, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), old), "%s in %s", old, file)
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(text), old, replacement, 1)), 0o600))
}

// freeAddresses returns addresses of loopback with free ports.
func freeAddresses(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { require.NoError(t, l.Close()) }() // after all are taken
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// serviceCounts are the processes of each service.
func serviceCounts() []struct {
	service string
	count   int
} {
	return []struct {
		service string
		count   int
	}{{"admission", 3}, {"relay", 2}, {"aggregator", 2}, {"sharder", 1}, {"archiver", 1}}
}

// defineServices prepares the services. Each knows all servers, in an order of its own.
func (w *world) defineServices(t *testing.T) {
	t.Helper()
	for _, s := range serviceCounts() {
		for i := range s.count {
			words := []string{s.service, "--json", "--admin-listen", "127.0.0.1:0", "--nats", w.nats(s.service, i)}
			if s.service != "archiver" {
				words = append(words, "--dynamodb-endpoint", w.store)
			} else {
				words = append(words, "--archive", "file://"+filepath.Join(w.dir, "archive"))
			}
			if s.service == "admission" {
				words = append(words, "--lease-replicas", "3", "--trust-request-info")
			} else {
				words = append(words, "--feed-replicas", "3")
			}
			w.services = append(w.services, w.process(t, fmt.Sprintf("%s-%d", s.service, i+1), w.tidegate, words...))
		}
	}
}

// nats returns the list of all servers for a user, beginning with a server.
func (w *world) nats(user string, first int) string {
	var all []string
	for i := range w.urls {
		url := w.urls[(first+i)%len(w.urls)]
		all = append(all, strings.Replace(url, "nats://", "nats://"+user+":"+password(user)+"@", 1))
	}
	return strings.Join(all, ",")
}

// admission returns the admission nodes.
func (w *world) admission() []*process { return w.services[:3] }

// ready waits until a service says that it is ready.
func (w *world) ready(t *testing.T, p *process) {
	t.Helper()
	p.logged(t, `ready","nats".*"admin":"([^"]+)"`)
}

// whole waits until all three servers run, and every stream has its leader and two
// replicas that are up to date.
func (w *world) whole(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	problem, began := "", time.Now()
	defer func() { t.Logf("%5.1f s: the cluster recovers", time.Since(began).Seconds()) }()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if problem = w.problem(t.Context(), js); problem == "" {
			return
		}
	}
	t.Fatalf("the cluster is not whole: %s", problem)
}

func (w *world) problem(ctx context.Context, js jetstream.JetStream) string {
	for _, monitor := range w.monitors {
		call, cancel := context.WithTimeout(ctx, time.Second)
		request, err := http.NewRequestWithContext(call, http.MethodGet, monitor+"/healthz", http.NoBody)
		if err != nil {
			cancel()
			return err.Error()
		}
		reply, err := http.DefaultClient.Do(request)
		cancel()
		if err != nil {
			return err.Error()
		}
		_ = reply.Body.Close() // only its status counts
		if reply.StatusCode != http.StatusOK {
			return monitor + ": " + reply.Status
		}
	}
	call, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	list, count := js.ListStreams(call), 0
	for s := range list.Info() {
		count++
		if s.Cluster == nil || s.Cluster.Leader == "" || len(s.Cluster.Replicas) != 2 {
			return s.Config.Name + " has no leader, or too few replicas"
		}
		for _, r := range s.Cluster.Replicas {
			if !r.Current || r.Offline {
				return s.Config.Name + ": " + r.Name + " is behind"
			}
		}
	}
	if list.Err() != nil {
		return list.Err().Error()
	}
	if count < 7 { // the feed, the dead letters, the lease records, the members of 4 services
		return fmt.Sprintf("%d streams", count)
	}
	return ""
}
