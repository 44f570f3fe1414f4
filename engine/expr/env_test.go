package expr_test

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

func TestUnused(t *testing.T) {
	e := env(t, `{":a":{"N":"1"},":b":{"N":"2"},":c":{"N":"3"}}`, "#x", "x", "#y", "y", "#z", "z")
	refused(t, e.Unused(), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#x, #y, #z}")
	_, err := e.Update("SET #x = :a, #y = :b")
	require.NoError(t, err)
	_, err = e.Condition("#x < :a")
	require.NoError(t, err)
	refused(t, e.Unused(), "Value provided in ExpressionAttributeNames unused in expressions: keys: {#z}")
	_, err = e.Projection("#z")
	require.NoError(t, err)
	refused(t, e.Unused(), "Value provided in ExpressionAttributeValues unused in expressions: keys: {:c}")
	_, err = e.Condition("#z = :c OR #z = :a")
	require.NoError(t, err)
	require.NoError(t, e.Unused())
	require.NoError(t, expr.NewEnv(nil, nil).Unused())
}

func TestIllFormedPlaceholders(t *testing.T) {
	one := map[string]attr.Value{":a": attr.Null()}
	for _, c := range []struct {
		names  map[string]string
		values map[string]attr.Value
		want   string
	}{
		{map[string]string{"x": "y"}, one, `ExpressionAttributeNames contains invalid key: Syntax error; key: "x"`},
		{map[string]string{"": "y"}, one, `ExpressionAttributeNames contains invalid key: Syntax error; key: ""`},
		{map[string]string{"#": "y"}, one, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#"`},
		{map[string]string{"#a-b": "y"}, one, `ExpressionAttributeNames contains invalid key: Syntax error; key: "#a-b"`},
		{map[string]string{"#a": ""}, one, `ExpressionAttributeNames contains invalid value: The expression attribute name must not be empty; key: #a`},
		{nil, map[string]attr.Value{"#a": attr.Null()}, `ExpressionAttributeValues contains invalid key: Syntax error; key: "#a"`},
		{nil, map[string]attr.Value{":a!": attr.Null()}, `ExpressionAttributeValues contains invalid key: Syntax error; key: ":a!"`},
	} {
		e := expr.NewEnv(c.names, c.values)
		refused(t, e.Unused(), c.want)
		_, err := e.Condition("a = ") // the placeholders are checked before the expression
		refused(t, err, c.want)
		_, err = e.Condition("#a = :a")
		require.Error(t, err)
	}
}

//go:embed reserved.txt
var reserved string

func TestReservedWords(t *testing.T) {
	words := strings.Fields(reserved)
	require.Len(t, words, 573)
	require.True(t, slices.IsSorted(words))
	keywords := []string{"AND", "OR", "NOT", "BETWEEN", "IN"}
	for _, word := range words {
		if slices.Contains(keywords, word) {
			continue
		}
		for _, name := range []string{word, strings.ToLower(word)} {
			_, err := expr.NewEnv(nil, nil).Condition("attribute_exists(" + name + ")")
			refused(t, err, "Invalid ConditionExpression: Attribute name is a reserved keyword; reserved keyword: "+name)
		}
	}
	for _, name := range []string{"A", "AAA", "ABSOLUT", "ABSOLUTES", "counters", "zones", "ZZZ", "pk"} {
		_, err := expr.NewEnv(nil, nil).Projection(name)
		require.NoError(t, err, name)
	}
}

// TestParserIsBounded fills a parser's memo many times over, from several
// goroutines, and sees the same answers throughout.
func TestParserIsBounded(t *testing.T) {
	var parser expr.Parser
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				source := fmt.Sprintf("a%d = :v", i*(worker+1)%1500)
				e := parser.Env(nil, map[string]attr.Value{":v": attr.Num(attr.Int(int64(worker)))})
				c, err := e.Condition(source)
				if err != nil {
					t.Errorf("%s: %v", source, err)
					return
				}
				name, _, _ := strings.Cut(source, " ")
				if ok, _ := c.Eval(attr.Item{name: attr.Num(attr.Int(int64(worker)))}); !ok {
					t.Errorf("%s is false", source)
				}
			}
		})
	}
	wg.Wait()
}
