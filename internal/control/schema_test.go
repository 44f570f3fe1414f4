package control_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/config"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/keys"
)

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		schema, release int64
		want            control.Verdict
	}{
		"the same":  {3, 3, control.Compatible},
		"older":     {2, 3, control.NeedsMigration},
		"newer":     {4, 3, control.TooNew},
		"no record": {0, 3, control.Unmarked},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, control.JudgeSchema(c.schema, c.release)) })
	}
}

// bench is a table that Tidegate made, with namespaces; ids are theirs.
func bench(t *testing.T, namespaces int) (b *tabletest.Bench, ids []string) {
	t.Helper()
	b = tabletest.New(t)
	require.NoError(t, table.CreateTable(t.Context(), b.Direct, b.Table))
	require.NoError(t, control.MarkSchema(t.Context(), b.Direct, b.Table))
	registry := config.NewNamespaces(b.Direct, b.Table)
	for i := range namespaces {
		id, err := registry.Ensure(t.Context(), fmt.Sprintf("tenant-%04d", i))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	return b, ids
}

func check(t *testing.T, b *tabletest.Bench) *control.SchemaReport {
	t.Helper()
	r, err := control.CheckSchema(t.Context(), b.DB, b.Table)
	require.NoError(t, err)
	return r
}

// write puts a version record in the place of another.
func write(t *testing.T, b *tabletest.Bench, namespace string, version int64) {
	t.Helper()
	_, err := b.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &b.Table, Item: table.EncodeVersion(keys.Version{Namespace: namespace}, version),
	})
	require.NoError(t, err)
}

func TestWhatTidegateMakesIsCompatible(t *testing.T) {
	b, _ := bench(t, 3)
	r := check(t, b)
	require.True(t, r.Compatible(), "%+v", r)
	require.Equal(t, 3, r.Namespaces)
	require.Equal(t, control.Written{Name: b.Table, Schema: table.SchemaVersion, Verdict: control.Compatible}, r.Table)
	require.NoError(t, control.RefuseSchema(t.Context(), b.DB, b.Table))
}

func TestATableOfAnotherSchema(t *testing.T) {
	for name, c := range map[string]struct {
		version int64
		want    control.Verdict
	}{
		"newer": {table.SchemaVersion + 1, control.TooNew},
		"older": {table.SchemaVersion - 1, control.Unmarked}, // schema 0 was never written: it stands for no record
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := bench(t, 1)
			write(t, b, keys.Registry, c.version)
			r := check(t, b)
			require.False(t, r.Compatible())
			require.Equal(t, c.want, r.Table.Verdict)
			require.NotEmpty(t, r.Table.Fix)
			require.Empty(t, r.Faults)
			require.NoError(t, control.MarkSchema(t.Context(), b.DB, b.Table))
			require.Equal(t, c.version, check(t, b).Table.Schema, "a mark stays")
			err := control.RefuseSchema(t.Context(), b.DB, b.Table)
			if c.want != control.TooNew {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, control.ErrTooNew)
			require.ErrorContains(t, err, "written in schema 2, and this release knows schemas up to 1")
		})
	}
}

func TestATableWithoutAMark(t *testing.T) {
	b := tabletest.New(t)
	require.NoError(t, table.CreateTable(t.Context(), b.Direct, b.Table))
	require.Equal(t, control.Unmarked, check(t, b).Table.Verdict)
	require.NoError(t, control.RefuseSchema(t.Context(), b.DB, b.Table))
	require.NoError(t, control.MarkSchema(t.Context(), b.DB, b.Table))
	require.True(t, check(t, b).Compatible())
}

func TestEachNamespaceIsLookedAt(t *testing.T) {
	b, ids := bench(t, 120) // more than one batch
	write(t, b, ids[7], table.SchemaVersion+2)
	_, err := b.Direct.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &b.Table, Key: table.KeyItem(keys.Version{Namespace: ids[119]}.Key())})
	require.NoError(t, err)
	r := check(t, b)
	require.False(t, r.Compatible())
	require.Equal(t, 120, r.Namespaces)
	require.Len(t, r.Misfits, 2)
	require.Equal(t, control.Written{Name: "tenant-0007", Schema: table.SchemaVersion + 2, Verdict: control.TooNew, Fix: r.Misfits[0].Fix}, r.Misfits[0])
	require.Equal(t, "tenant-0119", r.Misfits[1].Name)
	require.Equal(t, control.Unmarked, r.Misfits[1].Verdict)
}

