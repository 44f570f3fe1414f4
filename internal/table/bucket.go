package table

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/bucket"
	"github.com/tidegate/tidegate/pkg/keys"
)

// Item is an item as the SDK carries it.
type Item = map[string]types.AttributeValue

// Bucket is the content of a bucket item: a shard of a bucket.
type Bucket struct {
	Key         keys.Bucket
	Level       int     // this shard's split level: of how many shards it is one
	Want        int     // how many shards are wanted; shard 0 only, else 0
	Limits      []Limit // by name; limits taken out of the configuration stay until they would be full
	Fingerprint string  // of the settings this item was last synced to
	Cascade     bool    // an acquire also spends from Parent
	Parent      string  // entity id, empty for none
	Acquires    int64   // admitted, cumulative
	WriteUnits  int64   // write capacity units this item has cost, cumulative
	LastWrite   string  // nonce of the last writer
	TTL         int64   // epoch seconds, 0 for none
}

// Limit is a limit on a bucket item.
type Limit struct {
	bucket.Limit       // settings of the whole bucket, undivided
	Drawn        int64 // millitokens of this shard's refill count already spent or overflowed
	Consumed     int64 // millitokens spent on this shard, net, cumulative
}

// Shard returns the shard's index and the number of shards at its split level.
func (b *Bucket) Shard() bucket.Shard { return bucket.Shard{Index: b.Key.Shard, Count: b.Level} }

// Find returns the limit of a name, or nil.
func (b *Bucket) Find(name string) *Limit {
	for i := range b.Limits {
		if b.Limits[i].Name == name {
			return &b.Limits[i]
		}
	}
	return nil
}

// LimitSettings returns the settings of the item's limits.
func (b *Bucket) LimitSettings() []bucket.Limit {
	settings := make([]bucket.Limit, len(b.Limits))
	for i := range b.Limits {
		settings[i] = b.Limits[i].Limit
	}
	return settings
}

// EncodeBucket returns the whole item, index keys included.
func EncodeBucket(b *Bucket) Item {
	key := b.Key.Key()
	item := Item{
		attrPK:         text(key.PK),
		attrSK:         text(key.SK),
		attrLevel:      number(int64(b.Level)),
		attrPrint:      text(b.Fingerprint),
		attrLastWrite:  text(b.LastWrite),
		attrAcquires:   number(b.Acquires),
		attrWriteUnits: number(b.WriteUnits),
	}
	putIndexes(item, b.Key.Indexes())
	if b.Want != 0 {
		item[attrWant] = number(int64(b.Want))
	}
	if b.Cascade {
		item[attrCascade] = boolean(true)
	}
	if b.Parent != "" {
		item[attrParent] = text(b.Parent)
	}
	if b.TTL != 0 {
		item[attrTTL] = number(b.TTL)
	}
	for _, l := range b.Limits {
		item[capacityOf(l.Name)] = number(l.Capacity)
		item[refillOf(l.Name)] = number(l.Refill)
		item[periodOf(l.Name)] = number(l.Period)
		item[drawnOf(l.Name)] = number(l.Drawn)
		item[consumedOf(l.Name)] = number(l.Consumed)
	}
	return item
}

// DecodeBucket reads a bucket item; the error is ErrDamaged. Attributes of later
// versions are ignored.
func DecodeBucket(item Item) (*Bucket, error) {
	key, err := BucketKey(item)
	if err != nil {
		return nil, err
	}
	d := decoder{item: item}
	b := &Bucket{
		Key:         key,
		Level:       int(d.number(attrLevel)),
		Want:        int(d.optional(attrWant)),
		Fingerprint: d.text(attrPrint),
		Cascade:     d.boolean(attrCascade),
		Parent:      d.text(attrParent),
		Acquires:    d.counter(attrAcquires),
		WriteUnits:  d.counter(attrWriteUnits),
		LastWrite:   d.text(attrLastWrite),
		TTL:         d.optional(attrTTL),
	}
	b.Limits = d.limits()
	if d.err == nil {
		d.err = b.check()
	}
	if d.err != nil {
		return nil, fmt.Errorf("%w: bucket item %s: %w", ErrDamaged, key.Key().PK, d.err)
	}
	return b, nil
}

