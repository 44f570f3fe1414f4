package keys_test

import (
	"bytes"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/keys"
)

var update = flag.Bool("update", false, "write the golden files")

const ns = "AbCdEfGhIjI"

// examples has every kind of item.
func examples() []keys.Item {
	return []keys.Item{
		keys.Entity{Namespace: ns, ID: "api-key-123"},
		keys.Bucket{Namespace: ns, Entity: "api-key-123", Resource: "openai/gpt-4", Shard: 0},
		keys.Bucket{Namespace: ns, Entity: "api-key-123", Resource: "openai/gpt-4", Shard: 13},
		keys.Bucket{Namespace: ns, Entity: "api-key-123", Resource: keys.OverrideResource("gpt-4", "k3J9x1QaZ0c"), Shard: 0},
		keys.EntityConfig{Namespace: ns, Entity: "api-key-123", Resource: "gpt-4"},
		keys.EntityConfig{Namespace: ns, Entity: "api-key-123", Resource: keys.DefaultResource},
		keys.ResourceConfig{Namespace: ns, Resource: "gpt-4"},
		keys.SystemConfig{Namespace: ns},
		keys.Usage{Namespace: ns, Entity: "api-key-123", Resource: "gpt-4", Window: "hourly", Start: "2025-01-01T00:00:00Z"},
		keys.Usage{Namespace: ns, Entity: "api-key-123", Resource: "gpt-4", Window: "daily", Start: "2025-01-01T00:00:00Z"},
		keys.Version{Namespace: ns},
		keys.Version{Namespace: keys.Registry},
		keys.Audit{Namespace: ns, ID: "api-key-123", AtMs: 1735689600123, Sequence: 42},
		keys.Audit{Namespace: ns, ID: keys.AuditSystem, AtMs: 1735689600123, Sequence: 43},
		keys.Audit{Namespace: ns, ID: keys.AuditResource("gpt-4"), AtMs: 1735689600123, Sequence: 44},
		keys.Audit{Namespace: keys.Registry, ID: keys.AuditSystem, AtMs: 0, Sequence: 0},
		keys.AuditSeq{Namespace: ns},
		keys.AuditSeq{Namespace: keys.Registry},
		keys.LeaseKey{ID: "k1"},
		keys.AuditKey{ID: "k1"},
		keys.Epoch{},
		keys.NamespaceName{Name: "default"},
		keys.NamespaceID{ID: ns},
	}
}

func TestGoldenKeys(t *testing.T) {
	var b strings.Builder
	line := func(index string, k *keys.Key) {
		if k != nil {
			fmt.Fprintf(&b, "  %-6s %-60s %s\n", index, k.PK, k.SK)
		}
	}
	write := func(item any, key *keys.Key, in keys.Indexes) {
		// The keys of names that users could enter from the start are not changed by any escape.
		fmt.Fprintln(&b, strings.ReplaceAll(fmt.Sprintf("%T%+v", item, item), "\x02", "~"))
		line("table", key)
		line("GSI1", in.GSI1)
		line("GSI2", in.GSI2)
		line("GSI3", in.GSI3)
		line("GSI4", in.GSI4)
	}
	for _, item := range examples() {
		key := item.Key()
		write(item, &key, item.Indexes())
	}
	child := keys.Entity{Namespace: ns, ID: "child"}
	key := child.Key()
	write(child, &key, child.IndexesUnder("parent"))
	requireGolden(t, "keys.txt", b.String())
}

