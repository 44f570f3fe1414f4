package bucket

// Complete reports whether the pool lists every shard of its bucket exactly once,
// each at its level: shard j > 0 exists exactly when the level of its parent is
// above j. A set of shards that were read separately can be incomplete if a shard
// split or merged in between. The balances of an incomplete set mean nothing; the
// caller has to read the shards again.
func (p Pool) Complete() bool {
	var levels [MaxShards]int // by index; 0 where no such shard is listed
	for i := range p.Shards {
		s := p.Shards[i].Shard
		if !s.Possible() || levels[s.Index] != 0 {
			return false
		}
		levels[s.Index] = s.Count
	}
	for index, level := range levels {
		parent := levels[Shard{Index: index}.Parent()]
		if exists := index == 0 || parent > index; exists != (level != 0) {
			return false
		}
	}
	return true
}

// Possible reports whether splits of a bucket can make such a shard.
func (s Shard) Possible() bool {
	return s.Index >= 0 && s.Index < s.Count && s.Count <= MaxShards && s.Count&(s.Count-1) == 0
}
