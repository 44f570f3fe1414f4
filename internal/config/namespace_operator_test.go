package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

func alice() api.Principal { return api.Principal{User: "alice", Verified: true} }

// newNamespaceOperator is an operator whose clock goes on by a millisecond with every
// look, from 1.
func newNamespaceOperator(t *testing.T) (*tabletest.Bench, *NamespaceOperator) {
	t.Helper()
	b, _ := newNamespaces(t)
	return b, operator(b, b.DB)
}

// operator does not wait long for an index: that of the embedded engine is never behind.
func operator(b *tabletest.Bench, client *dynamodb.Client) *NamespaceOperator {
	return patientOperator(b, client, audit.IndexLag(5*time.Millisecond))
}

func patientOperator(b *tabletest.Bench, client *dynamodb.Client, options ...audit.Option) *NamespaceOperator {
	tick := new(atomic.Int64)
	now := func() (time.Time, error) { return time.UnixMilli(tick.Add(1)), nil }
	log := audit.NewLog(client, b.Table, b.Now, options...)
	return NewNamespaceOperator(NewNamespaces(client, b.Table), log, now)
}

func TestANamespacesLife(t *testing.T) {
	_, o := newNamespaceOperator(t)
	created, err := o.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.Equal(t, api.Namespace{Name: "tenant-a", ID: created.ID, State: api.NamespaceActive, CreatedMs: 1}, created)
	require.True(t, keys.ValidNamespaceID(created.ID))
	_, err = o.Create(t.Context(), "tenant-a", alice())
	requireCode(t, api.CodeAlreadyExists, err)
	_, err = o.Purge(t.Context(), "tenant-a", alice())
	requireCode(t, api.CodeConflict, err)
	require.ErrorContains(t, err, "tidegate namespace delete tenant-a")

	deleted, err := o.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.Equal(t, api.Namespace{
		Name: "tenant-a", ID: created.ID, State: api.NamespaceDeleted, CreatedMs: 1, DeletedMs: deleted.DeletedMs, DeletedBy: "alice",
	}, deleted)
	require.Greater(t, deleted.DeletedMs, created.CreatedMs)
	again, err := o.Delete(t.Context(), "tenant-a", api.Principal{User: "bob"})
	require.NoError(t, err)
	require.Equal(t, deleted, again, "it stays as it is")
	_, err = o.Lookup(t.Context(), "tenant-a")
	requireCode(t, api.CodeUnknownNamespace, err)
	require.ErrorContains(t, err, "is deleted; an operator can recover it")
	_, err = o.Ensure(t.Context(), "tenant-a")
	requireCode(t, api.CodeUnknownNamespace, err)
	_, err = o.Create(t.Context(), "tenant-a", alice())
	requireCode(t, api.CodeConflict, err)
	require.ErrorContains(t, err, "tidegate namespace recover tenant-a")
	require.ErrorContains(t, err, "tidegate namespace purge tenant-a")

	for range 2 {
		recovered, err := o.Recover(t.Context(), "tenant-a", alice())
		require.NoError(t, err)
		require.Equal(t, created, recovered)
	}
	id, err := o.Lookup(t.Context(), "tenant-a")
	require.NoError(t, err)
	require.Equal(t, created.ID, id)

	for _, change := range []func() error{
		func() error { _, err := o.Get(t.Context(), "nobody"); return err },
		func() error { _, err := o.Delete(t.Context(), "nobody", alice()); return err },
		func() error { _, err := o.Recover(t.Context(), "nobody", alice()); return err },
		func() error { _, err := o.Purge(t.Context(), "nobody", alice()); return err },
	} {
		requireCode(t, api.CodeUnknownNamespace, change())
	}
}

func TestWhoDeletedANamespace(t *testing.T) {
	for want, by := range map[string]api.Principal{
		"alice": alice(), "bob (unverified)": {User: "bob"}, "unverified": {},
	} {
		_, o := newNamespaceOperator(t)
		_, err := o.Create(t.Context(), "tenant-a", alice())
		require.NoError(t, err)
		n, err := o.Delete(t.Context(), "tenant-a", by)
		require.NoError(t, err)
		require.Equal(t, want, n.DeletedBy)
	}
}

