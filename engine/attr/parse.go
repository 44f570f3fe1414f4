package attr

import "math/bits"

// shortDigits is the number of digits that always fit into 64 bits.
const shortDigits = 18

// ParseNumber reads a decimal: an optional sign, digits with an optional point,
// an optional exponent. Leading and trailing zeros do not count as digits. It
// fails, with DynamoDB's message, if s is not a number, has more than 38
// significant digits or a magnitude beyond DynamoDB's.
func ParseNumber(s string) (Number, error) { return parseNumber(s) }

// parseNumber is ParseNumber for strings and bytes: the decoder need not copy its
// input.
func parseNumber[T string | []byte](s T) (Number, error) {
	digits, neg := s, false
	if len(s) > 0 && s[0] == '-' {
		digits, neg = s[1:], true
	}
	if len(digits) == 0 || len(digits) > shortDigits {
		return parseDecimal(string(s))
	}
	var sum uint64
	for i := range len(digits) {
		d := digits[i] - '0'
		if d > 9 {
			return parseDecimal(string(s))
		}
		sum = sum*10 + uint64(d)
	}
	return Number{lo: sum, neg: neg && sum != 0}, nil
}

func notNumeric(s string) error {
	if s == "" {
		return &ValueError{"The parameter cannot be converted to a numeric value"}
	}
	return &ValueError{"The parameter cannot be converted to a numeric value: " + s}
}

// parseDecimal reads any decimal.
func parseDecimal(s string) (Number, error) {
	rest, neg := s, false
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest, neg = rest[1:], rest[0] == '-'
	}
	whole, rest := cutDigits(rest)
	fraction := ""
	if rest != "" && rest[0] == '.' {
		fraction, rest = cutDigits(rest[1:])
	}
	exp, ok := parseExponent(rest)
	if !ok || whole == "" && fraction == "" {
		return Number{}, notNumeric(s)
	}
	return fromDigits(neg, whole+fraction, exp-len(fraction))
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// farExponent exceeds every limit, even if all digits of a request follow the point.
const farExponent = 1 << 30

func parseExponent(s string) (int, bool) {
	if s == "" {
		return 0, true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s, neg := s[1:], false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s, neg = s[1:], s[0] == '-'
	}
	digits, rest := cutDigits(s)
	if digits == "" || rest != "" {
		return 0, false
	}
	exp := 0
	for i := range len(digits) {
		exp = min(exp*10+int(digits[i]-'0'), farExponent)
	}
	if neg {
		return -exp, true
	}
	return exp, true
}

// fromDigits returns digits × 10^exp in the normal form of a Number.
func fromDigits(neg bool, digits string, exp int) (Number, error) {
	for digits != "" && digits[0] == '0' {
		digits = digits[1:]
	}
	for digits != "" && digits[len(digits)-1] == '0' {
		digits, exp = digits[:len(digits)-1], exp+1
	}
	if digits == "" {
		return Number{}, nil
	}
	switch magnitude := exp + len(digits) - 1; {
	case magnitude > maxMagnitude:
		return Number{}, errOverflow
	case magnitude < minMagnitude:
		return Number{}, errUnderflow
	case len(digits) > maxDigits:
		return Number{}, errPrecision
	}
	n := Number{neg: neg}
	for i := range len(digits) {
		n.hi, n.lo = shift(n.hi, n.lo, 1)
		var carry uint64
		n.lo, carry = bits.Add64(n.lo, uint64(digits[i]-'0'), 0)
		n.hi += carry
	}
	if exp > 0 && len(digits)+exp <= maxDigits {
		n.hi, n.lo = shift(n.hi, n.lo, exp)
		exp = 0
	}
	n.exp = int16(exp)
	return n, nil
}
