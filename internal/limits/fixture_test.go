package limits_test

import (
	"errors"
	"flag"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/limits"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	ns      = "AAAAAAAAAAA"
	otherNs = "AAAAAAAAAAE"
)

func by() api.Principal { return api.Principal{User: "ops"} }

type fixture struct {
	*tabletest.Bench
	t     *testing.T
	store *limits.Store
	other *limits.Store // past all faults: another node
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	b := tabletest.New(t)
	return &fixture{
		Bench: b, t: t,
		store: limits.NewStore(b.DB, b.Table, audit.NewLog(b.DB, b.Table, b.Now)),
		other: limits.NewStore(b.Direct, b.Table, audit.NewLog(b.Direct, b.Table, b.Now)),
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
func (f *fixture) set(target api.LimitsTarget, ls ...api.Limit) api.LimitsLevel {
	f.t.Helper()
	level, err := f.other.Set(f.t.Context(), ns, by(), setTo(target, ls...))
	require.NoError(f.t, err)
	return level
}

// setPolicy leaves a level with a policy and no limits.
func (f *fixture) setPolicy(target api.LimitsTarget, p api.Policy) {
	f.t.Helper()
	_, err := f.other.Set(f.t.Context(), ns, by(), api.LimitsSetRequest{LimitsTarget: target, Limits: []api.Limit{limit("x", 1)}, OnUnavailable: p})
	require.NoError(f.t, err)
	require.NoError(f.t, f.other.Delete(f.t.Context(), ns, by(), deleting(target)))
}

func (f *fixture) get(target api.LimitsTarget) api.LimitsLevel {
	f.t.Helper()
	level, err := f.other.Get(f.t.Context(), ns, target)
	require.NoError(f.t, err)
	return level
}

// attribute writes one attribute of an item, whoever knows it.
func (f *fixture) attribute(key keys.Item, name string, v types.AttributeValue) {
	f.t.Helper()
	_, err := f.Direct.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &f.Table, Key: table.KeyItem(key.Key()), UpdateExpression: aws.String("SET #n0 = :v0"),
		ExpressionAttributeNames: map[string]string{"#n0": name}, ExpressionAttributeValues: table.Item{":v0": v},
	})
	require.NoError(f.t, err)
}

func (f *fixture) item(key keys.Item) table.Item {
	f.t.Helper()
	out, err := f.Direct.GetItem(f.t.Context(), table.ReadInput(f.Table, key.Key()))
	require.NoError(f.t, err)
	return out.Item
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func requireCode(t *testing.T, want api.Code, err error) *api.Error {
	t.Helper()
	var refusal *api.Error
	if !errors.As(err, &refusal) {
		require.Failf(t, "not an api.Error", "want %s, got %v", want, err)
	}
	require.Equal(t, want, refusal.Code, "%v", err)
	return refusal
}
