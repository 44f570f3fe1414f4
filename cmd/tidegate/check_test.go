package main

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/keys"
)

// TestCheck looks at tables that fit and do not.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := startUp(t, "--dynamodb-listen", "127.0.0.1:0")
	endpoint := s.endpoint(t)
	env := map[string]string{"TIDEGATE_DYNAMODB_ENDPOINT": endpoint, "TIDEGATE_NATS": s.nats}
	client, err := storeFlags{Endpoint: endpoint}.open(t.Context(), output{environment: newWorld().environment(), atEnd: new(tasks)})
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
	at := map[string]string{"DURABLE": monitored(t, true), "FORGETFUL": monitored(t, false)}
	for _, name := range []string{"DURABLE", "FORGETFUL"} {
		for _, flags := range []string{"", " --json"} {
			text += strings.ReplaceAll(transcript(t, env, "check --nats-monitor "+at[name]+flags), at[name], "http://"+name)
		}
	}
	text += transcript(t, env, "check --nats-monitor http://127.0.0.1:1")
	text = regexp.MustCompile(`(?m)^time=.*\n`).ReplaceAllString(text, "") // the log of admission
	golden(t, "check.txt", text)
}

// monitored is the monitoring address of a NATS server, which forces messages to the
// disk or does not.
func monitored(t *testing.T, always bool) string {
	t.Helper()
	s := natstest.StartWith(t, &server.Options{JetStream: true, SyncAlways: always, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT})
	return "http://" + s.MonitorAddr().String()
}

// A service that is told where NATS can be asked warns once if it may forget.
func TestAServiceWarnsOfNATSThatForgets(t *testing.T) {
	for name, c := range map[string]struct {
		at   string
		says string
	}{
		"durable":     {monitored(t, true), ""},
		"forgetful":   {monitored(t, false), "sync_interval: always"},
		"not there":   {"http://127.0.0.1:1", "cannot be asked"},
		"not told of": {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			monitorFlags{NATSMonitor: c.at}.warn(t.Context(), slog.New(slog.NewTextHandler(&said, nil)))
			require.Equal(t, c.says == "", said.Len() == 0, said.String())
			require.Contains(t, said.String(), c.says)
		})
	}
}
