package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// A limit's attributes on a config item are made of configPrefix, its name and
// the suffixes that a bucket item has as well, but in the units of the wire:
// whole tokens and seconds.
const (
	attrConfigVersion = "config_version"
	attrOnUnavailable = "on_unavailable"

	configPrefix = "l_"
)

// Config is the content of a config item: the settings of one config level.
type Config struct {
	Key           keys.Item   // an EntityConfig, a ResourceConfig or a SystemConfig
	Limits        []api.Limit // by name; none where the level holds other settings alone
	OnUnavailable api.Policy  // empty: the level has none
	Version       int64       // how often the item was changed since it was made, from 1
	LastWrite     string      // nonce of the last writer: versions begin again when a level was deleted, nonces do not
	More          bool        // the item has settings that this release does not know; writes leave them alone
}

// OnlyLimits reports whether nothing would be left without the limits.
func (c *Config) OnlyLimits() bool { return c.OnUnavailable == "" && !c.More }

// DecodeConfig reads a config item. The error is ErrDamaged for an item that is
// none, or that holds limits out of bounds.
func DecodeConfig(item Item) (*Config, error) {
	key, err := ItemKey(item)
	if err != nil {
		return nil, err
	}
	switch key.(type) {
	case keys.EntityConfig, keys.ResourceConfig, keys.SystemConfig:
	default:
		return nil, fmt.Errorf("%w: %s %s is no config", ErrDamaged, key.Key().PK, key.Key().SK)
	}
	d := decoder{item: item}
	c := &Config{
		Key:           key,
		OnUnavailable: api.Policy(d.text(attrOnUnavailable)),
		Version:       d.number(attrConfigVersion),
		LastWrite:     d.text(attrLastWrite),
	}
	c.Limits, c.More = d.configLimits()
	if d.err != nil {
		return nil, fmt.Errorf("%w: config %s %s: %w", ErrDamaged, key.Key().PK, key.Key().SK, d.err)
	}
	return c, nil
}

// configLimits finds the limits by their capacities, and whether there are
// attributes beyond those of this release.
func (d *decoder) configLimits() (limits []api.Limit, more bool) {
	known := map[string]bool{
		attrPK: true, attrSK: true, attrConfigVersion: true, attrOnUnavailable: true, attrLastWrite: true,
	}
	for n := 1; n <= indexes; n++ {
		pk, sk := indexAttributes(n)
		known[pk], known[sk] = true, true
	}
	for attribute := range d.item {
		name, ok := strings.CutSuffix(attribute, fieldCapacity)
		if !ok || !strings.HasPrefix(name, configPrefix) {
			continue
		}
		name = name[len(configPrefix):]
		of := configLimitAttributes(name)
		l := api.Limit{
			Name:                name,
			Capacity:            d.number(of[0]),
			RefillAmount:        d.number(of[1]),
			RefillPeriodSeconds: d.number(of[2]),
		}
		if err := l.Check(); err != nil && d.err == nil {
			d.err = fmt.Errorf("limit %.50q: %w", name, err)
		}
		limits = append(limits, l)
		for _, attribute := range of {
			known[attribute] = true
		}
	}
	slices.SortFunc(limits, func(a, b api.Limit) int { return cmp.Compare(a.Name, b.Name) })
	for attribute := range d.item {
		more = more || !known[attribute]
	}
	return limits, more
}

// configLimitAttributes names a limit's capacity, refill amount and refill
// period on a config item.
func configLimitAttributes(limit string) [3]string {
	return [3]string{
		configPrefix + limit + fieldCapacity,
		configPrefix + limit + fieldRefill,
		configPrefix + limit + fieldPeriod,
	}
}

// SetConfig is the form that replaces the limits of a config level and leaves
// every other setting alone. It is refused where somebody else changed the item
// since it was read, and then answers with the item that is there.
type SetConfig struct {
	Key           keys.Item   // an EntityConfig, a ResourceConfig or a SystemConfig
	Known         *Config     // as it was read; nil: there was none
	Limits        []api.Limit // empty: the level has no limits any more
	OnUnavailable api.Policy  // empty: as it was
	Nonce         string      // of this change; the same when the write is repeated
}

// Input is the write; it answers with the new item.
func (s *SetConfig) Input(table string) *dynamodb.UpdateItemInput {
	e := newExpression(8 + 3*len(s.Limits))
	e.requireConfig(s.Known)
	e.add(attrConfigVersion, 1)
	e.set(attrLastWrite, text(s.Nonce))
	if s.OnUnavailable != "" {
		e.set(attrOnUnavailable, text(string(s.OnUnavailable)))
	}
	kept := make(map[string]bool, len(s.Limits))
	for _, l := range s.Limits {
		kept[l.Name] = true
		of := configLimitAttributes(l.Name)
		e.set(of[0], number(l.Capacity))
		e.set(of[1], number(l.RefillAmount))
		e.set(of[2], number(l.RefillPeriodSeconds))
	}
	if s.Known == nil {
		e.setIndexes(s.Key.Indexes())
	} else {
		e.removeConfigLimits(s.Known.Limits, kept)
	}
	return &dynamodb.UpdateItemInput{
		TableName:                           &table,
		Key:                                 KeyItem(s.Key.Key()),
		UpdateExpression:                    e.update(),
		ConditionExpression:                 e.conditions(),
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           e.values,
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// DeleteConfig is the form that takes a config item away as a whole. It is
// refused as a SetConfig is.
type DeleteConfig struct {
	Known *Config // as it was read
}

// Input is the write.
func (d *DeleteConfig) Input(table string) *dynamodb.DeleteItemInput {
	e := newExpression(2)
	e.requireConfig(d.Known)
	return &dynamodb.DeleteItemInput{
		TableName:                           &table,
		Key:                                 KeyItem(d.Known.Key.Key()),
		ConditionExpression:                 e.conditions(),
		ExpressionAttributeNames:            e.names,
		ExpressionAttributeValues:           e.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// requireConfig refuses a config item that is not as it was read.
func (e *expression) requireConfig(known *Config) {
	if known == nil {
		e.requireAbsent(attrPK)
		return
	}
	e.requireEqual(attrConfigVersion, number(known.Version))
	if known.LastWrite == "" { // written by hand
		e.requireAbsent(attrLastWrite)
		return
	}
	e.requireEqual(attrLastWrite, text(known.LastWrite))
}

// removeConfigLimits removes the limits that are not kept.
func (e *expression) removeConfigLimits(limits []api.Limit, kept map[string]bool) {
	for _, l := range limits {
		if kept[l.Name] {
			continue
		}
		for _, attribute := range configLimitAttributes(l.Name) {
			e.remove(attribute)
		}
	}
}

// setIndexes sets the key attributes of the indexes an item is in.
func (e *expression) setIndexes(in keys.Indexes) {
	rows := Item{}
	putIndexes(rows, in)
	for _, attribute := range slices.Sorted(maps.Keys(rows)) {
		e.set(attribute, rows[attribute])
	}
}
