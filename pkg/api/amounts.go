package api

// Amount is a number of whole tokens of a limit.
type Amount struct {
	Name   string
	Tokens int64
}

// Amounts maps limits to tokens: {"rpm":1,"tpm":500} on the wire. Names are
// unique. It is a slice rather than a map because its decoding is on the hot path:
// a slice of the few limits of a request is a single allocation.
type Amounts []Amount

// Get returns the amount of a limit; if the limit is not named, the amount is 0 and ok
// is false.
func (a Amounts) Get(limit string) (tokens int64, ok bool) {
	for i := range a {
		if a[i].Name == limit {
			return a[i].Tokens, true
		}
	}
	return 0, false
}

// Positive returns the amounts above 0.
func (a Amounts) Positive() Amounts {
	var above Amounts
	for _, amount := range a {
		if amount.Tokens > 0 {
			above = append(above, amount)
		}
	}
	return above
}