func TestTheDefaultNamespaceStays(t *testing.T) {
	b, o := newNamespaceOperator(t)
	_, err := o.Delete(t.Context(), api.DefaultNamespace, alice())
	requireCode(t, api.CodeForbidden, err)
	_, err = o.Create(t.Context(), "Not a name", alice())
	requireCode(t, api.CodeInvalidNamespace, err)
	require.Zero(t, b.Calls(""))
}

// Every change, with its event, is tried as applied, refused, failed, and failed
// but applied: it is made once.
func TestAChangeThroughEveryFault(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"applied":            {},
		"refused":            {},
		"failed":             fault.InternalError(),
		"failed but applied": fault.InternalErrorAfter(),
		"reply lost":         {Kind: fault.ReplyLost},
		"unreachable":        {Kind: fault.Unreachable},
		"throttled":          fault.Throttling(fault.Reason{Reason: fault.TableWriteKeyRange}),
	} {
		t.Run(name, func(t *testing.T) {
			b, o := newNamespaceOperator(t)
			made := api.Namespace{}
			for _, step := range []struct {
				do     func(context.Context, string, api.Principal) (api.Namespace, error)
				want   api.NamespaceState
				action api.AuditAction
				writes int
			}{
				{o.Create, api.NamespaceActive, api.AuditNamespaceCreate, 3},
				{o.Delete, api.NamespaceDeleted, api.AuditNamespaceDelete, 1},
				{o.Recover, api.NamespaceActive, api.AuditNamespaceRecover, 1},
			} {
				if name == "refused" { // all its writes, with the head and the event of the log
					f = fault.TransactionCanceled(append(slices.Repeat([]string{"None"}, step.writes+1), "TransactionConflict")...)
				}
				b.Fail("TransactWriteItems", f)
				n, err := step.do(t.Context(), "tenant-a", alice())
				require.NoError(t, err, step.action)
				require.Equal(t, step.want, n.State, step.action)
				stored, err := o.Get(t.Context(), "tenant-a")
				require.NoError(t, err)
				require.Equal(t, n, stored)
				if made.ID == "" {
					made = n
				}
				require.Equal(t, made.ID, n.ID)
				events := events(t, b)
				require.Equal(t, step.action, events[0].Action)
				require.Equal(t, alice(), events[0].Who)
			}
			require.Len(t, events(t, b), 3, "one event for each change")
			require.Len(t, everything(t, b), 3, "two entries and the schema's version: no attempt left its own behind")
		})
	}
}

// events are those of the registry, the newest first.
func events(t *testing.T, b *tabletest.Bench) []api.AuditEvent {
	t.Helper()
	reply, err := audit.NewLog(b.Direct, b.Table, b.Now).List(t.Context(), keys.Registry, api.AuditListRequest{})
	require.NoError(t, err)
	return reply.Events
}

// After silence nothing is half made: what was asked for can be asked for again.
func TestAChangeOfUnknownOutcomeIsSafeToRepeat(t *testing.T) {
	for name, first := range map[string]fault.Fault{
		"applied": {Kind: fault.ReplyLost}, "not applied": fault.InternalError(), "never sent": {Kind: fault.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			b, o := newNamespaceOperator(t)
			_, err := o.Create(t.Context(), "tenant-a", alice())
			require.NoError(t, err)
			b.Fail("TransactWriteItems", first)
			b.Fail("TransactWriteItems", slices.Repeat([]fault.Fault{{Kind: fault.Unreachable}}, 19)...)
			_, err = o.Delete(t.Context(), "tenant-a", alice())
			require.Error(t, err)
			require.Equal(t, first.Kind != fault.Unreachable, errors.Is(err, audit.ErrOutcomeUnknown))
			n, err := o.Delete(t.Context(), "tenant-a", alice())
			require.NoError(t, err)
			require.Equal(t, api.NamespaceDeleted, n.State)
			require.Len(t, events(t, b), 2)
		})
	}
}

