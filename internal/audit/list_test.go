package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/engine/fault"
	"github.com/tidegate/tidegate/internal/table"
	"github.com/tidegate/tidegate/internal/table/tabletest"
	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

// fill stores events without their changes, two a millisecond, of three targets
// in turn.
func (f *fixture) fill(n int, payload string) {
	f.t.Helper()
	targets := []string{"alice", keys.AuditSystem, keys.AuditResource("gpt-4")}
	var batch []types.WriteRequest
	flush := func() {
		_, err := f.Direct.BatchWriteItem(f.t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{f.Table: batch}})
		require.NoError(f.t, err)
		batch = nil
	}
	for i := range n {
		e := &table.AuditEvent{
			Key:    keys.Audit{Namespace: ns, ID: targets[i%3], AtMs: 1772366400000 + int64(i/2), Sequence: int64(i + 1)},
			Action: api.AuditActions()[i%2], After: payload, MAC: []byte{1},
		}
		batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: table.EncodeAuditEvent(e)}})
		if len(batch) == 25 {
			flush()
		}
	}
	if len(batch) > 0 {
		flush()
	}
}

func sequences(events []api.AuditEvent) []int64 {
	found := make([]int64, len(events))
	for i, e := range events {
		found[i] = e.Sequence
	}
	return found
}

// countdown are the numbers from first down to last that match.
func countdown(first, last int64, match func(n int64) bool) []int64 {
	found := []int64{}
	for n := first; n >= last; n-- {
		if match(n) {
			found = append(found, n)
		}
	}
	return found
}

func TestListsPageThroughTenThousandEvents(t *testing.T) {
	const events = 10_000
	f := newFixture(t)
	f.fill(events, `{"name":"x"}`)
	all := func(int64) bool { return true }
	require.Equal(t, countdown(events, 1, all), sequences(f.list(api.AuditListRequest{}, 1000)))
	require.Equal(t, countdown(events, 1, func(n int64) bool { return n%3 == 1 }),
		sequences(f.list(api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "alice"}}, 0)))
	require.Equal(t, countdown(events, 1, func(n int64) bool { return n%2 == 0 }),
		sequences(f.list(api.AuditListRequest{Action: api.AuditLimitsDelete}, 700)))
}

func TestListsShowWhatIsAskedFor(t *testing.T) {
	f := newFixture(t)
	f.fill(60, `{"name":"x"}`)
	third := func(r int64) func(int64) bool { return func(n int64) bool { return n%3 == r } }
	all := func(int64) bool { return true }
	const start = 1772366400000
	for name, c := range map[string]struct {
		req  api.AuditListRequest
		want []int64
	}{
		"all":          {api.AuditListRequest{}, countdown(60, 1, all)},
		"entity":       {api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "alice"}}, countdown(60, 1, third(1))},
		"system":       {api.AuditListRequest{LimitsTarget: api.LimitsTarget{System: true}}, countdown(60, 1, third(2))},
		"resource":     {api.AuditListRequest{LimitsTarget: api.LimitsTarget{Resource: "gpt-4"}}, countdown(60, 1, third(0))},
		"nobody":       {api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "bob"}}, []int64{}},
		"action":       {api.AuditListRequest{Action: api.AuditLimitsSet}, countdown(60, 1, func(n int64) bool { return n%2 == 1 })},
		"no action":    {api.AuditListRequest{Action: api.AuditEntityCreate}, []int64{}},
		"from":         {api.AuditListRequest{FromMs: start + 20}, countdown(60, 41, all)},
		"to":           {api.AuditListRequest{ToMs: start + 9}, countdown(20, 1, all)},
		"range":        {api.AuditListRequest{FromMs: start + 10, ToMs: start + 10}, countdown(22, 21, all)},
		"entity range": {api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "alice"}, FromMs: start + 5, ToMs: start + 9}, countdown(20, 11, third(1))},
	} {
		for _, n := range []int64{0, 1, 7} {
			t.Run(fmt.Sprintf("%s by %d", name, n), func(t *testing.T) {
				f.t = t
				require.Equal(t, c.want, sequences(f.list(c.req, n)))
			})
		}
	}
}

