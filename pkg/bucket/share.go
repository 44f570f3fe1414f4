package bucket

import "math/bits"

// Shard is a part of a bucket that is divided into Count equal parts.
type Shard struct {
	Index int // 0 to Count−1
	Count int // the split level: a power of two
}

// Whole is the only shard of an unsharded bucket.
func Whole() Shard { return Shard{Index: 0, Count: 1} }

// Share returns the shard's part of x: floor((x + Index) / Count). The parts of all
// shards sum to x exactly (Hermite's identity).
func (s Shard) Share(x int64) int64 {
	if s.Count == 1 {
		return x
	}
	return floorDiv(x+int64(s.Index), int64(s.Count))
}

// Split returns the two shards that result from a split. Their parts sum to its part.
func (s Shard) Split() (own, child Shard) {
	return Shard{s.Index, 2 * s.Count}, Shard{s.Index + s.Count, 2 * s.Count}
}

// Parent returns the index of the shard that this shard was split from: its index
// without the highest bit. Shard 0 was not split off; its Parent is 0.
func (s Shard) Parent() int {
	if s.Index == 0 {
		return 0
	}
	return s.Index - 1<<(bits.Len(uint(s.Index))-1)
}

// Born returns the split level at which the shard was created, 1 for shard 0.
func (s Shard) Born() int { return 1 << bits.Len(uint(s.Index)) }
