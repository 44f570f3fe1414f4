package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/pkg/api"
)

// root is the repository.
const root = "../.."

// The users that no tenant is.
const (
	admissionUser  = "admission"
	relayUser      = "relay"
	aggregatorUser = "aggregator"
	sharderUser    = "sharder"
	archiverUser   = "archiver"
	lettersUser    = "letters"
	operatorUser   = "operator"
)

// passwordOf is the password that a user of the files gets in a test.
func passwordOf(user string) string { return "secret-of-" + user }

// setPasswords gives the files what they take from the environment.
func setPasswords(t *testing.T, tenants ...string) {
	t.Helper()
	for _, user := range []string{admissionUser, relayUser, aggregatorUser, sharderUser, archiverUser, lettersUser, operatorUser} {
		t.Setenv("TIDEGATE_"+strings.ToUpper(user)+"_PASSWORD", passwordOf(user))
	}
	for _, tenant := range append(tenants, api.DefaultNamespace) {
		t.Setenv("TIDEGATE_TENANT_PASSWORD_"+tenant, passwordOf(tenant))
		t.Setenv("TIDEGATE_OVERRIDE_PASSWORD_"+tenant, passwordOf(tenant+"-override"))
		t.Setenv("TIDEGATE_ADMIN_PASSWORD_"+tenant, passwordOf(tenant+"-admin"))
	}
}

// natsFiles is a copy of deploy/nats with more tenants, made by the commands of
// docs/deploying.md.
func natsFiles(t *testing.T, tenants ...string) (config string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "deploy", "nats"), os.DirFS(filepath.Join(root, "deploy", "nats"))))
	text, err := os.ReadFile(filepath.Join(root, "docs", "deploying.md"))
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^sed .*$`).FindAllString(string(text), -1)
	require.Len(t, commands, 2)
	for _, tenant := range tenants {
		for _, command := range commands {
			sed := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "acme", tenant))
			sed.Dir = dir
			out, err := sed.CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	}
	return filepath.Join(dir, "deploy", "nats", "nats-server.conf")
}

// natsServer is a NATS server of a test's own.
type natsServer struct {
	*natstest.Server

	secure []nats.Option // what its clients need besides
}

// startNATS runs a configuration as it is, but for where it listens and keeps
// its files. The passwords must be set.
func startNATS(t *testing.T, config string) natsServer {
	t.Helper()
	o, err := server.ProcessConfigFile(config)
	require.NoError(t, err)
	o.HTTPHost, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT
	return natsServer{Server: natstest.StartWith(t, o)}
}

// inboxOf is the prefix of the inboxes that a user may listen to.
func inboxOf(user string) string {
	if user == operatorUser || user == lettersUser {
		return api.InboxPrefix(api.OperatorNamespace)
	}
	return api.InboxPrefix(user)
}

// connect is a connection of a user with its inbox, which ends with the test.
func (s natsServer) connect(t *testing.T, user string, options ...nats.Option) *nats.Conn {
	t.Helper()
	options = append([]nats.Option{nats.UserInfo(user, passwordOf(user)), nats.CustomInboxPrefix(inboxOf(user)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, options...)
	return s.Connect(t, append(options, s.secure...)...)
}