// check fails if the arithmetic of package bucket cannot handle the item.
func (b *Bucket) check() error {
	if !b.Shard().Possible() {
		return fmt.Errorf("shard_count %d does not fit shard %d", b.Level, b.Key.Shard)
	}
	if zero := (bucket.Shard{Count: b.Want}); b.Want != 0 && !zero.Possible() {
		return fmt.Errorf("want is %d", b.Want)
	}
	for i := range b.Limits {
		if err := b.Limits[i].Validate(); err != nil {
			return fmt.Errorf("limit %s: %w", b.Limits[i].Name, err)
		}
	}
	return nil
}

// BucketKey reads the key of a bucket item, or of its row in an index.
func BucketKey(item Item) (keys.Bucket, error) {
	parsed, err := ItemKey(item)
	if err != nil {
		return keys.Bucket{}, err
	}
	key, ok := parsed.(keys.Bucket)
	if !ok {
		return keys.Bucket{}, fmt.Errorf("%w: %s is no bucket", ErrDamaged, parsed.Key().PK)
	}
	return key, nil
}

// decoder reads typed attributes and keeps the first error.
type decoder struct {
	item Item
	err  error
}

func (d *decoder) fail(attribute, want string) {
	if d.err == nil {
		d.err = fmt.Errorf("attribute %s is not %s", attribute, want)
	}
}

func (d *decoder) text(attribute string) string {
	v, present := d.item[attribute]
	if !present {
		return ""
	}
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		d.fail(attribute, "a string")
		return ""
	}
	return s.Value
}

func (d *decoder) boolean(attribute string) bool {
	v, present := d.item[attribute]
	if !present {
		return false
	}
	b, ok := v.(*types.AttributeValueMemberBOOL)
	if !ok {
		d.fail(attribute, "a boolean")
		return false
	}
	return b.Value
}

// optional reads a whole number; 0 if the attribute is missing.
func (d *decoder) optional(attribute string) int64 {
	if _, present := d.item[attribute]; !present {
		return 0
	}
	return d.number(attribute)
}

// counter reads a number that only grows, so that the store does not bound it.
// Numbers beyond 64 bits become the largest int64.
func (d *decoder) counter(attribute string) int64 {
	v, ok := d.item[attribute].(*types.AttributeValueMemberN)
	if !ok {
		return d.optional(attribute)
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		d.fail(attribute, "a whole number")
	}
	return n
}

func (d *decoder) number(attribute string) int64 {
	v, ok := d.item[attribute].(*types.AttributeValueMemberN)
	if !ok {
		d.fail(attribute, "a whole number")
		return 0
	}
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil {
		d.fail(attribute, "a whole number of 64 bits")
	}
	return n
}

// limits finds the limits by their drawn counts.
func (d *decoder) limits() []Limit {
	found := make([]Limit, 0, 4)
	for attribute := range d.item {
		name, ok := strings.CutSuffix(attribute, fieldDrawn)
		if !ok || !strings.HasPrefix(name, bucketPrefix) {
			continue
		}
		name = name[len(bucketPrefix):]
		found = append(found, Limit{
			Limit: bucket.Limit{
				Name:     name,
				Capacity: d.number(capacityOf(name)),
				Refill:   d.number(refillOf(name)),
				Period:   d.number(periodOf(name)),
			},
			Drawn:    d.number(attribute),
			Consumed: d.counter(consumedOf(name)),
		})
	}
	slices.SortFunc(found, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Clip(found)
}

// putIndexes adds the key attributes of the indexes an item is in.
func putIndexes(item Item, in keys.Indexes) {
	for i, k := range []*keys.Key{in.GSI1, in.GSI2, in.GSI3, in.GSI4} {
		if k != nil {
			pk, sk := indexAttributes(i + 1)
			item[pk], item[sk] = text(k.PK), text(k.SK)
		}
	}
}
