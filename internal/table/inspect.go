package table

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Facts describe a table without its items.
type Facts struct {
	Table *types.TableDescription
	TTL   *types.TimeToLiveDescription
}

// Fault is a difference between a table and its [Definition], with a fix.
type Fault struct {
	What string `json:"what"`
	Fix  string `json:"fix"`
}

// Inspect describes a table. If the table does not exist, the error is a
// *types.ResourceNotFoundException.
func Inspect(ctx context.Context, client *dynamodb.Client, name string) (Facts, error) {
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		return Facts{}, fmt.Errorf("look at the table %s: %w", name, err)
	}
	ttl, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil {
		return Facts{}, fmt.Errorf("look at the ttl setting of table %s: %w", name, err)
	}
	return Facts{Table: out.Table, TTL: ttl.TimeToLiveDescription}, nil
}

// Stream returns the content of the table's stream records; empty without a stream.
func (f Facts) Stream() types.StreamViewType {
	if s := f.Table.StreamSpecification; s != nil && aws.ToBool(s.StreamEnabled) {
		return s.StreamViewType
	}
	return ""
}

// Expires reports whether items expire by their ttl.
func (f Facts) Expires() bool {
	return f.TTL != nil && aws.ToString(f.TTL.AttributeName) == attrTTL &&
		(f.TTL.TimeToLiveStatus == types.TimeToLiveStatusEnabled || f.TTL.TimeToLiveStatus == types.TimeToLiveStatusEnabling)
}

// Fixes of faults.
const (
	fixElse  = "it was not made by `tidegate table create`: choose another --table"
	fixWait  = "wait until it is active"
	fixIndex = "add the index as `tidegate table create` makes it in a new table"
)

// Faults returns the faults that keep the table from being used. Additional indexes
// are no faults.
func (f Facts) Faults() []Fault {
	want := Definition(aws.ToString(f.Table.TableName))
	var faults []Fault
	fault := func(fix, format string, args ...any) {
		faults = append(faults, Fault{What: fmt.Sprintf(format, args...), Fix: fix})
	}
	if f.Table.TableStatus != types.TableStatusActive {
		fault(fixWait, "the table is %s", f.Table.TableStatus)
	}
	if !f.sameKeys(f.Table.KeySchema, want.KeySchema) {
		fault(fixElse, "the table's keys are not those of Tidegate")
	}
	for _, index := range want.GlobalSecondaryIndexes {
		f.indexFaults(index, fault)
	}
	if stream := f.Stream(); stream != want.StreamSpecification.StreamViewType {
		fault("enable the table's stream with "+string(want.StreamSpecification.StreamViewType),
			"the stream's records hold %s, not both images", orNothing(string(stream)))
	}
	if !f.Expires() {
		fault("run `tidegate table create`, which turns that on", "items do not expire by their ttl")
	}
	return faults
}

func (f Facts) indexFaults(want types.GlobalSecondaryIndex, fault func(fix, format string, args ...any)) {
	name := aws.ToString(want.IndexName)
	at := slices.IndexFunc(f.Table.GlobalSecondaryIndexes, func(d types.GlobalSecondaryIndexDescription) bool {
		return aws.ToString(d.IndexName) == name
	})
	if at < 0 {
		fault(fixIndex, "the index %s is missing", name)
		return
	}
	is := f.Table.GlobalSecondaryIndexes[at]
	if is.IndexStatus != types.IndexStatusActive {
		fault(fixWait, "the index %s is %s", name, is.IndexStatus)
	}
	if !f.sameKeys(is.KeySchema, want.KeySchema) {
		fault("delete it, and "+fixIndex, "the index %s has other keys", name)
	}
	if is.Projection == nil || is.Projection.ProjectionType != want.Projection.ProjectionType {
		// It would serve, at twice the price of every acquire.
		fault("delete it, and "+fixIndex, "the index %s does not project %s", name, want.Projection.ProjectionType)
	}
}

// sameKeys reports whether a key schema equals the wanted schema, with string keys.
func (f Facts) sameKeys(is, want []types.KeySchemaElement) bool {
	return slices.EqualFunc(is, want, func(a, b types.KeySchemaElement) bool {
		return aws.ToString(a.AttributeName) == aws.ToString(b.AttributeName) && a.KeyType == b.KeyType &&
			slices.ContainsFunc(f.Table.AttributeDefinitions, func(d types.AttributeDefinition) bool {
				return aws.ToString(d.AttributeName) == aws.ToString(b.AttributeName) && d.AttributeType == types.ScalarAttributeTypeS
			})
	})
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
