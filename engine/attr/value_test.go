package attr_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/attr"
)

func TestKindsAndAccessors(t *testing.T) {
	for kind := attr.KindS; kind <= attr.KindM; kind++ {
		parsed, ok := attr.ParseKind(kind.String())
		require.True(t, ok)
		require.Equal(t, kind, parsed)
	}
	_, ok := attr.ParseKind("X")
	require.False(t, ok)
	require.Empty(t, attr.Kind(0).String())

	require.Equal(t, "x", attr.Str("x").Text())
	require.Equal(t, []byte{1}, attr.Bin([]byte{1}).Bytes())
	require.Equal(t, attr.Int(4), attr.Num(attr.Int(4)).Number())
	require.True(t, attr.Bool(true).Bool())
	require.Len(t, attr.List([]attr.Value{attr.Null()}).List(), 1)
	require.Len(t, attr.Map(attr.Item{"a": attr.Null()}).Map(), 1)

	// Of another kind, every accessor is empty.
	v := attr.Num(attr.Int(-1))
	require.Empty(t, v.Text())
	require.Nil(t, v.Bytes())
	require.False(t, v.Bool())
	require.Nil(t, v.List())
	require.Nil(t, v.Map())
	require.Nil(t, v.Elems())
	require.True(t, attr.Str("1").Number().IsZero())
}

func TestEqual(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`{"N":"1.0"}`, `{"N":"1"}`, true},
		{`{"N":"1"}`, `{"S":"1"}`, false},
		{`{"S":"a"}`, `{"B":"YQ=="}`, false},
		{`{"SS":["a","b"]}`, `{"SS":["b","a"]}`, true},
		{`{"SS":["a","b"]}`, `{"SS":["a"]}`, false},
		{`{"NS":["1","2"]}`, `{"NS":["2.0","1e0"]}`, true},
		{`{"L":[{"S":"a"},{"S":"b"}]}`, `{"L":[{"S":"b"},{"S":"a"}]}`, false},
		{`{"M":{"a":{"NS":["1","2"]}}}`, `{"M":{"a":{"NS":["2","1"]}}}`, true},
		{`{"M":{"a":{"S":""}}}`, `{"M":{"b":{"S":""}}}`, false},
		{`{"BOOL":true}`, `{"BOOL":false}`, false},
		{`{"NULL":true}`, `{"NULL":true}`, true},
	} {
		require.Equal(t, c.want, parse(t, c.a).Equal(parse(t, c.b)), "%s %s", c.a, c.b)
		require.Equal(t, c.want, parse(t, c.b).Equal(parse(t, c.a)), "%s %s", c.b, c.a)
	}
}

func TestLargeSetsCompareWithoutOrder(t *testing.T) {
	var forth, back []attr.Value
	for i := range 1000 {
		forth = append(forth, attr.Num(attr.Int(int64(i))))
		back = append(back, attr.Num(attr.Int(int64(999-i))))
	}
	a, err := attr.Set(attr.KindNS, forth)
	require.NoError(t, err)
	b, err := attr.Set(attr.KindNS, back)
	require.NoError(t, err)
	require.True(t, a.Equal(b))
	_, err = attr.Set(attr.KindNS, append(back, attr.Num(attr.Int(5))))
	require.EqualError(t, err, "Input collection contains duplicates")
	require.True(t, a.Union(b).Equal(a))
	_, ok := a.Without(b)
	require.False(t, ok)
}

func TestSetsAreChecked(t *testing.T) {
	_, err := attr.Set(attr.KindL, []attr.Value{attr.Null()})
	require.ErrorContains(t, err, "SS, NS or BS")
	_, err = attr.Set(attr.KindSS, []attr.Value{attr.Bin(nil)})
	require.ErrorContains(t, err, "does not belong")
}

func TestUnionAndWithout(t *testing.T) {
	a, b := parse(t, `{"SS":["x","y"]}`), parse(t, `{"SS":["y","z"]}`)
	require.Equal(t, parse(t, `{"SS":["x","y","z"]}`), a.Union(b))
	rest, ok := a.Without(b)
	require.True(t, ok)
	require.Equal(t, parse(t, `{"SS":["x"]}`), rest)
	require.True(t, a.Has(attr.Str("x")))
	require.False(t, a.Has(attr.Str("z")))
	require.False(t, attr.Str("x").Has(attr.Str("x")))
}

