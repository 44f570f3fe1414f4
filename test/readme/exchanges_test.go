package readme_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

var update = flag.Bool("update", false, "write the table of error codes anew")

const (
	protocol = "docs/protocol.md"
	ellipsis = "…"
	// waitSlack is how far a wait may be from the one that is written down: the
	// bucket refills while the test runs.
	waitSlack = 60_000
)

// exchange is a request and its reply, as a document shows them.
type exchange struct {
	subject, request string
	status, reply    string // the status is empty where the reply is no error
	line             int
}

func (d document) exchanges(t *testing.T) []exchange {
	t.Helper()
	var all []exchange
	var open *exchange
	for _, f := range d.fences(t) {
		info := strings.Join(f.info, " ")
		if f.language != "json" || info == "printed" {
			continue
		}
		switch subject, ask := strings.CutPrefix(info, "request "); {
		case ask && open == nil:
			open = &exchange{subject: subject, request: f.text, line: f.line}
		case open != nil && strings.HasPrefix(info, "reply"):
			open.reply, open.status = f.text, strings.TrimSpace(strings.TrimPrefix(info, "reply"))
			all, open = append(all, *open), nil
		default:
			t.Fatalf("%s:%d: json fences come in pairs, request SUBJECT and reply, or are printed", d.name, f.line)
		}
	}
	require.Nil(t, open, "%s: a request has no reply", d.name)
	return all
}

// play sends a request and compares the reply. It returns what an ellipsis in the
// next request stands for.
func play(t *testing.T, d document, nc *nats.Conn, x exchange, lease string) string {
	t.Helper()
	at := fmt.Sprintf("%s:%d", d.name, x.line)
	body := strings.ReplaceAll(strings.TrimSpace(x.request), ellipsis, lease)
	got, err := nc.Request(x.subject, []byte(body), time.Minute)
	require.NoError(t, err, at)
	require.Equal(t, x.status, got.Header.Get(api.HeaderErrorCode), "%s: %s", at, got.Data)
	var want, is map[string]any
	require.NoError(t, json.Unmarshal([]byte(x.reply), &want), at)
	require.NoError(t, json.Unmarshal(got.Data, &is), at)
	require.Empty(t, differences("", want, is), "%s: the reply is\n%s", at, got.Data)
	if token, ok := is["lease"].(string); ok && token != "" {
		return token
	}
	if events, ok := is["events"].([]any); ok && len(events) > 0 {
		id, _ := events[0].(map[string]any)["id"].(string)
		return id
	}
	return lease
}

// differences compares what is written with what came.
func differences(path string, want, is any) []string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := is.(map[string]any)
		if !ok || len(got) != len(want) {
			return []string{fmt.Sprintf("%s: %v, not %v", path, is, want)}
		}
		var all []string
		for name, value := range want {
			all = append(all, differences(path+"."+name, value, got[name])...)
		}
		return all
	case []any:
		got, ok := is.([]any)
		if !ok || len(got) != len(want) {
			return []string{fmt.Sprintf("%s: %v, not %v", path, is, want)}
		}
		var all []string
		for i, value := range want {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), value, got[i])...)
		}
		return all
	}
	if same(path, want, is) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %v, not %v", path, is, want)}
}

func same(path string, want, is any) bool {
	if text, ok := is.(string); ok && want == ellipsis {
		return text != ""
	}
	if wait, ok := want.(float64); ok && wait > 0 && strings.HasSuffix(path, ".retry_after_ms") {
		got, ok := is.(float64)
		return ok && got > wait-waitSlack && got < wait+waitSlack
	}
	if moment, ok := want.(float64); ok && moment > 0 && isMoment(path) {
		got, ok := is.(float64)
		return ok && got > 0
	}
	return want == is
}

// isMoment reports a field that says when something happened.
func isMoment(path string) bool {
	return strings.HasSuffix(path, ".at_ms") || strings.HasSuffix(path, ".created_ms") || strings.HasSuffix(path, ".deleted_ms") || strings.HasSuffix(path, ".signs_from_ms")
}

// The comparison finds what it is there to find.
func TestDifferencesAreFound(t *testing.T) {
	parse := func(text string) (value any) {
		require.NoError(t, json.Unmarshal([]byte(text), &value))
		return value
	}
	for name, c := range map[string]struct {
		want, is string
		same     bool
	}{
		"equal":              {`{"a":[1,true]}`, `{"a":[1,true]}`, true},
		"another value":      {`{"a":[1]}`, `{"a":[2]}`, false},
		"a field too many":   {`{"a":1}`, `{"a":1,"b":1}`, false},
		"a field too few":    {`{"a":1,"b":1}`, `{"a":1}`, false},
		"another field":      {`{"a":1}`, `{"b":1}`, false},
		"an item too many":   {`[1]`, `[1,2]`, false},
		"another type":       {`{"a":1}`, `{"a":"1"}`, false},
		"any text":           {`{"lease":"…"}`, `{"lease":"x"}`, true},
		"no text":            {`{"lease":"…"}`, `{"lease":""}`, false},
		"nearly the wait":    {`{"retry_after_ms":863950}`, `{"retry_after_ms":863001}`, true},
		"another wait":       {`{"retry_after_ms":863950}`, `{"retry_after_ms":590}`, false},
		"any moment":         {`{"created_ms":1772366400000}`, `{"created_ms":1}`, true},
		"no moment":          {`{"created_ms":1772366400000}`, `{"created_ms":0}`, false},
		"never is no wait":   {`{"retry_after_ms":-1}`, `{"retry_after_ms":1}`, false},
		"another time":       {`{"at_ms":1}`, `{"at_ms":2}`, true},
		"no time":            {`{"at_ms":1}`, `{"at_ms":"1"}`, false},
		"an object, no list": {`{"a":{}}`, `{"a":[]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.same, len(differences("", parse(c.want), parse(c.is))) == 0)
		})
	}
}

// The table of codes is the list of codes.
func TestCodesAreListed(t *testing.T) {
	const head = "| status | code | meaning |\n|---|---|---|\n"
	var rows strings.Builder
	rows.WriteString(head)
	for _, code := range api.Codes() {
		fmt.Fprintf(&rows, "| %d | `%s` | %s |\n", code.Status(), code, code.Meaning())
	}
	before, rest, ok := strings.Cut(read(t, protocol).text, head)
	require.True(t, ok, "%s has no table of codes", protocol)
	table, after, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	if *update {
		text := before + strings.TrimSuffix(rows.String(), "\n") + "\n\n" + after
		require.NoError(t, os.WriteFile(filepath.Join(root, protocol), []byte(text), 0o600))
		return
	}
	require.Equal(t, rows.String(), head+table+"\n", "the table is out of date: write it with -update")
}

// Every verb has a place in the protocol's description.
func TestVerbsAreDescribed(t *testing.T) {
	text := read(t, protocol).text
	for _, verb := range api.Verbs() {
		namespace := api.DefaultNamespace
		if verb.ForOperators() {
			namespace = api.OperatorNamespace
		}
		require.Contains(t, text, "json request "+api.Subject(namespace, verb)+"\n")
	}
}
