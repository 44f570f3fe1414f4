package deploy_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority leaves its certificate in a file.
func newAuthority(t *testing.T, file string) authority {
	t.Helper()
	a := authority{certificate: template("authority")}
	a.certificate.IsCA, a.certificate.KeyUsage = true, x509.KeyUsageCertSign
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, a.key.Public(), a.key)
	require.NoError(t, err)
	writePEM(t, file, "CERTIFICATE", der)
	return a
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
	}
}

// sign leaves a certificate for a purpose, and its key, in NAME.crt and NAME.key.
func (a authority) sign(t *testing.T, dir, name string, purpose x509.ExtKeyUsage, change func(*x509.Certificate)) {
	t.Helper()
	c := template(name)
	c.ExtKeyUsage, c.KeyUsage = []x509.ExtKeyUsage{purpose}, x509.KeyUsageDigitalSignature
	change(c)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, c, a.certificate, key.Public(), a.key)
	require.NoError(t, err)
	writePEM(t, filepath.Join(dir, name+".crt"), "CERTIFICATE", der)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	writePEM(t, filepath.Join(dir, name+".key"), "PRIVATE KEY", der)
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// certificates is a folder as compose.tls.yaml wants it, with the server of this
// machine in it, and with an authority that has nothing to do with it.
func certificates(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	a := newAuthority(t, filepath.Join(dir, "ca.crt"))
	asIs := func(*x509.Certificate) {}
	a.sign(t, dir, "server", x509.ExtKeyUsageServerAuth, func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"nats"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	})
	a.sign(t, dir, "client", x509.ExtKeyUsageClientAuth, asIs)
	other := newAuthority(t, filepath.Join(dir, "other.crt"))
	other.sign(t, dir, "stranger", x509.ExtKeyUsageClientAuth, asIs)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "garbage.crt"), []byte("no certificate"), 0o600))
	return dir
}

// tlsEnv is how a client shows its certificate, and whom it trusts.
func tlsEnv(dir, ca, client string) []string {
	return []string{
		"TIDEGATE_NATS_CA=" + filepath.Join(dir, ca),
		"TIDEGATE_NATS_CERT=" + filepath.Join(dir, client+".crt"), "TIDEGATE_NATS_KEY=" + filepath.Join(dir, client+".key"),
	}
}

// The whole stack over TLS: every service and a command line.
func TestTheStackRunsOverTLS(t *testing.T) {
	dir := certificates(t)
	s := newStack(t, project(t, []string{"TIDEGATE_TLS_DIR=" + dir}, "compose.tls.yaml"))
	s.clientEnv = tlsEnv(dir, "ca.crt", "client")
	s.up(t, nil)
	s.spendAndCount(t)
}

// spendAndCount sets a limit, spends from it, and waits until the usage is there.
func (s *stack) spendAndCount(t *testing.T) {
	t.Helper()
	s.admin(t, "limits", "set", "--resource", resource, "rpm=10/day")
	out, err := s.ask(t, "default", s.project.Environment["TIDEGATE_TENANT_PASSWORD_default"], "acquire", "key", resource, "rpm=7")
	require.NoError(t, err, "%s", out)
	require.Eventually(t, func() bool {
		return strings.Contains(s.admin(t, "usage", "key", "--window", "daily", "--json"), `"name":"rpm","used":7`)
	}, patience, 20*time.Millisecond, "the spend is counted")
}

// Two tenants over TLS: each spends in its own namespace and in no other, and
// whom the server or the client does not trust learns what to do.
func TestTenantsOverTLS(t *testing.T) {
	dir := certificates(t)
	setPasswords(t, "acme", "beta")
	for name, file := range map[string]string{"CA": "ca.crt", "CERT": "server.crt", "KEY": "server.key"} {
		t.Setenv("TIDEGATE_NATS_"+name, filepath.Join(dir, file))
	}
	config := filepath.Join(filepath.Dir(natsFiles(t, "acme", "beta")), "nats-server-tls.conf")
	server := startNATS(t, config)
	server.secure = []nats.Option{
		nats.RootCAs(filepath.Join(dir, "ca.crt")), nats.ClientCert(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")),
	}
	w := newWorldOn(t, server, "acme", "beta")
	w.runAdmission(t)
	limited(t, w, "acme")
	limited(t, w, "beta")
	trusted := tlsEnv(dir, "ca.crt", "client")
	for name, c := range map[string]struct {
		user, namespace string
		env             []string
		code            int
		says            string
		host            string // for the server's address
	}{
		"acme in its own":       {"acme", "acme", trusted, 0, "admitted", ""},
		"beta in its own":       {"beta", "beta", trusted, 0, "admitted", ""},
		"acme in beta's":        {"acme", "beta", trusted, 1, "Permissions Violation", ""},
		"another authority":     {"acme", "acme", tlsEnv(dir, "other.crt", "client"), 1, "point --nats-ca at the certificate of the one that signed it", ""},
		"no authority":          {"acme", "acme", nil, 1, "point --nats-ca at the certificate of the one that signed it", ""},
		"a stranger":            {"acme", "acme", tlsEnv(dir, "ca.crt", "stranger"), 1, "point --nats-cert and --nats-key at one that its authority has signed", ""},
		"no certificate":        {"acme", "acme", trusted[:1], 1, "give one with --nats-cert and --nats-key", ""},
		"half a certificate":    {"acme", "acme", trusted[:2], 2, "--nats-cert and --nats-key belong together", ""},
		"a file that is not":    {"acme", "acme", tlsEnv(dir, "nowhere.crt", "client"), 1, "at files that can be read", ""},
		"a file with no such":   {"acme", "acme", tlsEnv(dir, "garbage.crt", "client"), 1, "failed to parse root certificate", ""},
		"the key of another":    {"acme", "acme", append(trusted[:2:2], "TIDEGATE_NATS_KEY="+filepath.Join(dir, "stranger.key")), 1, "private key does not match", ""},
		"another name":          {"acme", "acme", trusted, 1, "by a name that its certificate has", "localhost"},
		"a server's for client": {"acme", "acme", tlsEnv(dir, "ca.crt", "server"), 1, "signed for clients", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), ourProgram(t), "acquire", "key", resource, "rpm=1", "--namespace", c.namespace)
			host := server.Addr().String()
			if c.host != "" {
				_, port, err := net.SplitHostPort(host)
				require.NoError(t, err)
				host = net.JoinHostPort(c.host, port)
			}
			cmd.Env = append([]string{"TIDEGATE_NATS=nats://" + c.user + ":" + passwordOf(c.user) + "@" + host}, c.env...)
			out, _ := cmd.CombinedOutput() // the code says it
			require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%s", out)
			require.Contains(t, string(out), c.says)
			require.NotContains(t, string(out), passwordOf(c.user))
		})
	}
}

// A client that wants TLS does not speak in the clear.
func TestNoTLSIsNoConnection(t *testing.T) {
	dir := certificates(t)
	setPasswords(t)
	server := startNATS(t, natsFiles(t))
	cmd := exec.CommandContext(t.Context(), ourProgram(t), "status", "key")
	cmd.Env = append([]string{"TIDEGATE_NATS=nats://default:" + passwordOf("default") + "@" + server.Addr().String()}, tlsEnv(dir, "ca.crt", "client")...)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "The server speaks no TLS")
}
