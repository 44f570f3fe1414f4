package expr_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/attr"
)

const before = `{"n":{"N":"5"},"s":{"S":"x"},"ss":{"SS":["a","b"]},"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"}]},
	"m":{"M":{"a":{"N":"1"},"c":{"M":{"d":{"N":"4"}}},"ll":{"L":[{"S":"p"}]}}}}`

const changes = `{":1":{"N":"1"},":2":{"N":"2"},":big":{"N":"99999999999999999999999999999999999999"},":half":{"N":"0.5"},":x":{"S":"x"},
	":ac":{"SS":["a","c"]},":ab":{"SS":["b","a"]},":ns":{"NS":["1"]},":l":{"L":[{"N":"8"},{"N":"9"}]},":m":{"M":{}},":t":{"BOOL":true},":far":{"N":"9e125"}}`

func TestUpdates(t *testing.T) {
	for source, want := range map[string]string{ // "-" takes an attribute away
		"SET n = :1":                                    `{"n":{"N":"1"}}`,
		"set fresh = :x":                                `{"fresh":{"S":"x"}}`,
		"SET n = n + :1, o = n":                         `{"n":{"N":"6"},"o":{"N":"5"}}`,
		"SET n = :1 - n":                                `{"n":{"N":"-4"}}`,
		"SET n = (n + :half)":                           `{"n":{"N":"5.5"}}`,
		"SET n = (n) - (:1)":                            `{"n":{"N":"4"}}`,
		"SET n = s, s = n":                              `{"n":{"S":"x"},"s":{"N":"5"}}`,
		"SET n = if_not_exists(n, :1)":                  `{}`,
		"SET q = if_not_exists(q, :1) + :2":             `{"q":{"N":"3"}}`,
		"SET q = if_not_exists(q, if_not_exists(w, n))": `{"q":{"N":"5"}}`,
		"SET q = if_not_exists(m.absent, :1)":           `{"q":{"N":"1"}}`,
		"SET l = list_append(l, :l)":                    `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"8"},{"N":"9"}]}}`,
		"SET l = list_append(:l, l)":                    `{"l":{"L":[{"N":"8"},{"N":"9"},{"N":"0"},{"N":"1"},{"N":"2"}]}}`,
		"SET q = list_append(if_not_exists(q, :l), :l)": `{"q":{"L":[{"N":"8"},{"N":"9"},{"N":"8"},{"N":"9"}]}}`,
		"SET l[1] = :x":                                 `{"l":{"L":[{"N":"0"},{"S":"x"},{"N":"2"}]}}`,
		"SET l[9] = :x":                                 `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"S":"x"}]}}`,
		"SET l[9] = :x, l[7] = :1":                      `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"1"},{"S":"x"}]}}`,
		"SET l[1] = :x REMOVE l[0]":                     `{"l":{"L":[{"S":"x"},{"N":"2"}]}}`,
		"SET l[5] = :x REMOVE l[0], l[2], l[8]":         `{"l":{"L":[{"N":"1"},{"S":"x"}]}}`,
		"SET m.a = :x, m.c.d = m.a, m.ll[0] = n":        `{"m":{"M":{"a":{"S":"x"},"c":{"M":{"d":{"N":"1"}}},"ll":{"L":[{"N":"5"}]}}}}`,
		"SET m.b = :x REMOVE m.a, m.c.d, m.absent":      `{"m":{"M":{"b":{"S":"x"},"c":{"M":{}},"ll":{"L":[{"S":"p"}]}}}}`,
		"SET q = m.c.d, r = l[2]":                       `{"q":{"N":"4"},"r":{"N":"2"}}`,
		"REMOVE n":                                      `{"n":"-"}`,
		"REMOVE n, absent SET s = n":                    `{"n":"-","s":{"N":"5"}}`,
		"ADD n :1":                                      `{"n":{"N":"6"}}`,
		"ADD q :2":                                      `{"q":{"N":"2"}}`,
		"ADD m.a :1, m.fresh :2, l[0] :1, l[9] :2":      `{"m":{"M":{"a":{"N":"2"},"fresh":{"N":"2"},"c":{"M":{"d":{"N":"4"}}},"ll":{"L":[{"S":"p"}]}}},"l":{"L":[{"N":"1"},{"N":"1"},{"N":"2"},{"N":"2"}]}}`,
		"ADD ss :ac":                                    `{"ss":{"SS":["a","b","c"]}}`,
		"ADD q :ac":                                     `{"q":{"SS":["a","c"]}}`,
		"DELETE ss :ac":                                 `{"ss":{"SS":["b"]}}`,
		"DELETE ss :ab":                                 `{"ss":"-"}`,
		"DELETE q :ab":                                  `{}`,
		"DELETE m.q :ab":                                `{}`,
		"ADD n :1 DELETE ss :ac SET s = :1 REMOVE l":    `{"n":{"N":"6"},"ss":{"SS":["b"]},"s":{"N":"1"},"l":"-"}`,
	} {
		u, err := env(t, changes).Update(source)
		require.NoError(t, err, source)
		old := item(t, before)
		got, err := u.Apply(old)
		require.NoError(t, err, source)
		wanted := item(t, before)
		for name, v := range item(t, strings.ReplaceAll(want, `"-"`, `{"S":"-"}`)) {
			if wanted[name] = v; v.Equal(attr.Str("-")) {
				delete(wanted, name)
			}
		}
		require.True(t, wanted.Equal(got), "%s: %s", source, got.AppendJSON(nil))
		require.True(t, item(t, before).Equal(old), "%s changed the old item", source)
	}
}

