package events

import (
	"encoding/json"

	"github.com/tidegate/tidegate/pkg/keys"
)

// Kind is the kind of the item that an event is about.
type Kind string

// The kinds.
const (
	KindBucket    Kind = "bucket"    // a bucket shard
	KindConfig    Kind = "config"    // limits and policies of a config level
	KindEntity    Kind = "entity"    // an entity's own item
	KindAudit     Kind = "audit"     // an audit event
	KindNamespace Kind = "namespace" // a name in the registry
)

// versions returns, by kind, the version of images that this release writes and
// reads. A change of meaning raises it; a new field does not.
func versions() map[Kind]int {
	return map[Kind]int{KindBucket: 1, KindConfig: 1, KindEntity: 1, KindAudit: 1, KindNamespace: 1}
}

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{KindBucket, KindConfig, KindEntity, KindAudit, KindNamespace} }

// Event describes a change of an item. The change field of the event's kind is set;
// the others are nil.
type Event struct {
	Position Position
	AtMs     int64 // time of the change, Unix milliseconds; DynamoDB's resolution is a second
	Expired  bool  // the item's ttl had passed, and DynamoDB deleted it
	Key      keys.Item

	Bucket    *Change[Bucket]
	Config    *Change[Config]
	Entity    *Change[Entity]
	Audit     *Change[Audit]
	Namespace *Change[Namespace]
}

// Kind returns the event's kind, empty if no change is set.
func (e *Event) Kind() Kind {
	switch {
	case e.Bucket != nil:
		return KindBucket
	case e.Config != nil:
		return KindConfig
	case e.Entity != nil:
		return KindEntity
	case e.Audit != nil:
		return KindAudit
	case e.Namespace != nil:
		return KindNamespace
	}
	return ""
}

// Change holds the images of an item before and after. Old is nil if the item was
// created, New if it was deleted.
type Change[T any] struct {
	Old *T `json:"old,omitempty"`
	New *T `json:"new,omitempty"`
}

func (c *Change[T]) empty() bool { return c.Old == nil && c.New == nil }

// Bucket is the image of a bucket shard. Amounts are millitokens.
type Bucket struct {
	ShardCount  int           `json:"shard_count"`    // the shard's split level
	Want        int           `json:"want,omitempty"` // on shard 0: the target number of shards
	Limits      []BucketLimit `json:"limits"`         // by name
	Fingerprint string        `json:"cfg"`            // of the settings that the item was last synced to
	Cascade     bool          `json:"cascade,omitempty"`
	Parent      string        `json:"parent,omitempty"`
	Acquires    int64         `json:"acquires"`    // admitted, cumulative
	WriteUnits  int64         `json:"write_units"` // write capacity units that the item has cost, cumulative
	ExpiresAt   int64         `json:"expires_at,omitempty"`
}

// BucketLimit holds a limit of a bucket shard. The settings are undivided: they
// apply to the whole bucket.
type BucketLimit struct {
	Name     string `json:"name"`
	Capacity int64  `json:"capacity_milli"`
	Refill   int64  `json:"refill_milli"`
	PeriodMs int64  `json:"period_ms"`
	Drawn    int64  `json:"drawn_milli"`
	Consumed int64  `json:"consumed_milli"` // net, cumulative
}

// Config is the image of a config item, reduced to the settings that govern
// acquires. It leaves out the managing manifest and the retention of audit events,
// which matter only when an item is written; a change of them alone has two images
// that differ only in the version. Amounts are whole tokens, as in requests.
type Config struct {
	Limits        []ConfigLimit `json:"limits"`
	OnUnavailable string        `json:"on_unavailable,omitempty"`
	Version       int64         `json:"version"`
}

// ConfigLimit is a stored limit.
type ConfigLimit struct {
	Name                string `json:"name"`
	Capacity            int64  `json:"capacity"`
	RefillAmount        int64  `json:"refill_amount"`
	RefillPeriodSeconds int64  `json:"refill_period_seconds"`
}

// Entity is the image of an entity item.
type Entity struct {
	Name     string            `json:"name,omitempty"`
	Parent   string            `json:"parent,omitempty"`
	Cascade  bool              `json:"cascade,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Version  int64             `json:"version"`
}

// Namespace is the image of a name in the registry.
type Namespace struct {
	ID        string `json:"id"`
	DeletedMs int64  `json:"deleted_ms,omitempty"` // Unix milliseconds; 0 while the namespace is in use
}

// Audit is the image of an audit event, the record of an administrative change. The
// event's key holds the changed target, the time, and the number in the namespace.
type Audit struct {
	Record json.RawMessage `json:"record"` // the event in the JSON form of the audit verbs
}
