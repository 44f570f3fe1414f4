package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// A limit's attributes on a config item consist of configPrefix, the limit's name
// and the suffixes of a bucket item. Their units are those of the wire: whole
// tokens and seconds.
const (
	attrConfigVersion = "config_version"
	attrOnUnavailable = "on_unavailable"
	attrManifest      = "manifest"
	attrRetention     = "retention_days"

	configPrefix = "l_"
)

// Config is the content of a config item: the settings of a config level.
type Config struct {
	Key           keys.Item   // an EntityConfig, a ResourceConfig or a SystemConfig
	Limits        []api.Limit // by name; none where the level holds other settings alone
	OnUnavailable api.Policy  // empty: the level has none
	Manifest      string      // that set the limits; empty: none
	RetentionDays int64       // how long audit events are kept; of a system's level alone, 0 for none
	Version       int64       // how often the item was changed since it was made, from 1
	LastWrite     string      // nonce of the last writer: versions begin again when a level was deleted, nonces do not
	More          bool        // the item has settings that this release does not know; writes leave them alone
}

// OnlyLimits reports whether the item has no settings except limits.
func (c *Config) OnlyLimits() bool { return c.Policies() == (Policies{}) && !c.More }

// OnlyPolicy reports whether the item has no settings except policies.
func (c *Config) OnlyPolicy() bool { return len(c.Limits) == 0 && !c.More }

// Policies are the settings of a config level that are not limits.
type Policies struct {
	OnUnavailable api.Policy // empty: none
	RetentionDays int64      // how long audit events are kept, in days; 0: not said
}

// Policies returns the policies of the level; c may be nil.
func (c *Config) Policies() Policies {
	if c == nil {
		return Policies{}
	}
	return Policies{OnUnavailable: c.OnUnavailable, RetentionDays: c.RetentionDays}
}

// DecodeConfig reads a config item. The error is ErrDamaged if the item is
// malformed or has limits out of bounds.
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
		Manifest:      d.text(attrManifest),
		RetentionDays: d.optional(attrRetention),
		Version:       d.number(attrConfigVersion),
		LastWrite:     d.text(attrLastWrite),
	}
	c.Limits, c.More = d.configLimits()
	if d.err != nil {
		return nil, fmt.Errorf("%w: config %s %s: %w", ErrDamaged, key.Key().PK, key.Key().SK, d.err)
	}
	return c, nil
}

