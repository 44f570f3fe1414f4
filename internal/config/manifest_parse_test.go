package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/pkg/api"
)

// golden compares with a file in testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test -update writes it")
	require.Equal(t, string(want), got, "go test -update accepts it")
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

// parsedLimits reads limits as people write them.
func parsedLimits(t testing.TB, texts ...string) []api.Limit {
	t.Helper()
	var all []api.Limit
	for _, text := range texts {
		l, err := api.ParseLimit(text)
		require.NoError(t, err)
		all = append(all, l)
	}
	return all
}

func TestAGoodManifest(t *testing.T) {
	m, problems := config.ParseManifest("good.yaml", read(t, "manifest_good.yaml"))
	require.Empty(t, problems)
	require.Equal(t, &config.Manifest{Name: "gateway", Namespace: "default", Levels: []config.ManifestLevel{
		{LimitsTarget: api.LimitsTarget{System: true}, Limits: parsedLimits(t, "rpm=100/min"), OnUnavailable: api.PolicyAllow, Line: 5},
		{LimitsTarget: api.LimitsTarget{Resource: "gpt-4"}, Limits: parsedLimits(t, "rpm=60/min", "tpm=10000/min:20000"), Line: 7},
		{LimitsTarget: api.LimitsTarget{Resource: "gpt-4o/mini"}, Limits: parsedLimits(t, "slow=1/30s"), Line: 10},
		{LimitsTarget: api.LimitsTarget{Entity: "12345", Resource: "gpt-4"}, Limits: parsedLimits(t, "rpm=5/s"), Line: 15},
		{LimitsTarget: api.LimitsTarget{Entity: "api-key-123"}, Limits: parsedLimits(t, "rpm=10/min"), Line: 13},
		{LimitsTarget: api.LimitsTarget{Entity: "api-key-123", Resource: "gpt-4"}, Limits: parsedLimits(t, "tpm=500/min"), OnUnavailable: api.PolicyBlock, Line: 14},
	}}, m)
}

// Every problem is told at once, with its line.
func TestABadManifest(t *testing.T) {
	m, problems := config.ParseManifest("bad.yaml", read(t, "manifest_bad.yaml"))
	require.Nil(t, m)
	var lines strings.Builder
	for _, p := range problems {
		require.NotEmpty(t, p.Fix)
		lines.WriteString(p.String() + "\n")
	}
	golden(t, "manifest_problems.txt", lines.String())
}

const head = "namespace: default\nmanifest: gateway\n"

