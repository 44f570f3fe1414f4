package expr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

const keys = `{":p":{"S":"part"},":a":{"S":"b"},":c":{"S":"d"},":5":{"N":"5"},":t":{"BOOL":true}}`

func TestKeyConditions(t *testing.T) {
	low, high := attr.Str("b"), attr.Str("d")
	for source, want := range map[string]struct {
		op      expr.SortOp
		lo, hi  attr.Value
		matches string // of the sort keys a, b, bb, d, e
	}{
		"pk = :p":                           {expr.SortNone, attr.Value{}, attr.Value{}, "a b bb d e"},
		"(pk = :p)":                         {expr.SortNone, attr.Value{}, attr.Value{}, "a b bb d e"},
		"pk = :p AND sk = :a":               {expr.SortEqual, low, attr.Value{}, "b"},
		"sk = :a AND pk = :p":               {expr.SortEqual, low, attr.Value{}, "b"},
		"((sk = :a) and (pk = :p))":         {expr.SortEqual, low, attr.Value{}, "b"},
		"pk = :p AND sk < :a":               {expr.SortLess, low, attr.Value{}, "a"},
		"pk = :p AND sk <= :a":              {expr.SortLessEqual, low, attr.Value{}, "a b"},
		"pk = :p AND sk > :a":               {expr.SortGreater, low, attr.Value{}, "bb d e"},
		"pk = :p AND sk >= :a":              {expr.SortGreaterEqual, low, attr.Value{}, "b bb d e"},
		"pk = :p AND sk BETWEEN :a AND :c":  {expr.SortBetween, low, high, "b bb d"},
		"pk = :p AND begins_with(sk, :a)":   {expr.SortBeginsWith, low, attr.Value{}, "b bb"},
		"#p = :p AND begins_with (#s , :a)": {expr.SortBeginsWith, low, attr.Value{}, "b bb"},
	} {
		k, err := env(t, keys, "#p", "pk", "#s", "sk").KeyCondition(source, "pk", "sk")
		require.NoError(t, err, source)
		require.Equal(t, expr.KeyCondition{PK: attr.Str("part"), Op: want.op, Lo: want.lo, Hi: want.hi}, k, source)
		matches := ""
		for _, sk := range []string{"a", "b", "bb", "d", "e"} {
			if k.Match(attr.Str(sk)) {
				matches += " " + sk
			}
		}
		require.Equal(t, " "+want.matches, matches, source)
		require.Equal(t, want.op == expr.SortNone, k.Match(attr.Num(attr.Int(5))), source)
	}
	require.False(t, expr.KeyCondition{Op: 99}.Match(low))
}

func TestKeyConditionsRefused(t *testing.T) {
	const invalid = "Invalid KeyConditionExpression: "
	for source, want := range map[string]string{
		"":                                 invalid + "The expression can not be empty;",
		"pk":                               invalid + `Syntax error; token: "<EOF>", near: "pk"`,
		"pk = :p AND sk != :a":             invalid + `Syntax error; token: "!", near: "sk !="`,
		"sk = :a":                          "Query condition missed key schema element: pk",
		"pk = :p AND q = :a":               "Query condition missed key schema element: sk",
		"pk > :p":                          "Query key condition not supported",
		"pk = :p AND pk = :a":              "KeyConditionExpressions must only contain one condition per key",
		"sk > :a AND sk < :c":              "KeyConditionExpressions must only contain one condition per key",
		"pk = :p AND sk > :a AND sk < :c":  "Conditions can be of length 1 or 2 only",
		"pk = :p OR sk = :a":               invalid + "Invalid operator used in KeyConditionExpression: OR",
		"NOT sk = :a AND pk = :p":          invalid + "Invalid operator used in KeyConditionExpression: NOT",
		"pk = :p AND sk <> :a":             invalid + "Invalid operator used in KeyConditionExpression: <>",
		"pk = :p AND sk IN (:a)":           invalid + "Invalid operator used in KeyConditionExpression: IN",
		"pk = :p AND attribute_exists(sk)": invalid + "Invalid operator used in KeyConditionExpression: attribute_exists",
		"pk = :p AND dog(sk, :a)":          invalid + "Invalid function name; function: dog",
		"pk = :p AND sk.a = :a":            "KeyConditionExpressions cannot have conditions on nested attributes",
		"pk = :p AND size(sk) = :5":        "KeyConditionExpressions cannot contain nested operations",
		":p = pk":                          invalid + "Invalid condition in KeyConditionExpression: = operator must have the key attribute as its first operand",
		"pk = sk":                          invalid + "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition",
		"pk = :p AND begins_with(sk, :5)":  invalid + "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N",
		"pk = :p AND sk BETWEEN :c AND :a": invalid + "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {S:d}, upper bound operand: AttributeValue: {S:b}",
		"pk = :p AND sk = :t":              "One or more parameter values were invalid: Condition parameter type does not match schema type",
	} {
		_, err := env(t, keys).KeyCondition(source, "pk", "sk")
		refused(t, err, want, source)
	}
	_, err := env(t, keys).KeyCondition("pk = :p AND sk = :a", "pk", "")
	refused(t, err, "Query key condition not supported")
}
