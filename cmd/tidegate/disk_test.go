package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/table"
)

// disk is a disk whose writes and syncs fail while it is told so.
type disk struct{ write, sync atomic.Pointer[error] }

type diskFile struct {
	journal.File
	of *disk
}

func (d *disk) wrap(f journal.File) journal.File { return diskFile{File: f, of: d} }

func (f diskFile) Write(b []byte) (int, error) {
	if err := f.of.write.Load(); err != nil {
		return 0, *err
	}
	return f.File.Write(b)
}

func (f diskFile) Sync() error {
	if err := f.of.sync.Load(); err != nil {
		return *err
	}
	return f.File.Sync()
}

func fails(with error) *error { return &with }

// serving is a command that serves a store from a disk.
type serving struct {
	*world
	disk  *disk
	ended chan struct{}
	err   error // once it has ended
	stop  context.CancelFunc
}

func serve(t *testing.T, command func(context.Context, output, *disk) error) *serving {
	t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &serving{world: newWorld(), disk: new(disk), ended: make(chan struct{}), stop: stop}
	go func() {
		defer close(s.ended)
		s.err = command(ctx, output{environment: s.environment(), atEnd: new(tasks)}, s.disk)
	}()
	t.Cleanup(func() { stop(); <-s.ended })
	_, ready := s.stdout.wait(greetingEnds, s.ended)
	require.True(t, ready, "%v", s.err)
	return s
}

func webPage(t *testing.T, url string) (code int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	return resp.StatusCode, string(b)
}

// spend writes to the store, once; the SDK does not try again.
func spend(t *testing.T, endpoint, id string) error {
	t.Helper()
	db := newStoreClient(endpoint).db
	described, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table.DefaultName)})
	if err != nil {
		return err
	}
	item := map[string]types.AttributeValue{}
	for _, k := range described.Table.KeySchema {
		item[*k.AttributeName] = &types.AttributeValueMemberS{Value: id}
	}
	_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: described.Table.TableName, Item: item}, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
	})
	return err
}

// stores are the commands that serve a store: where it listens, and where it says
// how it is.
func stores() map[string]func(t *testing.T) (s *serving, endpoint, health string) {
	return map[string]func(t *testing.T) (*serving, string, string){
		"dynamodb": func(t *testing.T) (*serving, string, string) {
			t.Helper()
			dir := t.TempDir()
			s := serve(t, func(ctx context.Context, o output, d *disk) error {
				return dynamodbCmd{Listen: "127.0.0.1:0", Dir: dir, fsyncFlags: fsyncFlags{wrap: d.wrap}, logFlags: someLog()}.Run(ctx, o)
			})
			endpoint := regexp.MustCompile(`http://[0-9.:]+`).FindString(s.stdout.String())
			require.NoError(t, table.CreateTable(t.Context(), newStoreClient(endpoint).db, table.DefaultName))
			return s, endpoint, endpoint
		},
		"up": func(t *testing.T) (*serving, string, string) {
			t.Helper()
			dir := t.TempDir()
			s := serve(t, func(ctx context.Context, o output, d *disk) error {
				return upCmd{
					Dir: dir, NATSListen: "127.0.0.1:0", DynamoDBListen: "127.0.0.1:0",
					fsyncFlags: fsyncFlags{wrap: d.wrap}, adminFlags: adminFlags{AdminListen: "127.0.0.1:0", logFlags: someLog()},
				}.Run(ctx, o)
			})
			found := regexp.MustCompile(`http://[0-9.:]+[0-9]`).FindAllString(s.stdout.String(), -1)
			require.Len(t, found, 2, "%s", s.stdout)
			return s, found[0], found[1]
		},
	}
}

func someLog() logFlags { return logFlags{LogLevel: "info", LogFormat: "text"} }

// TestAFullDiskIsSaid fills the disk under a store that serves: health and
// readiness say so, metrics and the log too, and all is well once there is room,
// without a restart.
func TestAFullDiskIsSaid(t *testing.T) {
	for name, start := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, endpoint, health := start(t)
			require.NoError(t, spend(t, endpoint, "before"))
			for _, path := range []string{"/healthz", "/readyz"} {
				code, body := webPage(t, health+path)
				require.Equal(t, http.StatusOK, code, body)
			}
			_, metrics := webPage(t, health+"/metrics")
			require.Contains(t, metrics, "\ntidegate_engine_failed 0\n")

			s.disk.write.Store(fails(syscall.ENOSPC))
			require.ErrorContains(t, spend(t, endpoint, "during"), "has no room")
			for _, path := range []string{"/healthz", "/readyz"} {
				code, body := webPage(t, health+path)
				require.Equal(t, http.StatusServiceUnavailable, code, body)
				require.Contains(t, body, "store: the store's disk has no room", path)
				require.Contains(t, body, syscall.ENOSPC.Error())
			}
			_, metrics = webPage(t, health+"/metrics")
			require.Contains(t, metrics, "\ntidegate_engine_failed 1\n")

			s.disk.write.Store(nil)
			require.Eventually(t, func() bool {
				code, _ := webPage(t, health+"/readyz")
				return code == http.StatusOK
			}, patience, time.Millisecond)
			require.NoError(t, spend(t, endpoint, "after"))
			require.Equal(t, 1, strings.Count(s.stderr.String(), `msg="the disk has no room`), "%s", s.stderr)
			require.Contains(t, s.stderr.String(), "level=ERROR")
			s.stop()
			<-s.ended
			require.NoError(t, s.err)
		})
	}
}

// TestAFailedDiskEndsTheProcess has an fsync fail under a store that serves: the
// process ends and says why, so that whatever watches over it starts it again.
func TestAFailedDiskEndsTheProcess(t *testing.T) {
	for name, start := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, endpoint, _ := start(t)
			s.disk.sync.Store(fails(syscall.EIO))
			require.Error(t, spend(t, endpoint, "lost"))
			<-s.ended
			require.ErrorContains(t, s.err, "the store's disk failed")
			require.ErrorContains(t, s.err, syscall.EIO.Error())
			require.Contains(t, s.stderr.String(), "level=ERROR")
		})
	}
}

// TestItemsExpireInMemory lets minutes pass for a store without a directory.
func TestItemsExpireInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		embedded, closeEngine, kept, err := dynamodbCmd{}.open(slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		require.Contains(t, kept, "memory")
		db := dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), localRegion))
		require.NoError(t, table.CreateTable(t.Context(), db, table.DefaultName))
		live, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(table.DefaultName)})
		require.NoError(t, err)
		require.Equal(t, types.TimeToLiveStatusEnabled, live.TimeToLiveDescription.TimeToLiveStatus)
		described, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table.DefaultName)})
		require.NoError(t, err)
		ttl := *live.TimeToLiveDescription.AttributeName
		item := map[string]types.AttributeValue{ttl: &types.AttributeValueMemberN{Value: "946684900"}} // 100 s after the bubble's begin
		for _, k := range described.Table.KeySchema {
			item[*k.AttributeName] = &types.AttributeValueMemberS{Value: "x"}
		}
		_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: described.Table.TableName, Item: item})
		require.NoError(t, err)
		count := func() int32 {
			out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: described.Table.TableName})
			require.NoError(t, err)
			return out.Count
		}
		time.Sleep(90 * time.Second)
		require.EqualValues(t, 1, count())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Zero(t, count())
		require.NoError(t, closeEngine())
	})
}
