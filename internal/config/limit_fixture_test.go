package config_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

type limitFixture struct {
	*tabletest.Bench
	t     *testing.T
	store *config.LimitStore
	other *config.LimitStore // past all faults: another node
}

func newLimitFixture(t *testing.T) *limitFixture {
	t.Helper()
	b := tabletest.New(t)
	return &limitFixture{
		Bench: b, t: t,
		store: config.NewLimitStore(b.DB, b.Table, audit.NewLog(b.DB, b.Table, b.Now)),
		other: config.NewLimitStore(b.Direct, b.Table, audit.NewLog(b.Direct, b.Table, b.Now)),
	}
}

func limit(name string, perMinute int64) api.Limit {
	return api.Limit{Name: name, Capacity: perMinute, RefillAmount: perMinute, RefillPeriodSeconds: 60}
}

func setTo(target api.LimitsTarget, ls ...api.Limit) api.LimitsSetRequest {
	return api.LimitsSetRequest{LimitsTarget: target, Limits: ls}
}

func deleting(target api.LimitsTarget) api.LimitsDeleteRequest {
	return api.LimitsDeleteRequest{LimitsTarget: target}
}

// set stores a level as another node would.
func (f *limitFixture) set(target api.LimitsTarget, ls ...api.Limit) api.LimitsLevel {
	f.t.Helper()
	level, err := f.other.Set(f.t.Context(), ns, by(), setTo(target, ls...))
	require.NoError(f.t, err)
	return level
}

// setPolicy leaves a level with a policy and no limits.
func (f *limitFixture) setPolicy(target api.LimitsTarget, p api.Policy) {
	f.t.Helper()
	_, err := f.other.Set(f.t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target, Limits: []api.Limit{limit("x", 1)}, OnUnavailable: p})
	require.NoError(f.t, err)
	require.NoError(f.t, f.other.Delete(f.t.Context(), ns, by(), deleting(target)))
}

func (f *limitFixture) get(target api.LimitsTarget) api.LimitsLevel {
	f.t.Helper()
	level, err := f.other.Get(f.t.Context(), ns, target)
	require.NoError(f.t, err)
	return level
}

// attribute writes one attribute of an item, whoever knows it.
func (f *limitFixture) attribute(key keys.Item, name string, v types.AttributeValue) {
	f.t.Helper()
	_, err := f.Direct.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &f.Table, Key: table.KeyItem(key.Key()), UpdateExpression: aws.String("SET #n0 = :v0"),
		ExpressionAttributeNames: map[string]string{"#n0": name}, ExpressionAttributeValues: table.Item{":v0": v},
	})
	require.NoError(f.t, err)
}

func (f *limitFixture) item(key keys.Item) table.Item {
	f.t.Helper()
	out, err := f.Direct.GetItem(f.t.Context(), table.ReadInput(f.Table, key.Key()))
	require.NoError(f.t, err)
	return out.Item
}
