package keys

import (
	"fmt"
	"strconv"
	"time"
)

// Entity is a rate-limited caller: an API key, a user, a project.
type Entity struct{ Namespace, ID string }

// Key returns the key of the entity's own item; its configs and usage snapshots have
// the same partition key.
func (e Entity) Key() Key { return Key{entityPK(e.Namespace, e.ID), "#META"} }

// Indexes returns the keys of an entity without a parent.
func (e Entity) Indexes() Indexes {
	return Indexes{GSI4: everything(e.Namespace, e.Key(), "ENTITY#"+escape(e.ID))}
}

// IndexesUnder returns the Indexes of an entity with a parent.
func (e Entity) IndexesUnder(parent string) Indexes {
	in := e.Indexes()
	in.GSI1 = &Key{parentPK(e.Namespace, parent), "CHILD#" + escape(e.ID)}
	return in
}

// Valid implements Item.
func (e Entity) Valid() bool { return ValidNamespaceID(e.Namespace) && validName(e.ID, maxName) }

// Bucket is a shard of the bucket of an entity and a resource.
type Bucket struct {
	Namespace, Entity, Resource string
	Shard                       int
}

// Key returns the key of the shard's item. Every shard has its own partition.
func (b Bucket) Key() Key {
	return Key{b.Namespace + "/BUCKET#" + escape(b.Entity) + "#" + escape(b.Resource) + "#" + strconv.Itoa(b.Shard), "#STATE"}
}

// Indexes implements Item.
func (b Bucket) Indexes() Indexes {
	entity, resource, shard := escape(b.Entity), escape(b.Resource), strconv.Itoa(b.Shard)
	return Indexes{
		GSI2: &Key{capacityPK(b.Namespace, b.Resource, spread(b.Entity)), "BUCKET#" + entity + "#" + shard},
		GSI3: &Key{entityPK(b.Namespace, b.Entity), "BUCKET#" + resource + "#" + shard},
		GSI4: everything(b.Namespace, b.Key(), "BUCKET#"+entity+"#"+resource+"#"+shard),
	}
}

// Valid implements Item.
func (b Bucket) Valid() bool {
	return ValidNamespaceID(b.Namespace) && validName(b.Entity, maxName) && validResource(b.Resource) && b.Shard >= 0
}

// EntityConfig holds an entity's limits for a resource or, with DefaultResource,
// for all resources without a config of their own.
type EntityConfig struct{ Namespace, Entity, Resource string }

// Key implements Item.
func (c EntityConfig) Key() Key {
	return Key{entityPK(c.Namespace, c.Entity), "#CONFIG#" + escape(c.Resource)}
}

// Indexes implements Item.
func (c EntityConfig) Indexes() Indexes {
	return Indexes{
		GSI3: &Key{c.Namespace + "/ENTITY_CONFIG#" + escape(c.Resource), escape(c.Entity)},
		GSI4: everything(c.Namespace, c.Key(), "CONFIG#ENTITY#"+escape(c.Entity)+"#"+escape(c.Resource)),
	}
}

// Valid implements Item.
func (c EntityConfig) Valid() bool {
	return ValidNamespaceID(c.Namespace) && validName(c.Entity, maxName) && validName(c.Resource, maxName)
}

// ResourceConfig holds the limits of all entities for a resource.
type ResourceConfig struct{ Namespace, Resource string }

// Key implements Item.
func (c ResourceConfig) Key() Key {
	return Key{c.Namespace + "/RESOURCE#" + escape(c.Resource), "#CONFIG"}
}

// Indexes implements Item.
func (c ResourceConfig) Indexes() Indexes {
	return Indexes{GSI4: everything(c.Namespace, c.Key(), "CONFIG#RESOURCE#"+escape(c.Resource))}
}

// Valid implements Item.
func (c ResourceConfig) Valid() bool {
	return ValidNamespaceID(c.Namespace) && validName(c.Resource, maxName)
}

// SystemConfig holds the limits that apply if no other level sets any.
type SystemConfig struct{ Namespace string }

