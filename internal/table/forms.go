package table

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// TTL is the change of the time at which a bucket item expires.
type TTL struct {
	Remove bool
	Set    int64 // epoch seconds; 0 with Remove false leaves the ttl as it is
}

// LimitChange is the change of a limit by a commit.
type LimitChange struct {
	Name     string
	Change   bucket.Change // of the drawn count, with the range it is true for
	Consumed int64         // millitokens added to the consumption counter, net
}

// Commit is the form that spends and settles: the sum of all operations that waited
// for a shard.
type Commit struct {
	Key         keys.Bucket
	Guarded     bool // the condition names Level and Fingerprint; only credits go without
	Level       int
	Fingerprint string
	Limits      []LimitChange // each of them a condition, a limit that is spent by 0 included
	Acquires    int64         // admitted
	WriteUnits  int64         // this write's and those of failed ones before it
	Nonce       string
	TTL         TTL
}

// Input returns the write. Its reply tells the stored state: the new item, or the
// item that refused the write.
func (c *Commit) Input(table string) *dynamodb.UpdateItemInput {
	return updateInput(table, c.Key, c.expression())
}

func (c *Commit) expression() *expression {
	e := newExpression(4 + 2*len(c.Limits))
	if c.Guarded {
		e.requireEqual(attrLevel, number(int64(c.Level)))
		e.requireEqual(attrPrint, text(c.Fingerprint))
	} else {
		e.requireExists(attrPK)
	}
	for _, l := range c.Limits {
		e.change(l.Name, l.Change)
		e.add(consumedOf(l.Name), l.Consumed)
	}
	e.add(attrAcquires, c.Acquires)
	e.add(attrWriteUnits, c.WriteUnits)
	e.set(attrLastWrite, text(c.Nonce))
	switch {
	case c.TTL.Remove:
		e.remove(attrTTL)
	case c.TTL.Set != 0:
		e.set(attrTTL, number(c.TTL.Set))
	}
	return e
}

// Create is the form that makes a full bucket item, minus the spends of the first
// operations. It is refused if the item exists.
type Create struct {
	Bucket *Bucket
}

// Input returns the write. If it is refused, the reply has the stored item.
func (c *Create) Input(table string) *dynamodb.PutItemInput {
	e := newCondition(1)
	e.requireAbsent(attrPK)
	return &dynamodb.PutItemInput{
		TableName:                           &table,
		Item:                                EncodeBucket(c.Bucket),
		ConditionExpression:                 e.conditions(),
		ExpressionAttributeNames:            e.names,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// Sync is the form that brings new settings to an item and keeps its drawn counts.
type Sync struct {
	Key        keys.Bucket
	Level      int
	From, To   string // fingerprints
	Kept       []KeptLimit
	Added      []Limit // full, with nothing consumed
	Dropped    []DroppedLimit
	Cascade    bool
	Parent     string
	WriteUnits int64
	Nonce      string
}

// KeptLimit is a limit that the item has under its old settings.
type KeptLimit struct {
	From, To bucket.Limit
	Change   bucket.Change // moves the drawn count to the new refill count; always an addition
}

// DroppedLimit is a removed limit that is full again by its old settings.
type DroppedLimit struct {
	Limit bucket.Limit
	Max   int64 // the highest drawn count at which it is full
}

// Input returns the write, like Commit.Input. It removes the ttl: the next spend
// sets it by the new settings.
func (s *Sync) Input(table string) *dynamodb.UpdateItemInput {
	e := newExpression(8 + 5*(len(s.Kept)+len(s.Added)+len(s.Dropped)))
	e.requireEqual(attrLevel, number(int64(s.Level)))
	e.requireEqual(attrPrint, text(s.From))
	for _, l := range s.Kept {
		e.change(l.From.Name, l.Change)
		e.requireSettings(l.From)
		if l.From != l.To {
			e.setSettings(l.To)
		}
	}
	for _, l := range s.Added {
		e.requireAbsent(drawnOf(l.Name))
		e.set(drawnOf(l.Name), number(l.Drawn))
		e.set(consumedOf(l.Name), number(0))
		e.setSettings(l.Limit)
	}
	for _, l := range s.Dropped {
		e.requireSettings(l.Limit)
		e.require(e.name(drawnOf(l.Limit.Name)), " <= ", e.value(number(l.Max)))
		for _, attribute := range limitAttributes(l.Limit.Name) {
			e.remove(attribute)
		}
	}
	e.set(attrPrint, text(s.To))
	e.setCascade(s.Cascade, s.Parent)
	e.add(attrWriteUnits, s.WriteUnits)
	e.set(attrLastWrite, text(s.Nonce))
	e.remove(attrTTL)
	return updateInput(table, s.Key, e)
}

// Apply returns the item after the write, before the write is made.
func (s *Sync) Apply(item *Bucket) *Bucket {
	b := *item
	b.Fingerprint, b.Cascade, b.Parent, b.TTL = s.To, s.Cascade, s.Parent, 0
	b.Limits = slices.DeleteFunc(slices.Clone(item.Limits), func(l Limit) bool {
		return slices.ContainsFunc(s.Dropped, func(d DroppedLimit) bool { return d.Limit.Name == l.Name })
	})
	for _, kept := range s.Kept {
		l := b.Find(kept.To.Name)
		l.Limit, l.Drawn = kept.To, kept.Change.Apply(l.Drawn)
	}
	b.Limits = append(b.Limits, s.Added...)
	slices.SortFunc(b.Limits, func(x, y Limit) int { return cmp.Compare(x.Name, y.Name) })
	return &b
}

func (c *condition) requireSettings(l bucket.Limit) {
	c.requireEqual(capacityOf(l.Name), number(l.Capacity))
	c.requireEqual(refillOf(l.Name), number(l.Refill))
	c.requireEqual(periodOf(l.Name), number(l.Period))
}

func (e *expression) setSettings(l bucket.Limit) {
	e.set(capacityOf(l.Name), number(l.Capacity))
	e.set(refillOf(l.Name), number(l.Refill))
	e.set(periodOf(l.Name), number(l.Period))
}

func (e *expression) setCascade(cascade bool, parent string) {
	if cascade {
		e.set(attrCascade, boolean(true))
	} else {
		e.remove(attrCascade)
	}
	if parent != "" {
		e.set(attrParent, text(parent))
	} else {
		e.remove(attrParent)
	}
}

func limitAttributes(limit string) []string {
	return []string{capacityOf(limit), refillOf(limit), periodOf(limit), drawnOf(limit), consumedOf(limit)}
}

func updateInput(table string, key keys.Bucket, e *expression) *dynamodb.UpdateItemInput {
	return &dynamodb.UpdateItemInput{
		TableName:                           &table,
		Key:                                 KeyItem(key.Key()),
		UpdateExpression:                    e.update(),
		ConditionExpression:                 e.conditions(),
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           e.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// KeyItem returns a primary key as the SDK takes it.
func KeyItem(k keys.Key) Item {
	return Item{attrPK: text(k.PK), attrSK: text(k.SK)}
}

// ReadInput returns the consistent read of an item.
func ReadInput(table string, k keys.Key) *dynamodb.GetItemInput {
	consistent := true
	return &dynamodb.GetItemInput{
		TableName:              &table,
		Key:                    KeyItem(k),
		ConsistentRead:         &consistent,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	}
}
