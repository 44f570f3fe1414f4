package archive_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
)

// What is wrong with an object store is said when a service starts, by whoever needs
// it: writers try a write, readers a list and a read.
func TestAStoreThatCannotBeUsedIsFoundAtTheStart(t *testing.T) {
	s := archivetest.New(t)
	denies := func(methods ...string) func(*http.Request) archivetest.Fault {
		return func(r *http.Request) archivetest.Fault {
			for _, m := range methods {
				if r.Method == m {
					return archivetest.Denied
				}
			}
			return archivetest.None
		}
	}
	unknown, err := archive.Open(t.Context(), s.URL("another-bucket"), archive.Options{AWS: archivetest.AWS})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unknown.Close()) })
	require.ErrorContains(t, unknown.CheckWritable(t.Context()), "NoSuchBucket")
	require.ErrorContains(t, unknown.CheckReadable(t.Context()), "NoSuchBucket")

	a := s.Open(t)
	require.NoError(t, a.CheckReadable(t.Context()), "nobody has written yet")
	s.Each(denies(http.MethodPut))
	require.ErrorContains(t, a.CheckWritable(t.Context()), "AccessDenied")
	require.NoError(t, a.CheckReadable(t.Context()), "who reads needs no right to write")
	s.Each(nil)
	require.NoError(t, a.CheckWritable(t.Context()))
	s.Each(denies(http.MethodGet))
	require.ErrorContains(t, a.CheckWritable(t.Context()), "AccessDenied")
	require.ErrorContains(t, a.CheckReadable(t.Context()), "AccessDenied")
	require.NotErrorIs(t, a.CheckReadable(t.Context()), archive.ErrUnreachable)
	s.Each(func(*http.Request) archivetest.Fault { return archivetest.Failed })
	require.ErrorIs(t, a.CheckReadable(t.Context()), archive.ErrUnreachable)
	s.Each(func(*http.Request) archivetest.Fault { return archivetest.Unreachable })
	require.ErrorIs(t, a.CheckReadable(t.Context()), archive.ErrUnreachable)
	require.ErrorContains(t, a.CheckWritable(t.Context()), "cannot be written")
	require.Empty(t, s.Keys(t), "the marker is no object of events")
}

// A store that overwrites what is there, although it is told not to, would lose events
// in silence. It is found at the start, also where an archive is there already.
func TestAStoreThatOverwritesIsFoundAtTheStart(t *testing.T) {
	s := archivetest.New(t)
	a := s.Open(t)
	for range 2 {
		s.Each(func(*http.Request) archivetest.Fault { return archivetest.Overwrites })
		require.ErrorContains(t, a.CheckWritable(t.Context()), "If-None-Match")
		s.Each(nil)
		require.NoError(t, a.CheckWritable(t.Context()))
	}
}
