package attr

import (
	"cmp"
	"math/big"
	"math/bits"
	"strconv"
)

// DynamoDB's limits of numbers. The magnitude of a number is the decimal
// exponent of its first digit: 2 for 123, -1 for 0.5.
const (
	maxDigits    = 38
	minMagnitude = -130
	maxMagnitude = 125
)

// Errors of numbers, in DynamoDB's words.
var (
	errOverflow  = &ValueError{"Number overflow. Attempting to store a number with magnitude larger than supported range"}
	errUnderflow = &ValueError{"Number underflow. Attempting to store a number with magnitude smaller than supported range"}
	errPrecision = &ValueError{"Attempting to store more than 38 significant digits in a Number"}
)

// Number is an exact decimal of at most 38 significant digits: coefficient ×
// 10^exponent. The zero Number is 0.
//
// Equal numbers have the same form, so == compares them: an integer of at most 38
// digits has exponent 0; any other number has no trailing zero in its
// coefficient; 0 is not negative.
type Number struct {
	hi, lo uint64 // coefficient, below 10^38
	exp    int16
	neg    bool
}

// Int returns an integer as a Number.
func Int(i int64) Number {
	if i < 0 {
		return Number{lo: -uint64(i), neg: true}
	}
	return Number{lo: uint64(i)}
}

// IsZero reports whether n is 0.
func (n Number) IsZero() bool { return n.lo|n.hi == 0 }

// isShort reports whether n is an integer within 64 bits and a sign.
func (n Number) isShort() bool { return n.hi == 0 && n.exp == 0 }

// Add returns n + m. It fails, with DynamoDB's message, if the exact sum has more
// than 38 significant digits or a magnitude beyond DynamoDB's.
func (n Number) Add(m Number) (Number, error) {
	if n.isShort() && m.isShort() {
		if n.neg != m.neg {
			return subtractShort(n, m), nil
		}
		if sum, carry := bits.Add64(n.lo, m.lo, 0); carry == 0 {
			return Number{lo: sum, neg: n.neg}, nil
		}
	}
	return n.addBig(m)
}

// Sub returns n - m; it fails like Add.
func (n Number) Sub(m Number) (Number, error) {
	if !m.IsZero() {
		m.neg = !m.neg
	}
	return n.Add(m)
}

// subtractShort adds numbers of different signs.
func subtractShort(n, m Number) Number {
	switch {
	case n.lo == m.lo:
		return Number{}
	case n.lo > m.lo:
		return Number{lo: n.lo - m.lo, neg: n.neg}
	}
	return Number{lo: m.lo - n.lo, neg: m.neg}
}

func (n Number) addBig(m Number) (Number, error) {
	exp := min(n.exp, m.exp)
	sum := n.scaled(exp)
	sum.Add(sum, m.scaled(exp))
	return fromDigits(sum.Sign() < 0, new(big.Int).Abs(sum).String(), int(exp))
}

// scaled returns n / 10^exp; exp is at most the exponent of n.
func (n Number) scaled(exp int16) *big.Int {
	x := new(big.Int).SetUint64(n.hi)
	x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(n.lo))
	ten := big.NewInt(10)
	x.Mul(x, ten.Exp(ten, big.NewInt(int64(n.exp-exp)), nil))
	if n.neg {
		x.Neg(x)
	}
	return x
}

// Cmp returns -1 if n < m, 0 if n == m, and 1 if n > m.
func (n Number) Cmp(m Number) int {
	switch {
	case n == m:
		return 0
	case n.neg != m.neg:
		return signed(-1, m.neg)
	case n.IsZero():
		return -1
	case m.IsZero():
		return signed(1, n.neg)
	}
	return signed(n.cmpMagnitude(m), n.neg)
}

// signed returns c, negated for negative numbers.
func signed(c int, negative bool) int {
	if negative {
		return -c
	}
	return c
}

// cmpMagnitude compares without signs; neither is 0.
func (n Number) cmpMagnitude(m Number) int {
	if n.exp != m.exp {
		var buf [maxDigits]byte
		_, a := n.significant(buf[:0])
		_, b := m.significant(buf[:0])
		if a != b {
			return cmp.Compare(a, b)
		}
		// The first digits stand at the same place, so bringing both to the
		// lower exponent makes neither longer than 38 digits.
		n.hi, n.lo = shift(n.hi, n.lo, int(n.exp-min(n.exp, m.exp)))
		m.hi, m.lo = shift(m.hi, m.lo, int(m.exp-min(n.exp, m.exp)))
	}
	return cmp128(n.hi, n.lo, m.hi, m.lo)
}

func cmp128(ahi, alo, bhi, blo uint64) int {
	switch {
	case ahi < bhi || ahi == bhi && alo < blo:
		return -1
	case ahi == bhi && alo == blo:
		return 0
	}
	return 1
}

// shift returns x × 10^by; the product has at most 38 digits.
func shift(hi, lo uint64, by int) (uint64, uint64) {
	for range by {
		var carry uint64
		carry, lo = bits.Mul64(lo, 10)
		hi = hi*10 + carry
	}
	return hi, lo
}

// tenTo19 is the largest power of ten within 64 bits.
const tenTo19 = 1e19

// appendCoefficient writes the coefficient's decimal digits.
func (n Number) appendCoefficient(dst []byte) []byte {
	if n.hi == 0 {
		return strconv.AppendUint(dst, n.lo, 10)
	}
	quotient, rest := bits.Div64(n.hi, n.lo, tenTo19)
	dst = strconv.AppendUint(dst, quotient, 10)
	var low [20]byte
	digits := strconv.AppendUint(low[:0], rest, 10)
	for range 19 - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// significant writes the digits without trailing zeros into the empty buf and
// returns them and the magnitude.
func (n Number) significant(buf []byte) (digits []byte, magnitude int) {
	digits = n.appendCoefficient(buf)
	magnitude = int(n.exp) + len(digits) - 1
	for len(digits) > 1 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return digits, magnitude
}

// String prints the number as DynamoDB does: plain, without an exponent, a
// leading plus or a needless zero.
func (n Number) String() string {
	var buf [2 * maxDigits]byte
	return string(n.append(buf[:0]))
}

func (n Number) append(dst []byte) []byte {
	if n.neg {
		dst = append(dst, '-')
	}
	if n.exp >= 0 {
		dst = n.appendCoefficient(dst)
		return appendZeros(dst, int(n.exp))
	}
	var buf [maxDigits]byte
	digits := n.appendCoefficient(buf[:0])
	whole := len(digits) + int(n.exp)
	if whole <= 0 {
		dst = append(dst, "0."...)
		return append(appendZeros(dst, -whole), digits...)
	}
	dst = append(append(dst, digits[:whole]...), '.')
	return append(dst, digits[whole:]...)
}

func appendZeros(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, '0')
	}
	return dst
}
