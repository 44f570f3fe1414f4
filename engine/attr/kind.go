package attr

// Kind is the data type of a value.
type Kind uint8

// The data types of DynamoDB.
const (
	KindS Kind = iota + 1
	KindN
	KindB
	KindBOOL
	KindNULL
	KindSS
	KindNS
	KindBS
	KindL
	KindM
)

// String returns the type descriptor in DynamoDB JSON; empty for an invalid kind.
func (k Kind) String() string {
	switch k {
	case KindS:
		return "S"
	case KindN:
		return "N"
	case KindB:
		return "B"
	case KindBOOL:
		return "BOOL"
	case KindNULL:
		return "NULL"
	case KindSS:
		return "SS"
	case KindNS:
		return "NS"
	case KindBS:
		return "BS"
	case KindL:
		return "L"
	case KindM:
		return "M"
	}
	return ""
}

// ParseKind returns the kind with a type descriptor; it reports false if there is
// no such kind.
func ParseKind(tag string) (Kind, bool) {
	for k := KindS; k <= KindM; k++ {
		if k.String() == tag {
			return k, true
		}
	}
	return 0, false
}

// IsSet reports whether the kind is SS, NS or BS.
func (k Kind) IsSet() bool { return k >= KindSS && k <= KindBS }

// IsDocument reports whether the kind is L or M; values of these kinds nest.
func (k Kind) IsDocument() bool { return k == KindL || k == KindM }

// IsScalar reports whether the kind is S, N or B; values of these kinds have an order.
func (k Kind) IsScalar() bool { return k >= KindS && k <= KindB }

// Member returns the kind of a set's elements; 0 for a kind that is not a set.
func (k Kind) Member() Kind {
	if !k.IsSet() {
		return 0
	}
	return k - KindSS + KindS
}