func TestUpdateOfAbsentItem(t *testing.T) {
	u, err := env(t, changes).Update("SET a = :x ADD c :1 REMOVE d DELETE e :ac")
	require.NoError(t, err)
	got, err := u.Apply(nil)
	require.NoError(t, err)
	require.True(t, item(t, `{"a":{"S":"x"},"c":{"N":"1"}}`).Equal(got))
}

func TestUpdatePaths(t *testing.T) {
	u, err := env(t, changes, "#m", "m").Update("SET #m.a = :1, n = :2, #m.c.d = :x REMOVE l[0]")
	require.NoError(t, err)
	var paths []string
	for _, p := range u.Paths() {
		paths = append(paths, p.String())
	}
	require.Equal(t, []string{"[m, a]", "[n]", "[m, c, d]", "[l, [0]]"}, paths)
}

// TestPick: what UPDATED_OLD and UPDATED_NEW return, odd cases included.
func TestPick(t *testing.T) {
	for source, want := range map[string][2]string{ // before and after
		"SET n = :1, fresh = :x":             {`{"n":{"N":"5"}}`, `{"n":{"N":"1"},"fresh":{"S":"x"}}`},
		"SET n = n":                          {`{"n":{"N":"5"}}`, `{"n":{"N":"5"}}`},
		"SET m.a = :x":                       {`{"m":{"M":{"a":{"N":"1"}}}}`, `{"m":{"M":{"a":{"S":"x"}}}}`},
		"SET m.fresh = :x":                   {`{}`, `{"m":{"M":{"fresh":{"S":"x"}}}}`},
		"SET m.c.d = :1, l[1] = :x":          {`{"m":{"M":{"c":{"M":{"d":{"N":"4"}}}}},"l":{"L":[{"N":"1"}]}}`, `{"m":{"M":{"c":{"M":{"d":{"N":"1"}}}}},"l":{"L":[{"S":"x"}]}}`},
		"SET m.ll[0] = :1, m.a = :2":         {`{"m":{"M":{"a":{"N":"1"},"ll":{"L":[{"S":"p"}]}}}}`, `{"m":{"M":{"a":{"N":"2"},"ll":{"L":[{"N":"1"}]}}}}`},
		"SET l[9] = :x":                      {`{}`, `{}`},
		"SET l = list_append(l, :l)":         {`{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"}]}}`, `{"l":{"L":[{"N":"0"},{"N":"1"},{"N":"2"},{"N":"8"},{"N":"9"}]}}`},
		"ADD m.a :2, ss :ac":                 {`{"m":{"M":{"a":{"N":"1"}}},"ss":{"SS":["a","b"]}}`, `{"m":{"M":{"a":{"N":"3"}}},"ss":{"SS":["a","b","c"]}}`},
		"DELETE ss :ab":                      {`{"ss":{"SS":["a","b"]}}`, `{}`},
		"REMOVE n, m.a, absent, m.ll[7]":     {`{"n":{"N":"5"},"m":{"M":{"a":{"N":"1"}}}}`, `{}`},
		"REMOVE l[0]":                        {`{"l":{"L":[{"N":"0"}]}}`, `{"l":{"L":[{"N":"1"}]}}`},
		"SET m.c.d = :1 REMOVE m.c.e, m.c.f": {`{"m":{"M":{"c":{"M":{"d":{"N":"4"}}}}}}`, `{"m":{"M":{"c":{"M":{"d":{"N":"1"}}}}}}`},
	} {
		u, err := env(t, changes).Update(source)
		require.NoError(t, err, source)
		old := item(t, before)
		updated, err := u.Apply(old)
		require.NoError(t, err, source)
		for i, it := range []attr.Item{old, updated} {
			picked := u.Pick(it)
			require.True(t, item(t, want[i]).Equal(picked), "%s: %s", source, picked.AppendJSON(nil))
		}
	}
}

