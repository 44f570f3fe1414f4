package events

// Consumed returns the net consumption of a change of a bucket shard, by limit, in
// millitokens: negative if more was refunded than spent. It compares the
// consumption counters, never the balances. A first image counts from 0, and so
// does a counter that the old image lacks. A limit that the new image lacks and a
// deleted shard count nothing: their consumption was counted before. Unchanged
// limits are left out.
func Consumed(c *Change[Bucket]) map[string]int64 {
	if c.New == nil {
		return nil
	}
	consumed := make(map[string]int64, len(c.New.Limits))
	for i := range c.New.Limits {
		consumed[c.New.Limits[i].Name] = c.New.Limits[i].Consumed
	}
	if c.Old != nil {
		for i := range c.Old.Limits {
			if _, still := consumed[c.Old.Limits[i].Name]; still {
				consumed[c.Old.Limits[i].Name] -= c.Old.Limits[i].Consumed
			}
		}
	}
	for name, delta := range consumed {
		if delta == 0 {
			delete(consumed, name)
		}
	}
	return consumed
}

// Acquired returns the number of acquires that a change of a bucket shard admitted.
func Acquired(c *Change[Bucket]) int64 {
	if c.New == nil {
		return 0
	}
	if c.Old == nil {
		return c.New.Acquires
	}
	return c.New.Acquires - c.Old.Acquires
}
