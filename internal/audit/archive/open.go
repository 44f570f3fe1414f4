package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/s3blob"
)

// Options holds the settings that are not part of the URL.
type Options struct {
	// AWS loads the SDK's configuration for a region, or, where that is empty, for
	// the machine's.
	AWS func(ctx context.Context, region string) (aws.Config, error)
	// Create makes the folder of a file:// URL if it does not exist.
	Create bool
}

// ErrBadURL says that a URL names no archive.
var ErrBadURL = errors.New("no URL of an audit archive")

var errKeys = fmt.Errorf("%w: keys do not belong into it, but into the AWS environment or files; in a name, write %%40 for @", ErrBadURL)

// Open opens an archive by its URL. It does not check whether the archive is usable:
// CheckWritable and CheckReadable do.
//
//	file:///var/lib/tidegate/archive      a folder of this machine
//	file://./tidegate-data/archive        a folder below the working directory
//	s3://bucket/prefix?region=eu-central-1&endpoint=https://s3.example.com
//
// With an endpoint, requests address the bucket by path, as S3-compatible stores
// other than AWS expect.
func Open(ctx context.Context, raw string, o Options) (*Archive, error) {
	if !strings.HasPrefix(raw, "file:///") && !strings.HasPrefix(raw, "file://./") && strings.Contains(raw, "@") {
		return nil, errKeys // before anything: no error may show them
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %.200q: %w", ErrBadURL, raw, err)
	}
	switch u.Scheme {
	case "file":
		return openFolder(u, o)
	case "s3":
		return openS3(ctx, u, o)
	}
	return nil, fmt.Errorf("%w: %.200q begins with neither file:// nor s3://", ErrBadURL, raw)
}

func openFolder(u *url.URL, o Options) (*Archive, error) {
	path := u.Path
	switch {
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%w: %q: a folder has no parameters", ErrBadURL, u)
	case u.Host == ".":
		path = strings.TrimPrefix(path, "/")
	case u.Host != "" && u.Host != "localhost":
		return nil, fmt.Errorf("%w: %q is on another machine: write file:///path, or file://./path for one below the working directory", ErrBadURL, u)
	}
	if path == "" || path == "/" {
		return nil, fmt.Errorf("%w: %q names no folder", ErrBadURL, u)
	}
	dir, err := filepath.Abs(filepath.FromSlash(path))
	if err != nil {
		return nil, fmt.Errorf("open the audit archive %s: %w", u, err)
	}
	f := files{dir, syncFolder}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && o.Create {
		if err := os.MkdirAll(filepath.Dir(dir), folderMode); err != nil {
			return nil, fmt.Errorf("open the audit archive %s: %w", u, err)
		}
		if err := f.makeFolders(dir); err != nil {
			return nil, fmt.Errorf("open the audit archive %s: %w", u, err)
		}
	}
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		return nil, fmt.Errorf("open the audit archive %s: %w", u, err)
	}
	a := New(bucket, u.String())
	a.put, a.look = f.put, f.look
	return a, nil
}

func openS3(ctx context.Context, u *url.URL, o Options) (*Archive, error) {
	if u.Host == "" || u.Fragment != "" {
		return nil, fmt.Errorf("%w: %q names no bucket: write s3://bucket or s3://bucket/prefix", ErrBadURL, u)
	}
	region, endpoint := "", ""
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrBadURL, u, err)
	}
	for parameter, values := range parameters {
		switch parameter {
		case "region":
			region = values[0]
		case "endpoint":
			if endpoint = values[0]; strings.Contains(endpoint, "@") {
				return nil, errKeys
			}
			if e, err := url.Parse(endpoint); err != nil || e.Host == "" || e.Scheme != "http" && e.Scheme != "https" {
				return nil, fmt.Errorf("%w: the endpoint %q is no URL such as https://s3.example.com", ErrBadURL, endpoint)
			}
		default:
			return nil, fmt.Errorf("%w: %q is no parameter of s3://; region and endpoint are", ErrBadURL, parameter)
		}
	}
	cfg, err := o.AWS(ctx, region)
	if err != nil {
		return nil, fmt.Errorf("open the audit archive %s: %w", u, err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint = nil // a configured endpoint belongs to another service
		if endpoint != "" {
			o.BaseEndpoint, o.UsePathStyle = &endpoint, true
		}
	})
	bucket, err := s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{RequestChecksumCalculation: cfg.RequestChecksumCalculation})
	if err != nil {
		return nil, fmt.Errorf("open the audit archive %s: %w", u, err)
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		bucket = blob.PrefixedBucket(bucket, prefix+"/")
	}
	return New(bucket, u.String()), nil
}
