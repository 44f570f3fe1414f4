package events

// Consumed is what a change of a bucket shard has consumed, by limit, in
// millitokens, net: negative where more was given back than spent. It follows
// the consumption counters, never the balances. A first image counts from 0, a
// counter that is missing on one side counts 0 there, and a shard that is gone
// counts nothing: all it had was counted before. What did not change is left out.
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

// Acquired is how many acquires a change of a bucket shard has admitted.
func Acquired(c *Change[Bucket]) int64 {
	if c.New == nil {
		return 0
	}
	if c.Old == nil {
		return c.New.Acquires
	}
	return c.New.Acquires - c.Old.Acquires
}
