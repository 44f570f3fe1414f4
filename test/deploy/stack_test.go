package deploy_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/dirtest"
	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// stack runs the services of a compose file as processes: their commands and
// environments as they are, but for addresses and folders, which are those of
// containers.
type stack struct {
	project *types.Project
	folder  string                // for volumes
	reached map[string]string     // where containers are reached ──▶ where their processes are
	running map[string][]*process // by service; those that ended by themselves have none
	killed  bool                  // one was killed, so that others complain

	clientEnv []string // what a command line needs besides, to connect
}

// anyPort is where a process listens that may listen anywhere.
const anyPort = "127.0.0.1:0"

func newStack(t *testing.T, p *types.Project) *stack {
	t.Helper()
	s := &stack{project: p, folder: dirtest.New(t), reached: map[string]string{}, running: map[string][]*process{}}
	for name := range p.Volumes { // containers find theirs there
		require.NoError(t, os.MkdirAll(filepath.Join(s.folder, name), 0o700))
	}
	return s
}

// up starts every service of the file, each as often as scale says, or once.
func (s *stack) up(t *testing.T, scale map[string]int) {
	t.Helper()
	names := s.project.ServiceNames()
	slices.Sort(names)
	for _, name := range names {
		for len(s.running[name]) < max(1, scale[name]) {
			if _, done := s.running[name]; done && s.ends(name) {
				break
			}
			s.start(t, name)
		}
	}
}

// ends reports a service that does something and ends.
func (s *stack) ends(name string) bool {
	return strings.HasPrefix(s.project.Services[name].Restart, "on-failure")
}

// start starts one more process of a service, and before it what it needs that does
// not run, and returns once it is healthy or, if that is its way, has ended well.
func (s *stack) start(t *testing.T, name string) *process {
	t.Helper()
	service, ok := s.project.Services[name]
	require.True(t, ok, name)
	for _, dependency := range sorted(service.DependsOn) {
		if _, started := s.running[dependency]; !started {
			s.start(t, dependency)
		}
	}
	s.running[name] = s.running[name][:len(s.running[name]):len(s.running[name])]
	var p *process
	switch {
	case service.Image == natsImage():
		p = s.natsServer(t, service)
	case service.Image != ours:
		t.Fatalf("%s: no program stands for the image %s", name, service.Image)
	case s.ends(name):
		out, err := s.command(t, service, s.environment(service), service.Command...).CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		return nil
	default:
		p = s.ourServer(t, service)
	}
	p.name = fmt.Sprintf("%s-%d", name, 1+len(s.running[name]))
	s.running[name] = append(s.running[name], p)
	t.Cleanup(func() { p.calm = !s.killed; p.stop(t) })
	p.launch(t)
	return p
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// kill kills a process; what it leaves undone, others complain of.
func (s *stack) kill(t *testing.T, p *process) {
	t.Helper()
	s.killed = true
	p.kill(t)
}

// ourServer is a service of our image.
func (s *stack) ourServer(t *testing.T, service types.ServiceConfig) *process {
	t.Helper()
	words, env := slices.Clone(service.Command), s.environment(service)
	for i, word := range words {
		words[i] = s.here(service, word)
	}
	var said announcement
	return &process{
		make: func() *exec.Cmd { return s.command(t, service, env, words...) },
		ready: func(t *testing.T, p *process) {
			t.Helper()
			said = p.heard(t)
			p.admin = said.Admin
			// It comes back where it was: its clients know that address.
			at, port := said.Admin, "9464"
			if said.DynamoDB != "" {
				at, port = strings.TrimPrefix(said.DynamoDB, "http://"), "8000"
			}
			for _, texts := range [][]string{words, env} {
				for i, text := range texts {
					texts[i] = strings.Replace(text, anyPort, at, 1)
				}
			}
			s.reached[net.JoinHostPort(service.Name, port)] = at
		},
		checks: func(t *testing.T, p *process) {
			t.Helper()
			check := []string{"health", "http://" + said.Admin + "/readyz"}
			if service.HealthCheck != nil { // one of its own, not that of the image
				check = slices.Clone(service.HealthCheck.Test[2:])
				check[1] = strings.Replace(check[1], "127.0.0.1:8000", s.reached[net.JoinHostPort(service.Name, "8000")], 1)
			}
			out, err := s.command(t, service, env, check...).CombinedOutput()
			require.NoError(t, err, "%s: %s", p.name, out)
		},
	}
}

// natsServer is the server of the official image with the service's configuration,
// but for where it listens and keeps its files.
func (s *stack) natsServer(t *testing.T, service types.ServiceConfig) *process {
	t.Helper()
	require.Len(t, service.Command, 2)
	require.Equal(t, "--config", service.Command[0])
	config, err := filepath.Rel(s.folder, s.here(service, service.Command[1]))
	require.NoError(t, err)
	portsDir := filepath.Join(s.folder, "ports")
	require.NoError(t, os.MkdirAll(portsDir, 0o700))
	client, monitor := "127.0.0.1:-1", "127.0.0.1:-1"
	env := s.environment(service)
	return &process{
		make: func() *exec.Cmd {
			clearPorts(t, portsDir)
			file := filepath.Join(s.folder, "nats.conf")
			text := fmt.Sprintf("include %q\nlisten: %q\nhttp: %q\njetstream { store_dir: %q, sync_interval: always }\n",
				config, client, monitor, filepath.Join(s.folder, "nats-data"))
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			cmd := outlasting(t, natsServerProgram(t), service.Command[0], file, "--ports_file_dir", portsDir)
			cmd.Env = env
			return cmd
		},
		ready: func(t *testing.T, p *process) {
			t.Helper()
			ports := natsPortsIn(t, p, portsDir)
			address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
			client, monitor = address.FindString(ports.NATS[0]), address.FindString(ports.Monitoring[0])
			s.reached["nats:4222"], s.reached["nats:8222"] = client, monitor
		},
		checks: func(t *testing.T, p *process) {
			t.Helper()
			test := service.HealthCheck.Test
			url := strings.Replace(test[len(test)-1], "127.0.0.1:8222", monitor, 1)
			require.Eventually(t, func() bool { return healthy(t, url) }, patience, 5*time.Millisecond, "%s: %s", p.name, p.log)
		},
	}
}

// here is a word of a container's command or environment for a process.
func (s *stack) here(service types.ServiceConfig, word string) string {
	if host, _, ok := strings.Cut(word, ":"); ok && host == "0.0.0.0" {
		return anyPort
	}
	for _, v := range service.Volumes {
		source := v.Source
		if v.Type == types.VolumeTypeVolume {
			source = filepath.Join(s.folder, v.Source)
		}
		inside := regexp.MustCompile(`(^|//)` + regexp.QuoteMeta(v.Target) + `(/|\?|$)`)
		word = inside.ReplaceAllString(word, "${1}"+strings.ReplaceAll(source, "$", "$$")+"${2}")
	}
	for there, here := range s.reached {
		word = strings.ReplaceAll(word, there, here)
	}
	return word
}

// environment is a service's, and no other.
func (s *stack) environment(service types.ServiceConfig) []string {
	env := []string{}
	for _, name := range sorted(service.Environment) {
		if value := service.Environment[name]; value != nil {
			env = append(env, name+"="+s.here(service, *value))
		}
	}
	return env
}

// command is a program of our image.
func (s *stack) command(t *testing.T, service types.ServiceConfig, env []string, words ...string) *exec.Cmd {
	t.Helper()
	words = slices.Clone(words)
	for i, word := range words {
		words[i] = s.here(service, word)
	}
	cmd := outlasting(t, ourProgram(t), words...)
	cmd.Dir, cmd.Env = s.folder, env
	return cmd
}

// ask runs a command line of a user of the files.
func (s *stack) ask(t *testing.T, user, password string, words ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), ourProgram(t), words...)
	cmd.Env = append([]string{"TIDEGATE_NATS=nats://" + user + ":" + password + "@" + s.reached["nats:4222"]}, s.clientEnv...)
	return cmd.CombinedOutput()
}

