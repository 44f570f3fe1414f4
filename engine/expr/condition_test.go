package expr_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const stored = `{"n":{"N":"5"},"m":{"N":"7"},"s":{"S":"hello"},"b":{"B":"aGVsbG8="},"t":{"BOOL":true},"z":{"NULL":true},
	"ss":{"SS":["a","b"]},"ns":{"NS":["1","2"]},"bs":{"BS":["AA=="]},"l":{"L":[{"N":"1"},{"S":"x"},{"L":[{"N":"9"}]}]},
	"d":{"M":{"x":{"N":"1"},"y":{"M":{"deep":{"S":"v"}}}}},"u":{"S":"é𝄞"}}`

const operands = `{":4":{"N":"4"},":5":{"N":"5.0"},":6":{"N":"6"},":9":{"N":"9"},":s":{"S":"hello"},":h":{"S":"he"},":a":{"S":"a"},
	":b":{"B":"aGU="},":t":{"BOOL":true},":null":{"NULL":true},":ba":{"SS":["b","a"]},":1":{"N":"1"},":3":{"N":"3"},
	":l":{"L":[{"N":"9"}]},":N":{"S":"N"},":SS":{"S":"SS"},":M":{"S":"M"},":x":{"S":"x"},":2":{"N":"2"},":d":{"M":{"x":{"N":"1"}}}}`

func TestConditions(t *testing.T) {
	for source, want := range map[string]bool{
		// Comparators, by type.
		"n = :5": true, "n = :4": false, "n = :s": false, "n <> :4": true, "n <> :5": false, "n <> :s": true,
		"n < :6": true, "n < :5": false, "n <= :5": true, "n > :4": true, "n > :5": false, "n >= :5": true, "n >= :6": false,
		"s = :s": true, "s > :h": true, "b > :b": true, "b > :h": false, "s < :9": false, "s >= :9": false,
		"t = :t": true, "z = :null": true, "ss = :ba": true, "n < m": true, "m < n": false, ":4 < n": true, ":4 < :5": true,
		"l[0] = :1": true, "l[2] = :l": true, "d.x = :1": true, "d.y.deep > :h": true, "l[2][0] = :9": true,
		// A wrong type in the item is no error, but false.
		"t < :9": false, "l >= :9": false, "d.x < s": false,
		// Absent operands: false, except <>.
		"q = :5": false, "q < :5": false, "q <= :5": false, "q > :5": false, "q >= :5": false, "q <> :5": true,
		":5 <= q": false, "q = w": false, "q <> w": true, "q < w": false, "q IN (:5)": false, "q BETWEEN :4 AND :6": false,
		"n BETWEEN q AND :6": false, "n BETWEEN :4 AND q": false, "n = d.absent": false, "n = l[7]": false, "n = n.x": false,
		"n = l.x": false, "n = d[0]": false, "size(q) < :9": false, "size(q) <> :9": true,
		"NOT q > :5": true, "NOT (q = :5)": true, "NOT q <> :5": false,
		// BETWEEN, IN.
		"n BETWEEN :4 AND :6": true, "n BETWEEN :5 AND :5": true, "n BETWEEN :6 AND :9": false, "s BETWEEN :4 AND :6": false,
		":5 BETWEEN :4 AND m": true, "s between :a and :s": true, "n IN (:4, :5)": true, "n IN (:4)": false,
		"n in (:s, q, m, :5)": true, "ss IN (:ba)": true,
		// Functions.
		"attribute_exists(n)": true, "attribute_exists(q)": false, "attribute_exists(d.x)": true, "attribute_exists(l[3])": false,
		"attribute_not_exists(n)": false, "attribute_not_exists(q)": true, "attribute_not_exists(d.y.absent)": true,
		"attribute_exists(z)": true, "attribute_type(n, :N)": true, "attribute_type(s, :N)": false, "attribute_type(q, :N)": false,
		"attribute_type(ss, :SS)": true, "attribute_type(d, :M)": true, "attribute_type(:4, :N)": true,
		"begins_with(s, :h)": true, "begins_with(s, :a)": false, "begins_with(b, :b)": true, "begins_with(b, :h)": false,
		"begins_with(n, :h)": false, "begins_with(q, :h)": false, "begins_with(:s, :h)": true, "begins_with(s, d.y.deep)": false,
		"contains(s, :h)": true, "contains(s, :a)": false, "contains(b, :b)": true, "contains(ss, :a)": true, "contains(ss, :h)": false,
		"contains(ns, :1)": true, "contains(ns, :a)": false, "contains(l, :x)": true, "contains(l, :l)": true, "contains(n, :5)": false,
		"contains(q, :a)": false, "contains(d, :x)": false,
		"size(s) = :5": true, "size(b) = :5": true, "size(ss) = :2": true, "size(ns) = :2": true, "size(bs) = :1": true,
		"size(l) = :3": true, "size(d) = :2": true, "size(u) = :3": true, "size(n) = :1": false, "size(t) <> :1": true,
		"size(z) = :1": false, "size(s) = n": true, "size(s) > :s": false, "size(:s) BETWEEN :4 AND :6": true, "n IN (size(s))": true,
		// Logic: NOT before AND before OR; case of keywords; parentheses.
		"n = :4 OR n = :5 AND s = :s": true, "(n = :4 OR n = :5) AND s = :a": false, "NOT n = :4 AND s = :s": true,
		"NOT NOT n = :5": true, "not (n = :5 or s = :s)": false, "n = :5 aNd s = :s oR n = :4": true, "(n) = (:5)": true,
		"((n = :4) OR (n = :5)) AND (s = :s)": true, "(d).x = :1": true, "(d.y).deep > :h": true,
		"n BETWEEN :4 AND :6 AND s = :s": true, "\tn\r\n=  :5 ": true,
	} {
		e := env(t, operands)
		c, err := e.Condition(source)
		require.NoError(t, err, source)
		got, err := c.Eval(item(t, stored))
		require.NoError(t, err, source)
		require.Equal(t, want, got, source)
	}
}

