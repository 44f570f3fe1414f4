package keys

import "strconv"

// Query is one partition of the table or of an index, and what the sort keys
// asked for begin with; empty means all of them.
type Query struct{ PK, SKPrefix string }

// Queries of the table.

// ConfigsOf finds the configs of an entity.
func ConfigsOf(namespace, entity string) Query {
	return Query{entityPK(namespace, entity), "#CONFIG#"}
}

// UsageOf finds the usage snapshots of an entity; resource, and then window,
// narrow it and may be empty.
func UsageOf(namespace, entity, resource, window string) Query {
	q := Query{entityPK(namespace, entity), "#USAGE#"}
	if resource != "" {
		q.SKPrefix += resource + "#"
		if window != "" {
			q.SKPrefix += window + "#"
		}
	}
	return q
}

// AuditOf finds the audit events of an entity or level (see [Audit]), oldest
// first.
func AuditOf(namespace, id string) Query { return Query{auditPK(namespace, id), "#AUDIT#"} }

// LeaseKeys finds the keys that sign leases.
func LeaseKeys() Query { return Query{systemPK(Registry), "#LEASE_KEY#"} }

// Namespaces finds all namespaces by name, in order.
func Namespaces() Query { return Query{systemPK(Registry), "#NAMESPACE#"} }

// ResolveConfigs are the config items that can hold the limits of an entity for
// a resource, the level that wins first.
func ResolveConfigs(namespace, entity, resource string) [4]Key {
	return [4]Key{
		EntityConfig{namespace, entity, resource}.Key(),
		EntityConfig{namespace, entity, DefaultResource}.Key(),
		ResourceConfig{namespace, resource}.Key(),
		SystemConfig{namespace}.Key(),
	}
}

// Queries of the indexes.

// ChildrenOf finds, in GSI1, the entities whose parent this is.
func ChildrenOf(namespace, parent string) Query {
	return Query{parentPK(namespace, parent), "CHILD#"}
}

// CapacityPartitions are the partitions of GSI2 that together list all bucket
// shards of a resource.
func CapacityPartitions(namespace, resource string) [Spread]string {
	var pks [Spread]string
	for h := range pks {
		pks[h] = capacityPK(namespace, resource, strconv.Itoa(h))
	}
	return pks
}

// BucketsOf finds, in GSI3, all bucket shards of an entity.
func BucketsOf(namespace, entity string) Query {
	return Query{entityPK(namespace, entity), "BUCKET#"}
}

// EntitiesWithConfig finds, in GSI3, the entities with limits of their own for
// a resource (or DefaultResource), in order.
func EntitiesWithConfig(namespace, resource string) Query {
	return Query{PK: namespace + "/ENTITY_CONFIG#" + resource}
}

// PurgePartitions are the partitions of GSI4 that together list everything a
// namespace holds.
func PurgePartitions(namespace string) [Spread]string {
	var pks [Spread]string
	for h := range pks {
		pks[h] = namespace + "#" + strconv.Itoa(h)
	}
	return pks
}

// What the sort keys of one kind begin with in every one of PurgePartitions:
// it lists that kind across a namespace.
const (
	Configs         = "CONFIG#"
	EntityConfigs   = "CONFIG#ENTITY#"
	ResourceConfigs = "CONFIG#RESOURCE#"
)
