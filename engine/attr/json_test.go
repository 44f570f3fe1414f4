package attr_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/attr"
)

func TestJSONForms(t *testing.T) {
	for in, want := range map[string]string{
		`{"S":"a\"\\\n\u00e9\ud83d\ude00"}`:   `{"S":"a\"\\\u000aé😀"}`,
		"{ \"S\" :\t\"x\"\r\n}":               `{"S":"x"}`,
		`{"\u0053":"x"}`:                      `{"S":"x"}`,
		`{"S":""}`:                            `{"S":""}`,
		`{"N":"1e2"}`:                         `{"N":"100"}`,
		`{"B":"AAEC/w=="}`:                    `{"B":"AAEC/w=="}`,
		`{"B":""}`:                            `{"B":""}`,
		`{"BOOL":false}`:                      `{"BOOL":false}`,
		`{"NULL":true}`:                       `{"NULL":true}`,
		`{"SS":["b","a",""]}`:                 `{"SS":["b","a",""]}`,
		`{"NS":["2","1.0"]}`:                  `{"NS":["2","1"]}`,
		`{"BS":["AA==","AQ=="]}`:              `{"BS":["AA==","AQ=="]}`,
		`{"L":[]}`:                            `{"L":[]}`,
		`{"L":[{"S":"a"},{"L":[]}]}`:          `{"L":[{"S":"a"},{"L":[]}]}`,
		`{"M":{}}`:                            `{"M":{}}`,
		`{"M":{"a":{"M":{}}}}`:                `{"M":{"a":{"M":{}}}}`,
		`{"M":{"a":{"S":"1"},"a":{"S":"2"}}}`: `{"M":{"a":{"S":"2"}}}`,
	} {
		require.Equal(t, want, string(parse(t, in).AppendJSON(nil)), in)
	}
}

func TestJSONRefused(t *testing.T) {
	const (
		invalid = "One or more parameter values were invalid: "
		empty   = "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"
		several = "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"
	)
	for in, want := range map[string]string{
		`{}`:                       empty,
		`{"X":"a"}`:                empty,
		`{"s":"a"}`:                empty,
		`{"S":"a","N":"1"}`:        several,
		`{"NULL":false}`:           invalid + "Null attribute value types must have the value of true",
		`{"SS":[]}`:                invalid + "An string set  may not be empty",
		`{"NS":[]}`:                invalid + "An number set  may not be empty",
		`{"BS":[]}`:                invalid + "Binary sets should not be empty",
		`{"SS":["a","a"]}`:         invalid + "Input collection [a, a] contains duplicates.",
		`{"NS":["1","1.0"]}`:       "Input collection contains duplicates",
		`{"BS":["Yg==","Yg=="]}`:   invalid + "Input collection [Yg==, Yg==]of type BS contains duplicates.",
		`{"N":"x"}`:                "The parameter cannot be converted to a numeric value: x",
		`{"N":""}`:                 "The parameter cannot be converted to a numeric value",
		`{"L":[{"M":{"a":{}}}]}`:   empty,
		nested(attr.MaxDepth):      attr.ErrTooDeep.Message,
		nestedLists(attr.MaxDepth): attr.ErrTooDeep.Message,
	} {
		var v attr.Value
		var refused *attr.ValueError
		require.ErrorAs(t, v.UnmarshalJSON([]byte(in)), &refused, in)
		require.Equal(t, want, refused.Message, in)
		require.Zero(t, v)
	}
	require.Equal(t, attr.MaxDepth, parse(t, nested(attr.MaxDepth-1)).Depth())
}

// nested is a string in that many maps.
func nested(maps int) string {
	return repeat(`{"M":{"a":`, maps) + `{"S":""}` + repeat(`}}`, maps)
}

func nestedLists(lists int) string {
	return repeat(`{"L":[`, lists) + `{"S":""}` + repeat(`]}`, lists)
}

func TestIllFormedJSON(t *testing.T) {
	for _, in := range []string{
		``, ` `, `null`, `"S"`, `[]`, `{`, `{"S"`, `{"S":`, `{"S":"a`, `{"S":"a"`, `{"S":"a"}}`, `{"S":"a"} x`, `{"S" "a"}`,
		`{"S":1}`, `{"S":null}`, `{"N":1}`, `{"BOOL":"true"}`, `{"BOOL":tru}`, `{"NULL":null}`, `{"SS":"a"}`, `{"SS":["a",]}`,
		`{"SS":["a" "b"]}`, `{"L":{}}`, `{"M":[]}`, `{"M":{"a"}}`, `{"M":{"a":{"S":"x"},}}`, `{"M":{"a":{"S":"x"} "b"}}`,
		`{"B":"A"}`, `{"B":"AA"}`, `{"B":"AB=="}`, `{"B":"A-=="}`, `{"B":"AA==\n"}`,
		"{\"S\":\"\x01\"}", "{\"S\":\"\xff\"}", `{"S":"\x"}`, `{"S":"\u12"}`, `{"S":"\`, "{\"S\":\"\\n\xff\"}", "\x00",
		repeat(`{"L":[`, 31) + repeat(`{"M":{"":`, 100000),
	} {
		var v attr.Value
		err := v.UnmarshalJSON([]byte(in))
		require.Error(t, err, in)
		var syntax *attr.SyntaxError
		if len(in) < 1000 {
			require.ErrorAs(t, err, &syntax, in)
			require.LessOrEqual(t, syntax.Offset, len(in))
		}
		var it attr.Item
		require.Error(t, it.UnmarshalJSON([]byte(`{"a":`+in+`}`)), in)
		require.Nil(t, it)
	}
}

func TestZeroValueHasNoJSON(t *testing.T) {
	_, err := json.Marshal(attr.Value{})
	require.ErrorContains(t, err, "without a kind")
	require.Equal(t, "null", string(attr.Value{}.AppendJSON(nil)))
}

func TestInvalidUTF8IsWrittenAsReplacement(t *testing.T) {
	require.JSONEq(t, "{\"S\":\"a\ufffdb\"}", string(attr.Str("a\xffb").AppendJSON(nil)))
}

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := item(4).Draw(t, "item")
		text, err := json.Marshal(before)
		require.NoError(t, err)
		require.True(t, json.Valid(text))
		var after attr.Item
		require.NoError(t, json.Unmarshal(text, &after))
		require.True(t, before.Equal(after), "%s", text)
		require.Equal(t, before.Size(), after.Size())
	})
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":{"S":"x"}}`, `{"a":{"N":"1e2"},"b":{"B":"AA=="}}`, `{"a":{"L":[{"BOOL":true},{"NULL":true}]}}`,
		`{"a":{"M":{"b":{"SS":["x","\u00e9"]}}}}`, `{"a":{"NS":["1","2"]}}`, `{"a":{"BS":["AA=="]}}`, `{"a":{}}`, `{`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var first attr.Item
		if err := first.UnmarshalJSON(data); err != nil {
			return
		}
		require.True(t, json.Valid(data), "accepted what is not JSON")
		text := first.AppendJSON(nil)
		require.True(t, json.Valid(text))
		var second attr.Item
		require.NoError(t, second.UnmarshalJSON(text))
		require.True(t, first.Equal(second), "%s", text)
	})
}
