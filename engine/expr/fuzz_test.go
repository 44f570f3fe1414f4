package expr_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// request makes the Env and the item of a fuzzed expression.
func request(t testing.TB) (*expr.Env, attr.Item) {
	t.Helper()
	return env(t, operands, "#n", "n", "#d", "d"), item(t, stored)
}

// checkRefusal wants every error to be one that DynamoDB could answer with.
func checkRefusal(t testing.TB, err error) {
	t.Helper()
	var v *expr.ValidationError
	require.True(t, errors.As(err, &v) && v.Message != "", "%v", err)
}

func FuzzCondition(f *testing.F) {
	for _, s := range []string{
		"n = :5 AND NOT (s <> :s OR begins_with(s, :h))", "n BETWEEN :4 AND :6", "n IN (:4, :5)", "size(#d.y) >= :1",
		"attribute_type(l[0], :N)", "contains(ss, :a)", "((n = :5))", "(n) = (:5", "#n.x[3].y = :9", "a = a", "NOT NOT a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		e, it := request(t)
		c, err := e.Condition(source)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		ok, err := c.Eval(it)
		require.NoError(t, err)
		again, err := c.Eval(it)
		require.NoError(t, err)
		require.Equal(t, ok, again)
		_, err = c.Eval(nil)
		require.NoError(t, err)
	})
}

func FuzzUpdate(f *testing.F) {
	for _, s := range []string{
		"SET n = n + :1, #d.x = if_not_exists(q, :2) REMOVE l[0] ADD ns :1 DELETE ss :ba", "SET l[9] = :l", "ADD #n :5",
		"SET l = list_append(l, :l)", "SET a = (:1 - (n))", "REMOVE d.y.deep, l[2][0]", "SET", "SET a = :1 SET b = :2", "ADD a.b[1] :9",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		e, it := request(t)
		u, err := e.Update(source)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		require.NotEmpty(t, u.Paths())
		updated, err := u.Apply(it)
		if err != nil {
			checkRefusal(t, err)
		}
		require.LessOrEqual(t, u.Pick(updated).Size(), updated.Size())
		require.True(t, item(t, stored).Equal(it))
	})
}

func FuzzKeyCondition(f *testing.F) {
	for _, s := range []string{"n = :5 AND s > :h", "n = :5 AND begins_with(s, :h)", "s BETWEEN :a AND :s AND #n = :5", "n = n", "(n = :5)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		e, it := request(t)
		k, err := e.KeyCondition(source, "n", "s")
		if err != nil {
			checkRefusal(t, err)
			return
		}
		c, err := e.Condition(source)
		require.NoError(t, err)
		want, err := c.Eval(it)
		require.NoError(t, err)
		require.Equal(t, want, k.PK.Equal(it["n"]) && k.Match(it["s"]), "a key condition is a condition")
	})
}

func FuzzProjection(f *testing.F) {
	for _, s := range []string{"n, #d.y.deep, l[2][0], l[0]", "a,b", "l[99999999999999999999]", "d.", "#n", "n n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		e, it := request(t)
		p, err := e.Projection(source)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		got := p.Apply(it)
		require.LessOrEqual(t, got.Size(), it.Size())
		require.True(t, item(t, stored).Equal(it))
	})
}
