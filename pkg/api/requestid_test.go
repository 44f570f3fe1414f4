package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
)

func TestRequestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := api.NewRequestID()
		require.True(t, api.IsRequestID(id), id)
		require.Len(t, id, 16)
		require.False(t, seen[id])
		seen[id] = true
	}
	for _, id := range []string{
		"4bf92f3577b34da6a3ce929d0e0e4736",
		"f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
		"Root=1-67891233-abcdef012345678912345678",
		"a_b.c:d/e+f=g@h-i",
		strings.Repeat("x", api.MaxRequestID),
	} {
		require.True(t, api.IsRequestID(id), "%q", id)
	}
	for _, id := range []string{
		strings.Repeat("x", api.MaxRequestID+1),
		"",
		"two words",
		"line\nlevel=INFO msg=\"all is well\"",
		"quote\"",
		"grüße",
		"\x1b[31m",
		strings.Repeat("x", api.MaxRequestID) + "\n",
	} {
		require.False(t, api.IsRequestID(id), "%q", id)
	}
}