// everything is all items of the table, but for the registry's audit log.
func everything(t *testing.T, b *tabletest.Bench) []table.Item {
	t.Helper()
	var items []table.Item
	pages := dynamodb.NewScanPaginator(b.Direct, &dynamodb.ScanInput{TableName: &b.Table, ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, item := range page.Items {
			key, err := table.ItemKey(item)
			require.NoError(t, err)
			switch key.(type) {
			case keys.Audit, keys.AuditSeq, keys.AuditKey:
			default:
				items = append(items, item)
			}
		}
	}
	return items
}

// A change that others overtake is made from what they left.
func TestAChangeByOthersIsSeen(t *testing.T) {
	b, o := newNamespaceOperator(t)
	other := operator(b, b.Direct)
	_, err := o.Create(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	b.Before("TransactWriteItems", func() {
		_, err := other.Delete(t.Context(), "tenant-a", api.Principal{User: "bob", Verified: true})
		require.NoError(t, err)
		_, err = other.Recover(t.Context(), "tenant-a", api.Principal{User: "bob", Verified: true})
		require.NoError(t, err)
	})
	n, err := o.Delete(t.Context(), "tenant-a", alice())
	require.NoError(t, err)
	require.Equal(t, "alice", n.DeletedBy)
	require.Len(t, events(t, b), 4)
	b.Before("TransactWriteItems", func() {
		_, err := other.Create(t.Context(), "tenant-b", alice())
		require.NoError(t, err)
	})
	_, err = o.Create(t.Context(), "tenant-b", alice())
	requireCode(t, api.CodeAlreadyExists, err)
}

func TestListPagesThroughTenThousand(t *testing.T) {
	b, r := newNamespaces(t)
	const namespaces = 10_000
	for i := range namespaces {
		name := fmt.Sprintf("tenant-%05d", i)
		put := table.CreateNamespaceItems(b.Table, table.Namespace{Name: name, ID: fmt.Sprintf("AAAAA%05dA", i), CreatedMs: 1})[0].Put
		_, err := b.Direct.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &b.Table, Item: put.Item})
		require.NoError(t, err)
	}
	i, pages := 0, 0
	for q := (api.NamespaceListRequest{Limit: api.MaxPage}); ; pages++ {
		reply, err := r.List(t.Context(), q)
		require.NoError(t, err)
		for _, n := range reply.Namespaces {
			require.Equal(t, fmt.Sprintf("tenant-%05d", i), n.Name)
			i++
		}
		if q.Cursor = reply.Cursor; q.Cursor == "" {
			break
		}
	}
	require.Equal(t, namespaces, i)
	require.LessOrEqual(t, pages, namespaces/api.MaxPage+1)
	first, err := r.List(t.Context(), api.NamespaceListRequest{})
	require.NoError(t, err)
	require.Len(t, first.Namespaces, api.DefaultPage)
}

func TestListRefusesWhatIsNoPage(t *testing.T) {
	b, r := newNamespaces(t)
	for _, q := range []api.NamespaceListRequest{{Cursor: "?"}, {Cursor: "QQ"}, {Cursor: strings.Repeat("YQ", 200)}} {
		_, err := r.List(t.Context(), q)
		requireCode(t, api.CodeInvalidCursor, err)
	}
	for _, limit := range []int64{-1, api.MaxPage + 1} {
		_, err := r.List(t.Context(), api.NamespaceListRequest{Limit: limit})
		requireCode(t, api.CodeInvalidAmount, err)
	}
	require.Zero(t, b.Calls(""))
	reply, err := r.List(t.Context(), api.NamespaceListRequest{})
	require.NoError(t, err)
	require.Equal(t, api.NamespaceListReply{Namespaces: []api.Namespace{}}, reply)
}
