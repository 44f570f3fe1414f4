package attr_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/attr"
)

// number draws numbers of every size that DynamoDB has, small ones often.
func number() *rapid.Generator[attr.Number] {
	return rapid.Custom(func(t *rapid.T) attr.Number {
		if rapid.Bool().Draw(t, "small") {
			return attr.Int(rapid.Int64().Draw(t, "integer"))
		}
		digits := rapid.StringMatching(`-?[1-9][0-9]{0,37}`).Draw(t, "digits")
		exp := rapid.IntRange(-130, 125-37).Draw(t, "exponent")
		n, err := attr.ParseNumber(fmt.Sprintf("%se%d", digits, exp))
		require.NoError(t, err)
		return n
	})
}

// scalar draws values of one ordered kind.
func scalar(kind attr.Kind) *rapid.Generator[attr.Value] {
	switch kind {
	case attr.KindN:
		return rapid.Map(number(), attr.Num)
	case attr.KindB:
		return rapid.Map(rapid.SliceOf(rapid.Byte()), attr.Bin)
	default:
		return rapid.Map(rapid.String(), attr.Str)
	}
}

// value draws values that nest at most depth levels.
func value(depth int) *rapid.Generator[attr.Value] {
	return rapid.Custom(func(t *rapid.T) attr.Value {
		last := attr.KindBS
		if depth > 1 {
			last = attr.KindM
		}
		kind := attr.Kind(rapid.IntRange(int(attr.KindS), int(last)).Draw(t, "kind"))
		switch {
		case kind.IsScalar():
			return scalar(kind).Draw(t, "scalar")
		case kind == attr.KindBOOL:
			return attr.Bool(rapid.Bool().Draw(t, "truth"))
		case kind == attr.KindNULL:
			return attr.Null()
		case kind == attr.KindL:
			return attr.List(rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list"))
		case kind == attr.KindM:
			return attr.Map(item(depth-1).Draw(t, "map"))
		}
		elems := rapid.SliceOfNDistinct(scalar(kind.Member()), 1, 20, attr.Value.SortKey).Draw(t, "set")
		set, err := attr.Set(kind, elems)
		require.NoError(t, err)
		return set
	})
}

func item(depth int) *rapid.Generator[attr.Item] {
	return rapid.Custom(func(t *rapid.T) attr.Item {
		return attr.Item(rapid.MapOfN(rapid.StringN(1, 8, -1), value(depth), 0, 4).Draw(t, "fields"))
	})
}

func parse(t testing.TB, json string) attr.Value {
	t.Helper()
	var v attr.Value
	require.NoError(t, v.UnmarshalJSON([]byte(json)), json)
	return v
}

func num(t testing.TB, s string) attr.Value {
	t.Helper()
	n, err := attr.ParseNumber(s)
	require.NoError(t, err, s)
	return attr.Num(n)
}
