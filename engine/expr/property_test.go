package expr_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// document draws values of all shapes under the names a, b, c.
func document(depth int) *rapid.Generator[attr.Value] {
	return rapid.Custom(func(t *rapid.T) attr.Value {
		shapes := 3
		if depth > 0 {
			shapes = 5
		}
		switch rapid.IntRange(0, shapes-1).Draw(t, "shape") {
		case 0:
			return attr.Num(attr.Int(rapid.Int64Range(-5, 5).Draw(t, "number")))
		case 1:
			return attr.Str(rapid.StringN(0, 2, 8).Draw(t, "string"))
		case 2:
			elems := rapid.SliceOfNDistinct(rapid.Int64Range(0, 9), 1, 4, func(i int64) int64 { return i }).Draw(t, "set")
			values := make([]attr.Value, len(elems))
			for i, e := range elems {
				values[i] = attr.Num(attr.Int(e))
			}
			set, err := attr.Set(attr.KindNS, values)
			require.NoError(t, err)
			return set
		case 3:
			return attr.List(rapid.SliceOfN(document(depth-1), 0, 4).Draw(t, "list"))
		}
		return attr.Map(fields(depth-1).Draw(t, "map"))
	})
}

func fields(depth int) *rapid.Generator[attr.Item] {
	name := rapid.SampledFrom([]string{"a", "b", "c"})
	return rapid.Map(rapid.MapOfN(name, document(depth), 0, 3), func(m map[string]attr.Value) attr.Item { return m })
}

const anyPath = `[abc](\.[abc]|\[[0-4]\]){0,3}`

func anyUpdate(t *rapid.T) string {
	path := rapid.StringMatching(anyPath)
	value := rapid.SampledFrom([]string{":v", ":w", ":v + :v", "if_not_exists(a, :v)", "list_append(b, :l)", "c - :v"})
	var sections []string
	for _, verb := range []string{"SET", "REMOVE", "ADD", "DELETE"} {
		var actions []string
		for _, p := range rapid.SliceOfN(path, 0, 2).Draw(t, verb) {
			switch verb {
			case "SET":
				p += " = " + value.Draw(t, "value")
			case "ADD", "DELETE":
				p += " :set"
			}
			actions = append(actions, p)
		}
		if len(actions) > 0 {
			sections = append(sections, verb+" "+strings.Join(actions, ", "))
		}
	}
	return strings.Join(sections, " ")
}

func values(t testing.TB) attr.Item {
	t.Helper()
	return item(t, `{":v":{"N":"3"},":w":{"S":"w"},":l":{"L":[{"N":"1"}]},":set":{"NS":["1","2","11"]}}`)
}

// TestApplyNeverChangesTheOldItem also holds an update's paths against what
// differs between the items.
func TestApplyNeverChangesTheOldItem(t *testing.T) {
	given := values(t)
	rapid.Check(t, func(t *rapid.T) {
		old := fields(3).Draw(t, "item")
		before := old.AppendJSON(nil)
		u, err := expr.NewEnv(nil, given).Update(anyUpdate(t))
		if err != nil {
			return
		}
		updated, err := u.Apply(old)
		var unchanged attr.Item
		require.NoError(t, unchanged.UnmarshalJSON(before))
		require.True(t, unchanged.Equal(old))
		if err != nil {
			return
		}
		for name := range old {
			if v, ok := updated[name]; !ok || !v.Equal(old[name]) {
				require.True(t, slices.ContainsFunc(u.Paths(), func(p expr.Path) bool { return p[0].Name == name }), name)
			}
		}
		again, err := u.Apply(old)
		require.NoError(t, err)
		require.True(t, again.Equal(updated))
	})
}

// TestNotIsTheOpposite holds for every condition, absent operands included.
func TestNotIsTheOpposite(t *testing.T) {
	given := values(t)
	rapid.Check(t, func(t *rapid.T) {
		it := fields(2).Draw(t, "item")
		path := rapid.StringMatching(anyPath)
		op := rapid.SampledFrom([]string{"=", "<>", "<", "<=", ">", ">="}).Draw(t, "operator")
		source := fmt.Sprintf("%s %s :v", path.Draw(t, "path"), op)
		holds := evaluate(t, given, source, it)
		require.Equal(t, !holds, evaluate(t, given, "NOT "+source, it))
		require.Equal(t, holds, evaluate(t, given, source+" AND ("+source+" OR "+source+")", it))
	})
}

func evaluate(t *rapid.T, given attr.Item, source string, it attr.Item) bool {
	t.Helper()
	c, err := expr.NewEnv(nil, given).Condition(source)
	require.NoError(t, err, source)
	ok, err := c.Eval(it)
	require.NoError(t, err)
	return ok
}
