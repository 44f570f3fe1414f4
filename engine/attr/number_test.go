package attr_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/engine/attr"
)

const (
	overflow  = "Number overflow. Attempting to store a number with magnitude larger than supported range"
	underflow = "Number underflow. Attempting to store a number with magnitude smaller than supported range"
	precision = "Attempting to store more than 38 significant digits in a Number"
)

func TestNumbersHaveOneForm(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "0e999": "0", "+7": "7", "007": "7", "7.": "7", ".5": "0.5", "-1.50": "-1.5",
		"1e2": "100", "1E-3": "0.001", "120e-1": "12", "123456789012345678901234567890": "123456789012345678901234567890",
		"18446744073709551616":   "18446744073709551616",
		"-9223372036854775808":   "-9223372036854775808",
		strings.Repeat("9", 38):  strings.Repeat("9", 38),
		"1" + zeros(125):         "1" + zeros(125),
		"9.99e125":               "999" + zeros(123),
		"1e-130":                 "0." + zeros(129) + "1",
		"0." + zeros(20) + "10":  "0." + zeros(20) + "1",
		"1000000000000000000000": "1000000000000000000000",
	} {
		n, err := attr.ParseNumber(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n.String(), text)
		again, err := attr.ParseNumber(want)
		require.NoError(t, err, text)
		require.Equal(t, n, again, "%s and %s are one number", text, want)
	}
}

func zeros(n int) string { return strings.Repeat("0", n) }

func TestNumbersRefused(t *testing.T) {
	const notNumeric = "The parameter cannot be converted to a numeric value"
	for text, want := range map[string]string{
		"":                              notNumeric,
		"abc":                           notNumeric + ": abc",
		"-":                             notNumeric + ": -",
		".":                             notNumeric + ": .",
		"1e":                            notNumeric + ": 1e",
		"1e+":                           notNumeric + ": 1e+",
		"1 ":                            notNumeric + ": 1 ",
		"--1":                           notNumeric + ": --1",
		"0x1":                           notNumeric + ": 0x1",
		"NaN":                           notNumeric + ": NaN",
		"1e126":                         overflow,
		"-1e999999999999999999999":      overflow,
		"1e-131":                        underflow,
		"1e-99999999999999999999":       underflow,
		strings.Repeat("1", 39):         precision,
		"1." + strings.Repeat("1", 38):  precision,
		"1" + zeros(37) + ".1":          precision,
		strings.Repeat("1", 39) + "e99": overflow,
	} {
		_, err := attr.ParseNumber(text)
		require.EqualError(t, err, want, text)
	}
}

func TestSumsAreExactOrRefused(t *testing.T) {
	for _, c := range []struct{ a, op, b, want, err string }{
		{"1", "+", "2", "3", ""},
		{"1", "-", "2", "-1", ""},
		{"-5", "+", "5", "0", ""},
		{"0", "-", "0", "0", ""},
		{"0.1", "+", "0.2", "0.3", ""},
		{"18446744073709551615", "+", "1", "18446744073709551616", ""},
		{"18446744073709551616", "-", "1", "18446744073709551615", ""},
		{"1e37", "+", "0.1", "", precision},
		{strings.Repeat("9", 38), "+", "1", "1" + zeros(38), ""},
		{strings.Repeat("9", 38), "+", "2", "", precision},
		{"9e125", "+", "1e125", "", overflow},
		{"-9e125", "-", "1e125", "", overflow},
		{"1.1e-129", "-", "1e-129", "1e-130", ""},
		{"1e100", "+", "1", "", precision},
	} {
		a, b := num(t, c.a).Number(), num(t, c.b).Number()
		sum, err := a.Add(b)
		if c.op == "-" {
			sum, err = a.Sub(b)
		}
		if c.err != "" {
			require.EqualError(t, err, c.err, "%v", c)
			continue
		}
		require.NoError(t, err, "%v", c)
		require.Equal(t, num(t, c.want).Number(), sum, "%v", c)
	}
}

func rat(n attr.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		panic(n.String())
	}
	return r
}

func TestNumbersAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := number().Draw(t, "a"), number().Draw(t, "b")
		require.Equal(t, rat(a).Cmp(rat(b)), a.Cmp(b))
		require.Equal(t, a == b, a.Cmp(b) == 0)
		sum, err := a.Add(b)
		checkExact(t, new(big.Rat).Add(rat(a), rat(b)), sum, err)
		difference, err := a.Sub(b)
		checkExact(t, new(big.Rat).Sub(rat(a), rat(b)), difference, err)
	})
}

// checkExact holds a result against the rational, printed with more digits
// than a Number can have.
func checkExact(t *rapid.T, want *big.Rat, got attr.Number, err error) {
	t.Helper()
	if err == nil {
		require.Zero(t, want.Cmp(rat(got)), "want %s, got %s", want.RatString(), got)
		return
	}
	_, parseErr := attr.ParseNumber(want.FloatString(200))
	require.Equal(t, parseErr, err)
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-1.5e3", "99999999999999999999", "1e-130", "9.9e125", ".5", "1e", "-", "0.000000000000000001"} {
		f.Add(s, "1")
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		a, err := attr.ParseNumber(s)
		if err != nil {
			return
		}
		again, err := attr.ParseNumber(a.String())
		require.NoError(t, err)
		require.Equal(t, a, again)
		b, err := attr.ParseNumber(other)
		if err != nil {
			return
		}
		require.Equal(t, rat(a).Cmp(rat(b)), a.Cmp(b))
		if sum, err := a.Add(b); err == nil {
			require.Zero(t, new(big.Rat).Add(rat(a), rat(b)).Cmp(rat(sum)))
		}
	})
}
