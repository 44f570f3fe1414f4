package main

import (
	"regexp"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// TestCheck looks at tables that fit and do not.
func TestCheck(t *testing.T) {
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	s := startUp(t, "--dynamodb-listen", "127.0.0.1:0")
	endpoint := regexp.MustCompile(`DynamoDB (http://[0-9.:]+)`).FindStringSubmatch(s.printed)[1]
	env := map[string]string{"TIDEGATE_DYNAMODB_ENDPOINT": endpoint, "TIDEGATE_NATS": s.nats}
	client, err := storeFlags{Endpoint: endpoint}.open(t.Context())
	require.NoError(t, err)

	text := transcript(t, env, "check", "check --json", "check --table missing", "check --table missing --json",
		"table create --table newer")
	newer := "newer"
	_, err = client.PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: &newer, Item: table.EncodeVersion(keys.Version{Namespace: keys.Registry}, table.SchemaVersion+1),
	})
	require.NoError(t, err)
	bare := table.Definition("bare")
	bare.StreamSpecification = nil
	_, err = client.CreateTable(t.Context(), bare)
	require.NoError(t, err)
	text += transcript(t, env, "check --table newer", "admission --table newer --admin-listen 127.0.0.1:0", "table create --table newer",
		"check --table bare", "table status --table bare")
	text = regexp.MustCompile(`(?m)^time=.*\n`).ReplaceAllString(text, "") // the log of admission
	golden(t, "check.txt", text)
}
