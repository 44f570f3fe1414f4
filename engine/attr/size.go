package attr

// Overheads of DynamoDB's item size rules, in bytes.
const (
	sizeFlag     = 1 // a BOOL or NULL
	sizeDocument = 3 // a list or map
	sizeElement  = 1 // each value in a list or map
)

// Size returns the value's share of the item size in bytes, by DynamoDB's
// documented rules. A string or binary takes its bytes. A number takes a byte for
// two significant digits and a further byte, and another if it is negative. A list
// or map takes 3 bytes and a byte for each element, and the elements and names.
func (v Value) Size() int {
	switch v.kind {
	case KindS, KindB:
		return len(v.text)
	case KindN:
		return v.Number().size()
	case KindBOOL, KindNULL:
		return sizeFlag
	case KindSS, KindNS, KindBS:
		return sizes(v.nested.elems)
	case KindL:
		return sizeDocument + sizeElement*len(v.nested.elems) + sizes(v.nested.elems)
	case KindM:
		return sizeDocument + sizeElement*len(v.nested.fields) + v.nested.fields.Size()
	}
	return 0
}

// Size returns the item's size in bytes as DynamoDB bills it: names and values.
func (it Item) Size() int {
	total := 0
	for name, v := range it {
		total += len(name) + v.Size()
	}
	return total
}

func sizes(elems []Value) int {
	total := 0
	for _, e := range elems {
		total += e.Size()
	}
	return total
}

// size counts the pairs of digits, aligned to the decimal point: 123 is 01 23, two
// pairs, and 12.3 is 12 30.
func (n Number) size() int {
	if n.IsZero() {
		return 1
	}
	var buf [maxDigits]byte
	digits, magnitude := n.significant(buf[:0])
	count := len(digits)
	if magnitude%2 == 0 {
		count++ // the first pair begins with a zero
	}
	size := 1 + (count+1)/2
	if n.neg {
		size++
	}
	return size
}
