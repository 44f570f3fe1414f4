package expr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// item reads DynamoDB JSON.
func item(t testing.TB, json string) attr.Item {
	t.Helper()
	var it attr.Item
	require.NoError(t, it.UnmarshalJSON([]byte(json)), json)
	return it
}

// env makes an Env whose values are given in DynamoDB JSON, and whose names are
// pairs of placeholder and name.
func env(t testing.TB, values string, names ...string) *expr.Env {
	t.Helper()
	pairs := map[string]string{}
	for i := 0; i < len(names); i += 2 {
		pairs[names[i]] = names[i+1]
	}
	return expr.NewEnv(pairs, item(t, values))
}

// refused wants a ValidationError of exactly that message.
func refused(t testing.TB, err error, want string, args ...any) {
	t.Helper()
	var v *expr.ValidationError
	require.ErrorAs(t, err, &v, args...)
	require.Equal(t, want, v.Message, args...)
}