func TestGoldenQueries(t *testing.T) {
	var b strings.Builder
	for _, q := range []struct {
		name  string
		query keys.Query
	}{
		{"configs of an entity", keys.ConfigsOf(ns, "e")},
		{"usage of an entity", keys.UsageOf(ns, "e", "", "")},
		{"usage of a resource", keys.UsageOf(ns, "e", "r", "")},
		{"usage of a window", keys.UsageOf(ns, "e", "r", "daily")},
		{"usage of some days", keys.UsageBetween(keys.UsageOf(ns, "e", "r", "daily"), "2025-01-01T00:00:00Z", "2025-01-31T00:00:00Z")},
		{"usage of overrides", keys.UsageOfOverrides(ns, "e", "r")},
		{"audit", keys.AuditOf(ns, keys.AuditSystem)},
		{"audit of an hour", keys.AuditBetween(keys.AuditOf(ns, keys.AuditSystem), 1735689600000, 1735693199999)},
		{"audit keys", keys.AuditKeys()},
		{"lease keys", keys.LeaseKeys()},
		{"namespaces", keys.Namespaces()},
		{"GSI1 children", keys.ChildrenOf(ns, "parent")},
		{"GSI1 audit", keys.AuditEvents(ns)},
		{"GSI1 audit of all times", keys.AuditBetween(keys.AuditEvents(ns), -1, 1<<62)},
		{"GSI3 buckets", keys.BucketsOf(ns, "e")},
		{"GSI3 entities with config", keys.EntitiesWithConfig(ns, "r")},
	} {
		fmt.Fprintf(&b, "%-28s %-32s %s\n", q.name, q.query.PK, q.query.SKPrefix)
		if q.query.SKTo != "" {
			fmt.Fprintf(&b, "%-28s %-32s %s … %s\n", "", "", q.query.SKFrom, q.query.SKTo)
		}
	}
	fmt.Fprintf(&b, "%-28s %v\n", "GSI2 capacity", keys.CapacityPartitions(ns, "r"))
	fmt.Fprintf(&b, "%-28s %v\n", "GSI4 purge", keys.PurgePartitions(ns))
	fmt.Fprintf(&b, "%-28s %v\n", "resolve", keys.ResolveConfigs(ns, "e", "r"))
	requireGolden(t, "queries.txt", b.String())
}

// TestQueriesFindTheirItems holds each query against the items it is for, and
// against all others.
func TestQueriesFindTheirItems(t *testing.T) {
	matches := func(q keys.Query, k *keys.Key) bool {
		return k != nil && q.Lists(*k)
	}
	for _, item := range examples() {
		key, in := item.Key(), item.Indexes()
		entityConfig, isEntityConfig := item.(keys.EntityConfig)
		_, isResourceConfig := item.(keys.ResourceConfig)
		bucket, isBucket := item.(keys.Bucket)
		usage, isUsage := item.(keys.Usage)
		audit, isAudit := item.(keys.Audit)
		_, isLeaseKey := item.(keys.LeaseKey)
		_, isAuditKey := item.(keys.AuditKey)
		_, isName := item.(keys.NamespaceName)

		require.Equal(t, isEntityConfig, matches(keys.ConfigsOf(ns, "api-key-123"), &key), "%v", item)
		require.Equal(t, isUsage, matches(keys.UsageOf(ns, "api-key-123", "", ""), &key), "%v", item)
		require.Equal(t, isUsage && usage.Window == "daily", matches(keys.UsageOf(ns, "api-key-123", "gpt-4", "daily"), &key), "%v", item)
		require.Equal(t, isAudit && audit.ID == "api-key-123", matches(keys.AuditOf(ns, "api-key-123"), &key), "%v", item)
		require.Equal(t, isAudit && audit.Namespace == ns, matches(keys.AuditEvents(ns), in.GSI1), "%v", item)
		for _, q := range []keys.Query{keys.AuditEvents(audit.Namespace), keys.AuditOf(audit.Namespace, audit.ID)} {
			row := in.GSI1
			if strings.HasPrefix(q.SKPrefix, "#") {
				row = &key
			}
			require.Equal(t, isAudit, isAudit && matches(keys.AuditBetween(q, audit.AtMs, audit.AtMs), row), "%v", item)
			require.False(t, matches(keys.AuditBetween(q, audit.AtMs+1, audit.AtMs+2), row), "%v", item)
			require.False(t, matches(keys.AuditBetween(q, audit.AtMs-2, audit.AtMs-1), row) && audit.AtMs > 0, "%v", item)
		}
		require.Equal(t, isAuditKey, matches(keys.AuditKeys(), &key), "%v", item)
		require.Equal(t, isLeaseKey, matches(keys.LeaseKeys(), &key), "%v", item)
		require.Equal(t, isName, matches(keys.Namespaces(), &key), "%v", item)
		require.Equal(t, isBucket, matches(keys.BucketsOf(ns, "api-key-123"), in.GSI3), "%v", item)
		require.Equal(t, isEntityConfig && entityConfig.Resource == "gpt-4", matches(keys.EntitiesWithConfig(ns, "gpt-4"), in.GSI3), "%v", item)
		require.Equal(t, isBucket, in.GSI2 != nil)
		if isBucket {
			require.Contains(t, keys.CapacityPartitions(ns, bucket.Resource), in.GSI2.PK)
		}
		if strings.HasPrefix(key.PK, ns) {
			require.Contains(t, keys.PurgePartitions(ns), in.GSI4.PK)
			require.Equal(t, isEntityConfig, strings.HasPrefix(in.GSI4.SK, keys.EntityConfigs))
			require.Equal(t, isResourceConfig, strings.HasPrefix(in.GSI4.SK, keys.ResourceConfigs))
		} else {
			require.Nil(t, in.GSI4, "the registry cannot be purged")
		}
	}
	under := keys.Entity{Namespace: ns, ID: "c"}.IndexesUnder("p")
	require.True(t, matches(keys.ChildrenOf(ns, "p"), under.GSI1))
	require.False(t, matches(keys.ChildrenOf(ns, "pp"), under.GSI1))
}

