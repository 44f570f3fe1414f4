package control_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/control"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table/tabletest"
)

// An archive that cannot be read is refused at the start: an unknown bucket, no
// permission. One that is away for now is not, for it is needed to admit nobody.
func TestAnArchiveThatCannotBeRead(t *testing.T) {
	objects := archivetest.New(t)
	check := func(url string) error {
		a, err := archive.Open(t.Context(), url, archive.Options{AWS: archivetest.AWS})
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		return openPlane(t, a).Check(t.Context())
	}
	require.NoError(t, check(objects.URL(archivetest.Bucket)))
	require.ErrorContains(t, check(objects.URL("another-bucket")), "NoSuchBucket")
	objects.Each(func(*http.Request) archivetest.Fault { return archivetest.Denied })
	require.ErrorContains(t, check(objects.URL(archivetest.Bucket)), "AccessDenied")
	objects.Each(func(*http.Request) archivetest.Fault { return archivetest.Failed })
	require.NoError(t, check(objects.URL(archivetest.Bucket)))
	require.NoError(t, check("s3://bucket?region=us-east-1&endpoint=http://127.0.0.1:1"))
	require.NoError(t, openPlane(t, nil).Check(t.Context()))
}

// openPlane returns a control plane on a new table.
func openPlane(t *testing.T, a *archive.Archive) *control.Plane {
	t.Helper()
	clock := store.NewClock(func() store.ClockReading { return store.ClockReading{} })
	b := tabletest.New(t)
	return control.Open(control.Options{DynamoDB: engine.Config(b.Faults, "us-east-1"), Table: b.Table, Clock: clock, Archive: a, Log: slog.New(slog.DiscardHandler)})
}
