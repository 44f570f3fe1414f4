package audit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidegate/tidegate/pkg/api"
	"github.com/tidegate/tidegate/pkg/keys"
)

const (
	// verifyEvents is the number of archived events in a part of a verification: each
	// may be a finding, and all findings of a part must fit a NATS message.
	verifyEvents = 2000
	// recentEvents is the number of newest events that the index may not show yet: a
	// namespace has a few changes per second.
	recentEvents = 200
	// maxAltered bounds the altered events that a cursor remembers.
	maxAltered = 200
)

// state carries a verification from part to part, inside the cursor.
type state struct {
	Cursor string `json:"c,omitempty"` // of the list
	Head   int64  `json:"h"`           // the counter, when the verification began
	// Next is the sequence expected next, counting down; -1 while unknown.
	Next int64 `json:"n"`
	// MAC is the MAC of the event Next, as the event above it states; empty if unknown.
	MAC string `json:"m,omitempty"`
	// Altered lists sequences below Next with an altered copy that was read out of order.
	Altered []int64 `json:"a,omitempty"`
	// Unreadable lists objects that were reported.
	Unreadable []string `json:"u,omitempty"`
}

func (s *state) encode() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic("numbers and strings always have a JSON form: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeState(text string) (*state, error) {
	s := new(state)
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	if err != nil || s.Cursor == "" || s.Next < -1 {
		return nil, api.Errorf(api.CodeInvalidCursor, "cursor", "this verification has no such part: begin again without a cursor")
	}
	return s, nil
}

// verification checks a part.
type verification struct {
	*state
	r     *Reader
	ns    string
	reply api.AuditVerifyReply
}

// Verify checks a part of a namespace's events: that they are intact, that no sequence is
// missing, and that no sequence occurs twice.
func (r *Reader) Verify(ctx context.Context, ns string, req api.AuditVerifyRequest) (api.AuditVerifyReply, error) {
	v := &verification{r: r, ns: ns, reply: api.AuditVerifyReply{Findings: []api.AuditFinding{}, ArchiveSearched: r.archive.Where() != ""}}
	if err := v.begin(ctx, req); err != nil {
		return api.AuditVerifyReply{}, fmt.Errorf("verify audit events: %w", err)
	}
	list := api.AuditListRequest{FromMs: req.FromMs, ToMs: req.ToMs, Cursor: v.Cursor, Limit: api.MaxPage}
	part, err := v.part(ctx, list)
	if err != nil {
		return api.AuditVerifyReply{}, fmt.Errorf("verify audit events: %w", err)
	}
	for len(part.copies) > 0 {
		n := 1
		for n < len(part.copies) && part.copies[n].position() == part.copies[0].position() {
			n++
		}
		if err := v.event(ctx, part.copies[:n]); err != nil {
			return api.AuditVerifyReply{}, fmt.Errorf("verify audit events: %w", err)
		}
		part.copies = part.copies[n:]
	}
	if v.Cursor = cursorAt(ns, &list, part.down); v.Cursor != "" {
		v.reply.Cursor = v.encode()
	} else if err := v.end(ctx, req.FromMs); err != nil {
		return api.AuditVerifyReply{}, fmt.Errorf("verify audit events: %w", err)
	}
	return v.reply, nil
}

// part reads the events of this part. The index follows the table, so recent events may be
// missing from a read, which is not a finding. If a sequence is missing near the newest
// event, part waits for the index and reads once more.
func (v *verification) part(ctx context.Context, list api.AuditListRequest) (*stretch, error) {
	findings, unreadable, altered := len(v.reply.Findings), len(v.Unreadable), len(v.Altered)
	part, err := v.r.read(ctx, v.ns, list, verifyEvents, v.damaged)
	if err != nil || v.Cursor != "" || v.Next < 0 || !part.lacks(v.Next) {
		return part, err
	}
	if err := v.r.log.AwaitIndex(ctx); err != nil {
		return nil, err
	}
	v.reply.Findings, v.Unreadable, v.Altered = v.reply.Findings[:findings], v.Unreadable[:unreadable], v.Altered[:altered]
	return v.r.read(ctx, v.ns, list, verifyEvents, v.damaged)
}

// lacks reports whether a sequence is missing among the newest events, from next down.
func (s *stretch) lacks(next int64) bool {
	newest := max(1, next-recentEvents)
	for _, c := range s.copies {
		switch sequence := c.event.Sequence; {
		case next < newest || sequence < next:
			return next >= newest
		case sequence == next:
			next--
		}
	}
	return s.down == (Place{}) && next >= newest // else the rest is in other parts
}

// end reports the sequences that are missing below the oldest event read: down to the first
// event, or to the newest event before the requested time.
func (v *verification) end(ctx context.Context, fromMs int64) error {
	switch {
	case v.Next < 1:
		return nil
	case fromMs <= 1:
		v.missing(1)
		return nil
	}
	older, err := v.r.newest(ctx, v.ns, fromMs-1)
	if err != nil {
		return err
	}
	if older == 0 { // no event is left; the head still tells the time of the last event
		sequence, atMs, _, err := v.r.log.Head(ctx, v.ns)
		if err != nil || v.Next != v.Head || sequence != v.Head || atMs < fromMs {
			return err
		}
		older = v.Head - 1
	}
	if older < v.Next {
		v.missing(older + 1)
	}
	return nil
}

