package archive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
)

func newMemory(t testing.TB) *Archive {
	t.Helper()
	a := New(memblob.OpenBucket(nil), "mem://")
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// Whatever order events were deleted in, however they were bundled, and how often
// they came, pages of any size show each once, the newest first.
func TestPagesShowEachEventOnceInOrder(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const n = 1000 // two days
	targets := []string{"alice", "bob", "$SYSTEM"}
	target := make([]string, n+1)
	a := newMemory(t)
	byTarget := map[string][]api.AuditEvent{}
	for i := 1; i <= n; i++ {
		target[i] = targets[random.IntN(3)]
		byTarget[target[i]] = append(byTarget[target[i]], event(i, target[i]))
	}
	for _, of := range byTarget {
		for i := range of { // DynamoDB expires items in any order, if not by far
			j := min(len(of)-1, i+random.IntN(40))
			of[i], of[j] = of[j], of[i]
		}
		for from := 0; from < len(of); {
			to := min(len(of), from+1+random.IntN(30))
			put(t, a, of[from:to])
			from = to - min(to-from-1, random.IntN(4)) // some come again, in another bundle
			if to == len(of) {
				break
			}
		}
	}
	of := func(name string) func(int64) bool { return func(i int64) bool { return target[i] == name } }
	ms := func(i int64) int64 { return noon().Add(time.Duration(i) * time.Minute).UnixMilli() }
	for name, c := range map[string]struct {
		q    audit.ArchiveQuery
		want []int64
	}{
		"all":     {audit.ArchiveQuery{}, countdown(n, 1, every)},
		"target":  {audit.ArchiveQuery{Target: "bob"}, countdown(n, 1, of("bob"))},
		"nobody":  {audit.ArchiveQuery{Target: "carol"}, []int64{}},
		"action":  {audit.ArchiveQuery{Action: api.AuditLimitsDelete}, countdown(n, 1, func(i int64) bool { return i%2 == 1 })},
		"never":   {audit.ArchiveQuery{Action: api.AuditKeyRotate}, []int64{}},
		"from":    {audit.ArchiveQuery{FromMs: ms(900)}, countdown(n, 900, every)},
		"to":      {audit.ArchiveQuery{ToMs: ms(700)}, countdown(700, 1, every)},
		"between": {audit.ArchiveQuery{FromMs: ms(600), ToMs: ms(800), Target: "alice"}, countdown(800, 600, of("alice"))},
		"before":  {audit.ArchiveQuery{Before: audit.Position{AtMs: ms(700), Sequence: 700}}, countdown(699, 1, every)},
		"since":   {audit.ArchiveQuery{Since: audit.Position{AtMs: ms(800), Sequence: 800}}, countdown(n, 800, every)},
	} {
		for _, size := range []int{1 + random.IntN(20), 100, 5000} {
			for _, objects := range []int{0, 3} {
				t.Run(fmt.Sprintf("%s by %d, %d objects", name, size, objects), func(t *testing.T) {
					if size < 50 && len(c.want) > 300 {
						return // pages of one event are tried where they are few
					}
					q := c.q
					q.Events, q.Objects = size, objects
					found, _ := walk(t.Context(), t, a, q)
					require.Equal(t, c.want, sequences(found))
				})
			}
		}
	}
}

// A page that finds nothing for long ends, and says up to where it has looked.
func TestAPageEndsAfterSoManyObjects(t *testing.T) {
	a := newMemory(t)
	for i := 1; i <= 400; i++ {
		put(t, a, span("alice", 10*i, 10*i+9))
	}
	_, pages := walk(t.Context(), t, a, audit.ArchiveQuery{Action: api.AuditKeyRotate, Events: 10, Objects: 20})
	require.GreaterOrEqual(t, pages, 20)
}

func sizeOf(e api.AuditEvent) int { return e.WireSize() }

// Pages are bounded by what they hold, whatever the size of events.
func TestPagesAreBoundedBySize(t *testing.T) {
	a := newMemory(t)
	put(t, a, span("alice", 1, 100))
	found, pages := walk(t.Context(), t, a, audit.ArchiveQuery{Events: 1000, Bytes: 10 * sizeOf(event(1, "alice"))})
	require.Equal(t, countdown(100, 1, every), sequences(found))
	require.Equal(t, 10, pages)
	found, _ = walk(t.Context(), t, a, audit.ArchiveQuery{Events: 1000, Bytes: 1})
	require.Len(t, found, 100, "one event at least")
}

// Copies that say something else are all shown: verify has to see them.
func TestCopiesThatDifferAreShown(t *testing.T) {
	a := newMemory(t)
	put(t, a, span("alice", 1, 3))
	forged := event(2, "alice")
	forged.Who.User = "mallory"
	put(t, a, []api.AuditEvent{forged})
	again := event(3, "alice")
	again.Deleted = &api.AuditDeletion{By: api.DeletedByHand}
	put(t, a, []api.AuditEvent{again})
	for _, size := range []int{1, 10} {
		found, _ := walk(t.Context(), t, a, audit.ArchiveQuery{Events: size})
		require.Equal(t, []int64{3, 2, 2, 1}, sequences(found))
	}
	found, err := a.Find(t.Context(), ns, audit.PositionOf(&forged))
	require.NoError(t, err)
	require.Len(t, found, 2)
	found, err = a.Find(t.Context(), ns, audit.Position{AtMs: forged.AtMs, Sequence: 7})
	require.NoError(t, err)
	require.Empty(t, found)
}

// What is none of the archive's is left alone; what was, and is damaged, is told once
// and does not hide the rest.
func TestDamageIsToldAndDoesNotHideTheRest(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	a := New(bucket, "mem://")
	write := func(key string, content []byte) {
		require.NoError(t, bucket.WriteAll(t.Context(), key, content, nil))
	}
	put(t, a, span("alice", 1, 10))
	write("audit/"+ns+"/2026/03/01/7-1-10.jsonl.gz.ABC.tmp", []byte("half"))
	write("audit/"+ns+"/2026/13/01/readme.txt", []byte("hello"))
	write("audit/"+ns+"/notes/x", nil)
	found, _ := walk(t.Context(), t, a, audit.ArchiveQuery{Events: 3})
	require.Equal(t, countdown(10, 1, every), sequences(found))

	compressed := func(lines string) []byte {
		content, err := compress([]byte(lines))
		require.NoError(t, err)
		return content
	}
	for name, content := range map[string][]byte{
		"no gzip": []byte("x"), "empty": {}, "cut off": compressed("{}\n")[:12], "no JSON": compressed("x\n"),
		"a stranger": compressed(`{"id":"1-1","namespace":"AAAAAAAAAAE","sequence":2}` + "\n"),
		"too large":  make([]byte, maxStored+1),
	} {
		t.Run(name, func(t *testing.T) {
			const key = "audit/" + ns + "/2026/03/01/7-2-9.jsonl.gz"
			write(key, content)
			_, err := a.Page(t.Context(), audit.ArchiveQuery{Namespace: ns, Events: 3, Bytes: 1 << 20})
			require.ErrorIs(t, err, audit.ErrObjectDamaged)
			require.ErrorContains(t, err, key)
			told := 0
			found, pages := walk(t.Context(), t, a, audit.ArchiveQuery{Events: 3, Broken: func(string, error) error { told++; return nil }})
			require.Equal(t, countdown(10, 1, every), sequences(found))
			require.Positive(t, told, "in %d pages", pages)
		})
	}
}

// What does not look like a folder of ours is not opened; what does is used.
func TestOpen(t *testing.T) {
	for raw, what := range map[string]string{
		"":                          "neither file:// nor s3://",
		"gs://bucket":               "neither file:// nor s3://",
		"/var/lib/archive":          "neither file:// nor s3://",
		"file:///":                  "names no folder",
		"file://server/archive":     "another machine",
		"file:///x?create=1":        "no parameters",
		"s3://":                     "names no bucket",
		"s3://b?acl=public":         "is no parameter",
		"s3://b?endpoint=localhost": "is no URL such as",
		"s3://key:secret@b":         "do not belong",
		"s3://key:sec/ret@b":        "do not belong",
		"key:secret@b":              "do not belong",
		"s3://b?endpoint=http%3A%2F%2Fkey:secret%40host":    "do not belong",
		"s3://b?endpoint=http%3A%2F%2Fkey:sec%2Fret%40host": "do not belong",
		"file:///x\x00": "invalid",
	} {
		_, err := Open(t.Context(), raw, Options{})
		require.ErrorIs(t, err, ErrBadURL, raw)
		require.ErrorContains(t, err, what, raw)
		require.NotContains(t, err.Error(), "sec", "it may be logged")
	}
	missing := filepath.Join(t.TempDir(), "a", "b")
	_, err := Open(t.Context(), "file://"+missing, Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
	a, err := Open(t.Context(), "file://"+missing, Options{Create: true})
	require.NoError(t, err)
	require.NoError(t, a.CheckReadable(t.Context()), "before anything was written")
	require.NoError(t, a.CheckWritable(t.Context()))
	require.NoError(t, a.CheckWritable(t.Context()), "twice")
	require.NoError(t, a.CheckReadable(t.Context()))
	put(t, a, span("alice", 1, 100))
	put(t, a, span("alice", 1, 100))
	found, _ := walk(t.Context(), t, a, audit.ArchiveQuery{Events: 7})
	require.Equal(t, countdown(100, 1, every), sequences(found))
	left := 0
	require.NoError(t, filepath.WalkDir(missing, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left++
		}
		return err
	}))
	require.Equal(t, 2, left, "the object and the marker, and nothing beside them")
	require.NoError(t, os.WriteFile(filepath.Join(missing, marker), []byte(`{"form":2}`), 0o600))
	require.ErrorContains(t, a.CheckReadable(t.Context()), "another form")
	require.ErrorContains(t, a.CheckWritable(t.Context()), "another form")
	require.NoError(t, a.Close())
}

