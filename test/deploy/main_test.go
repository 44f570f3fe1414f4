package deploy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/test/program"
)

// ourProgram is the program of the image.
func ourProgram(t *testing.T) string {
	t.Helper()
	require.Equal(t, program.Image, directive(t, "RUN", "go build"))
	file, err := program.Tidegate(t.Context())
	require.NoError(t, err)
	return file
}

// natsServerProgram is the server of the official image: the program of the module
// that the tests embed, so that both are one version.
func natsServerProgram(t *testing.T) string {
	t.Helper()
	file, err := program.NATSServer(t.Context())
	require.NoError(t, err)
	return file
}
