package table

import (
	"bytes"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.yaml.in/yaml/v3"
)

// A CloudFormation stack, in the order of its output.
type (
	stackTemplate struct {
		Version     string                    `yaml:"AWSTemplateFormatVersion"`
		Description string                    `yaml:"Description"`
		Parameters  map[string]stackParameter `yaml:"Parameters"`
		Resources   map[string]stackTable     `yaml:"Resources"`
		Outputs     map[string]stackOutput    `yaml:"Outputs"`
	}
	stackParameter struct {
		Type    string `yaml:"Type"`
		Default string `yaml:"Default"`
	}
	stackTable struct {
		Type string `yaml:"Type"`
		// The data outlives the stack, and changes that would replace the table.
		DeletionPolicy      string          `yaml:"DeletionPolicy"`
		UpdateReplacePolicy string          `yaml:"UpdateReplacePolicy"`
		Properties          stackProperties `yaml:"Properties"`
	}
	stackProperties struct {
		TableName   map[string]string `yaml:"TableName"`
		BillingMode types.BillingMode `yaml:"BillingMode"`
		Attributes  []stackAttribute  `yaml:"AttributeDefinitions"`
		KeySchema   []stackKey        `yaml:"KeySchema"`
		Indexes     []stackIndex      `yaml:"GlobalSecondaryIndexes"`
		Stream      stackStream       `yaml:"StreamSpecification"`
		TTL         stackTTL          `yaml:"TimeToLiveSpecification"`
		Recovery    stackRecovery     `yaml:"PointInTimeRecoverySpecification"`
		Protected   bool              `yaml:"DeletionProtectionEnabled"`
	}
	stackAttribute struct {
		Name string                    `yaml:"AttributeName"`
		Type types.ScalarAttributeType `yaml:"AttributeType"`
	}
	stackKey struct {
		Name string        `yaml:"AttributeName"`
		Type types.KeyType `yaml:"KeyType"`
	}
	stackIndex struct {
		Name       string          `yaml:"IndexName"`
		KeySchema  []stackKey      `yaml:"KeySchema"`
		Projection stackProjection `yaml:"Projection"`
	}
	stackProjection struct {
		Type types.ProjectionType `yaml:"ProjectionType"`
	}
	stackStream struct {
		View types.StreamViewType `yaml:"StreamViewType"`
	}
	stackTTL struct {
		Name    string `yaml:"AttributeName"`
		Enabled bool   `yaml:"Enabled"`
	}
	stackRecovery struct {
		Enabled bool `yaml:"PointInTimeRecoveryEnabled"`
	}
	stackOutput struct {
		Value map[string][]string `yaml:"Value"`
	}
)

const templateHead = `# The table of Tidegate for CloudFormation, as "tidegate table template" prints it.
# It outlives the stack that makes it, is protected from deletion, and can be
# restored as it was at any second of the last 35 days. Afterwards "tidegate table
# create" makes what has to be in it.
`

// Template returns the table of [Definition] as a CloudFormation template in YAML,
// with settings that protect the data.
func Template(name string) ([]byte, error) {
	const resource, parameter = "Table", "TableName"
	attribute := func(of string) stackOutput {
		return stackOutput{Value: map[string][]string{"Fn::GetAtt": {resource, of}}}
	}
	var out bytes.Buffer
	out.WriteString(templateHead)
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err := encoder.Encode(stackTemplate{
		Version: "2010-09-09", Description: "The table of Tidegate",
		Parameters: map[string]stackParameter{parameter: {Type: "String", Default: name}},
		Resources: map[string]stackTable{resource: {
			Type: "AWS::DynamoDB::Table", DeletionPolicy: "Retain", UpdateReplacePolicy: "Retain",
			Properties: properties(Definition(name), map[string]string{"Ref": parameter}),
		}},
		Outputs: map[string]stackOutput{"TableArn": attribute("Arn"), "StreamArn": attribute("StreamArn")},
	})
	if err != nil {
		return nil, fmt.Errorf("write the template of table %s: %w", name, err)
	}
	return out.Bytes(), nil
}

func properties(d *dynamodb.CreateTableInput, name map[string]string) stackProperties {
	p := stackProperties{
		TableName: name, BillingMode: d.BillingMode, KeySchema: stackKeys(d.KeySchema),
		Stream: stackStream{d.StreamSpecification.StreamViewType}, TTL: stackTTL{attrTTL, true},
		Recovery: stackRecovery{true}, Protected: true,
	}
	for _, a := range d.AttributeDefinitions {
		p.Attributes = append(p.Attributes, stackAttribute{aws.ToString(a.AttributeName), a.AttributeType})
	}
	for _, i := range d.GlobalSecondaryIndexes {
		p.Indexes = append(p.Indexes, stackIndex{aws.ToString(i.IndexName), stackKeys(i.KeySchema), stackProjection{i.Projection.ProjectionType}})
	}
	return p
}

func stackKeys(schema []types.KeySchemaElement) []stackKey {
	keys := make([]stackKey, len(schema))
	for i, e := range schema {
		keys[i] = stackKey{aws.ToString(e.AttributeName), e.KeyType}
	}
	return keys
}