func TestAMissingTableIsAFault(t *testing.T) {
	b := tabletest.New(t)
	r, err := control.CheckSchema(t.Context(), b.DB, "nothing")
	require.NoError(t, err)
	require.False(t, r.Compatible())
	require.Equal(t, control.Unread, r.Table.Verdict)
	require.Len(t, r.Faults, 1)
	require.Contains(t, r.Faults[0].Fix, "tidegate table create")
}

// Each way in which a table can differ is a fault of its own.
func TestATableThatDiffersIsFaulty(t *testing.T) {
	for name, c := range map[string]struct {
		differ func(*dynamodb.CreateTableInput)
		faults []string
	}{
		"as made":      {func(*dynamodb.CreateTableInput) {}, nil},
		"an own index": {func(in *dynamodb.CreateTableInput) { addIndex(in, "mine") }, nil},
		"a missing index": {func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes = in.GlobalSecondaryIndexes[:3]
			in.AttributeDefinitions = in.AttributeDefinitions[:8]
		}, []string{"the index GSI4 is missing"}},
		"everything projected": {func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[1].Projection = &types.Projection{ProjectionType: types.ProjectionTypeAll}
		}, []string{"the index GSI2 does not project KEYS_ONLY"}},
		"another's keys in an index": {func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[2].KeySchema[0].AttributeName = in.AttributeDefinitions[0].AttributeName
			in.AttributeDefinitions = append(in.AttributeDefinitions[:6:6], in.AttributeDefinitions[7:]...)
		}, []string{"the index GSI3 has other keys"}},
		"no stream": {func(in *dynamodb.CreateTableInput) { in.StreamSpecification = nil }, []string{"the stream's records hold nothing, not both images"}},
		"a small stream": {func(in *dynamodb.CreateTableInput) {
			in.StreamSpecification.StreamViewType = types.StreamViewTypeKeysOnly
		}, []string{"the stream's records hold KEYS_ONLY, not both images"}},
		"no sort key": {func(in *dynamodb.CreateTableInput) {
			in.KeySchema = in.KeySchema[:1]
			in.AttributeDefinitions = append(in.AttributeDefinitions[:1:1], in.AttributeDefinitions[2:]...)
		}, []string{"the table's keys are not those of Tidegate"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := tabletest.New(t)
			in := table.Definition("other")
			c.differ(in)
			_, err := b.Direct.CreateTable(t.Context(), in)
			require.NoError(t, err)
			facts, err := table.Inspect(t.Context(), b.Direct, "other")
			require.NoError(t, err)
			var found []string
			for _, f := range facts.Faults() {
				require.NotEmpty(t, f.Fix)
				if f.What != "items do not expire by their ttl" { // which only CreateTable turns on
					found = append(found, f.What)
				}
			}
			require.Equal(t, c.faults, found)
			require.False(t, facts.Expires())
		})
	}
}

func addIndex(in *dynamodb.CreateTableInput, name string) {
	own := in.GlobalSecondaryIndexes[0]
	own.IndexName = aws.String(name)
	own.Projection = &types.Projection{ProjectionType: types.ProjectionTypeAll}
	in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, own)
}

func TestWhatCannotBeLookedAtIsAnError(t *testing.T) {
	for operation, says := range map[string]string{
		"DescribeTable":      "look at the table",
		"DescribeTimeToLive": "look at the ttl setting",
		"GetItem":            "read the schema of table",
		"Query":              "list the namespaces",
		"BatchGetItem":       "read the schemas of namespaces",
	} {
		t.Run(operation, func(t *testing.T) {
			b, _ := bench(t, 1)
			b.Fail(operation, fault.InternalError())
			_, err := control.CheckSchema(t.Context(), b.DB, b.Table)
			require.ErrorContains(t, err, says)
		})
	}
	b, _ := bench(t, 0)
	b.Fail("GetItem", fault.InternalError())
	require.ErrorContains(t, control.RefuseSchema(t.Context(), b.DB, b.Table), "read the schema")
	b.Fail("PutItem", fault.InternalError())
	require.ErrorContains(t, control.MarkSchema(t.Context(), b.DB, b.Table), "mark the table")
	write(t, b, keys.Registry, table.SchemaVersion)
	_, err := b.Direct.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &b.Table, Key: table.KeyItem(keys.Version{Namespace: keys.Registry}.Key()), UpdateExpression: aws.String("REMOVE schema_version"),
	})
	require.NoError(t, err)
	require.ErrorIs(t, control.RefuseSchema(t.Context(), b.DB, b.Table), table.ErrDamaged)
}
