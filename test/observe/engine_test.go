package observe_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/engine/journal"
	"github.com/tidegate/tidegate/internal/table"
)

// disked is an embedded store on a disk that has no room for files of some names.
type disked struct {
	db     *dynamodb.Client
	full   atomic.Pointer[string] // part of the names; nil: there is room
	tables int
}

type fullFile struct {
	journal.File
	of *disked
}

func (f fullFile) Write(b []byte) (int, error) {
	part := f.of.full.Load()
	named, ok := f.File.(interface{ Name() string })
	if part != nil && ok && strings.Contains(named.Name(), *part) {
		return 0, syscall.ENOSPC
	}
	return f.File.Write(b)
}

// disk is the process of an embedded store on a disk.
func (s *system) disk() *disked {
	s.t.Helper()
	d := &disked{}
	embedded, err := engine.Open(engine.Options{Now: time.Now}, engine.Durability{
		Dir: s.t.TempDir(), CutBytes: 1, Log: slog.New(slog.DiscardHandler),
		Wrap: func(f journal.File) journal.File { return fullFile{File: f, of: d} },
	})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = embedded.Close() })
	embedded.Register(s.registry())
	d.db = dynamodb.NewFromConfig(engine.Config(embedded.HTTPClient(), region), func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} })
	return d
}

// write makes a table while there is no room for files of that name.
func (d *disked) write(s *system, part string) error {
	d.full.Store(&part)
	d.tables++
	_, err := d.db.CreateTable(s.t.Context(), table.Definition(fmt.Sprint("table-", d.tables)))
	return err
}
