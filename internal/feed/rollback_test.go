package feed_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
)

func find(t *testing.T, root, name string) (found string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == name {
			found = path
		}
		return nil
	}))
	require.NotEmpty(t, found)
	return found
}

// The machine of a NATS server of one replica fails: what was acknowledged within the
// last sync_interval is gone from the stream's files, while what consumers had
// acknowledged may be on the disk already. Messages that come then get numbers that
// consumers count as seen.
func TestAStreamThatLostItsEndIsFollowed(t *testing.T) {
	w := newWorld(t)
	l, p := newLedger(), w.publisher(t)
	m := w.memberOf(t, "a", func(_ context.Context, b *feed.Batch) error { l.apply("a", b); return nil }, fast(), events.Decode)
	for i := range 40 {
		p.publish(t, fmt.Sprintf("entity-%d", i%4))
	}
	l.mustHave(t, p.last)
	dir := find(t, w.nats.StoreDir(), events.StreamName)
	old := filepath.Join(t.TempDir(), "msgs")
	require.NoError(t, os.CopyFS(old, os.DirFS(filepath.Join(dir, "msgs"))))
	for i := range 40 {
		p.publish(t, fmt.Sprintf("entity-%d", i%4))
	}
	l.mustHave(t, p.last)
	m.leave(t) // all acknowledgements are with the server
	w.nats.Stop()
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "msgs")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "msgs"), os.DirFS(old)))
	_ = os.Remove(filepath.Join(dir, "msgs", "index.db"))
	w.nats.Restart(t)
	p.js = w.connect(t)
	m = w.memberOf(t, "b", func(_ context.Context, b *feed.Batch) error { l.apply("b", b); return nil }, fast(), events.Decode)
	// New changes come, and the relay brings the lost ones again in whatever order: here
	// the new ones are first.
	for i := range 40 {
		p.publish(t, fmt.Sprintf("entity-%d", i%4))
	}
	l.mustHave(t, p.last)
	m.leave(t)
}
