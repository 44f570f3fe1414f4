package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"
)

// The parameters of table operations, in their wire format.

type attributeDefinition struct {
	AttributeName, AttributeType string
}

type keyElement struct {
	AttributeName, KeyType string
}

type throughput struct {
	ReadCapacityUnits, WriteCapacityUnits int64
}

type projectionDefinition struct {
	ProjectionType   string
	NonKeyAttributes []string `json:",omitempty"`
}

type indexDefinition struct {
	IndexName             string
	KeySchema             []keyElement
	Projection            projectionDefinition
	ProvisionedThroughput *throughput
}

type streamSpecification struct {
	StreamEnabled  bool
	StreamViewType string `json:",omitempty"`
}

type createTableInput struct {
	TableName                 string
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keyElement
	GlobalSecondaryIndexes    []indexDefinition
	LocalSecondaryIndexes     []json.RawMessage
	BillingMode               string
	ProvisionedThroughput     *throughput
	StreamSpecification       streamSpecification
	DeletionProtectionEnabled bool
	Tags                      []tag `json:",omitempty"`
}

type updateTableInput struct {
	TableName                   string
	AttributeDefinitions        []attributeDefinition
	BillingMode                 string
	ProvisionedThroughput       *throughput
	StreamSpecification         *streamSpecification
	DeletionProtectionEnabled   *bool
	ReplicaUpdates              []json.RawMessage
	GlobalSecondaryIndexUpdates []struct {
		Create *indexDefinition
		Update *json.RawMessage
		Delete *struct{ IndexName string }
	}
}

// decodeStruct decodes the parameters of an operation that need not be fast.
func decodeStruct(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return serialization("the request has no body")
	}
	err := json.Unmarshal(body, into)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		return serialization("%s cannot be a JSON %s", mismatch.Field, mismatch.Value)
	case err != nil:
		return serialization("%v", err)
	}
	return nil
}

// Descriptions, in their wire format.

type throughputDescription struct {
	NumberOfDecreasesToday int64
	ReadCapacityUnits      int64
	WriteCapacityUnits     int64
}

type indexDescription struct {
	IndexName             string
	IndexArn              string
	IndexStatus           string
	KeySchema             []keyElement
	Projection            projectionDefinition
	ProvisionedThroughput throughputDescription
	IndexSizeBytes        int64
	ItemCount             int
}

type tableDescription struct {
	TableName                 string
	TableArn                  string
	TableID                   string `json:"TableId"`
	TableStatus               string
	CreationDateTime          json.RawMessage
	AttributeDefinitions      []attributeDefinition
	KeySchema                 []keyElement
	ProvisionedThroughput     throughputDescription
	BillingModeSummary        *billingSummary `json:",omitempty"`
	TableSizeBytes            int64
	ItemCount                 int
	GlobalSecondaryIndexes    []indexDescription   `json:",omitempty"`
	StreamSpecification       *streamSpecification `json:",omitempty"`
	LatestStreamLabel         string               `json:",omitempty"`
	LatestStreamArn           string               `json:",omitempty"`
	DeletionProtectionEnabled bool
}

type billingSummary struct {
	BillingMode string
}

// epochSeconds formats a time as in DynamoDB's JSON.
func epochSeconds(at time.Time) json.RawMessage {
	return appendUnits(nil, float64(at.UnixMilli())/1000)
}

// describe returns the table as DescribeTable shows it. The caller holds mu.
func (t *table) describe(status string) tableDescription {
	d := tableDescription{
		TableName: t.name, TableArn: t.arn, TableID: t.id, TableStatus: status,
		CreationDateTime: epochSeconds(t.created), AttributeDefinitions: t.kinds, KeySchema: t.keys.describe(),
		ProvisionedThroughput: throughputDescription{
			ReadCapacityUnits: t.throughput.ReadCapacityUnits, WriteCapacityUnits: t.throughput.WriteCapacityUnits,
		},
		TableSizeBytes: t.size, ItemCount: t.rows.Len(), DeletionProtectionEnabled: t.protected,
	}
	if t.billing == billingOnDemand {
		d.BillingModeSummary = &billingSummary{BillingMode: t.billing}
	}
	for _, x := range t.indexes {
		d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, indexDescription{
			IndexName: x.name, IndexArn: t.arn + "/index/" + x.name, IndexStatus: statusActive,
			KeySchema: x.keys.describe(), Projection: x.describeProjection(),
			IndexSizeBytes: x.size, ItemCount: x.rows.Len(),
		})
	}
	if t.stream.StreamEnabled {
		stream := t.stream
		d.StreamSpecification = &stream
	}
	if t.changes != nil {
		d.LatestStreamLabel, d.LatestStreamArn = t.changes.label, t.changes.arn
	}
	return d
}

func (k *keySchema) describe() []keyElement {
	out := []keyElement{{AttributeName: k.part.name, KeyType: "HASH"}}
	if k.sort.name != "" {
		out = append(out, keyElement{AttributeName: k.sort.name, KeyType: "RANGE"})
	}
	return out
}

func (x *index) describeProjection() projectionDefinition {
	switch x.project {
	case projectAll:
		return projectionDefinition{ProjectionType: "ALL"}
	case projectInclude:
		return projectionDefinition{ProjectionType: "INCLUDE", NonKeyAttributes: x.include}
	case projectKeys:
	}
	return projectionDefinition{ProjectionType: "KEYS_ONLY"}
}
