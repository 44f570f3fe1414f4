package deploy_test

import (
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// ours is the image of this repository.
const ours = "tidegate:local"

// project reads deploy/compose as `docker compose` would, with the files named
// over compose.yaml.
func project(t *testing.T, env []string, overrides ...string) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(root, "deploy", "compose"))
	require.NoError(t, err)
	files := []string{filepath.Join(dir, "compose.yaml")}
	for _, name := range overrides {
		files = append(files, filepath.Join(dir, name))
	}
	o, err := cli.NewProjectOptions(files, cli.WithWorkingDirectory(dir), cli.WithEnv(env), cli.WithEnvFiles(), cli.WithDotEnv)
	require.NoError(t, err)
	p, err := o.LoadProject(t.Context())
	require.NoError(t, err)
	return p
}

// awsEnv is the environment that compose.aws.yaml asks for.
func awsEnv() []string {
	return []string{"AWS_REGION=eu-central-1", "AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=example", "TIDEGATE_ARCHIVE=s3://example"}
}

// The stack is reached from its machine alone, keeps its data, and starts in order.
func TestComposeIsSafe(t *testing.T) {
	for name, p := range map[string]*types.Project{
		"default":        project(t, nil),
		"DynamoDB Local": project(t, nil, "compose.dynamodb-local.yaml"),
		"AWS":            project(t, awsEnv(), "compose.aws.yaml"),
		"TLS":            project(t, []string{"TIDEGATE_TLS_DIR=/certificates"}, "compose.tls.yaml"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range p.Services {
				require.Regexp(t, `^(unless-stopped|on-failure:\d+)$`, s.Restart, "%s stays away when it dies", s.Name)
				for _, port := range s.Ports {
					host, err := netip.ParseAddr(port.HostIP)
					require.NoError(t, err, "%s: a port without an address is open to all", s.Name)
					require.True(t, host.IsLoopback(), s.Name)
				}
				for _, v := range s.Volumes {
					require.True(t, v.Type == types.VolumeTypeVolume || v.ReadOnly, "%s writes to %s", s.Name, v.Source)
				}
				if s.Image == ours {
					require.True(t, s.ReadOnly, s.Name)
					require.Equal(t, []string{"ALL"}, s.CapDrop, s.Name)
				}
				requireOrder(t, p, s)
			}
			require.Contains(t, p.Volumes, "nats-data")
		})
	}
}

// Over TLS, everybody is told whom to trust and what to show, and nothing else is
// different.
func TestTLSIsForEverybody(t *testing.T) {
	base, p := project(t, nil), project(t, []string{"TIDEGATE_TLS_DIR=/certificates"}, "compose.tls.yaml")
	for _, s := range p.Services {
		if _, connects := s.Environment["TIDEGATE_NATS"]; !connects && s.Name != "nats" {
			require.Equal(t, base.Services[s.Name], s)
			continue
		}
		for _, name := range []string{"TIDEGATE_NATS_CA", "TIDEGATE_NATS_CERT", "TIDEGATE_NATS_KEY"} {
			require.Contains(t, s.Environment, name, s.Name)
			require.True(t, strings.HasPrefix(*s.Environment[name], "/etc/tidegate-tls/"), s.Name)
			delete(s.Environment, name)
		}
		require.Equal(t, base.Services[s.Name].Environment, s.Environment)
		require.Len(t, s.Volumes, len(base.Services[s.Name].Volumes)+1)
	}
}

// requireOrder: whatever a service needs tells when it is ready.
func requireOrder(t *testing.T, p *types.Project, s types.ServiceConfig) {
	t.Helper()
	for name, dependency := range s.DependsOn {
		needed, ok := p.Services[name]
		require.True(t, ok, "%s needs %s", s.Name, name)
		switch dependency.Condition {
		case types.ServiceConditionHealthy:
			require.NotNil(t, needed.HealthCheck, "%s waits for the health of %s", s.Name, name)
			require.NotEmpty(t, needed.HealthCheck.Test, name)
		case types.ServiceConditionCompletedSuccessfully:
			require.Contains(t, needed.Restart, "on-failure", "%s must end", name)
		default:
			t.Fatalf("%s does not wait until %s is ready", s.Name, name)
		}
	}
	if _, connects := s.Environment["TIDEGATE_NATS"]; connects {
		require.Equal(t, []string{"nats", "table"}, slices.Sorted(maps.Keys(s.DependsOn)), s.Name)
	}
}

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// What is scaled has nothing that only one container can have.
func TestAggregatorsAndShardersScale(t *testing.T) {
	p := project(t, nil)
	for _, name := range []string{"aggregator", "sharder"} {
		s, ok := p.Services[name]
		require.True(t, ok, name)
		require.Empty(t, s.ContainerName)
		require.Empty(t, s.Ports)
		require.Empty(t, s.Volumes)
		for _, other := range p.Services {
			require.NotContains(t, other.DependsOn, s.Name, "whoever waits for it waits for all of it")
		}
	}
	require.Equal(t, first(p.Services["admission-1"].Command), first(p.Services["admission-2"].Command), "two nodes")
}

// The overrides replace the store and nothing else.
func TestOverridesReplaceTheStore(t *testing.T) {
	base := project(t, nil)
	local := project(t, nil, "compose.dynamodb-local.yaml")
	require.Equal(t, base.ServiceNames(), local.ServiceNames())
	store := local.Services["store"]
	require.True(t, strings.HasPrefix(store.Image, "amazon/dynamodb-local:"), store.Image)
	require.Nil(t, store.Build)
	require.Len(t, store.Volumes, 1)
	require.Contains(t, store.Command, store.Volumes[0].Target)

	cloud := project(t, awsEnv(), "compose.aws.yaml")
	require.NotContains(t, cloud.Services, "store")
	require.NotContains(t, cloud.Volumes, "store-data")
	require.NotContains(t, cloud.Volumes, "archive-data")
	require.Equal(t, "s3://example", *cloud.Services["archiver"].Environment["TIDEGATE_ARCHIVE"])
	for _, s := range cloud.Services {
		require.NotContains(t, s.Environment, "TIDEGATE_DYNAMODB_ENDPOINT", s.Name)
		if s.Image == ours {
			require.Equal(t, "eu-central-1", *s.Environment["AWS_REGION"], s.Name)
			require.Equal(t, "AKIDEXAMPLE", *s.Environment["AWS_ACCESS_KEY_ID"], s.Name)
		}
	}
	for _, s := range base.Services {
		for _, other := range []*types.Project{local, cloud} {
			if o, ok := other.Services[s.Name]; ok && s.Name != "store" {
				require.Equal(t, s.Command, o.Command, s.Name)
			}
		}
	}
}

// Every password that the NATS files ask for reaches the server.
func TestPasswordsAreAllGiven(t *testing.T) {
	given := project(t, nil).Services["nats"].Environment
	asked := regexp.MustCompile(`\$(TIDEGATE_\w+PASSWORD\w*)`)
	found := map[string]bool{}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "deploy", "nats"), func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "nats-server-cluster.conf" { // compose runs one server
			return err
		}
		text, err := os.ReadFile(file)
		for _, m := range asked.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
			require.NotEmpty(t, given[m[1]], "%s asks for %s", file, m[1])
			require.NotEmpty(t, *given[m[1]], m[1])
		}
		return err
	}))
	require.Len(t, given, len(found), "the environment of the server holds what it needs")
}
