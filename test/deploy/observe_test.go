package deploy_test

import (
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// observed is the stack with those who watch it.
func observed(t *testing.T) *types.Project {
	t.Helper()
	p, err := project(t, nil).WithProfiles([]string{"observe"})
	require.NoError(t, err)
	return p
}

func readYAML(t *testing.T, into any, path ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// Those who watch come with their profile alone, in versions that are named, reached
// from the machine alone; all they are mounted is there, and what they keep has a volume.
func TestTheObserveProfileIsSafe(t *testing.T) {
	base, p := project(t, nil), observed(t)
	for _, name := range []string{"prometheus", "grafana"} {
		require.NotContains(t, base.Services, name)
		s, ok := p.Services[name]
		require.True(t, ok)
		require.Regexp(t, `^[\w/]+:v?\d+\.\d+\.\d+$`, s.Image)
		require.Len(t, s.Ports, 1)
		host, err := netip.ParseAddr(s.Ports[0].HostIP)
		require.NoError(t, err)
		require.True(t, host.IsLoopback())
		kept := 0
		for _, v := range s.Volumes {
			if v.Type == types.VolumeTypeVolume {
				kept++
				require.Contains(t, p.Volumes, v.Source)
				continue
			}
			require.True(t, v.ReadOnly, v.Source)
			require.DirExists(t, v.Source)
		}
		require.Equal(t, 1, kept, name)
		require.NotEmpty(t, s.HealthCheck.Test)
		requireOrder(t, p, s)
	}
	require.NotEmpty(t, *p.Services["grafana"].Environment["GF_SECURITY_ADMIN_PASSWORD"])
	for name, s := range base.Services {
		require.Equal(t, s.Command, p.Services[name].Command, "the others are as without it")
	}
}

// Prometheus asks every process that has metrics, under the job that alerts name, and
// is of the version that the rules are tested with.
func TestPrometheusAsksEverybody(t *testing.T) {
	p := observed(t)
	var config struct {
		RuleFiles     []string `yaml:"rule_files"`
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
			DNSConfigs    []struct {
				Names []string
				Type  string
				Port  int
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, &config, "deploy", "prometheus", "prometheus.yml")
	require.Equal(t, []string{"alerts.yaml"}, config.RuleFiles)
	asked := map[string]string{} // service ──▶ job
	ask := func(host, port, job string) {
		s, ok := p.Services[host]
		require.True(t, ok, "%s asks %s", job, host)
		require.Equal(t, "tidegate-"+first(s.Command), job)
		listen := s.Environment["TIDEGATE_ADMIN_LISTEN"]
		require.NotNil(t, listen, host)
		require.Equal(t, net.JoinHostPort("0.0.0.0", port), *listen, "%s must be reached from another container", host)
		asked[host] = job
	}
	for _, job := range config.ScrapeConfigs {
		for _, c := range job.StaticConfigs {
			for _, target := range c.Targets {
				host, port, err := net.SplitHostPort(target)
				require.NoError(t, err)
				ask(host, port, job.JobName)
			}
		}
		for _, c := range job.DNSConfigs {
			require.Equal(t, "A", c.Type)
			for _, host := range c.Names {
				ask(host, strconv.Itoa(c.Port), job.JobName)
			}
		}
	}
	var shows []string
	for name, s := range p.Services {
		if _, ok := s.Environment["TIDEGATE_ADMIN_LISTEN"]; ok {
			shows = append(shows, name)
		}
	}
	require.ElementsMatch(t, shows, slices.Collect(maps.Keys(asked)))

	module, err := os.ReadFile(filepath.Join(root, "test", "alerts", "go.mod"))
	require.NoError(t, err)
	tested := regexp.MustCompile(`prometheus/prometheus v0\.(\d)(\d\d)\.(\d+)\n`).FindStringSubmatch(string(module))
	require.NotNil(t, tested, "Prometheus 3.13.4 is the module's v0.313.4")
	minor, err := strconv.Atoi(tested[2])
	require.NoError(t, err)
	require.Equal(t, "prom/prometheus:v"+tested[1]+"."+strconv.Itoa(minor)+"."+tested[3], p.Services["prometheus"].Image)
}

// Grafana asks that Prometheus, and finds the dashboards where they are mounted.
func TestGrafanaIsProvisioned(t *testing.T) {
	p := observed(t)
	var sources struct{ Datasources []struct{ URL, Type string } }
	readYAML(t, &sources, "deploy", "grafana", "provisioning", "datasources", "prometheus.yaml")
	require.Len(t, sources.Datasources, 1)
	require.Equal(t, "http://prometheus:"+strconv.Itoa(int(p.Services["prometheus"].Ports[0].Target)), sources.Datasources[0].URL)
	var boards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, &boards, "deploy", "grafana", "provisioning", "dashboards", "tidegate.yaml")
	require.Len(t, boards.Providers, 1)
	mounted := slices.ContainsFunc(p.Services["grafana"].Volumes, func(v types.ServiceVolumeConfig) bool {
		files, err := filepath.Glob(filepath.Join(v.Source, "*.json"))
		return v.Target == boards.Providers[0].Options.Path && err == nil && len(files) >= 4
	})
	require.True(t, mounted)
}
