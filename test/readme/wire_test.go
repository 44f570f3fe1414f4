package readme_test

import (
	"maps"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

const pythonFile = "test/python/tidegate.py"

// Python in the documents is part of the file that make test-python runs.
func TestPythonIsOfTheFile(t *testing.T) {
	file, parts := read(t, pythonFile).text, 0
	for _, d := range documents(t) {
		for _, f := range d.fences(t) {
			if f.language == "python" {
				parts++
				require.Contains(t, file, "\n"+f.text, "%s:%d", d.name, f.line)
			}
		}
	}
	require.Positive(t, parts)
}

// What the file sends and reads has the names of the contract, so that a change of
// these shows here, without Python.
func TestPythonSpeaksTheContract(t *testing.T) {
	file := read(t, pythonFile).text
	subject := strings.NewReplacer("NAMESPACE", "{self.namespace}", "VERB", "{verb}").Replace(api.Subject("NAMESPACE", "VERB"))
	require.Contains(t, file, `f"`+subject+`"`)
	require.Contains(t, file, strings.Replace(api.InboxPrefix("NAMESPACE"), "NAMESPACE", "{namespace}", 1)+`"`)
	require.Contains(t, file, `{"`+api.HeaderTimeout+`": `)
	require.Contains(t, file, `.get("`+api.HeaderErrorCode+`")`)
	require.Contains(t, file, `== "`+string(api.CodeNoLimits)+`"`)

	asked := regexp.MustCompile(`self\.ask\("(\w+)", \{(.*?)\}\)`).FindAllStringSubmatch(file, -1)
	requests := map[string]any{
		"acquire": api.AcquireRequest{}, "adjust": api.AdjustRequest{}, "release": api.ReleaseRequest{}, "status": api.StatusRequest{},
	}
	require.Len(t, asked, len(requests))
	for _, ask := range asked {
		fields := fieldsOf(requests[ask[1]])
		for _, name := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(ask[2], -1) {
			require.True(t, fields[name[1]], "%s has no %s", ask[1], name[1])
		}
	}
	replies := fieldsOf(api.AcquireReply{}, api.LimitStatus{}, api.AdjustReply{}, api.StatusReply{}, api.Error{})
	reads := regexp.MustCompile(`(?:reply|limit|body)(?:\.get\(|\[)"(\w+)"`).FindAllStringSubmatch(file, -1)
	require.Greater(t, len(reads), 10)
	for _, read := range reads {
		require.True(t, replies[read[1]], "no reply has %s", read[1])
	}
}

// fieldsOf are the names on the wire of the fields of structs.
func fieldsOf(values ...any) map[string]bool {
	all := map[string]bool{}
	for _, v := range values {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			maps.Copy(all, map[string]bool{name: true})
		}
	}
	return all
}
