package audit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const ns = "AAAAAAAAAAA"

type fixture struct {
	*tabletest.Bench
	t     *testing.T
	log   *Log
	other *Log // past all faults: another node
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	b := tabletest.New(t)
	return &fixture{Bench: b, t: t, log: NewLog(b.DB, b.Table, b.Now, IndexLag(time.Millisecond)), other: NewLog(b.Direct, b.Table, b.Now)}
}

// rename is a change of an entity's name, planned from what is there.
func (f *fixture) rename(entity, name string) Change {
	key := keys.Entity{Namespace: ns, ID: entity}
	return Change{
		Namespace: ns, By: api.Principal{User: "ops", Account: "A", Verified: true}, Action: api.AuditEntityUpdate, Target: entity,
		Plan: func(ctx context.Context) (Plan, error) {
			out, err := f.Direct.GetItem(ctx, table.ReadInput(f.Table, key.Key()))
			if err != nil {
				return Plan{}, err
			}
			e := &table.Entity{Key: key, Name: name, Version: 1}
			p := Plan{After: map[string]string{"name": name}}
			put := types.Put{TableName: &f.Table, ConditionExpression: aws.String("attribute_not_exists(PK)")}
			if len(out.Item) > 0 {
				known, err := table.DecodeEntity(out.Item)
				if err != nil {
					return Plan{}, err
				}
				e.Version = known.Version + 1
				p.Before = map[string]string{"name": known.Name}
				put.ConditionExpression = aws.String("version = :v")
				put.ExpressionAttributeValues = table.Item{":v": out.Item["version"]}
			}
			put.Item = table.EncodeEntity(e)
			p.Writes = []types.TransactWriteItem{{Put: &put}}
			return p, nil
		},
	}
}

// do makes a change as another node would.
func (f *fixture) do(entity, name string) {
	f.t.Helper()
	require.NoError(f.t, f.other.Apply(f.t.Context(), f.rename(entity, name)))
}

// name is what an entity is called; empty where there is none.
func (f *fixture) name(entity string) string {
	f.t.Helper()
	out, err := f.Direct.GetItem(f.t.Context(), table.ReadInput(f.Table, keys.Entity{Namespace: ns, ID: entity}.Key()))
	require.NoError(f.t, err)
	if len(out.Item) == 0 {
		return ""
	}
	e, err := table.DecodeEntity(out.Item)
	require.NoError(f.t, err)
	return e.Name
}

// list reads all pages of a list, n events a page at most.
func (f *fixture) list(req api.AuditListRequest, n int64) []api.AuditEvent {
	f.t.Helper()
	var found []api.AuditEvent
	for req.Limit = n; ; {
		reply, err := f.other.List(f.t.Context(), ns, req)
		require.NoError(f.t, err)
		require.NotNil(f.t, reply.Events, "an array on the wire")
		if n > 0 {
			require.LessOrEqual(f.t, len(reply.Events), int(n))
		}
		found = append(found, reply.Events...)
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return found
		}
	}
}

// stored reads all events with their items, the oldest first.
func (f *fixture) stored() []*table.AuditEvent {
	f.t.Helper()
	events := f.list(api.AuditListRequest{}, 0)
	stored := make([]*table.AuditEvent, len(events))
	for i, e := range events {
		key, err := ParseID(ns, e.ID)
		require.NoError(f.t, err)
		stored[len(events)-1-i], err = f.other.find(f.t.Context(), key)
		require.NoError(f.t, err)
	}
	return stored
}

// requireEvents checks that exactly n changes are told of, in order and unbroken.
func (f *fixture) requireEvents(n int) []*table.AuditEvent {
	f.t.Helper()
	stored := f.stored()
	require.Len(f.t, stored, n)
	for i, e := range stored {
		require.EqualValues(f.t, i+1, e.Key.Sequence)
	}
	require.NoError(f.t, f.other.verify(f.t.Context(), stored...))
	return stored
}

// attribute writes one attribute of an item, past everybody.
func (f *fixture) attribute(key keys.Item, name string, v types.AttributeValue) {
	f.t.Helper()
	_, err := f.Direct.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &f.Table, Key: table.KeyItem(key.Key()), UpdateExpression: aws.String("SET #n0 = :v0"),
		ExpressionAttributeNames: map[string]string{"#n0": name}, ExpressionAttributeValues: table.Item{":v0": v},
	})
	require.NoError(f.t, err)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

func requireCode(t *testing.T, want api.Code, err error) *api.Error {
	t.Helper()
	var refusal *api.Error
	if !errors.As(err, &refusal) {
		require.Failf(t, "not an api.Error", "want %s, got %v", want, err)
	}
	require.Equal(t, want, refusal.Code, "%v", err)
	return refusal
}
