package expr_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/attr"
	"github.com/tidegate/tidegate/engine/expr"
)

// A bucket of three limits, and the write that spends from it.
const (
	bucketItem = `{"PK":{"S":"AbCdEfGhIjk/BUCKET#user-42#gpt-4#0"},"SK":{"S":"#STATE"},"shard_count":{"N":"1"},
		"b_rpm_dr":{"N":"26438400123"},"b_rpm_cp":{"N":"100000"},"b_rpm_ra":{"N":"100000"},"b_rpm_rp":{"N":"60000"},"b_rpm_tc":{"N":"991000"},
		"b_tpm_dr":{"N":"2643840012345"},"b_tpm_cp":{"N":"10000000"},"b_tpm_ra":{"N":"10000000"},"b_tpm_rp":{"N":"60000"},"b_tpm_tc":{"N":"991000123"},
		"b_rpd_dr":{"N":"2643840"},"b_rpd_cp":{"N":"5000"},"b_wcu_tc":{"N":"99100"},"an":{"N":"991"},"cfg":{"S":"f00dfeed"},
		"lw":{"S":"boot-1:990"},"ttl":{"N":"1790000000"}}`
	spendUpdate    = "ADD #n0 :v0, #n1 :v0, #n2 :v1, #n3 :v1, #n4 :v2, #n6 :v2, #n7 :v2 SET #n5 = :v3, #n8 = :v4"
	spendCondition = "attribute_exists(#n9) AND #n10 = :v5 AND #n11 = :v6 AND #n0 BETWEEN :v7 AND :v8 " +
		"AND #n2 BETWEEN :v9 AND :v10 AND #n4 BETWEEN :v11 AND :v12"
	spendValues = `{":v0":{"N":"1000"},":v1":{"N":"500000"},":v2":{"N":"1"},":v3":{"S":"boot-1:991"},":v4":{"N":"1790000060"},
		":v5":{"N":"1"},":v6":{"S":"f00dfeed"},":v7":{"N":"26438300123"},":v8":{"N":"26438500123"},":v9":{"N":"2643830012345"},
		":v10":{"N":"2643850012345"},":v11":{"N":"2643000"},":v12":{"N":"2644000"}}`
)

func spendNames() map[string]string {
	return map[string]string{
		"#n0": "b_rpm_dr", "#n1": "b_rpm_tc", "#n2": "b_tpm_dr", "#n3": "b_tpm_tc", "#n4": "b_rpd_dr", "#n5": "lw",
		"#n6": "an", "#n7": "b_wcu_tc", "#n8": "ttl", "#n9": "PK", "#n10": "shard_count", "#n11": "cfg",
	}
}

func decodeValues(b *testing.B) map[string]attr.Value {
	var values attr.Item
	require.NoError(b, values.UnmarshalJSON([]byte(spendValues)))
	return values
}

// BenchmarkSpend is the part of an UpdateItem that these packages do.
func BenchmarkSpend(b *testing.B) {
	var parser expr.Parser
	bucket, names := item(b, bucketItem), spendNames()
	b.ReportAllocs()
	for b.Loop() {
		env := parser.Env(names, decodeValues(b))
		update, err := env.Update(spendUpdate)
		require.NoError(b, err)
		condition, err := env.Condition(spendCondition)
		require.NoError(b, err)
		require.NoError(b, env.Unused())
		ok, err := condition.Eval(bucket)
		require.NoError(b, err)
		require.True(b, ok)
		_, err = update.Apply(bucket)
		require.NoError(b, err)
	}
}

func BenchmarkSpendParts(b *testing.B) {
	var parser expr.Parser
	bucket, names, values := item(b, bucketItem), spendNames(), decodeValues(b)
	env := parser.Env(names, values)
	update, err := env.Update(spendUpdate)
	require.NoError(b, err)
	condition, err := env.Condition(spendCondition)
	require.NoError(b, err)
	for name, part := range map[string]func(){
		"decode": func() { _ = decodeValues(b) },
		"bind":   func() { _, _ = parser.Env(names, values).Update(spendUpdate) },
		"eval":   func() { _, _ = condition.Eval(bucket) },
		"apply":  func() { _, _ = update.Apply(bucket) },
		"encode": func() { _ = bucket.AppendJSON(make([]byte, 0, 2048)) },
		"size":   func() { _ = bucket.Size() },
		"parse":  func() { _, _ = expr.NewEnv(names, values).Condition(spendCondition) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				part()
			}
		})
	}
}
