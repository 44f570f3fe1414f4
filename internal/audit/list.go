package audit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidegate/tidegate/internal/store"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// List returns a page of a namespace's events, the newest first: by time, and
// by sequence within a millisecond. Events that happen while a list is under way
// are not in it; all others are, once. Without a target an event of a moment ago
// may be missing: the index follows the table.
func (l *Log) List(ctx context.Context, ns string, req api.AuditListRequest) (api.AuditListReply, error) {
	return l.ListPast(ctx, ns, req, func(_ keys.Item, err error) error { return err })
}

// ListPast is List, and tells of each item that is damaged. It goes on behind it
// unless damaged fails.
func (l *Log) ListPast(ctx context.Context, ns string, req api.AuditListRequest, damaged func(keys.Item, error) error) (api.AuditListReply, error) {
	if err := req.Check(); err != nil {
		return api.AuditListReply{}, err
	}
	reply := api.AuditListReply{Events: []api.AuditEvent{}}
	visit := func(item table.Item) (size int, err error) {
		e, err := table.DecodeAuditEvent(item)
		if err != nil {
			key, errKey := table.ItemKey(item)
			if errKey != nil {
				return 0, errKey
			}
			return 0, damaged(key, err)
		}
		if req.Action != "" && e.Action != req.Action {
			return 0, nil
		}
		event := OnTheWire(e)
		reply.Events = append(reply.Events, event)
		return event.WireSize(), nil
	}
	page := store.PageRequest{Cursor: req.Cursor, Limit: req.Limit}
	var err error
	if reply.Cursor, err = store.Page(ctx, l.client, l.table, []store.Step{stepOf(ns, &req)}, page, visit); err != nil {
		return api.AuditListReply{}, fmt.Errorf("list audit events: %w", err)
	}
	return reply, nil
}

// stepOf returns the query of a request.
func stepOf(ns string, req *api.AuditListRequest) store.Step {
	step := store.Step{Index: store.NoIndex, Descending: true}
	if req.LimitsTarget == (api.LimitsTarget{}) {
		step.Index, step.Query = store.ByParent, keys.AuditEvents(ns)
	} else {
		step.Query = keys.AuditOf(ns, TargetOf(req.LimitsTarget))
	}
	if req.FromMs != 0 || req.ToMs != 0 {
		to := req.ToMs
		if to == 0 {
			to = math.MaxInt64
		}
		step.Query = keys.AuditBetween(step.Query, req.FromMs, to)
	}
	return step
}

// TargetOf is the target of changes of a config level.
func TargetOf(level api.LimitsTarget) string {
	switch {
	case level.Entity != "":
		return keys.AuditEntity(level.Entity)
	case level.Resource != "":
		return keys.AuditResource(level.Resource)
	}
	return keys.AuditSystem
}

// Show returns an event and reports whether it is intact. It fails with the code not_found
// if there is no such event, and with invalid_id, without any I/O, if the text cannot be an
// id. If the index does not show a recent event, Show waits for the index and reads again.
func (l *Log) Show(ctx context.Context, ns string, req api.AuditShowRequest) (api.AuditShowReply, error) {
	key, err := ParseID(ns, req.ID)
	if err != nil {
		return api.AuditShowReply{}, err
	}
	e, err := l.find(ctx, key)
	if e == nil && err == nil && l.isRecent(key) {
		if err = l.AwaitIndex(ctx); err == nil {
			e, err = l.find(ctx, key)
		}
	}
	switch {
	case err != nil:
		return api.AuditShowReply{}, fmt.Errorf("show audit event %s: %w", req.ID, err)
	case e == nil:
		return api.AuditShowReply{}, fmt.Errorf("show audit event %s: %w", req.ID,
			api.Errorf(api.CodeNotFound, "id", "there is no such audit event; it may have expired"))
	}
	err = l.verify(ctx, e)
	if err != nil && !errors.Is(err, ErrBroken) {
		return api.AuditShowReply{}, fmt.Errorf("show audit event %s: %w", req.ID, err)
	}
	return api.AuditShowReply{AuditEvent: OnTheWire(e), Intact: err == nil}, nil
}

// isRecent reports whether an index may not show an event yet. Clocks of nodes differ by
// less than the index lag.
func (l *Log) isRecent(key keys.Audit) bool {
	now, err := l.now()
	return err != nil || now.UnixMilli()-key.AtMs < 2*l.lag.Milliseconds()
}