func TestConditionOnAbsentItem(t *testing.T) {
	for source, want := range map[string]bool{
		"attribute_not_exists(n)": true, "attribute_exists(n)": false, "n = :5": false, "NOT n = :5": true, "d.x <> :5": true,
	} {
		c, err := env(t, operands).Condition(source)
		require.NoError(t, err)
		got, err := c.Eval(nil)
		require.NoError(t, err)
		require.Equal(t, want, got, source)
	}
}

func TestConditionNamesArePlaceholders(t *testing.T) {
	e := env(t, `{":v":{"N":"1"}}`, "#0", "d", "#_x", "x", "#dot", "a.b")
	c, err := e.Condition("#0.#_x = :v AND attribute_not_exists(#dot)")
	require.NoError(t, err)
	require.NoError(t, e.Unused())
	ok, err := c.Eval(item(t, stored))
	require.NoError(t, err)
	require.True(t, ok)
}

func TestConditionsRefused(t *testing.T) {
	for source, want := range map[string]string{
		"":                             "The expression can not be empty;",
		" \t":                          "The expression can not be empty;",
		"a":                            `Syntax error; token: "<EOF>", near: "a"`,
		":4":                           `Syntax error; token: "<EOF>", near: ":4"`,
		"a = ":                         `Syntax error; token: "<EOF>", near: "="`,
		"a == :4":                      `Syntax error; token: "=", near: "== :4"`,
		"a != :4":                      `Syntax error; token: "!", near: "a !="`,
		"_a = :4":                      `Syntax error; token: "_", near: "_a"`,
		"a = 4":                        `Syntax error; token: "4", near: "= 4"`,
		"a-b = :4":                     `Syntax error; token: "-", near: "a-b"`,
		"(a = :4":                      `Syntax error; token: "<EOF>", near: ":4"`,
		"a = :4)":                      `Syntax error; token: ")", near: ":4)"`,
		"(a = :4) = :5":                `Syntax error; token: "=", near: ") = :5"`,
		"a AND b = :4":                 `Syntax error; token: "AND", near: "a AND b"`,
		"b = :4 AND a":                 `Syntax error; token: "<EOF>", near: "a"`,
		"NOT a":                        `Syntax error; token: "<EOF>", near: "a"`,
		"a BETWEEN :4":                 `Syntax error; token: "<EOF>", near: ":4"`,
		"a IN :4":                      `Syntax error; token: ":4", near: "IN :4"`,
		"a IN ()":                      `Syntax error; token: ")", near: "()"`,
		"a[:4] = :5":                   `Syntax error; token: ":4", near: "[:4]"`,
		"a[1 = :5":                     `Syntax error; token: "=", near: "1 = :5"`,
		"a. = :5":                      `Syntax error; token: "=", near: ". = :5"`,
		"# = :5":                       `Syntax error; token: "#", near: "# ="`,
		"and = :5":                     `Syntax error; token: "and", near: "and ="`,
		"a[99999999999] = :5":          "List index is not within the allowable range; index: [99999999999]",
		"((a = :5))":                   "The expression has redundant parentheses;",
		"((a)) = :5":                   "The expression has redundant parentheses;",
		"dog(a) = :5":                  "Invalid function name; function: dog",
		"SIZE(a) = :5":                 "Invalid function name; function: SIZE",
		"if_not_exists(a, :5) = :5":    "The function is not allowed to be used this way in an expression; function: if_not_exists",
		"size(a)":                      "The function is not allowed to be used this way in an expression; function: size",
		"NOT size(a)":                  "The function is not allowed to be used this way in an expression; function: size",
		"attribute_exists(a) = :t":     "The function is not allowed to be used this way in an expression; function: attribute_exists",
		"contains(contains(a, b), :5)": "The function is not allowed to be used this way in an expression; function: contains",
		"name = :5":                    "Attribute name is a reserved keyword; reserved keyword: name",
		"a.Status = :5":                "Attribute name is a reserved keyword; reserved keyword: Status",
		"#n = :5":                      "An expression attribute name used in the document path is not defined; attribute name: #n",
		"a = :none":                    "An expression attribute value used in expression is not defined; attribute value: :none",
		"a = a":                        "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [a]",
		"contains(a.b[1], a.b[1])":     "The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [a, b, [1]]",
		"size(a, b) = :5":              "Incorrect number of operands for operator or function; operator or function: size, number of operands: 2",
		"contains(a)":                  "Incorrect number of operands for operator or function; operator or function: contains, number of operands: 1",
		"attribute_exists(a, b)":       "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2",
		"attribute_exists(:5)":         "Operator or function requires a document path; operator or function: attribute_exists",
		"attribute_type(a, b)":         "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
		"attribute_type(a, :5)":        "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N",
		"attribute_type(a, :s)":        "Invalid attribute type name found; type: hello, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
		"begins_with(a, :5)":           "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
		"size(:5) = :5":                "Incorrect operand type for operator or function; operator or function: size, operand type: N",
		"size(size(a)) = :5":           "Incorrect operand type for operator or function; operator or function: size, operand type: N",
		"a < :t":                       "Incorrect operand type for operator or function; operator: <, operand type: BOOL",
		":l >= a":                      "Incorrect operand type for operator or function; operator: >=, operand type: L",
		"a BETWEEN :t AND :5":          "Incorrect operand type for operator or function; operator: BETWEEN, operand type: BOOL",
		"a BETWEEN :6 AND :4":          "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:6}, upper bound operand: AttributeValue: {N:4}",
		"a BETWEEN :s AND :4":          "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {S:hello}, upper bound operand: AttributeValue: {N:4}",
		"a IN (" + strings.Repeat(":4,", 100) + ":4)": "The IN operator is provided with too many operands; number of operands: 101",
		"a" + strings.Repeat(".a", 32) + " = :4":      "The document path has too many nesting elements; nesting levels: 33",
		"a" + strings.Repeat(" ", 4096) + "= :4":      "Expression size has exceeded the maximum allowed size; expression size: 4101",
		"a < b" + strings.Repeat(" OR a < b", 150):    "The expression contains too many operators; operator count: 301",
		strings.Repeat("(", 4000):                     "The expression is nested too deeply; levels allowed: 320",
		strings.Repeat("NOT ", 1000) + "a = :4":       "The expression is nested too deeply; levels allowed: 320",
		"a < " + strings.Repeat("f(", 1000):           "The expression is nested too deeply; levels allowed: 320",
	} {
		_, err := env(t, operands).Condition(source)
		refused(t, err, "Invalid ConditionExpression: "+want, source)
		_, err = env(t, operands).Filter(source)
		refused(t, err, "Invalid FilterExpression: "+want, source)
	}
}

func TestConditionAtItsLimits(t *testing.T) {
	for _, source := range []string{
		"a < b" + strings.Repeat(" or (a < b", 149) + strings.Repeat(")", 149),
		strings.Repeat("NOT ", 299) + "a < b",
		"a IN (" + strings.Repeat(":4,", 99) + ":4)",
		"a" + strings.Repeat(".a", 31) + " = :4",
		"a" + strings.Repeat(" ", 4090) + "= :4",
	} {
		_, err := env(t, operands).Condition(source)
		require.NoError(t, err, source)
	}
}
