package table

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Attributes of usage snapshots. The usage of a limit is under usagePrefix and its
// name, a watermark under watermarkPrefix and the number of a bucket shard.
const (
	attrEvents  = "total_events"
	attrReplays = "replays"

	usagePrefix     = "u_"
	watermarkPrefix = "hw_"
)

// Bounds of usage snapshots.
const (
	// MaxReplays bounds the replays that a snapshot counts. The longest marks are
	// the relay's, a position of 64 characters, so that they take 32 KB of an
	// item's 400 KB.
	MaxReplays = 500
	// MaxUsedLimits bounds the limits that a write counts: its expression may have
	// 4 KB. A bucket has 16 limits, but may have other limits later in a batch.
	MaxUsedLimits = 64
)

// Usage is the content of a usage snapshot: the use of a resource by an entity in a
// window.
type Usage struct {
	Key      keys.Usage
	Used     []UsedTotal    // by limit
	Acquires int64          // admitted
	Counted  map[int]string // by bucket shard: the position of the last record counted
	Replays  []string       // marks of the replays counted
	TTL      int64          // epoch seconds
}

// UsedTotal is the net use of a limit, as tokens and thousandths of a token. Tokens
// is negative if more was refunded than spent; Milli is never negative. The table's
// numbers hold far more millitokens than an int64.
type UsedTotal struct {
	Limit         string
	Tokens, Milli int64
}

// Used is the amount that a write adds to a limit.
type Used struct {
	Limit string
	Milli int64 // millitokens, net: negative where more was given back than spent
}

// CountUsage is the form that adds records to a snapshot, each once: it is refused
// if any of them was counted before. It makes the snapshot if it does not exist.
type CountUsage struct {
	Key      keys.Usage
	Used     []Used // at most MaxUsedLimits
	Acquires int64
	Shards   []CountedShard // whose records these are; none for a replay
	Replay   string         // the mark of the one replayed record, which comes behind others of its shard
	TTL      int64          // epoch seconds
}

// CountedShard selects the records of a bucket shard that a write counts, by their
// positions.
type CountedShard struct {
	Shard       int
	First, Last string
}

// Input returns the write. If it is refused, the reply has the stored snapshot. If
// it is applied, the reply has the old values of the changed attributes; it is
// empty if the write made the snapshot.
func (c *CountUsage) Input(table string) *dynamodb.UpdateItemInput {
	e := newExpression(8 + len(c.Used) + len(c.Shards))
	for _, s := range c.Shards {
		mark := watermarkPrefix + strconv.Itoa(s.Shard)
		name := e.name(mark)
		e.require("(attribute_not_exists(", name, ") OR ", name, " < ", e.value(text(s.First)), ")")
		e.set(mark, text(s.Last))
	}
	for _, u := range c.Used {
		e.add(usagePrefix+u.Limit, u.Milli)
	}
	e.add(attrEvents, c.Acquires)
	if c.Replay != "" {
		e.countReplay(c.Replay)
	}
	e.set(attrTTL, number(c.TTL))
	e.setIndexes(c.Key.Indexes())
	return &dynamodb.UpdateItemInput{
		TableName:                           &table,
		Key:                                 KeyItem(c.Key.Key()),
		UpdateExpression:                    e.update(),
		ConditionExpression:                 e.conditions(),
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           e.values,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValues:                        types.ReturnValueUpdatedOld,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// countReplay adds a mark to the set of the snapshot, if the set lacks it and has
// room. The function contains under NOT is not a comparison: the set is known to
// exist.
func (e *expression) countReplay(mark string) {
	name := e.name(attrReplays)
	e.require("(attribute_not_exists(", name, ") OR (NOT contains(", name, ", ", e.value(text(mark)), ") AND size(", name, ") < ", e.value(number(MaxReplays)), "))")
	clause(&e.adds, ", ", name, " ", e.value(&types.AttributeValueMemberSS{Value: []string{mark}}))
}

// DecodeUsage reads a usage snapshot; the error is ErrDamaged.
func DecodeUsage(item Item) (*Usage, error) {
	parsed, err := ItemKey(item)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(keys.Usage)
	if !ok {
		return nil, fmt.Errorf("%w: %s %s is no usage snapshot", ErrDamaged, parsed.Key().PK, parsed.Key().SK)
	}
	d := decoder{item: item}
	u := &Usage{Key: key, Acquires: d.counter(attrEvents), Counted: map[int]string{}, Replays: d.set(attrReplays), TTL: d.optional(attrTTL)}
	for attribute := range item {
		if limit, ok := strings.CutPrefix(attribute, usagePrefix); ok {
			tokens, milli := d.millitokens(attribute)
			u.Used = append(u.Used, UsedTotal{Limit: limit, Tokens: tokens, Milli: milli})
		}
		if number, ok := strings.CutPrefix(attribute, watermarkPrefix); ok {
			shard, err := strconv.Atoi(number)
			if err != nil {
				d.fail(attribute, "named after a shard")
			}
			u.Counted[shard] = d.text(attribute)
		}
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: usage snapshot %s %s: %w", ErrDamaged, key.Key().PK, key.Key().SK, d.err)
	}
	slices.SortFunc(u.Used, func(a, b UsedTotal) int { return cmp.Compare(a.Limit, b.Limit) })
	return u, nil
}

// millitokens reads a sum of any size, as whole tokens and thousandths. Tokens
// beyond an int64 become the nearest int64.
func (d *decoder) millitokens(attribute string) (tokens, milli int64) {
	var exact big.Rat
	v, ok := d.item[attribute].(*types.AttributeValueMemberN)
	if ok {
		_, ok = exact.SetString(v.Value)
	}
	if !ok || !exact.IsInt() {
		d.fail(attribute, "a whole number")
		return 0, 0
	}
	whole, rest := new(big.Int).DivMod(exact.Num(), big.NewInt(bucket.Milli), new(big.Int))
	switch {
	case whole.IsInt64():
		return whole.Int64(), rest.Int64()
	case whole.Sign() < 0:
		return math.MinInt64, 0
	}
	return math.MaxInt64, 0
}

// set reads a set of strings; nil if the attribute is missing.
func (d *decoder) set(attribute string) []string {
	v, present := d.item[attribute]
	if !present {
		return nil
	}
	set, ok := v.(*types.AttributeValueMemberSS)
	if !ok {
		d.fail(attribute, "a set of strings")
		return nil
	}
	return set.Value
}
