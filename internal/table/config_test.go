package table

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const testNamespace = "AAAAAAAAAAA"

func apiLimit(name string, perMinute int64) api.Limit {
	return api.Limit{Name: name, Capacity: perMinute, RefillAmount: perMinute, RefillPeriodSeconds: 60}
}

func testConfig() *Config {
	return &Config{
		Key:    keys.EntityConfig{Namespace: testNamespace, Entity: "api-key-123", Resource: "gpt-4"},
		Limits: []api.Limit{apiLimit("rpm", 100), apiLimit("ttl", 7)}, Version: 3, LastWrite: "OLDNONCE",
	}
}

// encode is the item that holds a config: what the forms make of nothing.
func (c *Config) encode() Item {
	key := c.Key.Key()
	item := Item{
		attrPK: text(key.PK), attrSK: text(key.SK),
		attrConfigVersion: number(c.Version), attrLastWrite: text(c.LastWrite),
	}
	putIndexes(item, c.Key.Indexes())
	if c.OnUnavailable != "" {
		item[attrOnUnavailable] = text(string(c.OnUnavailable))
	}
	if c.RetentionDays != 0 {
		item[attrRetention] = number(c.RetentionDays)
	}
	for _, l := range c.Limits {
		of := configLimitAttributes(l.Name)
		item[of[0]], item[of[1]], item[of[2]] = number(l.Capacity), number(l.RefillAmount), number(l.RefillPeriodSeconds)
	}
	return item
}