func TestWhatIsNoManifest(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		b.WriteString(head + "limits:\n  resources:\n    gpt-4:\n")
		for i := range n {
			fmt.Fprintf(&b, "      l%d: 1/s\n", i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		text string
		want string // of the first problem
	}{
		"nothing":            {"", `f:1: the file is empty; write a manifest as docs/manifests.md shows it`},
		"a comment":          {"# later\n", `f:1: the file is empty; write a manifest as docs/manifests.md shows it`},
		"a list":             {"- a\n", "f:1: the manifest is a list; write `key: value` lines below it, or {} for none"},
		"a word":             {"later\n", "f:1: the manifest is a plain value; write `key: value` lines below it, or {} for none"},
		"two documents":      {head + "limits: {}\n---\nmanifest: b\n", `f:4: the file has a second document; put it into a file of its own`},
		"no limits":          {head, `f:1: the manifest has no limits; add it: a manifest has namespace, manifest, limits and on_unavailable`},
		"empty limits":       {head + "limits:\n", "f:3: limits is empty; write `key: value` lines below it, or {} for none"},
		"an unclosed quote":  {head + "limits: {system: {rpm: \"1/s}}\n", `f:3: this is no YAML: found unexpected end of stream; check the indentation and the quotes there`},
		"a missing colon":    {head + "limits:\n  system\n    rpm: 1/s\n", `f:5: this is no YAML: `},
		"a list as a name":   {head + "limits: {system: {[a]: 1/s}}\n", "f:3: a key in system is a list; write a plain name"},
		"an unknown alias":   {head + "limits: {system: *x}\n", "f:1: this is no YAML: unknown anchor 'x' referenced"},
		"a tab":              {head + "limits:\n\tsystem: {}\n", `f:4: this is no YAML: `},
		"too many limits":    {many(17), `f:5: resource gpt-4 has 17 limits; a level has at most 16`},
		"a policy alone":     {head + "limits: {}\non_unavailable: {system: allow}\n", `f:4: the policy of system is of a level without limits; add limits for it, or remove the policy`},
		"a file too large":   {strings.Repeat("#", config.MaxManifestBytes+1), fmt.Sprintf(`f:1: the file has %d bytes; split it: a manifest has at most %d`, config.MaxManifestBytes+1, config.MaxManifestBytes)},
		"a long name":        {head + "limits: {resources: {" + strings.Repeat("x", 300) + ": {rpm: 1/s}}}\n", `f:3: "` + strings.Repeat("x", 60) + `…" cannot be used here; a resource has 1 to 256 bytes`},
		"a number of tokens": {head + "limits: {system: {rpm: 60}}\n", `f:3: "60" is no limit for rpm; write amount/period or amount/period:burst, such as 100/min or 10000/min:20000`},
	} {
		t.Run(name, func(t *testing.T) {
			m, problems := config.ParseManifest("f", []byte(c.text))
			require.Nil(t, m)
			require.NotEmpty(t, problems)
			require.True(t, strings.HasPrefix(problems[0].String(), c.want), "%s", problems[0])
		})
	}
}

func TestAnEmptyManifestManagesNothing(t *testing.T) {
	m, problems := config.ParseManifest("f", []byte(head+"limits: {}\n"))
	require.Empty(t, problems)
	require.Empty(t, m.Levels)
	m, problems = config.ParseManifest("f", []byte(head+"limits: {resources: {}, entities: {}}\non_unavailable: {}\n"))
	require.Empty(t, problems)
	require.Empty(t, m.Levels)
}

func TestTenThousandLevels(t *testing.T) {
	const n = 10_000
	var b strings.Builder
	b.WriteString(head + "limits:\n  entities:\n")
	for i := range n {
		fmt.Fprintf(&b, "    key-%05d: {gpt-4: {rpm: %d/min, tpm: 10000/min:20000}}\n", i, i+1)
	}
	m, problems := config.ParseManifest("f", []byte(b.String()))
	require.Empty(t, problems)
	require.Len(t, m.Levels, n)
	for i, l := range m.Levels {
		require.Equal(t, fmt.Sprintf("key-%05d", i), l.Entity)
		require.Equal(t, int64(i+1), l.Limits[0].Capacity)
		require.Equal(t, i+5, l.Line)
	}
}

// FuzzParse: whatever the file, there is a manifest that is right in itself or
// there are problems, each with a line of the file.
func FuzzParse(f *testing.F) {
	f.Add(read(f, "manifest_good.yaml"))
	f.Add(read(f, "manifest_bad.yaml"))
	f.Add([]byte(head + "limits: {system: {rpm: 1/s}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, problems := config.ParseManifest("f", data)
		require.Equal(t, m == nil, len(problems) > 0)
		for _, p := range problems {
			require.Positive(t, p.Line)
			require.NotEmpty(t, p.What)
			require.NotEmpty(t, p.Fix)
		}
		if m == nil {
			return
		}
		require.NoError(t, api.CheckNamespace(m.Namespace))
		require.NoError(t, api.CheckManifest(m.Name))
		seen := map[api.LimitsTarget]bool{}
		for _, l := range m.Levels {
			require.NoError(t, l.Check())
			require.False(t, seen[l.LimitsTarget])
			seen[l.LimitsTarget] = true
			require.NotEmpty(t, l.Limits)
			require.LessOrEqual(t, len(l.Limits), api.MaxLimits)
			for i, limit := range l.Limits {
				require.NoError(t, limit.Check())
				require.True(t, i == 0 || l.Limits[i-1].Name < limit.Name)
			}
			require.NoError(t, l.OnUnavailable.Check())
		}
	})
}