func TestUpdatesThatTheItemRefuses(t *testing.T) {
	const (
		path    = "The document path provided in the update expression is invalid for update"
		kind    = "An operand in the update expression has an incorrect data type"
		missing = "The provided expression refers to an attribute that does not exist in the item"
	)
	for source, want := range map[string]string{
		"SET a = absent":                   missing,
		"SET a = absent + :1":              missing,
		"SET a = :1 + m.absent":            missing,
		"SET a = list_append(l, absent)":   missing,
		"SET a = l[3]":                     missing,
		"SET a = s + :1":                   kind,
		"SET a = :1 - s":                   kind,
		"SET a = list_append(l, s)":        kind,
		"ADD s :1":                         kind,
		"ADD n :ac":                        kind,
		"ADD ss :ns":                       kind,
		"ADD l :ac":                        kind,
		"DELETE n :ac":                     kind,
		"DELETE ss :ns":                    kind,
		"SET absent.a = :1":                path,
		"SET s.a = :1":                     path,
		"SET n[0] = :1":                    path,
		"SET m[0] = :1":                    path,
		"SET l.a = :1":                     path,
		"SET m.absent.a = :1":              path,
		"SET l[3].a = :1":                  path,
		"SET l[0].a = :1":                  path,
		"REMOVE absent.a":                  path,
		"REMOVE s[0]":                      path,
		"ADD absent.a :1":                  path,
		"DELETE absent.a :ac":              path,
		"SET a = :big + :1, c = :big + n":  "Attempting to store more than 38 significant digits in a Number",
		"ADD far :far SET o = :far + :far": "Number overflow. Attempting to store a number with magnitude larger than supported range",
	} {
		u, err := env(t, changes).Update(source)
		require.NoError(t, err, source)
		_, err = u.Apply(item(t, before))
		refused(t, err, want, source)
	}
}