// Key implements Item.
func (c SystemConfig) Key() Key { return Key{systemPK(c.Namespace), "#CONFIG"} }

// Indexes implements Item.
func (c SystemConfig) Indexes() Indexes {
	return Indexes{GSI4: everything(c.Namespace, c.Key(), "CONFIG#SYSTEM")}
}

// Valid implements Item.
func (c SystemConfig) Valid() bool { return ValidNamespaceID(c.Namespace) }

// Usage is the snapshot of an entity's usage of a resource in a window, such as
// "hourly". Start is the window's first moment in a form that sorts by time. The
// key contains the window, since an hourly and a daily window both start at midnight.
type Usage struct{ Namespace, Entity, Resource, Window, Start string }

// Key implements Item.
func (u Usage) Key() Key {
	return Key{entityPK(u.Namespace, u.Entity), "#USAGE#" + escape(u.Resource) + "#" + u.Window + "#" + u.Start}
}

// Indexes implements Item.
func (u Usage) Indexes() Indexes {
	sk := "USAGE#" + escape(u.Entity) + "#" + escape(u.Resource) + "#" + u.Window + "#" + u.Start
	return Indexes{GSI4: everything(u.Namespace, u.Key(), sk)}
}

// Valid implements Item.
func (u Usage) Valid() bool {
	return ValidNamespaceID(u.Namespace) && validName(u.Entity, maxName) && validResource(u.Resource) &&
		validPart(u.Window) && validPart(u.Start)
}

// Version is the schema version of a namespace or, under Registry, of the table.
type Version struct{ Namespace string }

// Key implements Item.
func (v Version) Key() Key { return Key{systemPK(v.Namespace), "#VERSION"} }

// Indexes implements Item.
func (v Version) Indexes() Indexes { return listed(v.Namespace, v.Key(), "VERSION") }

// Valid implements Item.
func (v Version) Valid() bool { return validNamespace(v.Namespace) }

// Audit is an audit event. ID is [AuditEntity] of the entity that changed, or
// [AuditSystem], or [AuditResource] of a resource; in the registry, [AuditNamespace] of a namespace
// or [AuditLeaseKeys]. AtMs is the time of the change, in Unix milliseconds.
// Sequence identifies and orders the events within a namespace.
type Audit struct {
	Namespace, ID  string
	AtMs, Sequence int64
}

// AuditEntity returns the audit id of changes to an entity: its own id, after a '=' if it
// begins like the id of something else.
func AuditEntity(id string) string {
	if id != "" && (id[0] == '$' || id[0] == '=') {
		return "=" + id
	}
	return id
}

// AuditResource returns the audit id of changes to a resource's level.
func AuditResource(resource string) string { return "$RESOURCE:" + resource }

// AuditNamespace returns the audit id, in the registry, of changes to a namespace.
func AuditNamespace(name string) string { return "$NAMESPACE:" + name }

// Times of audit keys have a fixed width, so that they sort by time.
const (
	auditTime  = "2006-01-02T15:04:05.000Z"
	maxAuditMs = 253402300799999 // the end of the year 9999
)

// Key implements Item.
func (a Audit) Key() Key {
	return Key{auditPK(a.Namespace, a.ID), "#AUDIT#" + a.moment()}
}

// Indexes implements Item. GSI1 lists the events of a namespace in order, including
// the registry's. A single partition suffices: every event of a namespace
// increments the same [AuditSeq] item, which keeps events few.
func (a Audit) Indexes() Indexes {
	in := listed(a.Namespace, a.Key(), "AUDIT#"+escape(a.ID)+"#"+a.moment())
	in.GSI1 = &Key{auditPK(a.Namespace, ""), "AUDIT#" + a.moment()}
	return in
}

// Valid implements Item.
func (a Audit) Valid() bool {
	return validNamespace(a.Namespace) && validName(a.ID, maxPart) &&
		a.AtMs >= 0 && a.AtMs <= maxAuditMs && a.Sequence >= 0
}

func (a Audit) moment() string { return auditMoment(a.AtMs) + "#" + fmt.Sprintf("%019d", a.Sequence) }

