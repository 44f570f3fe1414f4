package keys

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse returns the typed value of a table key, as a kind of [Item]. It fails
// unless the key is exactly the key of a valid item.
func Parse(k Key) (Item, error) {
	item := parse(k)
	// Comparing the rebuilt key refuses keys in a non-canonical form, such as a
	// shard "07".
	if item == nil || !item.Valid() || item.Key() != k {
		return nil, fmt.Errorf("PK %.300q SK %.300q is the key of no Tidegate item", k.PK, k.SK)
	}
	return item, nil
}

// parse reads a key by its shape without checking its parts. It returns nil for an
// unknown shape.
func parse(k Key) Item {
	namespace, pk, _ := strings.Cut(k.PK, "/")
	kind, name, ok := strings.Cut(pk, "#")
	if !ok {
		return nil
	}
	switch kind {
	case "BUCKET":
		return parseBucket(namespace, name)
	case "ENTITY":
		return parseEntity(namespace, name, k.SK)
	case "RESOURCE":
		return ResourceConfig{namespace, escape(name)}
	case "AUDIT":
		return parseAudit(namespace, name, k.SK)
	case "SYSTEM":
		return parseSystem(namespace, k.SK)
	}
	return nil
}

func parseBucket(namespace, name string) Item {
	part := strings.Split(name, "#")
	if len(part) != 3 {
		return nil
	}
	shard, err := strconv.Atoi(part[2])
	if err != nil {
		return nil
	}
	return Bucket{namespace, escape(part[0]), escape(part[1]), shard}
}

func parseEntity(namespace, id, sk string) Item {
	part := strings.Split(sk, "#")
	switch {
	case len(part) == 2 && part[1] == "META":
		return Entity{namespace, escape(id)}
	case len(part) == 3 && part[1] == "CONFIG":
		return EntityConfig{namespace, escape(id), escape(part[2])}
	case len(part) == 5 && part[1] == "USAGE":
		return Usage{namespace, escape(id), escape(part[2]), part[3], part[4]}
	}
	return nil
}

func parseAudit(namespace, id, sk string) Item {
	part := strings.Split(sk, "#")
	if len(part) != 4 {
		return nil
	}
	at, err := time.Parse(auditTime, part[2])
	if err != nil {
		return nil
	}
	sequence, err := strconv.ParseInt(part[3], 10, 64)
	if err != nil {
		return nil
	}
	return Audit{namespace, escape(id), at.UnixMilli(), sequence}
}

func parseSystem(namespace, sk string) Item {
	part := strings.Split(sk, "#")
	switch {
	case len(part) == 2 && part[1] == "CONFIG":
		return SystemConfig{namespace}
	case len(part) == 2 && part[1] == "VERSION":
		return Version{namespace}
	case len(part) == 2 && part[1] == "AUDIT_SEQ":
		return AuditSeq{namespace}
	case len(part) == 2 && part[1] == "EPOCH":
		return Epoch{}
	case len(part) == 3 && part[1] == "LEASE_KEY":
		return LeaseKey{part[2]}
	case len(part) == 3 && part[1] == "AUDIT_KEY":
		return AuditKey{part[2]}
	case len(part) == 3 && part[1] == "NAMESPACE":
		return NamespaceName{part[2]}
	case len(part) == 3 && part[1] == "NSID":
		return NamespaceID{part[2]}
	}
	return nil
}
