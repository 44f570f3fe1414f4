package deploy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/table"
)

// stackTable is what CloudFormation is told of the table: what CreateTable takes,
// and what takes calls of its own.
type stackTable struct {
	dynamodb.CreateTableInput

	TimeToLiveSpecification          types.TimeToLiveSpecification
	PointInTimeRecoverySpecification types.PointInTimeRecoverySpecification
}

// The template is what the program prints, and a table made as it says is one
// that the program takes for its own.
func TestTheTemplateIsTheTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "deploy", "aws", "table.yaml"))
	require.NoError(t, err)
	printed, err := exec.CommandContext(t.Context(), ourProgram(t), "table", "template").Output()
	require.NoError(t, err)
	require.Equal(t, string(printed), string(text), "write it anew: tidegate table template > deploy/aws/table.yaml")

	var template struct {
		Parameters map[string]struct {
			Default string `yaml:"Default"`
		} `yaml:"Parameters"`
		Resources map[string]struct {
			Properties map[string]any `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	require.NoError(t, yaml.Unmarshal(text, &template))
	properties := template.Resources["Table"].Properties
	require.Equal(t, map[string]any{"Ref": "TableName"}, properties["TableName"])
	properties["TableName"] = template.Parameters["TableName"].Default
	asJSON, err := json.Marshal(properties)
	require.NoError(t, err)
	var asked stackTable
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&asked))
	require.True(t, *asked.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled)
	require.True(t, *asked.DeletionProtectionEnabled)

	db := dynamodb.NewFromConfig(engine.Config(engine.New(engine.Options{Now: time.Now}).HTTPClient(), region))
	asked.StreamSpecification.StreamEnabled = aws.Bool(true) // CloudFormation's does not say it
	_, err = db.CreateTable(t.Context(), &asked.CreateTableInput)
	require.NoError(t, err)
	_, err = db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: asked.TableName, TimeToLiveSpecification: &asked.TimeToLiveSpecification,
	})
	require.NoError(t, err)
	facts, err := table.Inspect(t.Context(), db, table.DefaultName)
	require.NoError(t, err)
	require.Empty(t, facts.Faults())
	require.Equal(t, table.Definition(table.DefaultName).BillingMode, facts.Table.BillingModeSummary.BillingMode)
	require.Len(t, facts.Table.GlobalSecondaryIndexes, len(table.Definition("").GlobalSecondaryIndexes))
}
