package api_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

type vector struct {
	Max      int
	Ok       []string
	Bad      []string
	Reserved []string
}

// checks ties each kind of name to its vectors, its check and a payload that
// carries it through a decoder.
func checks() map[string]struct {
	code    api.Code
	field   string
	check   func(string) error
	decoded func(name []byte) error
} {
	through := func(format string) func([]byte) error {
		return func(name []byte) error {
			_, err := api.DecodeAcquire(fmt.Appendf(nil, format, name), false)
			return err
		}
	}
	return map[string]struct {
		code    api.Code
		field   string
		check   func(string) error
		decoded func(name []byte) error
	}{
		"entity_id":  {api.CodeInvalidEntity, "entity", api.CheckEntity, through(`{"entity":%s,"resource":"r","consume":{"rpm":1}}`)},
		"resource":   {api.CodeInvalidResource, "resource", api.CheckResource, through(`{"entity":"e","resource":%s,"consume":{"rpm":1}}`)},
		"limit_name": {api.CodeInvalidLimitName, "consume", api.CheckLimitName, through(`{"entity":"e","resource":"r","consume":{%s:1}}`)},
		"namespace":  {api.CodeInvalidNamespace, "", api.CheckNamespace, nil},
	}
}

func TestVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/validation.json")
	require.NoError(t, err)
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(file, &all))

	for kind, c := range checks() {
		var v vector
		require.NoError(t, json.Unmarshal(all[kind], &v))
		require.NotEmpty(t, v.Ok)
		require.NotEmpty(t, v.Bad)
		longest := v.Max
		if kind == "namespace" {
			longest = 63
		}
		ok := append(v.Ok, strings.Repeat("a", longest))
		bad := append(append(v.Bad, v.Reserved...), strings.Repeat("a", longest+1), strings.Repeat("é", longest/2+1), "a\x00", "a\xff")

		for _, name := range ok {
			require.NoError(t, c.check(name), "%s %q", kind, name)
			if c.decoded != nil {
				require.NoError(t, c.decoded(quote(t, name)), "%s %q", kind, name)
			}
		}
		for _, name := range bad {
			requireCode(t, c.check(name), c.code, "")
			if c.decoded != nil && name != "a\xff" { // not JSON at all
				e := requireCode(t, c.decoded(quote(t, name)), c.code, "*")
				require.Contains(t, e.Field, c.field)
			}
		}
	}
}

func TestLimitCheck(t *testing.T) {
	good := api.Limit{Name: "rpm", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 1}
	with := func(change func(*api.Limit)) api.Limit {
		l := good
		change(&l)
		return l
	}
	for name, l := range map[string]api.Limit{
		"smallest":       good,
		"most capacity":  with(func(l *api.Limit) { l.Capacity = api.MaxAmount }),
		"longest period": with(func(l *api.Limit) { l.RefillPeriodSeconds = api.MaxPeriodSeconds }),
		"fastest":        with(func(l *api.Limit) { l.RefillAmount = 2 * api.MaxRate; l.RefillPeriodSeconds = 2 }),
	} {
		require.NoError(t, l.Check(), name)
	}
	for name, c := range map[string]struct {
		limit api.Limit
		code  api.Code
		field string
	}{
		"name":        {with(func(l *api.Limit) { l.Name = "wcu" }), api.CodeInvalidLimitName, "name"},
		"no capacity": {with(func(l *api.Limit) { l.Capacity = 0 }), api.CodeInvalidLimit, "capacity"},
		"capacity":    {with(func(l *api.Limit) { l.Capacity = api.MaxAmount + 1 }), api.CodeInvalidLimit, "capacity"},
		"no refill":   {with(func(l *api.Limit) { l.RefillAmount = -1 }), api.CodeInvalidLimit, "refill_amount"},
		"no period":   {with(func(l *api.Limit) { l.RefillPeriodSeconds = 0 }), api.CodeInvalidLimit, "refill_period_seconds"},
		"period":      {with(func(l *api.Limit) { l.RefillPeriodSeconds = math.MaxInt64 }), api.CodeInvalidLimit, "refill_period_seconds"},
		"too fast":    {with(func(l *api.Limit) { l.RefillAmount = api.MaxRate + 1 }), api.CodeInvalidLimit, "refill_amount"},
	} {
		t.Run(name, func(t *testing.T) { requireCode(t, c.limit.Check(), c.code, c.field) })
	}
}

// TestShownValue holds errors to 50 characters of what they refuse.
func TestShownValue(t *testing.T) {
	long := strings.Repeat("ü", 300)
	for _, payload := range []string{
		`{"entity":"` + long + `"}`,
		`{"` + long + `":1}`,
		`{"entity":"e","resource":"r","consume":{"` + long + `":1}}`,
		`{"entity":"e","resource":"r","consume":{"rpm":1` + strings.Repeat("8", 300) + `}}`,
		`{"entity":"e","resource":"r","consume":{"rpm":1},"on_unavailable":"` + long + `"}`,
	} {
		_, err := api.DecodeAcquire([]byte(payload), false)
		e := requireCode(t, err, "*", "*")
		require.LessOrEqual(t, strings.Count(e.Message, "ü"), 50)
		require.LessOrEqual(t, strings.Count(e.Field, "ü"), 50)
		require.LessOrEqual(t, strings.Count(e.Message, "8"), 50)
	}
}

func quote(t *testing.T, s string) []byte {
	t.Helper()
	b, err := json.Marshal(s)
	require.NoError(t, err)
	return b
}

// requireCode demands an *api.Error with the code and the field; "*" allows any.
func requireCode(t *testing.T, err error, code api.Code, field string) *api.Error {
	t.Helper()
	var e *api.Error
	require.ErrorAs(t, err, &e, "%v (%T) is no *api.Error", err, err)
	if code != "*" {
		require.Equal(t, code, e.Code, e.Error())
	}
	if field != "*" {
		require.Equal(t, field, e.Field, e.Error())
	}
	require.Contains(t, api.Codes(), e.Code)
	require.NotEmpty(t, e.Message)
	require.NotContains(t, e.Message, "\n")
	return e
}
