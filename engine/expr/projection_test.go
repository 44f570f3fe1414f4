package expr_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const projected = `{"a":{"N":"1"},"l":{"L":[{"N":"0"},{"M":{"x":{"N":"1"},"y":{"N":"2"}}},{"N":"2"}]},"m":{"M":{"x":{"N":"1"},"y":{"M":{"z":{"N":"3"}}}}}}`

func TestProjections(t *testing.T) {
	for source, want := range map[string]string{
		"a":                      `{"a":{"N":"1"}}`,
		"a, q , m.x":             `{"a":{"N":"1"},"m":{"M":{"x":{"N":"1"}}}}`,
		"m":                      `{"m":{"M":{"x":{"N":"1"},"y":{"M":{"z":{"N":"3"}}}}}}`,
		"m.y.z,m.x":              `{"m":{"M":{"x":{"N":"1"},"y":{"M":{"z":{"N":"3"}}}}}}`,
		"#m.#y":                  `{"m":{"M":{"y":{"M":{"z":{"N":"3"}}}}}}`,
		"l[2], l[0]":             `{"l":{"L":[{"N":"0"},{"N":"2"}]}}`,
		"l[1].x, l[9], l[1].y.q": `{"l":{"L":[{"M":{"x":{"N":"1"}}}]}}`,
		"l.x":                    `{}`,
		"m[0]":                   `{}`,
		"m.q, m.y.q":             `{}`,
		"q":                      `{}`,
	} {
		p, err := env(t, `{}`, "#m", "m", "#y", "y").Projection(source)
		require.NoError(t, err, source)
		from := item(t, projected)
		got := p.Apply(from)
		require.True(t, item(t, want).Equal(got), "%s: %s", source, got.AppendJSON(nil))
		require.True(t, item(t, projected).Equal(from), source)
		require.Empty(t, p.Apply(nil), source)
	}
}

func TestProjectionPaths(t *testing.T) {
	p, err := env(t, `{}`, "#0", "x.y").Projection("#0.b[12], c")
	require.NoError(t, err)
	require.Len(t, p.Paths(), 2)
	require.Equal(t, "[x.y, b, [12]]", p.Paths()[0].String())
}

func TestProjectionsRefused(t *testing.T) {
	for source, want := range map[string]string{
		"":       "The expression can not be empty;",
		"a,":     `Syntax error; token: "<EOF>", near: ","`,
		"a b":    `Syntax error; token: "b", near: "a b"`,
		"(a)":    `Syntax error; token: "(", near: "(a"`,
		":a":     `Syntax error; token: ":a", near: ":a"`,
		"name":   "Attribute name is a reserved keyword; reserved keyword: name",
		"#a":     "An expression attribute name used in the document path is not defined; attribute name: #a",
		"a, a.b": "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a, b]",
	} {
		_, err := env(t, `{}`).Projection(source)
		refused(t, err, "Invalid ProjectionExpression: "+want, source)
	}
}