// A page must fit a NATS message of 1 MB, and a query of DynamoDB ends after
// 1 MB as well.
func TestPagesOfLargeEventsFitAMessage(t *testing.T) {
	f := newFixture(t)
	f.fill(300, `{"name":"`+strings.Repeat("x", 40<<10)+`"}`)
	for _, req := range []api.AuditListRequest{{Limit: api.MaxPage}, {LimitsTarget: api.LimitsTarget{Entity: "alice"}, Limit: api.MaxPage}} {
		found := 0
		for {
			reply, err := f.log.List(t.Context(), ns, req)
			require.NoError(t, err)
			encoded, err := json.Marshal(reply)
			require.NoError(t, err)
			require.Less(t, len(encoded), 1<<20)
			found += len(reply.Events)
			if req.Cursor = reply.Cursor; reply.Cursor == "" {
				break
			}
		}
		require.Equal(t, map[bool]int{true: 300, false: 100}[req.Entity == ""], found)
	}
}

func TestBadRequestsAreRefusedBeforeAnyIO(t *testing.T) {
	f := newFixture(t)
	for name, c := range map[string]struct {
		req   api.AuditListRequest
		code  api.Code
		field string
	}{
		"bad entity":       {api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "a\tb"}}, api.CodeInvalidEntity, "entity"},
		"entity, resource": {api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "a", Resource: "b"}}, api.CodeUnknownField, "resource"},
		"bad action":       {api.AuditListRequest{Action: "limits.guess"}, api.CodeInvalidAction, "action"},
		"before 1970":      {api.AuditListRequest{FromMs: -1}, api.CodeInvalidTime, "from_ms"},
		"backwards":        {api.AuditListRequest{FromMs: 2, ToMs: 1}, api.CodeInvalidTime, "to_ms"},
		"bad page":         {api.AuditListRequest{Limit: api.MaxPage + 1}, api.CodeInvalidAmount, "limit"},
		"bad cursor":       {api.AuditListRequest{Cursor: "x"}, api.CodeInvalidCursor, "cursor"},
	} {
		_, err := f.log.List(t.Context(), ns, c.req)
		require.Equal(t, c.field, requireCode(t, c.code, err).Field, name)
	}
	for _, id := range []string{"", "x", "1-", "-1", "1-1-1", "01-1", "1-+1", "-1-1", "1", "253402300800000-1"} {
		_, err := f.log.Show(t.Context(), ns, api.AuditShowRequest{ID: id})
		require.Equal(t, "id", requireCode(t, api.CodeInvalidID, err).Field, id)
	}
	require.Zero(t, f.Calls(""))
}

// The cursor of a list leads nowhere else: not to another target, not past the
// times asked for.
func TestForeignCursorsAreRefused(t *testing.T) {
	f := newFixture(t)
	f.fill(30, `{}`)
	reply, err := f.log.List(t.Context(), ns, api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "alice"}, Limit: 1})
	require.NoError(t, err)
	for _, req := range []api.AuditListRequest{
		{LimitsTarget: api.LimitsTarget{System: true}},
		{LimitsTarget: api.LimitsTarget{Entity: "alice"}, ToMs: 1772366400001},
	} {
		req.Cursor = reply.Cursor
		_, err := f.log.List(t.Context(), ns, req)
		requireCode(t, api.CodeInvalidCursor, err)
	}
	_, err = f.log.List(t.Context(), "AAAAAAAAAAE", api.AuditListRequest{Cursor: reply.Cursor})
	requireCode(t, api.CodeInvalidCursor, err)
}

func TestShow(t *testing.T) {
	f := newFixture(t)
	f.do("alice", "Alice")
	f.do("bob", "Bob")
	listed := f.list(api.AuditListRequest{}, 0)
	for _, e := range listed {
		shown, err := f.log.Show(t.Context(), ns, api.AuditShowRequest{ID: e.ID})
		require.NoError(t, err)
		require.Equal(t, api.AuditShowReply{AuditEvent: e, Intact: true}, shown)
	}
	_, err := f.log.Show(t.Context(), ns, api.AuditShowRequest{ID: "1772366400000-9"})
	requireCode(t, api.CodeNotFound, err)
	_, err = f.log.Show(t.Context(), "AAAAAAAAAAE", api.AuditShowRequest{ID: listed[0].ID})
	requireCode(t, api.CodeNotFound, err)

	for _, operation := range []string{"Query", "GetItem"} {
		f.Fail(operation, fault.InternalError())
		_, err := NewLog(f.DB, f.Table, f.Now).Show(t.Context(), ns, api.AuditShowRequest{ID: listed[0].ID})
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrBroken, "what cannot be read is not called altered")
	}
}

