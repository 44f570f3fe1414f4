package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMemoryForStatesIsASize(t *testing.T) {
	for text, want := range map[string]stateMemory{
		"64MB": 64_000_000, "64mb": 64_000_000, "64 MB": 64_000_000, "1GiB": 1 << 30, "512KiB": 512 << 10, "7B": 7, "3KB": 3000, "2GB": 2_000_000_000,
		"100000": 160_000_000, "0": 0, "5MiB": 5 << 20,
	} {
		var got stateMemory
		require.NoError(t, got.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "MB", "-1MB", "1.5MB", "64M", "64TB", "1e3", "MB64", "64MBMB", "9223372036854775807", "9223372037GB", "6 4MB", "64BK"} {
		var got stateMemory
		require.Error(t, got.UnmarshalText([]byte(text)), text)
		require.Zero(t, got, text)
	}
}
