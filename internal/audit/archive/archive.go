package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
)

const (
	// maxLines bounds the uncompressed size of an object, in bytes, because readers
	// hold a whole object in memory.
	maxLines = 4 << 20
	// maxStored bounds the bytes read of an object. Put writes far smaller objects.
	maxStored = 16 << 20

	// marker is the key of the object that marks an archive and states its form.
	marker = "tidegate-archive.json"
	form1  = `{"archive":"tidegate audit events","form":1}` + "\n"
)

// errExists reports that the name is taken by an existing object.
var errExists = errors.New("it exists already")

// Archive is a folder or bucket of audit events. It implements [audit.Archive]; a nil
// Archive holds no events. It is safe for concurrent use, by any number of processes.
type Archive struct {
	bucket *blob.Bucket
	where  string // for people
	// put writes an object that is durable when it returns. If the key exists, it
	// fails with errExists and leaves the existing object.
	put func(ctx context.Context, key string, content []byte) error
	// look fails where a folder cannot be read, which the driver's list passes over;
	// nil where its list fails too.
	look func(folder string) error
}

// New returns an archive in a bucket with durable, conditional writes: a write is
// durable when it returns and never replaces an object. Errors call the archive by
// where. Open creates an archive from a URL.
func New(bucket *blob.Bucket, where string) *Archive {
	a := &Archive{bucket: bucket, where: where}
	a.put = a.putBlob
	return a
}

// Close closes the bucket.
func (a *Archive) Close() error { return a.bucket.Close() }

// Where returns the archive's URL, for people; empty for nil.
func (a *Archive) Where() string {
	if a == nil {
		return ""
	}
	return a.where
}

// putBlob writes through the library's driver; the store checks that the key is free.
func (a *Archive) putBlob(ctx context.Context, key string, content []byte) error {
	err := a.bucket.WriteAll(ctx, key, content, &blob.WriterOptions{IfNotExist: true, ContentType: "application/octet-stream"})
	if gcerrors.Code(err) == gcerrors.FailedPrecondition {
		return errExists
	}
	return err
}

// Stored counts the results of a Put.
type Stored struct {
	Written int   // objects
	Existed int   // objects that were there already, with the same events
	Bytes   int64 // of the objects written
}

// Put stores events of a single namespace, day and lane. When it returns nil, all of
// them are durable. After an error some may be; a repeated Put does not store them twice.
func (a *Archive) Put(ctx context.Context, lane int, events []api.AuditEvent) (Stored, error) {
	var done Stored
	for len(events) > 0 {
		n := fitting(events)
		o, err := newObject(lane, events[:n])
		if err != nil {
			return done, err
		}
		written, err := a.store(ctx, o)
		switch {
		case err != nil:
			return done, fmt.Errorf("store audit events in %s: %w", a.where, err)
		case written:
			done.Written++
			done.Bytes += int64(len(o.content))
		default:
			done.Existed++
		}
		events = events[n:]
	}
	return done, nil
}

// fitting returns how many of the events fit into an object, at least 1.
func fitting(events []api.AuditEvent) int {
	const rest = 1024 // size of an event without its before and after states
	size := 0
	for i := range events {
		size += len(events[i].Before) + len(events[i].After) + rest
		if size > maxLines && i > 0 {
			return i
		}
	}
	return len(events)
}

// store writes an object unless it exists already. If an object with other content
// has the name, store uses the longer name with the content's hash.
func (a *Archive) store(ctx context.Context, o *object) (written bool, err error) {
	for _, n := range []name{o.name, o.named()} {
		err := a.put(ctx, n.key(), o.content)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, errExists) {
			return false, err
		}
		stored, err := a.read(ctx, n.key())
		if err != nil && !errors.Is(err, audit.ErrObjectDamaged) {
			return false, err
		}
		if err == nil && o.holds(stored) {
			return false, nil
		}
	}
	return false, fmt.Errorf("%w: %s has the name of what it does not hold", audit.ErrObjectDamaged, o.named().key())
}

// read is a whole object, compressed.
func (a *Archive) read(ctx context.Context, key string) (content []byte, err error) {
	r, err := a.bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if r.Size() > maxStored {
		return nil, fmt.Errorf("%w: %s has %d bytes", audit.ErrObjectDamaged, key, r.Size())
	}
	if content, err = io.ReadAll(r); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return content, nil
}

// ErrUnreachable reports an outage of the archive: no answer, or an answer that
// reveals nothing about its state. The outage may end by itself.
var ErrUnreachable = errors.New("the audit archive cannot be reached")

// outage adds ErrUnreachable to an error that an outage caused.
func outage(err error) error {
	var answer *smithyhttp.ResponseError
	var network net.Error
	switch {
	case errors.As(err, &answer) && answer.HTTPStatusCode() > 0 && answer.HTTPStatusCode() < http.StatusInternalServerError:
		return err
	case answer != nil, errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// CheckWritable fails unless objects can be written and read, and writes never
// overwrite an object.
func (a *Archive) CheckWritable(ctx context.Context) error {
	err := a.put(ctx, marker, []byte(form1))
	if err == nil {
		if err = a.put(ctx, marker, []byte(form1)); err == nil {
			return fmt.Errorf("the audit archive %s cannot be written safely: its store overwrites what is to be written only where there is nothing (If-None-Match: *)", a.where)
		}
	}
	if !errors.Is(err, errExists) {
		return fmt.Errorf("the audit archive %s cannot be written: %w", a.where, err)
	}
	content, err := a.read(ctx, marker)
	if err != nil {
		return fmt.Errorf("the audit archive %s cannot be read: %w", a.where, err)
	}
	if string(content) != form1 {
		return fmt.Errorf("the audit archive %s has another form than this release knows: %s says %.100q", a.where, marker, content)
	}
	return nil
}

// CheckReadable fails unless objects can be listed and read. An archive without any
// object yet is readable. The error is ErrUnreachable in an outage.
func (a *Archive) CheckReadable(ctx context.Context) error {
	return outage(a.checkReadable(ctx))
}

func (a *Archive) checkReadable(ctx context.Context) error {
	if err := a.lookInto(root); err != nil {
		return fmt.Errorf("the audit archive %s cannot be listed: %w", a.where, err)
	}
	if _, err := a.bucket.List(&blob.ListOptions{Prefix: root}).Next(ctx); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("the audit archive %s cannot be listed: %w", a.where, err)
	}
	content, err := a.read(ctx, marker)
	switch {
	case gcerrors.Code(err) == gcerrors.NotFound:
		return nil
	case err != nil:
		return fmt.Errorf("the audit archive %s cannot be read: %w", a.where, err)
	case string(content) != form1:
		return fmt.Errorf("the audit archive %s has another form than this release knows: %s says %.100q", a.where, marker, content)
	}
	return nil
}
