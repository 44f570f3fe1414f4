package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/api"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]api.Limit{
		"rpm=100/min":         {Name: "rpm", Capacity: 100, RefillAmount: 100, RefillPeriodSeconds: 60},
		"tpm=10000/min:20000": {Name: "tpm", Capacity: 20000, RefillAmount: 10000, RefillPeriodSeconds: 60},
		"daily=5000/day":      {Name: "daily", Capacity: 5000, RefillAmount: 5000, RefillPeriodSeconds: 86400},
		"slow=1/30s":          {Name: "slow", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 30},
		"x=1/5min:7":          {Name: "x", Capacity: 7, RefillAmount: 1, RefillPeriodSeconds: 300},
		"x=1/sec":             {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 1},
		"x=1/second":          {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 1},
		"x=1/minute":          {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 60},
		"x=1/h":               {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 3600},
		"x=1/12hour":          {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 43200},
		"x=1/d":               {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 86400},
		"x=1/2w":              {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 1209600},
		"x=1/week":            {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 604800},
	} {
		got, err := api.ParseLimit(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, code := range map[string]api.Code{
		"": api.CodeInvalidLimit, "rpm": api.CodeInvalidLimit, "rpm=100": api.CodeInvalidLimit, "rpm=/min": api.CodeInvalidLimit,
		"rpm=1.5/min": api.CodeInvalidLimit, "rpm=-1/min": api.CodeInvalidLimit, "rpm=+1/min": api.CodeInvalidLimit, "rpm=0/min": api.CodeInvalidLimit,
		"rpm=1/": api.CodeInvalidLimit, "rpm=1/m": api.CodeInvalidLimit, "rpm=1/0s": api.CodeInvalidLimit, "rpm=1/30": api.CodeInvalidLimit,
		"rpm=1/min:": api.CodeInvalidLimit, "rpm=1/min:0": api.CodeInvalidLimit, "rpm=1/min:1:1": api.CodeInvalidLimit,
		"rpm=1/99999999999999999999s": api.CodeInvalidLimit, "rpm=1/9223372036854775807w": api.CodeInvalidLimit, "rpm=1/522w": api.CodeInvalidLimit,
		"rpm=2000001/s": api.CodeInvalidLimit, "wcu=1/s": api.CodeInvalidLimitName, "1=1/s": api.CodeInvalidLimitName, "=1/s": api.CodeInvalidLimitName,
		"rpm =1/s": api.CodeInvalidLimitName,
	} {
		_, err := api.ParseLimit(text)
		requireCode(t, err, code, "*")
	}
}

func TestFormatLimit(t *testing.T) {
	for want, l := range map[string]api.Limit{
		"rpm=100/min":         {Name: "rpm", Capacity: 100, RefillAmount: 100, RefillPeriodSeconds: 60},
		"tpm=10000/min:20000": {Name: "tpm", Capacity: 20000, RefillAmount: 10000, RefillPeriodSeconds: 60},
		"daily=5000/day":      {Name: "daily", Capacity: 5000, RefillAmount: 5000, RefillPeriodSeconds: 86400},
		"x=1/90s":             {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 90},
		"x=1/2h":              {Name: "x", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 7200},
	} {
		require.Equal(t, want, l.String())
	}
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		back, err := api.ParseLimit(api.FormatLimit(l))
		require.NoError(t, err)
		require.Equal(t, l, back)
	})
}

func FuzzParseLimit(f *testing.F) {
	f.Add("rpm=100/min")
	f.Add("tpm=10000/5min:20000")
	f.Add("a=1/1w:")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := api.ParseLimit(text)
		if err != nil {
			requireCode(t, err, "*", "*")
			return
		}
		require.NoError(t, l.Check())
		back, err := api.ParseLimit(api.FormatLimit(l))
		require.NoError(t, err)
		require.Equal(t, l, back)
	})
}

func TestParseAmounts(t *testing.T) {
	got, err := api.ParseAmounts([]string{"rpm=1", "tpm=+1500"}, 0)
	require.NoError(t, err)
	require.Equal(t, api.Amounts{{Name: "rpm", Tokens: 1}, {Name: "tpm", Tokens: 1500}}, got)
	got, err = api.ParseAmounts([]string{"tpm=-200"}, -api.MaxAmount)
	require.NoError(t, err)
	require.Equal(t, api.Amounts{{Name: "tpm", Tokens: -200}}, got)

	for text, code := range map[string]api.Code{
		"rpm": api.CodeInvalidAmount, "rpm=": api.CodeInvalidAmount, "rpm=-1": api.CodeInvalidAmount, "rpm=1.5": api.CodeInvalidAmount,
		"rpm=1099511627777": api.CodeInvalidAmount, "wcu=1": api.CodeInvalidLimitName,
	} {
		_, err := api.ParseAmounts([]string{text}, 0)
		requireCode(t, err, code, "*")
	}
	_, err = api.ParseAmounts([]string{"rpm=1", "rpm=1"}, 0)
	requireCode(t, err, api.CodeInvalidAmount, "rpm")
}
