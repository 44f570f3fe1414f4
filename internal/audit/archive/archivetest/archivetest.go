// Package archivetest gives a test an object store of its own that speaks S3's
// protocol, reached through a listener that can make things go wrong.
//
//	s := archivetest.New(t)
//	s.Fail("PUT", archivetest.Applied) // the next object is stored, and the answer says 500
//	a := s.Open(t)
//	_, err := a.Put(ctx, lane, events)
package archivetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/store"
)

// Bucket is the one bucket that there is.
const Bucket = "tidegate-audit"

// Fault is what a request meets.
type Fault int

// The faults.
const (
	None        Fault = iota // it passes
	Failed                   // 500, and nothing was done
	Applied                  // 500, and it was done
	ReplyLost                // it was done, and the connection breaks
	Unreachable              // the connection breaks, and nothing was done
	Denied                   // 403 AccessDenied
	Overwrites               // it passes without its conditions, as with a store that knows none
)

// S3 is an object store.
type S3 struct {
	server  *httptest.Server
	backend *s3mem.Backend

	mu      sync.Mutex
	planned map[string][]Fault          // guarded by mu; by method
	fate    func(r *http.Request) Fault // guarded by mu; of what nothing is planned for
	calls   map[string]int              // guarded by mu; by method
}

// New starts a store that has Bucket, and nothing in it.
func New(t testing.TB) *S3 {
	t.Helper()
	s := &S3{backend: s3mem.New(), planned: map[string][]Fault{}, calls: map[string]int{}}
	require.NoError(t, s.backend.CreateBucket(Bucket))
	store := gofakes3.New(s.backend).Server()
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(store, w, r) }))
	t.Cleanup(s.server.Close)
	return s
}

func (s *S3) serve(store http.Handler, w http.ResponseWriter, r *http.Request) {
	switch s.next(r) {
	case Failed:
		refuse(w, http.StatusInternalServerError, "InternalError")
	case Applied:
		store.ServeHTTP(httptest.NewRecorder(), r)
		refuse(w, http.StatusInternalServerError, "InternalError")
	case ReplyLost:
		store.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case Unreachable:
		panic(http.ErrAbortHandler)
	case Denied:
		refuse(w, http.StatusForbidden, "AccessDenied")
	case Overwrites:
		r.Header.Del("If-None-Match")
		store.ServeHTTP(w, r)
	default:
		store.ServeHTTP(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>as planned</Message></Error>", code) // whoever asked may be gone
}

func (s *S3) next(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[r.Method]++
	if planned := s.planned[r.Method]; len(planned) > 0 {
		s.planned[r.Method] = planned[1:]
		return planned[0]
	}
	if s.fate == nil {
		return None
	}
	return s.fate(r)
}

// Fail lets the next requests of a method meet these faults, one each.
func (s *S3) Fail(method string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned[method] = append(s.planned[method], faults...)
}

// Each decides what every request meets for which nothing is planned; nil lets all
// pass. It is called by one request at a time.
func (s *S3) Each(fate func(r *http.Request) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate = fate
}

// Calls is how many requests of a method there were.
func (s *S3) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// URL is that of an archive in a bucket of the store, such as [Bucket].
func (s *S3) URL(bucket string) string {
	return "s3://" + bucket + "/tidegate?region=us-east-1&endpoint=" + url.QueryEscape(s.server.URL)
}

// AWS is the configuration of somebody who may use the store. Each call is one
// request.
func AWS(_ context.Context, region string) (aws.Config, error) {
	if region == "" {
		return aws.Config{}, errors.New("no region")
	}
	return aws.Config{
		Region: region, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:    func() aws.Retryer { return aws.NopRetryer{} },
		HTTPClient: store.OwnBody(store.NewHTTPClient()),
	}, nil
}

// Open is an archive in the store.
func (s *S3) Open(t testing.TB) *archive.Archive {
	t.Helper()
	a, err := archive.Open(t.Context(), s.URL(Bucket), archive.Options{AWS: AWS})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// Keys are the objects of audit events, sorted, as the archive names them.
func (s *S3) Keys(t testing.TB) []string {
	t.Helper()
	list, err := s.backend.ListBucket(Bucket, nil, gofakes3.ListBucketPage{})
	require.NoError(t, err)
	var keys []string
	for _, o := range list.Contents {
		if key := strings.TrimPrefix(o.Key, "tidegate/"); strings.HasPrefix(key, "audit/") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Lines are those of an object.
func (s *S3) Lines(t testing.TB, key string) string {
	t.Helper()
	o, err := s.backend.GetObject(Bucket, "tidegate/"+key, nil)
	require.NoError(t, err)
	defer func() { _ = o.Contents.Close() }() // it is memory
	unzipped, err := gzip.NewReader(o.Contents)
	require.NoError(t, err)
	lines, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	return string(lines)
}

// Overwrite puts other lines into an object, past everybody.
func (s *S3) Overwrite(t testing.TB, key, lines string) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, lines)
	require.NoError(t, errors.Join(err, w.Close()))
	s.Replace(t, key, b.Bytes())
}

// Replace puts any bytes in the place of an object, past everybody.
func (s *S3) Replace(t testing.TB, key string, content []byte) {
	t.Helper()
	_, err := s.backend.PutObject(Bucket, "tidegate/"+key, map[string]string{}, bytes.NewReader(content), int64(len(content)), nil)
	require.NoError(t, err)
}

// Remove takes an object away, past everybody.
func (s *S3) Remove(t testing.TB, key string) {
	t.Helper()
	_, err := s.backend.DeleteObject(Bucket, "tidegate/"+key)
	require.NoError(t, err)
}
