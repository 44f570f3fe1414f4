package api

// BucketRequest names the bucket of an entity and a resource.
type BucketRequest struct {
	Entity   string `json:"entity" rule:"entity,required"`
	Resource string `json:"resource" rule:"resource,required"`
}

// BucketReply is a bucket as it is stored, shard by shard.
type BucketReply struct {
	// AtMs is when it was read, in Unix milliseconds by the store's time. Two replies
	// tell by their write units how fast each shard is written to.
	AtMs int64 `json:"at_ms"`
	// Wanted is how many shards there shall be. Others may be split off, or merged
	// away, soon.
	Wanted int64 `json:"wanted"`
	// Shards are those that are there, by number; none where nobody has spent from
	// the bucket, or it has been full for long.
	Shards []BucketShard `json:"shards"`
	// Limits are by name, with the balance of all shards together, which is what
	// callers are told; negative is debt. None while shards are of different settings,
	// damaged or missing.
	Limits []LimitCapacity `json:"limits,omitempty"`
	// Damaged are the numbers of the shards whose items cannot be read. Nothing can be
	// spent from the bucket until it is reset.
	Damaged []int64 `json:"damaged,omitempty"`
}

// BucketShard is one shard of a bucket.
type BucketShard struct {
	Shard int64 `json:"shard"`
	// Level is the number of shards of which this is one: its share is 1/Level.
	Level int64 `json:"level"`
	// WriteUnits is what the shard has cost since it was split off, or the bucket was
	// made.
	WriteUnits int64 `json:"write_units"`
	// Limits are by name, with the shard's own share and balance. They are those that
	// the shard was spent from under last.
	Limits []LimitCapacity `json:"limits"`
}

// BucketResetReply says how many shards were there. There were none where the
// bucket was full.
type BucketResetReply struct {
	Shards int64 `json:"shards"`
}
