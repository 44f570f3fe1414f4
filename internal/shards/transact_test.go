package shards_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/shards"
)

// A write that never reached the store is not an unknown outcome; a lost reply is.
func TestOnlyALostReplyIsAnUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		first fault.Fault
		then  fault.Fault
		want  error
	}{
		"never sent":    {fault.Fault{Kind: fault.Unreachable}, fault.Fault{Kind: fault.Unreachable}, nil},
		"throttled":     {fault.Throttling(), fault.Throttling(), shards.ErrContended},
		"in conflict":   {fault.TransactionConflict(), fault.TransactionConflict(), shards.ErrContended},
		"lost at first": {fault.InternalErrorAfter(), fault.Throttling(), shards.ErrUnknown},
		"failed":        {fault.InternalError(), fault.InternalError(), shards.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.spent(4, perDay("rpm", 600))
			w.Fail("TransactWriteItems", c.first)
			w.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{c.then}, 20)...)
			_, err := w.store.Double(t.Context(), testKey(0), 1)
			require.Error(t, err)
			for _, sentinel := range []error{shards.ErrUnknown, shards.ErrContended} {
				require.Equal(t, errors.Is(c.want, sentinel), errors.Is(err, sentinel), "%v", err)
			}
		})
	}
}
