package deploy_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// The server of the files forces what it acknowledges to the disk: promises rest on it.
func TestTheFilesForceMessagesToTheDisk(t *testing.T) {
	setPasswords(t)
	o, err := server.ProcessConfigFile(natsFiles(t))
	require.NoError(t, err)
	require.True(t, o.SyncAlways)
}
