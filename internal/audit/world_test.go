package audit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine"
	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/internal/audit/archive"
	"github.com/tidegate/tidegate/internal/audit/archive/archivetest"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	ns = "AAAAAAAAAAA"
	// indexLag is short: the indexes of the embedded engine are never behind.
	indexLag = 5 * time.Millisecond
)

// world is a table with audit events, and an archive in an object store.
type world struct {
	*tabletest.Bench
	*archivetest.S3
	t       *testing.T
	now     time.Time
	log     *audit.Log
	archive *archive.Archive
	reader  *audit.Reader
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, S3: archivetest.New(t), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return w.now }
	w.Bench = tabletest.Behind(t, engine.New(engine.Options{Now: clock}).HTTPClient(), clock)
	w.log = audit.NewLog(w.Direct, w.Table, w.Now, audit.IndexLag(indexLag))
	w.archive = w.Open(t)
	w.reader = audit.NewReader(w.log, w.archive)
	return w
}

// change makes n events, an hour apart, of two targets in turn.
func (w *world) change(n int) {
	w.t.Helper()
	for i := range n {
		w.now = w.now.Add(time.Hour)
		w.changeOf(ns, []string{"alice", keys.AuditSystem}[i%2], api.AuditActions()[i%2], map[string]int{"n": i})
	}
}

// changeOf makes one event.
func (w *world) changeOf(namespace, target string, action api.AuditAction, after any) {
	w.t.Helper()
	require.NoError(w.t, w.log.Apply(w.t.Context(), audit.Change{
		Namespace: namespace, Action: action, Target: target,
		Plan: func(context.Context) (audit.Plan, error) { return audit.Plan{After: after}, nil },
	}))
}

// stored are all events that are in the table, the newest first.
func (w *world) stored() []api.AuditEvent {
	w.t.Helper()
	var all []api.AuditEvent
	for req := (api.AuditListRequest{Limit: api.MaxPage}); ; {
		reply, err := w.log.List(w.t.Context(), ns, req)
		require.NoError(w.t, err)
		all = append(all, reply.Events...)
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return all
		}
	}
}

func keyOf(e *api.AuditEvent) keys.Audit {
	return keys.Audit{Namespace: e.Namespace, ID: e.Target, AtMs: e.AtMs, Sequence: e.Sequence}
}

// copyOut puts the events into the archive, so many to an object.
func (w *world) copyOut(size int, all ...api.AuditEvent) {
	w.t.Helper()
	bundles := map[string][]api.AuditEvent{}
	flush := func(of string) {
		_, err := w.archive.Put(w.t.Context(), events.Lane(keyOf(&bundles[of][0])), bundles[of])
		require.NoError(w.t, err)
		delete(bundles, of)
	}
	for _, e := range all {
		e.Deleted = &api.AuditDeletion{By: api.DeletedByTTL, AtMs: w.now.UnixMilli()}
		of := e.Target + time.UnixMilli(e.AtMs).UTC().Format(time.DateOnly)
		if bundles[of] = append(bundles[of], e); len(bundles[of]) == size {
			flush(of)
		}
	}
	for of := range bundles {
		flush(of)
	}
}

// remove deletes events from the table.
func (w *world) remove(all ...api.AuditEvent) {
	w.t.Helper()
	for i := range all {
		_, err := w.Direct.DeleteItem(w.t.Context(), &dynamodb.DeleteItemInput{TableName: &w.Table, Key: table.KeyItem(keyOf(&all[i]).Key())})
		require.NoError(w.t, err)
	}
}

// moved makes n events, and moves the oldest so many into the archive.
func (w *world) moved(n, old int) []api.AuditEvent {
	w.t.Helper()
	w.change(n)
	all := w.stored()
	require.Len(w.t, all, n)
	w.copyOut(5, all[n-old:]...)
	w.remove(all[n-old:]...)
	return all
}

// set writes one attribute of an event in the table, past everybody.
func (w *world) set(e *api.AuditEvent, attribute string, v types.AttributeValue) {
	w.t.Helper()
	w.setItem(keyOf(e), attribute, v)
}

func (w *world) setItem(key keys.Item, attribute string, v types.AttributeValue) {
	w.t.Helper()
	_, err := w.Direct.UpdateItem(w.t.Context(), &dynamodb.UpdateItemInput{
		TableName: &w.Table, Key: table.KeyItem(key.Key()), UpdateExpression: aws.String("SET #n0 = :v0"),
		ExpressionAttributeNames: map[string]string{"#n0": attribute}, ExpressionAttributeValues: table.Item{":v0": v},
	})
	require.NoError(w.t, err)
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

// list reads all pages.
func (w *world) list(req api.AuditListRequest) []api.AuditEvent {
	w.t.Helper()
	all := []api.AuditEvent{}
	for {
		reply, err := w.reader.List(w.t.Context(), ns, req)
		require.NoError(w.t, err)
		require.NotNil(w.t, reply.Events, "an array on the wire")
		if req.Limit > 0 {
			require.LessOrEqual(w.t, len(reply.Events), int(req.Limit))
		}
		all = append(all, reply.Events...)
		require.Less(w.t, len(all), 10_000, "the list comes to its end")
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return all
		}
	}
}

// verify reads all parts.
func (w *world) verify(req api.AuditVerifyRequest) (events int64, findings []api.AuditFinding) {
	w.t.Helper()
	for {
		reply, err := w.reader.Verify(w.t.Context(), ns, req)
		require.NoError(w.t, err)
		events += reply.Checked
		findings = append(findings, reply.Findings...)
		require.Less(w.t, events, int64(10_000), "the verification comes to its end")
		if req.Cursor = reply.Cursor; req.Cursor == "" {
			return events, findings
		}
	}
}

func positionOf(e *api.AuditEvent) audit.Position { return audit.PositionOf(e) }

func sequences(all []api.AuditEvent) []int64 {
	found := []int64{}
	for i := range all {
		found = append(found, all[i].Sequence)
	}
	return found
}

// objectOf is the archive's object that holds an event.
func (w *world) objectOf(e *api.AuditEvent) string {
	w.t.Helper()
	found, err := w.archive.Find(w.t.Context(), ns, audit.PositionOf(e))
	require.NoError(w.t, err)
	require.Len(w.t, found, 1)
	return found[0].Key
}

// through is the trail by way of the faults and hooks of the bench.
func (w *world) through() *audit.Reader {
	return audit.NewReader(audit.NewLog(w.DB, w.Table, w.Now, audit.IndexLag(indexLag)), w.archive)
}