// newest returns the sequence of the newest intact event up to a time, or 0 if there is no
// such event.
func (r *Reader) newest(ctx context.Context, ns string, toMs int64) (int64, error) {
	for req := (api.AuditListRequest{ToMs: toMs}); ; {
		part, err := r.read(ctx, ns, req, api.DefaultPage, func(string, keys.Item, error) error { return nil })
		if err != nil {
			return 0, err
		}
		for _, c := range part.copies {
			if ok, err := r.log.Intact(ctx, c.event); ok || err != nil {
				return c.event.Sequence, err
			}
		}
		if req.Cursor = cursorAt(ns, &req, part.down); req.Cursor == "" {
			return 0, nil
		}
	}
}

// begin restores the state of the previous part.
func (v *verification) begin(ctx context.Context, req api.AuditVerifyRequest) (err error) {
	if req.Cursor != "" {
		v.state, err = decodeState(req.Cursor)
		return err
	}
	v.state = &state{Next: -1}
	sequence, _, mac, err := v.r.log.Head(ctx, v.ns)
	if err != nil {
		return err
	}
	v.Head = sequence
	if req.ToMs == 0 {
		v.Next, v.MAC = sequence, mac
	}
	return nil
}

// event checks the copies of an event.
func (v *verification) event(ctx context.Context, copies []oneCopy) error {
	sequence := copies[0].event.Sequence
	var intact []oneCopy
	for _, c := range copies {
		ok, err := v.r.log.Intact(ctx, c.event)
		switch {
		case err != nil:
			return err
		case ok:
			intact = append(intact, c)
			if c.misplaced != nil {
				v.unreadable(c.where, c.misplaced)
			}
		default:
			v.found(api.AuditFinding{Kind: api.AuditAltered, First: sequence, Last: sequence, ID: c.event.ID, Where: c.where})
		}
	}
	v.reply.Checked++
	if len(intact) == 0 {
		v.pass(sequence)
		return nil
	}
	first := intact[0]
	for _, c := range intact[1:] {
		if !SameEvent(c.event, first.event) {
			v.doubled(c)
		}
	}
	if sequence > v.Head {
		newer, err := v.isNewer(ctx, sequence)
		if err != nil || newer {
			return err
		}
		// The rest is checked from there on.
		v.found(api.AuditFinding{
			Kind: api.AuditUnchained, First: sequence, Last: sequence, ID: first.event.ID, Where: first.where,
			Detail: fmt.Sprintf("the counter of the namespace is at %d: it was set back", v.Head),
		})
		v.Head, v.Next, v.MAC = sequence, sequence, first.event.MAC
	}
	switch {
	case v.Next < 0:
	case sequence > v.Next:
		v.doubled(first)
		return nil
	case sequence < v.Next:
		v.missing(sequence + 1)
		v.MAC = ""
	}
	if v.MAC != "" && v.MAC != first.event.MAC {
		v.found(api.AuditFinding{
			Kind: api.AuditUnchained, First: sequence, Last: sequence, ID: first.event.ID, Where: first.where,
			Detail: fmt.Sprintf("event %d was written after another one", sequence+1),
		})
	}
	v.Next, v.MAC = sequence-1, first.event.Previous
	return nil
}

// pass skips an event without an intact copy if its sequence is expected next; otherwise it
// remembers the sequence, which cannot be trusted.
func (v *verification) pass(sequence int64) {
	switch sequence {
	case v.Next:
		v.Next, v.MAC = sequence-1, ""
	default:
		v.remember(sequence)
	}
}

// remember keeps an altered event's sequence, so that it is not reported as missing too.
func (v *verification) remember(sequence int64) {
	if len(v.Altered) < maxAltered && !slices.Contains(v.Altered, sequence) {
		v.Altered = append(v.Altered, sequence)
	}
}

// isNewer reports whether an event was written after the verification began.
func (v *verification) isNewer(ctx context.Context, sequence int64) (bool, error) {
	now, _, _, err := v.r.log.Head(ctx, v.ns)
	return now >= sequence, err
}

// missing reports the sequences from Next down to from as missing, except events that were
// reported as altered.
func (v *verification) missing(from int64) {
	known := append(slices.Clone(v.Altered), from-1)
	slices.Sort(known)
	last := v.Next
	for _, sequence := range slices.Backward(known) {
		if sequence < from-1 || sequence > last {
			continue
		}
		if sequence < last {
			v.found(api.AuditFinding{Kind: api.AuditMissing, First: sequence + 1, Last: last})
		}
		last = sequence - 1
	}
	v.Next = from - 1
}

func (v *verification) doubled(c oneCopy) {
	v.found(api.AuditFinding{
		Kind: api.AuditDoubled, First: c.event.Sequence, Last: c.event.Sequence, ID: c.event.ID, Where: c.where,
		Detail: "another event has this number",
	})
}

// damaged reports data that cannot be read, and lets the reading continue.
func (v *verification) damaged(where string, item keys.Item, err error) error {
	if item == nil {
		v.unreadable(where, err)
		return nil
	}
	f := api.AuditFinding{Kind: api.AuditUnreadable, Where: where, Detail: err.Error()}
	if key, ok := item.(keys.Audit); ok {
		f.Kind, f.First, f.Last, f.ID = api.AuditAltered, key.Sequence, key.Sequence, IDOf(key)
		v.remember(key.Sequence)
	}
	v.found(f)
	return nil
}

// unreadable reports an object, once.
func (v *verification) unreadable(where string, err error) {
	if slices.Contains(v.Unreadable, where) {
		return
	}
	if len(v.Unreadable) < maxAltered {
		v.Unreadable = append(v.Unreadable, where)
	}
	v.found(api.AuditFinding{Kind: api.AuditUnreadable, Where: where, Detail: err.Error()})
}

func (v *verification) found(f api.AuditFinding) { v.reply.Findings = append(v.reply.Findings, f) }
