package engine

import (
	"hash/fnv"

	"github.com/tidegate/tidegate/engine/attr"
)

const maxSegments = 1_000_000

// scanSegment is a part of a parallel Scan. All items with the same partition key are
// in the same segment.
type scanSegment struct {
	given [2]bool // Segment, TotalSegments
	n, of int
}

func (s *scanSegment) decode(name string, raw []byte) error {
	if name == "Segment" {
		s.given[0] = true
		return decodeInt(raw, &s.n)
	}
	s.given[1] = true
	return decodeInt(raw, &s.of)
}

func (s *scanSegment) check() error {
	switch {
	case s.given == [2]bool{}:
		return nil
	case !s.given[1]:
		return validation("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case !s.given[0]:
		return validation("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case s.of < 1 || s.of > maxSegments:
		return validation("1 validation error detected: Value '%d' at 'totalSegments' failed to satisfy constraint: "+
			"Member must be between 1 and %d", s.of, maxSegments)
	case s.n < 0:
		return validation("1 validation error detected: Value '%d' at 'segment' failed to satisfy constraint: "+
			"Member must have value greater than or equal to 0", s.n)
	case s.n >= s.of:
		return validation("The Segment parameter is zero-based and must be less than parameter TotalSegments: "+
			"Segment: %d is not less than TotalSegments: %d", s.n, s.of)
	}
	return nil
}

// has reports whether an item with this partition key is in the segment.
func (s *scanSegment) has(partition attr.Value) bool {
	if s.of < 2 {
		return true
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(partitionPrefix(partition))) // a hash never fails
	return h.Sum32()%uint32(s.of) == uint32(s.n)       //nolint:gosec // check has bounded both
}