func TestRoundTrip(t *testing.T) {
	for _, item := range examples() {
		require.True(t, item.Valid(), "%#v", item)
		back, err := keys.Parse(item.Key())
		require.NoError(t, err)
		require.Equal(t, item, back)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawItem(t, "a"), drawItem(t, "b")
		require.True(t, a.Valid(), "%#v", a)
		back, err := keys.Parse(a.Key())
		require.NoError(t, err)
		require.Equal(t, a, back)
		require.Equal(t, a == b, a.Key() == b.Key(), "%#v %#v", a, b)
		if ia, ib := a.Indexes().GSI4, b.Indexes().GSI4; ia != nil && ib != nil && a != b {
			require.NotEqual(t, *ia, *ib)
		}
		in := a.Indexes()
		key := a.Key()
		for _, k := range []*keys.Key{&key, in.GSI1, in.GSI2, in.GSI3, in.GSI4} {
			if k != nil {
				require.LessOrEqual(t, len(k.PK), 2048, "DynamoDB's longest partition key")
				require.LessOrEqual(t, len(k.SK), 1024, "DynamoDB's longest sort key")
				require.True(t, utf8.ValidString(k.PK) && utf8.ValidString(k.SK))
			}
		}
	})
}

// drawItem draws parts from few characters, separators of keys among them, so
// that collisions would be found.
func drawItem(t *rapid.T, label string) keys.Item {
	part := func(name string) string {
		return rapid.OneOf(
			rapid.StringMatching(`[a/:.$~_-]{1,4}`),
			rapid.StringMatching(`[!-"$-~]{1,256}`),
		).Draw(t, label+name)
	}
	printable := func(name string) string {
		return rapid.OneOf(
			rapid.StringMatching(`[a/:.$~_=#%é -]{1,4}`),
			rapid.StringMatching(`[ -~]{1,256}`),
			rapid.StringOfN(rapid.RuneFrom(nil, unicode.Letter, unicode.Number, unicode.Punct, unicode.Symbol), 1, 64, 256),
		).Draw(t, label+name)
	}
	resource := func() string {
		name := printable("resource")
		if rapid.Bool().Draw(t, label+"override") {
			return keys.OverrideResource(name, rapid.StringMatching(`[a~_-]{1,4}`).Draw(t, label+"fingerprint"))
		}
		return name
	}
	namespace := rapid.SampledFrom([]string{ns, "AAAAAAAAAAA", "__________8"}).Draw(t, label+"namespace")
	wide := rapid.SampledFrom([]string{namespace, keys.Registry}).Draw(t, label+"wide")
	switch rapid.IntRange(0, 13).Draw(t, label+"kind") {
	case 0:
		return keys.Entity{Namespace: namespace, ID: printable("id")}
	case 1:
		return keys.Bucket{Namespace: namespace, Entity: printable("entity"), Resource: resource(), Shard: rapid.IntRange(0, 12).Draw(t, label+"shard")}
	case 2:
		return keys.EntityConfig{Namespace: namespace, Entity: printable("entity"), Resource: printable("resource")}
	case 3:
		return keys.ResourceConfig{Namespace: namespace, Resource: printable("resource")}
	case 4:
		return keys.SystemConfig{Namespace: namespace}
	case 5:
		return keys.Usage{Namespace: namespace, Entity: printable("entity"), Resource: resource(), Window: part("window"), Start: part("start")}
	case 6:
		return keys.Version{Namespace: wide}
	case 7:
		return keys.Audit{
			Namespace: wide, ID: printable("id"), AtMs: rapid.Int64Range(0, 253402300799999).Draw(t, label+"at"),
			Sequence: rapid.Int64Min(0).Draw(t, label+"sequence"),
		}
	case 8:
		return keys.AuditSeq{Namespace: wide}
	case 9:
		return keys.LeaseKey{ID: part("id")}
	case 10:
		return keys.AuditKey{ID: part("id")}
	case 12:
		return keys.Epoch{}
	case 11:
		return keys.NamespaceName{Name: part("name")}
	default:
		return keys.NamespaceID{ID: namespace}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, k := range []keys.Key{
		{},
		{ns + "/ENTITY#", "#META"},
		{ns + "/ENTITY#a", ""},
		{ns + "/ENTITY#a", "#STATE"},
		{ns + "/ENTITY#a#b", "#META"},
		{ns + "/ENTITY#a", "#META#"},
		{ns + "/ENTITY#a", "x#META"},
		{ns + "/ENTITY#a\n", "#META"},
		{ns + "/ENTITY#a\xff", "#META"},
		{ns + "/ENTITY#a\u202e", "#META"}, // which would turn the text around
		{ns + "/ENTITY#a~b", "#META"},
		{ns + "/ENTITY#a", "#CONFIG#r~fingerprint"},
		{ns + "/BUCKET#a#r~#0", "#STATE"},
		{ns + "/BUCKET#a#~x#0", "#STATE"},
		{ns + "/ENTITY#" + strings.Repeat("a", 257), "#META"},
		{ns + "/ENTITY#a", "#CONFIG#"},
		{ns + "/ENTITY#a", "#USAGE#r#daily"},
		{ns + "/BUCKET#a#r#", "#STATE"},
		{ns + "/BUCKET#a#r#-1", "#STATE"},
		{ns + "/BUCKET#a#r#+1", "#STATE"},
		{ns + "/BUCKET#a#r#01", "#STATE"},
		{ns + "/BUCKET#a#r#99999999999999999999", "#STATE"},
		{ns + "/BUCKET#a#r", "#STATE"},
		{ns + "/BUCKET#a#r#0", "#META"},
		{ns + "/AUDIT#a", "#AUDIT#2025-01-01T00:00:00Z#0000000000000000042"},
		{ns + "/AUDIT#a", "#AUDIT#2025-01-01T00:00:00.000Z#42"},
		{ns + "/AUDIT#a", "#AUDIT#2025-13-01T00:00:00.000Z#0000000000000000042"},
		{ns + "/AUDIT#a", "#AUDIT#1969-12-31T23:59:59.999Z#0000000000000000042"},
		{ns + "/SYSTEM#", "#LEASE_KEY#k1"},
		{ns + "/SYSTEM#", "#NAMESPACE#default"},
		{ns + "/SYSTEM#x", "#CONFIG"},
		{ns + "/OTHER#a", "#META"},
		{"_/ENTITY#a", "#META"},
		{"_/SYSTEM#", "#CONFIG"},
		{"_/SYSTEM#", "#NSID#default"},
		{"/ENTITY#a", "#META"},
		{"default/ENTITY#a", "#META"},
		{"AAAAAAAAAAB/ENTITY#a", "#META"}, // bits that no 8 bytes have
		{"AAAAAAAAAA+/ENTITY#a", "#META"},
		{"ENTITY#a", "#META"},
	} {
		_, err := keys.Parse(k)
		require.Error(t, err, "%v", k)
	}
}

func FuzzParse(f *testing.F) {
	for _, item := range examples() {
		f.Add(item.Key().PK, item.Key().SK)
	}
	f.Fuzz(func(t *testing.T, pk, sk string) {
		item, err := keys.Parse(keys.Key{PK: pk, SK: sk})
		if err != nil {
			require.Nil(t, item)
			return
		}
		require.True(t, item.Valid())
		require.Equal(t, keys.Key{PK: pk, SK: sk}, item.Key())
		require.LessOrEqual(t, len(pk), 2048, "DynamoDB's longest partition key")
		require.LessOrEqual(t, len(sk), 1024, "DynamoDB's longest sort key")
	})
}

func TestNamespaceID(t *testing.T) {
	id, err := keys.NewNamespaceID(bytes.NewReader(bytes.Repeat([]byte{0xff}, 8)))
	require.NoError(t, err)
	require.Equal(t, "__________8", id)
	_, err = keys.NewNamespaceID(bytes.NewReader(make([]byte, 7)))
	require.Error(t, err)

	rapid.Check(t, func(t *rapid.T) {
		random := rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "random")
		id, err := keys.NewNamespaceID(bytes.NewReader(random))
		require.NoError(t, err)
		require.True(t, keys.ValidNamespaceID(id), id)
	})
	for _, bad := range []string{"", keys.Registry, "default", "AAAAAAAAAA", "AAAAAAAAAAAA", "AAAAAAAAAAB", "AAAAAAAAA=A", "AAAA/AAAAAA"} {
		require.False(t, keys.ValidNamespaceID(bad), bad)
	}
}