// Of any number of writers of one file, one wins, and the others learn of it.
func TestOneWriterOfAFileWins(t *testing.T) {
	f := files{t.TempDir(), syncFolder}
	results := make(chan error)
	for i := range 16 {
		go func() { results <- f.put(context.Background(), "audit/x/y.jsonl.gz", []byte{byte(i)}) }()
	}
	won := 0
	for range 16 {
		err := <-results
		if err == nil {
			won++
			continue
		}
		require.ErrorIs(t, err, errExists)
	}
	require.Equal(t, 1, won)
}

// Whoever reads while others write finds what is there.
func TestReadingWhileOthersWrite(t *testing.T) {
	a, err := Open(t.Context(), "file://"+t.TempDir(), Options{})
	require.NoError(t, err)
	const n = 200
	written := make(chan error, 1)
	go func() {
		var err error
		for i := 1; i <= n && err == nil; i++ {
			_, err = a.Put(context.Background(), 1, span("alice", i, i))
		}
		written <- err
	}()
	for reading := true; reading; {
		select {
		case err := <-written:
			require.NoError(t, err)
			reading = false
		default:
		}
		_, err := a.Page(t.Context(), audit.ArchiveQuery{Namespace: ns, Events: 1, Bytes: 1})
		require.NoError(t, err)
	}
	found, _ := walk(t.Context(), t, a, audit.ArchiveQuery{Events: n})
	require.Equal(t, countdown(n, 1, every), sequences(found))
	require.NoError(t, a.Close())
}

