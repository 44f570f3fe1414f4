package admission

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tidegate/tidegate/services/admission/lease"
)

// faultyRecords strikes writes and reads of lease records.
type faultyRecords struct {
	lease.Records
	writes func() error // nil: stored and said so; lease.ErrNotStored: not stored; any other: stored, and not said so
	reads  func() error
}

var errUnacknowledged = errors.New("the acknowledgement was lost")

func (f *faultyRecords) Write(ctx context.Context, key string, rec *lease.Record, expected uint64) (uint64, int64, error) {
	fault := f.writes()
	if errors.Is(fault, lease.ErrNotStored) {
		return 0, 0, fault
	}
	revision, epoch, err := f.Records.Write(ctx, key, rec, expected)
	if err == nil && fault != nil {
		return 0, 0, fault
	}
	return revision, epoch, err
}

func (f *faultyRecords) Read(ctx context.Context, key string) (lease.Version, error) {
	if err := f.reads(); err != nil {
		return lease.Version{}, err
	}
	return f.Records.Read(ctx, key)
}

func fine() error { return nil }

// inTurn returns the errors one after another, then nil.
func inTurn(errs ...error) func() error {
	var calls atomic.Int32
	return func() error {
		if i := int(calls.Add(1)) - 1; i < len(errs) {
			return errs[i]
		}
		return nil
	}
}

// hookedRecords lets a test act around the writes of lease records, counted from 1, and
// in place of reads.
type hookedRecords struct {
	lease.Records
	writes atomic.Int32
	write  func(ctx context.Context, nth int32, store storeRecord) (uint64, int64, error) // nil: stores
	read   func(ctx context.Context) error                                                // nil: reads
}

// storeRecord is the write itself.
type storeRecord func() (revision uint64, epoch int64, err error)

func (h *hookedRecords) Write(ctx context.Context, key string, rec *lease.Record, expected uint64) (uint64, int64, error) {
	store := func() (uint64, int64, error) { return h.Records.Write(ctx, key, rec, expected) }
	if h.write == nil {
		return store()
	}
	return h.write(ctx, h.writes.Add(1), store)
}

func (h *hookedRecords) Read(ctx context.Context, key string) (lease.Version, error) {
	if h.read != nil {
		if err := h.read(ctx); err != nil {
			return lease.Version{}, err
		}
	}
	return h.Records.Read(ctx, key)
}