// find reads an event of unknown target; nil if the index does not show it.
func (l *Log) find(ctx context.Context, key keys.Audit) (*table.AuditEvent, error) {
	row := keys.Query{PK: key.Indexes().GSI1.PK, SKPrefix: key.Indexes().GSI1.SK}
	out, err := l.client.Query(ctx, table.QueryInput(l.table, store.ByParent, row))
	if err != nil {
		return nil, err
	}
	for _, item := range out.Items {
		found, err := table.ItemKey(item)
		if err != nil {
			return nil, err
		}
		event, err := l.client.GetItem(ctx, table.ReadInput(l.table, found.Key()))
		if err != nil {
			return nil, err
		}
		if len(event.Item) > 0 {
			return table.DecodeAuditEvent(event.Item)
		}
	}
	return nil, nil //nolint:nilnil // no event is an answer, not an error
}

// IDOf is the id of an event: its time and its sequence, "1772366400000-42".
func IDOf(k keys.Audit) string {
	return strconv.FormatInt(k.AtMs, 10) + "-" + strconv.FormatInt(k.Sequence, 10)
}

// ParseID gives the key of an event of an unknown target. It fails with the code
// invalid_id.
func ParseID(ns, id string) (keys.Audit, error) {
	at, sequence, _ := strings.Cut(id, "-")
	key := keys.Audit{Namespace: ns, ID: keys.AuditSystem}
	var errAt, errSequence error
	key.AtMs, errAt = strconv.ParseInt(at, 10, 64)
	key.Sequence, errSequence = strconv.ParseInt(sequence, 10, 64)
	if errAt != nil || errSequence != nil || !key.Valid() || IDOf(key) != id {
		return keys.Audit{}, api.Errorf(api.CodeInvalidID, "id", "%.50q is no id of an audit event, such as 1772366400000-42", id)
	}
	return key, nil
}

// OnTheWire is an event in the form that the audit verbs and the change feed show
// it in. It has all that the event's MAC is over.
func OnTheWire(e *table.AuditEvent) api.AuditEvent {
	base64 := base64.RawURLEncoding.EncodeToString
	return api.AuditEvent{
		ID: IDOf(e.Key), Namespace: e.Key.Namespace, Sequence: e.Key.Sequence, AtMs: e.Key.AtMs,
		Target: e.Key.ID, Action: e.Action, Who: e.By,
		Before: rawJSON(e.Before), After: rawJSON(e.After),
		Previous: base64(e.Previous), Key: base64(e.KeyID[:]), MAC: base64(e.MAC),
	}
}

// rawJSON returns stored JSON, or a JSON string of the text if an altered item holds invalid
// JSON.
func rawJSON(stored string) json.RawMessage {
	switch {
	case stored == "":
		return nil
	case json.Valid([]byte(stored)):
		return json.RawMessage(stored)
	}
	quoted, err := json.Marshal(stored)
	if err != nil {
		panic("a string always has a JSON form: " + err.Error())
	}
	return quoted
}

// fromTheWire returns the event as it is sealed. It fails for an event that OnTheWire cannot
// have returned.
func fromTheWire(e *api.AuditEvent) (*table.AuditEvent, error) {
	stored := &table.AuditEvent{
		Key:    keys.Audit{Namespace: e.Namespace, ID: e.Target, AtMs: e.AtMs, Sequence: e.Sequence},
		Action: e.Action, By: e.Who, Before: string(e.Before), After: string(e.After),
	}
	var keyID []byte
	var errs [3]error
	stored.Previous, errs[0] = base64.RawURLEncoding.DecodeString(e.Previous)
	keyID, errs[1] = base64.RawURLEncoding.DecodeString(e.Key)
	stored.MAC, errs[2] = base64.RawURLEncoding.DecodeString(e.MAC)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if len(keyID) != len(stored.KeyID) || IDOf(stored.Key) != e.ID {
		return nil, errors.New("the key's id or that of the event is another")
	}
	copy(stored.KeyID[:], keyID)
	return stored, nil
}

// Intact reports whether an event, from wherever it comes, is as it was written.
func (l *Log) Intact(ctx context.Context, e *api.AuditEvent) (bool, error) {
	stored, err := fromTheWire(e)
	if err != nil {
		return false, nil //nolint:nilerr // it was not written like that
	}
	switch err := l.verify(ctx, stored); {
	case errors.Is(err, ErrBroken):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("check audit event %s: %w", e.ID, err)
	}
	return true, nil
}

// Head returns the sequence of a namespace's last event, its time in Unix milliseconds, and
// its MAC in wire form; the sequence is 0 if the namespace has no event.
func (l *Log) Head(ctx context.Context, ns string) (sequence, atMs int64, mac string, err error) {
	key := keys.AuditSeq{Namespace: ns}
	out, err := l.client.GetItem(ctx, table.ReadInput(l.table, key.Key()))
	if err != nil {
		return 0, 0, "", fmt.Errorf("read the audit sequence: %w", err)
	}
	head, err := table.DecodeAuditHead(key, out.Item)
	if err != nil {
		return 0, 0, "", err
	}
	return head.Sequence, head.AtMs, base64.RawURLEncoding.EncodeToString(head.MAC), nil
}
