package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/internal/process"
	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/services/archiver"
)

// localArchive is the default URL of the archive: below the data directory of
// `tidegate up`.
const localArchive = "file://./tidegate-data/archive"

type archiverCmd struct {
	natsFlags
	adminFlags
	feedFlags
	Archive   string        `name:"archive" default:"${archive}" placeholder:"URL" help:"Archive of audit events: s3://BUCKET/PREFIX?region=R, or file:///DIR; default: ${archive}."`
	BatchAge  time.Duration `name:"batch-age" default:"5s" placeholder:"TIME" help:"Time that the first event of an object waits for more events; default: 5s."`
	BatchSize int           `name:"batch-size" default:"512" placeholder:"N" help:"Maximum number of events per object; default: 512."`
}

func (archiverCmd) Help() string {
	return `Keeps audit events that leave the table, whether they expire or are deleted. Follows the change feed, so a relay must run too. Run any number of processes; the others take over when a process ends. The URL of an S3-compatible store includes its endpoint: s3://audit?region=us-east-1&endpoint=http://127.0.0.1:9000.`
}

// Run archives until ctx ends.
func (c archiverCmd) Run(ctx context.Context, o output) error {
	if c.BatchAge <= 0 || c.BatchSize < 1 {
		return usageError{errors.New("--batch-age and --batch-size must be above 0")}
	}
	if err := c.check(); err != nil {
		return err
	}
	n, err := c.node(c.natsFlags, o)
	if err != nil {
		return err
	}
	if n.archive, err = openArchive(ctx, c.Archive, true, n.log); err != nil {
		return err
	}
	defer func() { _ = n.archive.Close() }() // everything in it is durable
	return n.serve(ctx, c.adminFlags, "archiver", c.make, "the archiver is ready", "archive", n.archive.Where())
}

// make makes an archiver, which is ready once the feed is followed.
func (c archiverCmd) make(n node, nc *nats.Conn) (service, error) {
	return archiver.New(archiver.Config{
		NATS: nc, Archive: n.archive, Member: nuid.Next(), Version: thisVersion().Version, Now: time.Now, Log: n.log, Metrics: n.metrics,
		Retention: c.retention(), Tuning: archiver.Tuning{Feed: feed.Tuning{Linger: c.BatchAge, Batch: c.BatchSize}},
	})
}

// openArchive opens the archive of a URL; create makes a folder that is not there.
func openArchive(ctx context.Context, at string, create bool, log *slog.Logger) (*archive.Archive, error) {
	kept, err := archive.Open(ctx, at, archive.Options{Create: create, AWS: func(ctx context.Context, region string) (aws.Config, error) {
		return objectStore(ctx, region, log)
	}})
	if errors.Is(err, archive.ErrBadURL) {
		return nil, usageError{fmt.Errorf("--archive: %w", err)}
	}
	if err != nil {
		return nil, advise(err, "Point --archive at a folder of this machine (file:///DIR) or at a bucket (s3://BUCKET?region=REGION).")
	}
	return kept, nil
}

// objectStore is the SDK's configuration for S3; the SDK's warnings go to log.
func objectStore(ctx context.Context, region string, log *slog.Logger) (aws.Config, error) {
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(store.NewHTTPClient()), awsconfig.WithLogger(process.AWSLog(log))}
	if region != "" {
		options = append(options, awsconfig.WithRegion(region))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, fmt.Errorf("read the AWS configuration: %w", err)
	}
	cfg.HTTPClient = store.OwnBody(cfg.HTTPClient)
	if cfg.Region == "" {
		return aws.Config{}, errors.New("which AWS region? Write it behind the bucket, s3://BUCKET?region=REGION, or set AWS_REGION")
	}
	return cfg, nil
}

// folderURL is the URL of a folder of this machine.
func folderURL(dir string) (string, error) {
	whole, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the folder %s: %w", dir, err)
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(whole)}).String(), nil
}