func TestUpdatesRefused(t *testing.T) {
	for source, want := range map[string]string{
		"":                                  "The expression can not be empty;",
		"a = :1":                            `Syntax error; token: "a", near: "a ="`,
		"SET":                               `Syntax error; token: "<EOF>", near: "SET"`,
		"SET a":                             `Syntax error; token: "<EOF>", near: "a"`,
		"SET a = VALUE 1":                   `Syntax error; token: "1", near: "VALUE 1"`,
		"SET a = :1,":                       `Syntax error; token: "<EOF>", near: ","`,
		"SET a = :1, SET c = :2":            `Syntax error; token: "SET", near: ", SET c"`,
		"SET a = :1 + :2 + :1":              `Syntax error; token: "+", near: ":2 + :1"`,
		"SET a = (:1 + :2) + :1":            `Syntax error; token: "+", near: ") + :1"`,
		"SET a = :1 + (:2 + :1)":            `Syntax error; token: "<EOF>", near: ")"`,
		"SET a = if_not_exists(a, :1 + :2)": `Syntax error; token: "+", near: ":1 + :2"`,
		"SET :a = :1":                       `Syntax error; token: ":a", near: "SET :a ="`,
		"SET add = :1":                      `Syntax error; token: "add", near: "SET add ="`,
		"SET a = _f(c)":                     `Syntax error; token: "_", near: "= _f"`,
		"ADD a c":                           `Syntax error; token: "c", near: "a c"`,
		"DELETE a":                          `Syntax error; token: "<EOF>", near: "a"`,
		"REMOVE a :1":                       `Syntax error; token: ":1", near: "a :1"`,
		"SET a = :1 SET c = :2":             `The "SET" section can only be used once in an update expression;`,
		"REMOVE a ADD c :1 remove d":        `The "REMOVE" section can only be used once in an update expression;`,
		"SET sets = :1":                     "Attribute name is a reserved keyword; reserved keyword: sets",
		"SET a = f(c)":                      "Invalid function name; function: f",
		"SET a = size(c)":                   "The function is not allowed to be used this way in an expression; function: size",
		"SET a = list_append(list_append(:l, :l), :l)": "The function is not allowed to be used this way in an expression; function: list_append",
		"SET #x = :1":                   "An expression attribute name used in the document path is not defined; attribute name: #x",
		"SET a = :none":                 "An expression attribute value used in expression is not defined; attribute value: :none",
		"SET a = if_not_exists(c)":      "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1",
		"SET a = if_not_exists(:1, :2)": "Operator or function requires a document path; operator or function: if_not_exists",
		"SET a = list_append(c, :1)":    "Incorrect operand type for operator or function; operator or function: list_append, operand type: N",
		"SET a = c + :x":                "Incorrect operand type for operator or function; operator or function: +, operand type: S",
		"ADD a :x":                      "Incorrect operand type for operator or function; operator: ADD, operand type: STRING",
		"ADD a :l":                      "Incorrect operand type for operator or function; operator: ADD, operand type: LIST",
		"ADD a :m":                      "Incorrect operand type for operator or function; operator: ADD, operand type: MAP",
		"ADD a :t":                      "Incorrect operand type for operator or function; operator: ADD, operand type: BOOLEAN",
		"DELETE a :1":                   "Incorrect operand type for operator or function; operator: DELETE, operand type: NUMBER",
		"SET a = :1 REMOVE a":           "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]",
		"SET a.c = :1, a = :2":          "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, c], path two: [a]",
		"SET a[1] = :1, a[1].c = :2":    "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a, [1]], path two: [a, [1], c]",
		"SET a.c = :1, a[1] = :2":       "Two document paths conflict with each other; must remove or rewrite one of these paths; path one: [a, c], path two: [a, [1]]",
		"SET a = :1 + " + strings.Repeat("(", 400) + ":1": "The expression is nested too deeply; levels allowed: 320",
	} {
		_, err := env(t, changes).Update(source)
		refused(t, err, "Invalid UpdateExpression: "+want, source)
	}
	_, err := env(t, changes, "#1", "same", "#2", "same").Update("SET #1 = :1, #2 = :2")
	require.ErrorContains(t, err, "path one: [same], path two: [same]")
}

func TestUpdateDoesNotNestTooDeep(t *testing.T) {
	deep := strings.Repeat(`{"M":{"a":`, 30) + `{"M":{}}` + strings.Repeat("}}", 30)
	e := env(t, `{":deep":`+deep+`}`)
	u, err := e.Update("SET m.c.e = :deep")
	require.NoError(t, err)
	_, err = u.Apply(item(t, before))
	refused(t, err, attr.ErrTooDeep.Message)
	u, err = e.Update("SET m.e = :deep")
	require.NoError(t, err)
	_, err = u.Apply(item(t, before))
	require.NoError(t, err)
}
