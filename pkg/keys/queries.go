package keys

import (
	"strconv"
	"strings"
)

// Query selects rows of a single partition of the table or of an index by their
// sort keys: the rows that begin with SKPrefix and, if SKTo is set, lie between
// SKFrom and SKTo, both included.
type Query struct{ PK, SKPrefix, SKFrom, SKTo string }

// Lists reports whether the query selects a row of the table or index.
func (q Query) Lists(row Key) bool {
	return row.PK == q.PK && strings.HasPrefix(row.SK, q.SKPrefix) &&
		(q.SKTo == "" || q.SKFrom <= row.SK && row.SK <= q.SKTo)
}

// Queries of the table.

// ConfigsOf selects the configs of an entity.
func ConfigsOf(namespace, entity string) Query {
	return Query{PK: entityPK(namespace, entity), SKPrefix: "#CONFIG#"}
}

// UsageOf selects the usage snapshots of an entity; resource, and then window,
// narrow the selection and may be empty.
func UsageOf(namespace, entity, resource, window string) Query {
	q := Query{PK: entityPK(namespace, entity), SKPrefix: "#USAGE#"}
	if resource != "" {
		q.SKPrefix += escape(resource) + "#"
		if window != "" {
			q.SKPrefix += window + "#"
		}
	}
	return q
}

// UsageBetween narrows UsageOf, of a resource and a window, to the starts from
// and to, both included.
func UsageBetween(q Query, from, to string) Query {
	q.SKFrom, q.SKTo = q.SKPrefix+from, q.SKPrefix+to
	return q
}

// UsageOfOverrides selects the usage snapshots, of all windows, of an entity's
// spends from a resource under limits that requests supplied themselves (see
// [OverrideResource]).
func UsageOfOverrides(namespace, entity, resource string) Query {
	return Query{PK: entityPK(namespace, entity), SKPrefix: "#USAGE#" + escape(OverrideResource(resource, ""))}
}

// AuditOf selects the audit events of an entity or level (see [Audit]), oldest
// first.
func AuditOf(namespace, id string) Query {
	return Query{PK: auditPK(namespace, id), SKPrefix: "#AUDIT#"}
}

// AuditBetween narrows AuditOf or AuditEvents to the times fromMs to toMs, in
// Unix milliseconds, both included. Bounds outside the range of audit times are
// clamped to that range.
func AuditBetween(q Query, fromMs, toMs int64) Query {
	q.SKFrom = q.SKPrefix + auditMoment(min(max(fromMs, 0), maxAuditMs))
	q.SKTo = q.SKPrefix + auditMoment(min(max(toMs, 0), maxAuditMs)) + "$" // '$' sorts after '#'
	return q
}

// AuditKeys selects the keys that seal audit events.
func AuditKeys() Query { return Query{PK: systemPK(Registry), SKPrefix: "#AUDIT_KEY#"} }

// LeaseKeys selects the keys that sign leases.
func LeaseKeys() Query { return Query{PK: systemPK(Registry), SKPrefix: "#LEASE_KEY#"} }

// Namespaces selects all namespaces by name, in order.
func Namespaces() Query { return Query{PK: systemPK(Registry), SKPrefix: "#NAMESPACE#"} }

// ResolveConfigs returns the keys of the config items that can hold the limits of an
// entity for a resource, the most specific level first.
func ResolveConfigs(namespace, entity, resource string) [4]Key {
	return [4]Key{
		EntityConfig{namespace, entity, resource}.Key(),
		EntityConfig{namespace, entity, DefaultResource}.Key(),
		ResourceConfig{namespace, resource}.Key(),
		SystemConfig{namespace}.Key(),
	}
}

// Queries of the indexes.

// ChildrenOf selects, in GSI1, the entities with the given parent.
func ChildrenOf(namespace, parent string) Query {
	return Query{PK: parentPK(namespace, parent), SKPrefix: "CHILD#"}
}

// ParentOf returns the parent of a query from ChildrenOf; ok is false for any other
// query.
func ParentOf(q Query) (parent string, ok bool) {
	_, parent, ok = strings.Cut(q.PK, "/PARENT#")
	return escape(parent), ok
}

// AuditEvents selects, in GSI1, all audit events of a namespace, oldest first.
func AuditEvents(namespace string) Query {
	return Query{PK: auditPK(namespace, ""), SKPrefix: "AUDIT#"}
}

// CapacityPartitions returns the partitions of GSI2 that together list all bucket
// shards of a resource.
func CapacityPartitions(namespace, resource string) [Spread]string {
	var pks [Spread]string
	for h := range pks {
		pks[h] = capacityPK(namespace, resource, strconv.Itoa(h))
	}
	return pks
}

// BucketsOf selects, in GSI3, all bucket shards of an entity.
func BucketsOf(namespace, entity string) Query {
	return Query{PK: entityPK(namespace, entity), SKPrefix: "BUCKET#"}
}

// EntitiesWithConfig selects, in GSI3, the entities with limits of their own for
// a resource (or DefaultResource), in order.
func EntitiesWithConfig(namespace, resource string) Query {
	return Query{PK: namespace + "/ENTITY_CONFIG#" + escape(resource)}
}

// PurgePartitions returns the partitions of GSI4 that together list everything a
// namespace holds.
func PurgePartitions(namespace string) [Spread]string {
	var pks [Spread]string
	for h := range pks {
		pks[h] = namespace + "#" + strconv.Itoa(h)
	}
	return pks
}

// Prefixes of sort keys that select a kind of item in each of PurgePartitions, and
// so list that kind across a namespace.
const (
	Configs         = "CONFIG#"
	EntityConfigs   = "CONFIG#ENTITY#"
	ResourceConfigs = "CONFIG#RESOURCE#"
	Entities        = "ENTITY#"
)