// admin runs a command line of whoever sets the limits of the namespace default,
// which must succeed.
func (s *stack) admin(t *testing.T, words ...string) string {
	t.Helper()
	out, err := s.ask(t, "default-admin", s.project.Environment["TIDEGATE_ADMIN_PASSWORD_default"], words...)
	require.NoError(t, err, "%s", out)
	return string(out)
}

// client asks as the services of the namespace default.
func (s *stack) client(t *testing.T, options ...tidegate.Option) *tidegate.Client {
	t.Helper()
	nc, err := nats.Connect("nats://"+s.reached["nats:4222"], tidegate.InboxPrefix(api.DefaultNamespace),
		nats.UserInfo(api.DefaultNamespace, s.project.Environment["TIDEGATE_TENANT_PASSWORD_default"]),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	client, err := tidegate.New(nc, options...)
	require.NoError(t, err)
	return client
}

// The stack as its files describe it admits through each of its admission
// processes, while the other one is away too, and any number of aggregators counts
// what the relay brings.
func TestTheStackRuns(t *testing.T) {
	s := newStack(t, project(t, nil))
	one := s.start(t, "admission-1")
	s.start(t, "relay")
	for range 3 {
		s.start(t, "aggregator")
	}
	s.admin(t, "limits", "set", "--resource", resource, "rpm=10/day")
	client := s.client(t)
	left := func() int64 {
		lease, err := client.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 1})
		require.NoError(t, err)
		return lease.Limits()[0].Available
	}
	require.EqualValues(t, 9, left(), "the first node alone")
	s.start(t, "admission-2")
	require.EqualValues(t, 8, left(), "both")
	one.calm = true
	one.stop(t)
	require.EqualValues(t, 7, left(), "the second node alone")
	again := s.start(t, "admission-1")
	require.EqualValues(t, 6, left(), "both again")

	env := s.project.Environment
	out, err := s.ask(t, api.DefaultNamespace, env["TIDEGATE_TENANT_PASSWORD_default"], "bench", "--resource", resource, "--duration", "10ms",
		"--metrics", "http://"+again.admin+"/metrics,http://"+s.running["admission-2"][0].admin+"/metrics", "--json")
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "not_measured")
	out, err = s.ask(t, api.DefaultNamespace, env["TIDEGATE_TENANT_PASSWORD_default"], "acquire", "key", resource, "rpm=1")
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), env["TIDEGATE_TENANT_PASSWORD_default"])
	require.Eventually(t, func() bool {
		return strings.Contains(s.admin(t, "usage", "key", "--window", "daily", "--json"), `"name":"rpm","used":5`)
	}, patience, 20*time.Millisecond, "the spends are counted")
	out, err = s.ask(t, lettersUser, env["TIDEGATE_LETTERS_PASSWORD"], "dlq", "list")
	require.NoError(t, err, "%s", out)
	require.Equal(t, "no dead letters\n", string(out))
}