func TestOverrideResource(t *testing.T) {
	name := keys.OverrideResource("openai/gpt-4", "k3J9x1QaZ0c")
	require.False(t, keys.ResourceConfig{Namespace: ns, Resource: name}.Valid(), "no user can enter it")
	resource, fingerprint, ok := keys.ParseOverride(name)
	require.True(t, ok)
	require.Equal(t, "openai/gpt-4", resource)
	require.Equal(t, "k3J9x1QaZ0c", fingerprint)
	require.Equal(t, "openai/gpt-4~k3J9x1QaZ0c", keys.ResourceText(name))
	require.Equal(t, "gpt-4~a", keys.ResourceText("gpt-4~a"))
	for _, other := range []string{"", "gpt-4", "~", "~x", "gpt-4~", "gpt-4~k3J9x1QaZ0c", keys.DefaultResource} {
		_, _, ok := keys.ParseOverride(other)
		require.False(t, ok, other)
	}
}

// An entity never has the audit id of a level or of another entity.
func TestAuditEntity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[$=a]{1,3}(SYSTEM|RESOURCE:r)?`)
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		require.Equal(t, a == b, keys.AuditEntity(a) == keys.AuditEntity(b))
		require.NotEqual(t, keys.AuditSystem, keys.AuditEntity(a))
		require.NotEqual(t, keys.AuditResource("r"), keys.AuditEntity(a))
	})
	require.Equal(t, "key-1", keys.AuditEntity("key-1"))
}

// TestSpread compares with the standard library's FNV-1a, and looks whether
// many entities meet on few partitions.
func TestSpread(t *testing.T) {
	partitions := keys.CapacityPartitions(ns, "r")
	count := map[string]int{}
	for i := range 1600 {
		b := keys.Bucket{Namespace: ns, Entity: fmt.Sprintf("user-%d", i), Resource: "r"}
		h := fnv.New64a()
		h.Write([]byte(b.Entity))
		pk := b.Indexes().GSI2.PK
		require.Equal(t, partitions[h.Sum64()%keys.Spread], pk)
		count[pk]++
	}
	require.Len(t, count, keys.Spread)
	for pk, n := range count {
		require.Less(t, n, 200, pk)
	}
}

func requireGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile("testdata/"+file, []byte(got), 0o600))
	}
	want, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err, "run go test -update")
	require.Equal(t, string(want), got)
}
