package engine_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
)

func tableChecks() map[string]func(*testing.T, *table) {
	return map[string]func(*testing.T, *table){
		"an ARN for a name":  checkARNs,
		"tags":               checkTags,
		"continuous backups": checkContinuousBackups,
		"describe": func(t *testing.T, x *table) {
			x.put(item("a", "1", "g1", text("g"), "g1n", num(1)))
			out, err := x.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: x.name})
			require.NoError(t, err)
			require.Equal(t, types.TableStatusActive, out.Table.TableStatus)
			require.Len(t, out.Table.GlobalSecondaryIndexes, 3)
			require.NotEmpty(t, out.Table.LatestStreamArn)
			require.EqualValues(t, 1, aws.ToInt64(out.Table.ItemCount))
			require.EqualValues(t, len("pka")+len("sk1")+len("g1g")+len("g1n")+2, aws.ToInt64(out.Table.TableSizeBytes))
			require.Equal(t, types.BillingModePayPerRequest, out.Table.BillingModeSummary.BillingMode)
			require.Equal(t, x.backend.clock.Now(), out.Table.CreationDateTime.UTC())
		},
		"create twice": func(t *testing.T, x *table) {
			_, err := x.db.CreateTable(t.Context(), definition(*x.name, true))
			requireCode(t, err, "ResourceInUseException")
		},
		"waiter": func(t *testing.T, x *table) {
			w := dynamodb.NewTableExistsWaiter(x.db)
			require.NoError(t, w.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: x.name}, time.Second))
		},
		"list": func(t *testing.T, x *table) {
			x.backend.table(t)
			p := dynamodb.NewListTablesPaginator(x.db, &dynamodb.ListTablesInput{Limit: aws.Int32(1)})
			var found []string
			for p.HasMorePages() {
				page, err := p.NextPage(t.Context())
				require.NoError(t, err)
				found = append(found, page.TableNames...)
			}
			require.Contains(t, found, *x.name)
			require.IsIncreasing(t, found)
		},
		"missing": func(t *testing.T, x *table) {
			_, err := x.db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("nope"), Key: key("a", "b")})
			requireCode(t, err, "ResourceNotFoundException")
			_, err = x.db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("nope")})
			requireCode(t, err, "ResourceNotFoundException")
		},
		"delete": func(t *testing.T, x *table) {
			_, err := x.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: x.name})
			require.NoError(t, err)
			requireCode(t, x.tryPut(item("a", "1")), "ResourceNotFoundException")
		},
		"deletion protection": func(t *testing.T, x *table) {
			protect := func(on bool) {
				_, err := x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: x.name, DeletionProtectionEnabled: &on})
				require.NoError(t, err)
			}
			protect(true)
			_, err := x.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: x.name})
			requireCode(t, err, "ValidationException")
			protect(false)
			_, err = x.db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: x.name})
			require.NoError(t, err)
		},
		"add and remove an index": checkIndexUpdate,
		"switch the stream": func(t *testing.T, x *table) {
			off := &types.StreamSpecification{StreamEnabled: aws.Bool(false)}
			_, err := x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: x.name, StreamSpecification: off})
			require.NoError(t, err)
			on := &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
			out, err := x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: x.name, StreamSpecification: on})
			require.NoError(t, err)
			require.NotEmpty(t, out.TableDescription.LatestStreamArn)
			_, err = x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: x.name, StreamSpecification: on})
			requireCode(t, err, "ValidationException")
		},
		"time to live":    checkTimeToLive,
		"bad definitions": checkBadDefinitions,
	}
}

