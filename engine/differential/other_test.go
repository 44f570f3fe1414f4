//go:build otherengine

package differential

import (
	"crypto/rand"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine"
)

// otherEngine names the environment variable with the other engine's address.
const otherEngine = "TIDEGATE_TEST_DYNAMODB"

func TestOtherEngine(t *testing.T) {
	p := againstOther(t)
	rapid.Check(t, p.sequence)
}

// TestKnownDifferences keeps the list short: what no longer differs must go.
func TestKnownDifferences(t *testing.T) {
	p := againstOther(t)
	for _, d := range p.known {
		t.Run(d.name, func(t *testing.T) {
			x := &table{name: "d-" + rand.Text(), sort: "S"}
			p.each(t, "CreateTable", x.definition())
			t.Cleanup(func() { p.each(t, "DeleteTable", object{"TableName": x.name}) })
			var ours, theirs reply
			var last operation
			for _, last = range d.example(x) {
				ours, theirs = p.each(t, last.name, last.request)
			}
			require.NotEqual(t, ours.describe(), theirs.describe())
			require.True(t, d.like(last, ours, theirs), "ours: %s\ntheirs: %s", ours.describe(), theirs.describe())
		})
	}
}

func againstOther(t *testing.T) *pair {
	t.Helper()
	url := os.Getenv(otherEngine)
	require.NotEmpty(t, url, "%s is not set: run make test-dynoxide", otherEngine)
	p := &pair{
		ours:  inMemory(engine.Options{Now: time.Now}),
		other: &target{name: url, url: url, client: &http.Client{}},
	}
	resp, err := p.other.client.Get(url)
	require.NoError(t, err, "the engine at %s", url)
	defer resp.Body.Close()
	if strings.HasPrefix(resp.Header.Get("Server"), "Dynoxide/") {
		p.known = ofDynoxide()
	}
	return p
}