// A folder that is there and cannot be read is an error, and not a short list.
func TestAFolderThatCannotBeRead(t *testing.T) {
	for _, part := range []string{"audit", "audit/" + ns, "audit/" + ns + "/2026", "audit/" + ns + "/2026/03", "audit/" + ns + "/2026/03/01"} {
		dir := t.TempDir()
		a, err := Open(t.Context(), "file://"+dir, Options{})
		require.NoError(t, err)
		put(t, a, span("alice", 1, 1))
		f := files{dir, syncFolder}
		a.look = func(folder string) error { // root may read whatever a mode says
			if folder == part+"/" {
				return os.ErrPermission
			}
			return f.look(folder)
		}
		_, err = a.Page(t.Context(), audit.ArchiveQuery{Namespace: ns, Events: 1, Bytes: 1})
		if part == "audit" {
			err = a.CheckReadable(t.Context())
		}
		require.ErrorIs(t, err, os.ErrPermission, part)
		require.NoError(t, a.Close())
	}
	f := files{t.TempDir(), syncFolder}
	require.NoError(t, f.look("audit/"), "there is none")
	require.NoError(t, os.Symlink("loop", filepath.Join(f.dir, "loop")))
	require.Error(t, f.look("loop/"))
}

// A file is said to exist once its name is on the disk, and not before: who wrote it
// may have been killed, or met the same failure.
func TestAFileExistsOnceItsNameIsOnTheDisk(t *testing.T) {
	f := files{t.TempDir(), syncFolder}
	require.NoError(t, f.put(t.Context(), "audit/x/y.jsonl.gz", []byte("1")))
	f.sync = func(string) error { return errors.New("the disk failed") }
	err := f.put(t.Context(), "audit/x/y.jsonl.gz", []byte("1"))
	require.ErrorContains(t, err, "the disk failed")
	require.NotErrorIs(t, err, errExists)
	require.ErrorContains(t, f.put(t.Context(), "audit/x/z.jsonl.gz", []byte("1")), "the disk failed")
	f.sync = syncFolder
	require.ErrorIs(t, f.put(t.Context(), "audit/x/z.jsonl.gz", []byte("1")), errExists)
}

// A folder that cannot be written to is an error, and not a loss.
func TestAFolderThatCannotBeWrittenTo(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit"), nil, 0o600))
	a, err := Open(t.Context(), "file://"+dir, Options{})
	require.NoError(t, err)
	_, err = a.Put(t.Context(), 1, span("alice", 1, 1))
	require.Error(t, err)
	require.NoError(t, a.Close())
}