func checkIndexUpdate(t *testing.T, x *table) {
	x.put(item("a", "1", "h", text("H")), item("a", "2", "h", num(7)), item("a", "3"))
	ask := func(u types.GlobalSecondaryIndexUpdate) {
		_, err := x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
			TableName:                   x.name,
			AttributeDefinitions:        []types.AttributeDefinition{{AttributeName: aws.String("h"), AttributeType: types.ScalarAttributeTypeS}},
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{u},
		})
		require.NoError(t, err)
	}
	ask(types.GlobalSecondaryIndexUpdate{Create: &types.CreateGlobalSecondaryIndexAction{
		IndexName: aws.String("hix"), KeySchema: schema("h"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
	}})
	in := &dynamodb.QueryInput{
		TableName: x.name, IndexName: aws.String("hix"), KeyConditionExpression: aws.String("h = :h"),
		ExpressionAttributeValues: attrs{":h": text("H")},
	}
	out, err := x.db.Query(t.Context(), in)
	require.NoError(t, err)
	require.EqualValues(t, 1, out.Count, "the item of the right type was filled in, the other left out")

	_, err = x.db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName: x.name,
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{
			{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: aws.String("hix")}},
		},
	})
	require.NoError(t, err)
	_, err = x.db.Query(t.Context(), in)
	requireCode(t, err, "ValidationException")
}

func checkTimeToLive(t *testing.T, x *table) {
	set := func(enabled bool) error {
		_, err := x.db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName:               x.name,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("exp"), Enabled: &enabled},
		})
		return err
	}
	require.NoError(t, set(true))
	requireCode(t, set(true), "ValidationException")
	out, err := x.db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: x.name})
	require.NoError(t, err)
	require.Equal(t, types.TimeToLiveStatusEnabled, out.TimeToLiveDescription.TimeToLiveStatus)
	require.Equal(t, "exp", aws.ToString(out.TimeToLiveDescription.AttributeName))

	now := x.backend.clock.Now()
	x.put(
		item("ttl", "past", "exp", num(now.Unix()-30)),
		item("ttl", "now", "exp", num(now.Unix())),
		item("ttl", "future", "exp", num(now.Unix()+1)),
		item("ttl", "ancient", "exp", num(now.AddDate(-6, 0, 0).Unix())),
		item("ttl", "no number", "exp", text("1")),
		item("ttl", "none"),
	)
	require.Equal(t, 2, x.backend.engine.Expire(now))
	require.Nil(t, x.get("ttl", "past"))
	require.Nil(t, x.get("ttl", "now"))
	require.EqualValues(t, 4, x.query("pk = :p", attrs{":p": text("ttl")}, nil).Count)
	require.NoError(t, set(false))
	require.Zero(t, x.backend.engine.Expire(now.Add(time.Hour)))
}

func checkBadDefinitions(t *testing.T, x *table) {
	for name, spoil := range map[string]func(*dynamodb.CreateTableInput){
		"short name":          func(in *dynamodb.CreateTableInput) { in.TableName = aws.String("ab") },
		"undefined attribute": func(in *dynamodb.CreateTableInput) { in.AttributeDefinitions = in.AttributeDefinitions[:1] },
		"unused attribute": func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes = nil
		},
		"range first":   func(in *dynamodb.CreateTableInput) { in.KeySchema[0].KeyType = types.KeyTypeRange },
		"equal keys":    func(in *dynamodb.CreateTableInput) { in.KeySchema[1].AttributeName = aws.String("pk") },
		"no throughput": func(in *dynamodb.CreateTableInput) { in.BillingMode = types.BillingModeProvisioned },
		"same index twice": func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[1].IndexName = in.GlobalSecondaryIndexes[0].IndexName
		},
		"include nothing": func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[2].Projection.NonKeyAttributes = nil
		},
		"no stream view": func(in *dynamodb.CreateTableInput) { in.StreamSpecification.StreamViewType = "" },
		"local index": func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{{
				IndexName: aws.String("local"), KeySchema: schema("pk", "g1"),
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			}}
		},
	} {
		in := definition("spoilt", true)
		spoil(in)
		_, err := x.db.CreateTable(t.Context(), in)
		require.Error(t, err, name)
		requireCode(t, err, "ValidationException")
	}
}
