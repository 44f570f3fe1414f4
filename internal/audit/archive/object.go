package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/tidegate/tidegate/internal/audit"
	"github.com/tidegate/tidegate/pkg/api"
)

// maxLine bounds a line, in bytes. An event holds a request of at most 64 KB and the
// state before the change.
const maxLine = 4 << 20

// object is a file of events, ready to be written.
type object struct {
	name    name
	lines   []byte // uncompressed
	content []byte // compressed, as stored
	events  int
}

// newObject puts events of the same namespace, day and lane into a file, without
// repeats. There must be at least a single event.
func newObject(lane int, all []api.AuditEvent) (*object, error) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(x, y api.AuditEvent) int { return cmp.Compare(y.Sequence, x.Sequence) })
	newest, oldest := &all[0], &all[len(all)-1]
	o := &object{name: name{
		namespace: newest.Namespace, day: dayOf(newest.AtMs), lane: lane, first: oldest.Sequence, last: newest.Sequence,
	}}
	var last []byte
	var lines bytes.Buffer
	for i := range all {
		line, err := json.Marshal(&all[i])
		if err != nil {
			return nil, fmt.Errorf("write audit event %s: %w", all[i].ID, err)
		}
		if bytes.Equal(line, last) { // the feed gave it twice
			continue
		}
		lines.Write(line)
		lines.WriteByte('\n')
		last = line
		o.events++
	}
	o.lines = lines.Bytes()
	var err error
	o.content, err = compress(o.lines)
	return o, err
}

func compress(lines []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(lines)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress audit events: %w", err)
	}
	return b.Bytes(), nil
}

// named is the name with a part that is the content's own.
func (o *object) named() name {
	sum := sha256.Sum256(o.lines)
	n := o.name
	n.sum = hex.EncodeToString(sum[:8])
	return n
}

// holds reports whether stored content has the same lines. It compares lines because
// the compressed bytes may differ between releases.
func (o *object) holds(stored []byte) bool {
	r, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return false
	}
	lines, err := io.ReadAll(io.LimitReader(r, int64(len(o.lines))+1))
	return err == nil && bytes.Equal(lines, o.lines)
}

// readLines calls visit for the events of stored content at the wanted positions, in
// order. It calls broken for each line that is not an event or does not belong there,
// and once for the rest if the content breaks off. An error of visit or broken ends
// the reading.
func readLines(n name, stored []byte, wanted func(audit.Position) bool, visit func(*api.AuditEvent) error, broken func(error) error) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(stored))
	if err != nil {
		return broken(fmt.Errorf("%w: %s: %w", audit.ErrObjectDamaged, n.key(), err))
	}
	day, err := time.Parse(dayLayout, n.day)
	if err != nil {
		return broken(fmt.Errorf("%w: %s is of no day: %w", audit.ErrObjectDamaged, n.key(), err))
	}
	const dayMs = 24 * 60 * 60 * 1000
	begin := day.UnixMilli()
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for number := 1; lines.Scan(); number++ {
		if p, ok := positionIn(lines.Bytes()); ok && begin <= p.AtMs && p.AtMs < begin+dayMs && n.first <= p.Sequence && p.Sequence <= n.last && !wanted(p) {
			continue
		}
		e := new(api.AuditEvent)
		err := json.Unmarshal(lines.Bytes(), e)
		if err == nil && !n.mayHold(e) {
			err = fmt.Errorf("event %s does not belong there", e.ID)
		}
		if err != nil {
			if err := broken(fmt.Errorf("%w: %s, line %d: %w", audit.ErrObjectDamaged, n.key(), number, err)); err != nil {
				return err
			}
			continue
		}
		if err := visit(e); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return broken(fmt.Errorf("%w: %s: %w", audit.ErrObjectDamaged, n.key(), err))
	}
	return nil
}

// positionIn is where the event of a line is, by the id that the line begins with. To
// read all of it takes fifty times as long.
func positionIn(line []byte) (p audit.Position, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"id":"`))
	if !ok {
		return audit.Position{}, false
	}
	id, _, _ := bytes.Cut(rest[:min(len(rest), 64)], []byte(`"`))
	at, sequence, ok := bytes.Cut(id, []byte("-"))
	if !ok {
		return audit.Position{}, false
	}
	var errAt, errSequence error
	p.AtMs, errAt = strconv.ParseInt(string(at), 10, 64)
	p.Sequence, errSequence = strconv.ParseInt(string(sequence), 10, 64)
	return p, errAt == nil && errSequence == nil
}

// mayHold reports whether the object of that name may hold an event.
func (n name) mayHold(e *api.AuditEvent) bool {
	return e.Namespace == n.namespace && dayOf(e.AtMs) == n.day && e.Sequence >= n.first && e.Sequence <= n.last
}

// misplaced returns an error if readers of the event's target skip the object because of its
// name.
func (n name) misplaced(e *api.AuditEvent) error {
	if n.lane == laneOf(e.Namespace, e.Target) {
		return nil
	}
	return fmt.Errorf("%w: %s: by its name, it has nothing of %s, of which it has event %s", audit.ErrObjectDamaged, n.key(), e.Target, e.ID)
}