func TestConfigFormsAreGolden(t *testing.T) {
	limits := []api.Limit{apiLimit("rpm", 50), {Name: "tpm", Capacity: 20_000, RefillAmount: 10_000, RefillPeriodSeconds: 60}}
	known := testConfig()
	managed := testConfig()
	managed.Manifest = "gateway"
	sets := map[string]*SetConfig{
		"config_create_entity":   {Key: known.Key, Limits: limits, Nonce: "NEWNONCE"},
		"config_create_resource": {Key: keys.ResourceConfig{Namespace: testNamespace, Resource: "gpt-4"}, Limits: limits[:1], Nonce: "NEWNONCE"},
		"config_create_system":   {Key: keys.SystemConfig{Namespace: testNamespace}, Limits: limits[:1], OnUnavailable: api.PolicyAllow, Nonce: "NEWNONCE"},
		"config_replace":         {Key: known.Key, Known: known, Limits: limits, Nonce: "NEWNONCE"},
		"config_manifest":        {Key: known.Key, Known: known, Limits: limits[:1], Manifest: "gateway", Nonce: "NEWNONCE"},
		"config_unmanaged":       {Key: known.Key, Known: managed, Limits: limits[:1], Nonce: "NEWNONCE"},
		"config_clear":           {Key: known.Key, Known: known, Nonce: "NEWNONCE"},
	}
	for name, s := range sets {
		t.Run(name, func(t *testing.T) {
			in := s.Write("tidegate").Update
			golden(t, name, form{Update: *in.UpdateExpression, Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
		})
	}
	policies := map[string]*SetPolicy{
		"policy_create":  {Key: keys.SystemConfig{Namespace: testNamespace}, Policies: Policies{OnUnavailable: api.PolicyAllow, RetentionDays: 30}, Nonce: "NEWNONCE"},
		"policy_replace": {Key: known.Key, Known: known, Policies: Policies{OnUnavailable: api.PolicyBlock}, Nonce: "NEWNONCE"},
		"policy_clear":   {Key: known.Key, Known: known, Nonce: "NEWNONCE"},
	}
	for name, s := range policies {
		t.Run(name, func(t *testing.T) {
			in := s.Write("tidegate").Update
			golden(t, name, form{Update: *in.UpdateExpression, Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
		})
	}
	t.Run("config_delete", func(t *testing.T) {
		in := (&DeleteConfig{Known: known}).Write("tidegate").Delete
		golden(t, "config_delete", form{Condition: *in.ConditionExpression, Names: in.ExpressionAttributeNames, Values: plain(t, in.ExpressionAttributeValues)})
	})
	for i, action := range CreateNamespaceItems("tidegate", Namespace{Name: "default", ID: testNamespace, CreatedMs: 1772366400000}) {
		name := []string{"namespace_forward", "namespace_reverse", "namespace_version"}[i]
		t.Run(name, func(t *testing.T) {
			golden(t, name, form{Condition: *action.Put.ConditionExpression, Names: action.Put.ExpressionAttributeNames, Item: plain(t, action.Put.Item)})
		})
	}
	active := Namespace{Name: "tenant-a", ID: testNamespace, CreatedMs: 1772366400000}
	deleted := active
	deleted.DeletedMs, deleted.DeletedBy, deleted.Version = 1772366400001, "alice", 1
	recovered, purging := active, deleted
	recovered.Version, purging.PurgeMs, purging.Version = 2, 1772366400002, 2
	for name, c := range map[string][2]Namespace{
		"namespace_delete": {active, deleted}, "namespace_recover": {deleted, recovered}, "namespace_purge": {deleted, purging},
	} {
		t.Run(name, func(t *testing.T) {
			u := ChangeNamespaceItem("tidegate", c[0], c[1]).Update
			golden(t, name, form{Update: *u.UpdateExpression, Condition: *u.ConditionExpression, Names: u.ExpressionAttributeNames, Values: plain(t, u.ExpressionAttributeValues)})
		})
	}
	t.Run("namespace_remove", func(t *testing.T) {
		d := RemoveNamespaceItems("tidegate", purging)[0].Delete
		golden(t, "namespace_remove", form{Condition: *d.ConditionExpression, Names: d.ExpressionAttributeNames, Values: plain(t, d.ExpressionAttributeValues)})
	})
}

func TestConfigRoundTrip(t *testing.T) {
	items := []keys.Item{
		testConfig().Key,
		keys.EntityConfig{Namespace: testNamespace, Entity: "a:b", Resource: keys.DefaultResource},
		keys.ResourceConfig{Namespace: testNamespace, Resource: "gpt-4"},
		keys.SystemConfig{Namespace: testNamespace},
	}
	// Names that look like another limit's attribute must not be taken for it.
	names := []string{"a", "a_cp", "a_cp_cp", "a_ra", "cp", "ttl", "req-min", "l_a"}
	rapid.Check(t, func(t *rapid.T) {
		c := &Config{
			Key:           rapid.SampledFrom(items).Draw(t, "key"),
			OnUnavailable: rapid.SampledFrom([]api.Policy{"", api.PolicyAllow, api.PolicyBlock}).Draw(t, "policy"),
			Version:       rapid.Int64Range(1, 1<<40).Draw(t, "version"),
			LastWrite:     "NONCE",
		}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID[string]).Draw(t, "names") {
			c.Limits = append(c.Limits, apiLimit(name, rapid.Int64Range(1, 1_000_000).Draw(t, "tokens")))
		}
		got, err := DecodeConfig(c.encode())
		require.NoError(t, err)
		require.ElementsMatch(t, c.Limits, got.Limits)
		require.IsNonDecreasing(t, namesOf(got.Limits))
		got.Limits, c.Limits = nil, nil
		require.Equal(t, c, got)
	})
}

func namesOf(limits []api.Limit) []string {
	names := make([]string, len(limits))
	for i := range limits {
		names[i] = limits[i].Name
	}
	return names
}

func TestSettingsOfLaterReleasesAreNoticed(t *testing.T) {
	item := testConfig().encode()
	c, err := DecodeConfig(item)
	require.NoError(t, err)
	require.True(t, c.OnlyLimits())

	item["audit_days"] = number(30)
	c, err = DecodeConfig(item)
	require.NoError(t, err)
	require.True(t, c.More)
	require.False(t, c.OnlyLimits())
}

func TestDamagedConfigsAreRefused(t *testing.T) {
	capacity := configLimitAttributes("rpm")[0]
	for name, damage := range map[string]func(Item){
		"no key":               func(i Item) { delete(i, attrPK) },
		"a key that is none":   func(i Item) { i[attrPK] = text("config") },
		"a number as key":      func(i Item) { i[attrPK] = number(1) },
		"a bucket":             func(i Item) { i[attrPK], i[attrSK] = text(testKey().Key().PK), text(testKey().Key().SK) },
		"no version":           func(i Item) { delete(i, attrConfigVersion) },
		"policy is a number":   func(i Item) { i[attrOnUnavailable] = number(1) },
		"capacity is text":     func(i Item) { i[capacity] = text("100") },
		"capacity is negative": func(i Item) { i[capacity] = number(-1) },
		"capacity overflows":   func(i Item) { i[capacity] = number(1 << 60) },
		"period is missing":    func(i Item) { delete(i, configLimitAttributes("rpm")[2]) },
		"amount is a fraction": func(i Item) { i[configLimitAttributes("rpm")[1]] = fraction() },
	} {
		t.Run(name, func(t *testing.T) {
			item := testConfig().encode()
			damage(item)
			_, err := DecodeConfig(item)
			require.ErrorIs(t, err, ErrDamaged)
		})
	}
}

// A SetConfig of 16 limits with the longest names that replaces 16 others stays
// within the 4 KB that DynamoDB allows an expression.
func TestTheLargestChangeFitsAnExpression(t *testing.T) {
	known, next := testConfig(), []api.Limit{}
	known.Limits = nil
	for i := range api.MaxLimits {
		known.Limits = append(known.Limits, apiLimit(fmt.Sprintf("old-%060d", i), 1))
		next = append(next, apiLimit(fmt.Sprintf("new-%060d", i), 1))
	}
	in := (&SetConfig{Key: known.Key, Known: known, Limits: next, OnUnavailable: api.PolicyAllow, Nonce: "N"}).Write("tidegate").Update
	require.Less(t, len(*in.UpdateExpression), 4096)
}

func TestEntityRoundTrip(t *testing.T) {
	for name, e := range map[string]*Entity{
		"bare":       {Key: keys.Entity{Namespace: testNamespace, ID: "alice"}, Version: 1},
		"everything": {Key: keys.Entity{Namespace: testNamespace, ID: "alice"}, Name: "Alice", Parent: "acme", Cascade: true, Metadata: map[string]string{"team": "x", "": "y"}, Version: 9},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeEntity(EncodeEntity(e))
			require.NoError(t, err)
			require.Equal(t, e, got)
		})
	}
	e := &Entity{Key: keys.Entity{Namespace: testNamespace, ID: "alice"}, Parent: "acme"}
	pk, _ := indexAttributes(1)
	require.Contains(t, EncodeEntity(e), pk, "a parent lists its children")
	e.Parent = ""
	require.NotContains(t, EncodeEntity(e), pk)
}

func TestDamagedEntitiesAreRefused(t *testing.T) {
	for name, damage := range map[string]func(Item){
		"another kind":         func(i Item) { i[attrSK] = text("#CONFIG#gpt-4") },
		"no key":               func(i Item) { delete(i, attrSK) },
		"cascade is text":      func(i Item) { i[attrCascade] = text("yes") },
		"parent is a number":   func(i Item) { i[attrParent] = number(1) },
		"metadata is text":     func(i Item) { i[attrMetadata] = text("x") },
		"version is no number": func(i Item) { i[attrVersion] = text("1") },
	} {
		t.Run(name, func(t *testing.T) {
			item := EncodeEntity(&Entity{Key: keys.Entity{Namespace: testNamespace, ID: "alice"}, Parent: "acme", Cascade: true, Version: 1})
			damage(item)
			_, err := DecodeEntity(item)
			require.ErrorIs(t, err, ErrDamaged)
		})
	}
}

func TestNamespaceRoundTrip(t *testing.T) {
	want := Namespace{Name: "tenant-a", ID: testNamespace}
	writes := CreateNamespaceItems("tidegate", want)
	require.Len(t, writes, 3)
	for i, action := range writes[:2] {
		got, err := DecodeNamespace(action.Put.Item)
		require.NoError(t, err, i)
		require.Equal(t, want, got)
	}
	schema, err := DecodeVersion(writes[2].Put.Item)
	require.NoError(t, err)
	require.EqualValues(t, SchemaVersion, schema)

	for _, damage := range []func(Item){
		func(i Item) { delete(i, attrNamespaceID) },
		func(i Item) { i[attrNamespaceID] = text("short") },
		func(i Item) { i[attrSK] = text("#VERSION") },
		func(i Item) { i[attrPK] = number(1) },
	} {
		item := CreateNamespaceItems("tidegate", want)[0].Put.Item
		damage(item)
		_, err := DecodeNamespace(item)
		require.ErrorIs(t, err, ErrDamaged)
	}
	_, err = DecodeVersion(Item{})
	require.ErrorIs(t, err, ErrDamaged)
}

func TestStartAfterTakesOnlyWhatTheQueryLists(t *testing.T) {
	config := keys.EntityConfig{Namespace: testNamespace, Entity: "alice", Resource: "gpt-4"}
	listing := keys.EntitiesWithConfig(testNamespace, "gpt-4")
	for name, c := range map[string]struct {
		index int
		query keys.Query
		last  keys.Item
		want  bool
	}{
		"an index row":       {3, listing, config, true},
		"a table row":        {0, keys.ConfigsOf(testNamespace, "alice"), config, true},
		"another resource":   {3, keys.EntitiesWithConfig(testNamespace, "gpt-5"), config, false},
		"another namespace":  {3, keys.EntitiesWithConfig("AAAAAAAAAAE", "gpt-4"), config, false},
		"another prefix":     {0, keys.UsageOf(testNamespace, "alice", "", ""), config, false},
		"not in the index":   {1, listing, config, false},
		"an ill-formed item": {3, listing, keys.EntityConfig{Namespace: testNamespace, Resource: "gpt-4"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := QueryInput("tidegate", c.index, c.query)
			require.Equal(t, c.want, StartAfter(in, c.index, c.query, c.last))
			require.Equal(t, c.want, in.ExclusiveStartKey != nil)
		})
	}
}