// configLimits finds the limits by their capacities. more reports attributes of
// later releases.
func (d *decoder) configLimits() (limits []api.Limit, more bool) {
	known := map[string]bool{
		attrPK: true, attrSK: true, attrConfigVersion: true, attrOnUnavailable: true, attrManifest: true, attrRetention: true, attrLastWrite: true,
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

// configLimitAttributes returns the names of a limit's capacity, refill amount and
// refill period on a config item.
func configLimitAttributes(limit string) [3]string {
	return [3]string{
		configPrefix + limit + fieldCapacity,
		configPrefix + limit + fieldRefill,
		configPrefix + limit + fieldPeriod,
	}
}

// SetConfig is the form that replaces the limits of a config level and keeps its
// other settings. It is refused if the item has changed since it was read.
type SetConfig struct {
	Key           keys.Item   // an EntityConfig, a ResourceConfig or a SystemConfig
	Known         *Config     // as it was read; nil: there was none
	Limits        []api.Limit // empty: the level has no limits any more
	OnUnavailable api.Policy  // empty: as it was
	Manifest      string      // that sets the limits; empty: none, whichever it was
	Nonce         string      // of this change
}

// Apply returns the item after the write.
func (s *SetConfig) Apply() *Config {
	after := Config{Key: s.Key}
	if s.Known != nil {
		after = *s.Known
	}
	after.Limits, after.Manifest, after.LastWrite = s.Limits, s.Manifest, s.Nonce
	after.Version++
	if s.OnUnavailable != "" {
		after.OnUnavailable = s.OnUnavailable
	}
	return &after
}

// Write returns the write for a transaction.
func (s *SetConfig) Write(table string) types.TransactWriteItem {
	e := newConfigChange(8+3*len(s.Limits), s.Known, s.Nonce)
	if s.OnUnavailable != "" {
		e.set(attrOnUnavailable, text(string(s.OnUnavailable)))
	}
	if s.Manifest != "" {
		e.set(attrManifest, text(s.Manifest))
	} else if s.Known != nil && s.Known.Manifest != "" {
		e.remove(attrManifest)
	}
	kept := make(map[string]bool, len(s.Limits))
	for _, l := range s.Limits {
		kept[l.Name] = true
		of := configLimitAttributes(l.Name)
		e.set(of[0], number(l.Capacity))
		e.set(of[1], number(l.RefillAmount))
		e.set(of[2], number(l.RefillPeriodSeconds))
	}
	if s.Known != nil {
		e.removeConfigLimits(s.Known.Limits, kept)
	}
	return e.configWrite(table, s.Key, s.Known)
}

// SetPolicy is the form that replaces the policies of a config level and keeps its
// other settings. It is refused as SetConfig is.
type SetPolicy struct {
	Key      keys.Item // an EntityConfig, a ResourceConfig or a SystemConfig
	Known    *Config   // as it was read; nil: there was none
	Policies Policies  // all of them, also those that stay
	Nonce    string    // of this change
}

// Apply returns the item after the write.
func (s *SetPolicy) Apply() *Config {
	after := Config{Key: s.Key}
	if s.Known != nil {
		after = *s.Known
	}
	after.OnUnavailable, after.RetentionDays = s.Policies.OnUnavailable, s.Policies.RetentionDays
	after.LastWrite = s.Nonce
	after.Version++
	return &after
}

// Write returns the write for a transaction.
func (s *SetPolicy) Write(table string) types.TransactWriteItem {
	e := newConfigChange(8, s.Known, s.Nonce)
	if policy := s.Policies.OnUnavailable; policy != "" {
		e.set(attrOnUnavailable, text(string(policy)))
	} else {
		e.remove(attrOnUnavailable)
	}
	if days := s.Policies.RetentionDays; days != 0 {
		e.set(attrRetention, number(days))
	} else {
		e.remove(attrRetention)
	}
	return e.configWrite(table, s.Key, s.Known)
}

// newConfigChange begins a change of a config item: it increments the version and
// sets the nonce.
func newConfigChange(n int, known *Config, nonce string) *expression {
	e := newExpression(n)
	e.requireConfig(known)
	e.add(attrConfigVersion, 1)
	e.set(attrLastWrite, text(nonce))
	return e
}

// configWrite returns the write of a change of a config item. A new item also gets
// its index keys.
func (e *expression) configWrite(table string, key keys.Item, known *Config) types.TransactWriteItem {
	if known == nil {
		e.setIndexes(key.Indexes())
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 &table,
		Key:                       KeyItem(key.Key()),
		UpdateExpression:          e.update(),
		ConditionExpression:       e.conditions(),
		ExpressionAttributeNames:  e.names,
		ExpressionAttributeValues: e.values,
	}}
}

// DeleteConfig is the form that deletes a config item. It is refused as SetConfig
// is.
type DeleteConfig struct {
	Known *Config // as it was read
}

// Write returns the write for a transaction.
func (d *DeleteConfig) Write(table string) types.TransactWriteItem {
	c := newCondition(2)
	c.requireConfig(d.Known)
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName:                 &table,
		Key:                       KeyItem(d.Known.Key.Key()),
		ConditionExpression:       c.conditions(),
		ExpressionAttributeNames:  c.names,
		ExpressionAttributeValues: c.values,
	}}
}

// requireConfig requires that a config item is as it was read.
func (c *condition) requireConfig(known *Config) {
	if known == nil {
		c.requireAbsent(attrPK)
		return
	}
	c.requireEqual(attrConfigVersion, number(known.Version))
	if known.LastWrite == "" { // written by hand
		c.requireAbsent(attrLastWrite)
		return
	}
	c.requireEqual(attrLastWrite, text(known.LastWrite))
}

// removeConfigLimits removes the limits that are not in kept.
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

// setIndexes sets the key attributes of the item's indexes.
func (e *expression) setIndexes(in keys.Indexes) {
	rows := Item{}
	putIndexes(rows, in)
	for _, attribute := range slices.Sorted(maps.Keys(rows)) {
		e.set(attribute, rows[attribute])
	}
}