func auditMoment(atMs int64) string { return time.UnixMilli(atMs).UTC().Format(auditTime) }

// AuditSeq is the counter of the audit events of a namespace.
type AuditSeq struct{ Namespace string }

// Key implements Item.
func (s AuditSeq) Key() Key { return Key{systemPK(s.Namespace), "#AUDIT_SEQ"} }

// Indexes implements Item.
func (s AuditSeq) Indexes() Indexes { return listed(s.Namespace, s.Key(), "AUDIT_SEQ") }

// Valid implements Item.
func (s AuditSeq) Valid() bool { return validNamespace(s.Namespace) }

// LeaseKey is a key that signs leases. Neither the indexes nor
// the change feed contain it.
type LeaseKey struct{ ID string }

// Key implements Item.
func (l LeaseKey) Key() Key { return Key{systemPK(Registry), "#LEASE_KEY#" + l.ID} }

// Indexes implements Item.
func (LeaseKey) Indexes() Indexes { return Indexes{} }

// Valid implements Item.
func (l LeaseKey) Valid() bool { return validPart(l.ID) }

// AuditKey is a key that seals audit events. Neither the indexes nor
// the change feed contain it.
type AuditKey struct{ ID string }

// Key implements Item.
func (a AuditKey) Key() Key { return Key{systemPK(Registry), "#AUDIT_KEY#" + a.ID} }

// Indexes implements Item.
func (AuditKey) Indexes() Indexes { return Indexes{} }

// Valid implements Item.
func (a AuditKey) Valid() bool { return validPart(a.ID) }

// Epoch counts how often NATS was found to have forgotten settlements. The item is
// in the registry; neither the indexes nor the change feed contain it.
type Epoch struct{}

// Key implements Item.
func (Epoch) Key() Key { return Key{systemPK(Registry), "#EPOCH"} }

// Indexes implements Item.
func (Epoch) Indexes() Indexes { return Indexes{} }

// Valid implements Item.
func (Epoch) Valid() bool { return true }

// NamespaceName is the registry's item that maps a namespace's name to its id.
type NamespaceName struct{ Name string }

// Key implements Item.
func (n NamespaceName) Key() Key { return Key{systemPK(Registry), "#NAMESPACE#" + n.Name} }

// Indexes implements Item.
func (NamespaceName) Indexes() Indexes { return Indexes{} }

// Valid implements Item.
func (n NamespaceName) Valid() bool { return validPart(n.Name) }

// NamespaceID is the registry's item that maps a namespace's id to its name.
type NamespaceID struct{ ID string }

// Key implements Item.
func (n NamespaceID) Key() Key { return Key{systemPK(Registry), "#NSID#" + n.ID} }

// Indexes implements Item.
func (NamespaceID) Indexes() Indexes { return Indexes{} }

// Valid implements Item.
func (n NamespaceID) Valid() bool { return ValidNamespaceID(n.ID) }

func entityPK(namespace, id string) string     { return namespace + "/ENTITY#" + escape(id) }
func parentPK(namespace, parent string) string { return namespace + "/PARENT#" + escape(parent) }
func auditPK(namespace, id string) string      { return namespace + "/AUDIT#" + escape(id) }
func systemPK(namespace string) string         { return namespace + "/SYSTEM#" }

func capacityPK(namespace, resource, part string) string {
	return namespace + "/RESOURCE#" + escape(resource) + "#" + part
}

// listed returns the indexes of an item that only GSI4 lists. GSI4 never lists the
// registry's items, since the registry cannot be purged.
func listed(namespace string, table Key, sk string) Indexes {
	if namespace == Registry {
		return Indexes{}
	}
	return Indexes{GSI4: everything(namespace, table, sk)}
}

// usageStart is the format of [Usage.Start]. It sorts by time.
const usageStart = "2006-01-02T15:04:05Z"

// UsageStart formats the first moment of a span for [Usage.Start].
func UsageStart(start time.Time) string { return start.UTC().Format(usageStart) }

// ParseUsageStart parses the text of UsageStart.
func ParseUsageStart(text string) (time.Time, error) { return time.Parse(usageStart, text) }
