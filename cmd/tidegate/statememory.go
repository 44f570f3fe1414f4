package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// stateSize is about what admission accounts for the state of a bucket of two limits, in
// bytes.
const stateSize = 1600

// stateMemory is a flag that holds the memory for bucket states in bytes: a whole number
// with a unit, such as 64MB or 1GiB. A number without a unit counts states of two limits.
type stateMemory int64

// UnmarshalText parses the flag.
func (b *stateMemory) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "BGKMbgikm ")
	unit := strings.ToUpper(strings.TrimSpace(string(text)[len(digits):]))
	factor, known := map[string]int64{
		"": stateSize, "B": 1, "KB": 1000, "MB": 1000_000, "GB": 1000_000_000, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30,
	}[unit]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n > math.MaxInt64/factor || n < 0 {
		return fmt.Errorf("%q is not a size: write a whole number with a unit, B, KB, MB, GB, KiB, MiB or GiB", text)
	}
	*b = stateMemory(n * factor)
	return nil
}