// Whatever is altered in an event is found, and so is an event that was taken
// out or put in another's place.
func TestAlteredTrailsAreFound(t *testing.T) {
	alterations := map[string]types.AttributeValue{
		"action": text("limits.set"), "nats_user": text("mallory"), "nats_account": text("B"),
		"verified": &types.AttributeValueMemberBOOL{}, "before": text(`{"name":"x"}`), "after": text("not even JSON"),
		"previous_mac": &types.AttributeValueMemberB{Value: []byte{1}}, "mac": &types.AttributeValueMemberB{Value: []byte{1}},
		"key_id": &types.AttributeValueMemberB{Value: []byte{1, 2, 3, 4}},
	}
	for attribute, v := range alterations {
		t.Run(attribute, func(t *testing.T) {
			f := newFixture(t)
			for _, name := range []string{"Alice", "Al", "A"} {
				f.do("alice", name)
			}
			stored := f.requireEvents(3)
			f.attribute(stored[1].Key, attribute, v)
			require.ErrorIs(t, f.log.verify(t.Context(), f.stored()...), ErrBroken)
			shown, err := f.log.Show(t.Context(), ns, api.AuditShowRequest{ID: IDOf(stored[1].Key)})
			require.NoError(t, err)
			require.False(t, shown.Intact)
			_, err = json.Marshal(shown)
			require.NoError(t, err)
		})
	}
	f := newFixture(t)
	for _, name := range []string{"Alice", "Al", "A"} {
		f.do("alice", name)
	}
	stored := f.requireEvents(3)
	require.ErrorIs(t, f.log.verify(t.Context(), stored[0], stored[2]), ErrBroken)
	require.ErrorIs(t, f.log.verify(t.Context(), stored[1], stored[0]), ErrBroken)
	moved := *stored[1]
	moved.Key.ID = "bob"
	require.ErrorIs(t, f.log.verify(t.Context(), stored[0], &moved), ErrBroken)
	moved = *stored[1]
	moved.Key.AtMs++
	require.ErrorIs(t, f.log.verify(t.Context(), stored[0], &moved), ErrBroken)
}

// An index that is behind the table hides an event of a moment ago, which is shown all the
// same. An event that is not there is not, and only a recent one is waited for.
func TestAnEventOfAMomentAgoIsShown(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			b := tabletest.Stale(t, time.Now, table.IndexLag)
			f := &fixture{Bench: b, t: t, log: NewLog(b.DB, b.Table, b.Now)}
			require.NoError(t, f.log.Apply(t.Context(), f.rename("alice", "Alice")))
			listed, err := f.log.List(t.Context(), ns, api.AuditListRequest{LimitsTarget: api.LimitsTarget{Entity: "alice"}})
			require.NoError(t, err)
			require.Len(t, listed.Events, 1, "the list of one target asks no index")
			shown, err := f.log.Show(t.Context(), ns, api.AuditShowRequest{ID: listed.Events[0].ID})
			require.NoError(t, err)
			require.Equal(t, api.AuditShowReply{AuditEvent: listed.Events[0], Intact: true}, shown)

			missing := func(at time.Time) time.Duration {
				began := time.Now()
				_, err := f.log.Show(t.Context(), ns, api.AuditShowRequest{ID: fmt.Sprintf("%d-9", at.UnixMilli())})
				requireCode(t, api.CodeNotFound, err)
				return time.Since(began)
			}
			require.Equal(t, table.IndexLag, missing(time.Now()))
			require.Zero(t, missing(time.Now().Add(-time.Minute)))
			ctx, cancel := context.WithTimeout(t.Context(), table.IndexLag/2)
			defer cancel()
			_, err = f.log.Show(ctx, ns, api.AuditShowRequest{ID: fmt.Sprintf("%d-9", time.Now().UnixMilli())})
			require.ErrorIs(t, err, context.DeadlineExceeded, "it may be there")
		})
	}
}

func TestListTellsOfOutagesAndDamage(t *testing.T) {
	f := newFixture(t)
	f.do("alice", "Alice")
	for _, operation := range []string{"Query", "BatchGetItem"} {
		f.Fail(operation, fault.InternalError())
		_, err := f.log.List(t.Context(), ns, api.AuditListRequest{})
		require.Error(t, err, operation)
	}
	f.attribute(f.stored()[0].Key, "action", number(1))
	_, err := f.log.List(t.Context(), ns, api.AuditListRequest{})
	require.ErrorIs(t, err, table.ErrDamaged)
	f.attribute(keys.AuditSeq{Namespace: ns}, "sequence", number(0))
	require.ErrorIs(t, f.log.Apply(t.Context(), f.rename("bob", "Bob")), table.ErrDamaged)
}

// A store that hangs ends with the request.
func TestListEndsWithTheCaller(t *testing.T) {
	f := newFixture(t)
	f.Fail("Query", fault.Fault{Kind: fault.ReplyHangs})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := f.log.List(ctx, ns, api.AuditListRequest{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
