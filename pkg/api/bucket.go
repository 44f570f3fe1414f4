package api

// BucketRequest names the bucket of an entity and a resource.
type BucketRequest struct {
	Entity   string `json:"entity" rule:"entity,required"`
	Resource string `json:"resource" rule:"resource,required"`
}

// BucketReply describes a stored bucket, shard by shard.
type BucketReply struct {
	// AtMs is the time of the read, in Unix milliseconds of the store's time. The
	// write rate of a shard follows from the write units and times of two replies.
	AtMs int64 `json:"at_ms"`
	// Wanted is the target number of shards. Until the bucket reaches it, shards
	// split or merge.
	Wanted int64 `json:"wanted"`
	// Shards lists the stored shards, by number. It is empty if the bucket was never
	// spent from, or has been full for a long time.
	Shards []BucketShard `json:"shards"`
	// Limits holds the limits by name with their balances over all shards, as replies
	// to callers report them; a negative balance is debt. It is empty while shards
	// have different settings, are damaged or are missing.
	Limits []LimitCapacity `json:"limits,omitempty"`
	// Damaged lists the numbers of the shards with unreadable items. Spending from
	// the bucket fails until it is reset.
	Damaged []int64 `json:"damaged,omitempty"`
}

// BucketShard holds the state of a bucket's shard.
type BucketShard struct {
	Shard int64 `json:"shard"`
	// Level is the shard's split level: the shard's share of the bucket is 1/Level.
	Level int64 `json:"level"`
	// WriteUnits counts the write capacity units that the shard has consumed since
	// the bucket was created or the shard was split off.
	WriteUnits int64 `json:"write_units"`
	// Limits holds, by name, the shard's own shares and balances under the settings
	// that its last spend used.
	Limits []LimitCapacity `json:"limits"`
}

// BucketResetReply returns the number of deleted shards, 0 if the bucket was full
// and therefore not stored.
type BucketResetReply struct {
	Shards int64 `json:"shards"`
}
