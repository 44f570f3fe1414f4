package table

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Transaction returns a request that applies all writes or none. DynamoDB applies
// writes under the same token, 1 to 36 characters, at most once, however often they
// are sent.
func Transaction(token string, writes []types.TransactWriteItem) *dynamodb.TransactWriteItemsInput {
	return &dynamodb.TransactWriteItemsInput{
		ClientRequestToken:     &token,
		TransactItems:          writes,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
}

// Split is the transaction that splits a shard in two. It is refused if the shard
// has changed since the plan, if the child exists, or if the child is not wanted.
type Split struct {
	Key         keys.Bucket // of the shard that is split
	Level       int         // its level before
	Fingerprint string
	Limits      []SplitLimit // all that the item has, removed ones too
	Child       *Bucket      // as it is made
	Want        WantChange   // made in the same step; of shard 0 only
	WriteUnits  int64        // that the split shard has cost: this write's and those of failed ones before it
	Nonce       string
}

// SplitLimit is the change of a limit by a split.
type SplitLimit struct {
	Limit bucket.Limit
	Own   bucket.Change // of the drawn count; always an addition
}

// WantChange changes the wanted number of shards. The zero value changes nothing.
type WantChange struct {
	From int // as stored, 0 where nothing is
	To   int // 0: no change
}

// Writes returns the writes of the split shard and of its child, and a check of
// shard 0 unless it is the split shard.
func (s *Split) Writes(table string) []types.TransactWriteItem {
	e := newExpression(8 + 4*len(s.Limits))
	e.requireEqual(attrLevel, number(int64(s.Level)))
	e.requireEqual(attrPrint, text(s.Fingerprint))
	if s.Key.Shard == 0 {
		if s.Want.To != 0 {
			e.changeWant(s.Want)
		} else {
			e.requireWantAbove(s.Child.Key.Shard)
		}
	}
	for _, l := range s.Limits {
		e.requireSettings(l.Limit)
		e.change(l.Limit.Name, l.Own)
	}
	e.set(attrLevel, number(int64(2*s.Level)))
	e.add(attrWriteUnits, s.WriteUnits)
	e.set(attrLastWrite, text(s.Nonce))
	e.remove(attrTTL)
	made := (&Create{Bucket: s.Child}).Input(table)
	writes := []types.TransactWriteItem{{Update: updateOf(table, s.Key, e)}, {Put: &types.Put{
		TableName:                           made.TableName,
		Item:                                made.Item,
		ConditionExpression:                 made.ConditionExpression,
		ExpressionAttributeNames:            made.ExpressionAttributeNames,
		ReturnValuesOnConditionCheckFailure: made.ReturnValuesOnConditionCheckFailure,
	}}}
	if s.Key.Shard != 0 {
		check := newCondition(1)
		check.requireWantAbove(s.Child.Key.Shard)
		writes = append(writes, checkOf(table, s.Key, check))
	}
	return writes
}

// Merge is the transaction that merges two shards with the same split level and
// settings. It is refused if they have changed since the plan, or if the merged
// shard is wanted. The counters of the merged shard are dropped.
type Merge struct {
	Into, Gone  keys.Bucket
	Level       int // of both before
	Fingerprint string
	Limits      []MergeLimit // all that either item has, removed ones too
	WriteUnits  int64        // that the shard that stays has cost
	Nonce       string
}

// MergeLimit is the change of a limit by a merge.
type MergeLimit struct {
	Limit   bucket.Limit
	Change  bucket.Change // of the drawn count that stays; the count itself, set, where it is missing
	GoneMax int64         // the highest drawn count of the shard that goes,
	// GoneExact says, and the lowest: what is given back to a shard that is not full
	// would be lost with it.
	GoneExact bool
	// A removed limit that is full again may be forgotten by one of the two.
	MissingInto, MissingGone bool
}

// Writes returns the writes of the remaining and of the merged shard, and a check
// of shard 0 unless it is the remaining shard.
func (m *Merge) Writes(table string) []types.TransactWriteItem {
	into, gone := newExpression(8+4*len(m.Limits)), newCondition(2+4*len(m.Limits))
	for _, c := range []*condition{&into.condition, gone} {
		c.requireEqual(attrLevel, number(int64(m.Level)))
		c.requireEqual(attrPrint, text(m.Fingerprint))
	}
	if m.Into.Shard == 0 {
		into.requireWantAtMost(m.Gone.Shard)
	}
	for _, l := range m.Limits {
		l.stays(into)
		l.goes(gone)
	}
	into.set(attrLevel, number(int64(m.Level/2)))
	into.add(attrWriteUnits, m.WriteUnits)
	into.set(attrLastWrite, text(m.Nonce))
	into.remove(attrTTL)
	writes := []types.TransactWriteItem{{Update: updateOf(table, m.Into, into)}, {Delete: &types.Delete{
		TableName:                           &table,
		Key:                                 KeyItem(m.Gone.Key()),
		ConditionExpression:                 gone.conditions(),
		ExpressionAttributeNames:            gone.names,
		ExpressionAttributeValues:           gone.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}}
	if m.Into.Shard != 0 {
		check := newCondition(1)
		check.requireWantAtMost(m.Gone.Shard)
		writes = append(writes, checkOf(table, m.Into, check))
	}
	return writes
}

func (l *MergeLimit) stays(e *expression) {
	if l.MissingInto {
		e.requireAbsent(drawnOf(l.Limit.Name))
		e.set(drawnOf(l.Limit.Name), number(l.Change.Amount))
		e.set(consumedOf(l.Limit.Name), number(0))
		e.setSettings(l.Limit)
		return
	}
	e.requireSettings(l.Limit)
	e.change(l.Limit.Name, l.Change)
}

func (l *MergeLimit) goes(c *condition) {
	drawn := drawnOf(l.Limit.Name)
	if l.MissingGone {
		c.requireAbsent(drawn)
		return
	}
	c.requireSettings(l.Limit)
	comparison := " <= "
	if l.GoneExact {
		comparison = " = "
	}
	c.require(c.name(drawn), comparison, c.value(number(l.GoneMax)))
}

// MultiSpend is the transaction of a multi-shard spend. Each part is a spend of its
// shard; together they take tokens from all limits or from no limit.
type MultiSpend struct {
	Parts []Commit
}

// Writes returns a write for each part.
func (g *MultiSpend) Writes(table string) []types.TransactWriteItem {
	writes := make([]types.TransactWriteItem, len(g.Parts))
	for i := range g.Parts {
		c := &g.Parts[i]
		writes[i].Update = updateOf(table, c.Key, c.expression())
	}
	return writes
}

// Want is the form that changes the wanted number of shards without a split or
// merge: a lower number, which lets merges begin, or the number of shards that
// still exist.
type Want struct {
	Key        keys.Bucket // of any shard of the bucket
	Change     WantChange
	Level      int // of shard 0, which is to stay as it is
	WriteUnits int64
	Nonce      string
}

// Input returns the write of shard 0, like Commit.Input.
func (w *Want) Input(table string) *dynamodb.UpdateItemInput {
	e := newExpression(4)
	e.requireEqual(attrLevel, number(int64(w.Level)))
	e.changeWant(w.Change)
	e.add(attrWriteUnits, w.WriteUnits)
	e.set(attrLastWrite, text(w.Nonce))
	return updateInput(table, first(w.Key), e)
}

// first returns shard 0 of a bucket, which stores the state of the whole bucket.
func first(key keys.Bucket) keys.Bucket {
	key.Shard = 0
	return key
}

func (e *expression) changeWant(c WantChange) {
	if c.From == 0 {
		e.requireAbsent(attrWant)
	} else {
		e.requireEqual(attrWant, number(int64(c.From)))
	}
	e.set(attrWant, number(int64(c.To)))
}

func (c *condition) requireWantAbove(shard int) {
	c.require(c.name(attrWant), " > ", c.value(number(int64(shard))))
}

func (c *condition) requireWantAtMost(shard int) {
	c.require(c.name(attrWant), " <= ", c.value(number(int64(shard))))
}

// RemoveShard deletes a shard. It is refused if the shard has split or merged since
// it was read.
func RemoveShard(table string, known *Bucket) types.TransactWriteItem {
	c := newCondition(1)
	c.requireEqual(attrLevel, number(int64(known.Level)))
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName:                           &table,
		Key:                                 KeyItem(known.Key.Key()),
		ConditionExpression:                 c.conditions(),
		ExpressionAttributeNames:            c.names,
		ExpressionAttributeValues:           c.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

// RemoveDamaged deletes a shard that cannot be decoded, with any content.
func RemoveDamaged(table string, key keys.Bucket) types.TransactWriteItem {
	c := newCondition(1)
	c.requireExists(attrPK)
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName:                &table,
		Key:                      KeyItem(key.Key()),
		ConditionExpression:      c.conditions(),
		ExpressionAttributeNames: c.names,
	}}
}

func updateOf(table string, key keys.Bucket, e *expression) *types.Update {
	in := updateInput(table, key, e)
	return &types.Update{
		TableName:                           in.TableName,
		Key:                                 in.Key,
		UpdateExpression:                    in.UpdateExpression,
		ConditionExpression:                 in.ConditionExpression,
		ExpressionAttributeNames:            in.ExpressionAttributeNames,
		ExpressionAttributeValues:           in.ExpressionAttributeValues,
		ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
	}
}

func checkOf(table string, of keys.Bucket, c *condition) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName:                           &table,
		Key:                                 KeyItem(first(of).Key()),
		ConditionExpression:                 c.conditions(),
		ExpressionAttributeNames:            c.names,
		ExpressionAttributeValues:           c.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}
