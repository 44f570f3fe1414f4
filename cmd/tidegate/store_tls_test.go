package main

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
)

// A store over TLS is trusted by its authority, and by nothing else.
func TestTheStoreOverTLS(t *testing.T) {
	embedded := engine.New(engine.Options{Now: time.Now})
	server := httptest.NewTLSServer(withHealth(embedded))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, garbage := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "garbage.crt")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	require.NoError(t, os.WriteFile(garbage, []byte("no certificate"), 0o600))
	for name, c := range map[string]struct {
		flags []string
		code  int
		says  string
	}{
		"trusted":     {[]string{"--dynamodb-ca", ca}, exitDone, ""},
		"unknown":     {nil, exitError, "Point --dynamodb-ca at the certificate of the authority that signed"},
		"no file":     {[]string{"--dynamodb-ca", filepath.Join(dir, "nowhere.crt")}, exitUsage, "nowhere.crt"},
		"no such PEM": {[]string{"--dynamodb-ca", garbage}, exitError, "PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			code := runWithin(t, append([]string{"table", "create", "--dynamodb-endpoint", server.URL}, c.flags...), w)
			require.Equal(t, c.code, code, w.stderr)
			require.Contains(t, w.stderr.String(), c.says)
		})
	}
}
