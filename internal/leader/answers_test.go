package leader

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersToABatch(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		number uint64
		err    error
		text   string
	}{
		"taken":           {`{"stream":"TIDEGATE_CHANGES","seq":42,"batch":"x","count":3}`, 42, nil, ""},
		"fenced":          {`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 5"}}`, 0, ErrFenced, ""},
		"fenced, cluster": {`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`, 0, ErrFenced, ""},
		"full":            {`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}`, 0, ErrFull, ""},
		"another failure": {`{"error":{"code":503,"err_code":10077,"description":"disk"}}`, 0, nil, "disk"},
		"too short":       {`{"stream":"TIDEGATE_CHANGES","seq":42,"batch":"x","count":2}`, 0, nil, "took 2 of 3"},
		"nonsense":        {`-`, 0, nil, "cannot be read"},
	} {
		number, err := acknowledged([]byte(c.answer), 3)
		require.Equal(t, c.number, number, name)
		switch {
		case c.err != nil:
			require.ErrorIs(t, err, c.err, name)
		case c.text != "":
			require.ErrorContains(t, err, c.text, name)
		default:
			require.NoError(t, err, name)
		}
	}
}