func TestSize(t *testing.T) {
	for json, want := range map[string]int{
		`{"S":"äb"}`:                      3,
		`{"B":"AAEC"}`:                    3,
		`{"BOOL":true}`:                   1,
		`{"NULL":true}`:                   1,
		`{"N":"0"}`:                       1,
		`{"N":"7"}`:                       2,
		`{"N":"12"}`:                      2,
		`{"N":"123"}`:                     3,
		`{"N":"-123"}`:                    4,
		`{"N":"1000000"}`:                 2,
		`{"N":"0.5"}`:                     2,
		`{"N":"12.3"}`:                    3,
		`{"SS":["a","bc"]}`:               3,
		`{"NS":["1","12"]}`:               4,
		`{"L":[]}`:                        3,
		`{"L":[{"S":"a"},{"S":"b"}]}`:     7,
		`{"M":{"ab":{"S":"c"}}}`:          7,
		`{"M":{"a":{"L":[{"N":"1"}]}}}`:   11,
		`{"N":"` + repeat("9", 38) + `"}`: 20,
	} {
		require.Equal(t, want, parse(t, json).Size(), json)
	}
	require.Equal(t, 6, attr.Item{"abc": attr.Str("x"), "d": attr.Null()}.Size())
}

func TestDepth(t *testing.T) {
	require.Equal(t, 1, parse(t, `{"SS":["a"]}`).Depth())
	require.Equal(t, 1, parse(t, `{"M":{}}`).Depth())
	require.Equal(t, 3, parse(t, `{"M":{"a":{"L":[{"S":""}]},"b":{"S":""}}}`).Depth())
}

func TestCloneIsIndependent(t *testing.T) {
	a := attr.Item{"x": attr.Str("1")}
	b := a.Clone()
	b["y"] = attr.Null()
	require.Len(t, a, 1)
	require.Nil(t, attr.Item(nil).Clone())
}

func TestSortKeysOrderLikeValues(t *testing.T) {
	for _, kind := range []attr.Kind{attr.KindS, attr.KindN, attr.KindB} {
		t.Run(kind.String(), rapid.MakeCheck(func(t *rapid.T) {
			a, b := scalar(kind).Draw(t, "a"), scalar(kind).Draw(t, "b")
			want, ok := attr.Compare(a, b)
			require.True(t, ok)
			require.Equal(t, want, cmp.Compare(a.SortKey(), b.SortKey()))
			require.Equal(t, want == 0, a.Equal(b))
		}))
	}
}

func TestNumberOrder(t *testing.T) {
	ordered := []string{
		"-9e125", "-1e38", "-101", "-100.5", "-100", "-12.005", "-12", "-1.2", "-1", "-0.5", "-1e-130", "0",
		"1e-130", "0.05", "0.5", "1", "1.2", "12", "12.005", "100", "100.5", "101", "1e38", "9e125",
	}
	for i, a := range ordered {
		for j, b := range ordered {
			got, ok := attr.Compare(num(t, a), num(t, b))
			require.True(t, ok)
			require.Equal(t, cmp.Compare(i, j), got, "%s %s", a, b)
			require.Equal(t, got, strings.Compare(num(t, a).SortKey(), num(t, b).SortKey()), "%s %s", a, b)
		}
	}
}

func TestOnlyScalarsOfOneKindCompare(t *testing.T) {
	for _, pair := range [][2]attr.Value{
		{attr.Str("1"), attr.Num(attr.Int(1))},
		{attr.Str("a"), attr.Bin([]byte("a"))},
		{attr.Bool(true), attr.Bool(true)},
		{attr.Null(), attr.Null()},
		{{}, {}},
	} {
		_, ok := attr.Compare(pair[0], pair[1])
		require.False(t, ok, fmt.Sprint(pair))
	}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
