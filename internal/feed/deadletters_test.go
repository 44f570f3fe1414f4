package feed_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/feed"
	"github.com/tidegate/tidegate/pkg/events"
	"github.com/tidegate/tidegate/pkg/keys"
)

// seen is a record that a handler was given.
type seen struct {
	entity, replay string
}

// watcher hands on what a handler is given, and refuses whom it is told to.
type watcher struct {
	records chan seen
	refuse  func(entity string) error
}

func newWatcher() *watcher {
	return &watcher{records: make(chan seen, 100), refuse: func(string) error { return nil }}
}

func (w *watcher) handle(_ context.Context, b *feed.Batch) error {
	for i, r := range b.Records {
		entity := r.Key.(keys.Bucket).Entity
		if err := w.refuse(entity); err != nil {
			b.Refuse(i, err)
		}
		w.records <- seen{entity, r.Replay}
	}
	return nil
}

func (w *watcher) next(t *testing.T) seen {
	t.Helper()
	select {
	case s := <-w.records:
		return s
	case <-time.After(patience):
		require.Fail(t, "nothing is handled")
		return seen{}
	}
}

// letters waits for so many dead letters of the service and returns them.
func (w *world) letters(t *testing.T, n int) []feed.DeadLetter {
	t.Helper()
	dead := feed.NewDeadLetters(w.js)
	var all []feed.DeadLetter
	require.Eventually(t, func() bool {
		var err error
		all, _, err = dead.List(t.Context(), "test", 0, 100)
		require.NoError(t, err)
		return len(all) == n
	}, patience, 5*time.Millisecond, "there are not %d dead letters", n)
	return all
}

// What no release can read goes to the dead letters, and holds nothing up.
func TestAMalformedEventIsADeadLetter(t *testing.T) {
	w := newWorld(t)
	p, h := w.publisher(t), newWatcher()
	m := w.member(t, "a", h.handle)
	lane := events.Lane(keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4"})
	subject := events.Subject(events.KindBucket, lane)
	p.publish(t, "alice")
	p.send(t, subject, []byte(`{"v":1,"kind":"bucket","id":"`+strings.Repeat("x", 2000)+"\n\"}"))
	p.send(t, subject, []byte("no JSON"))
	p.publish(t, "alice")
	require.Equal(t, []seen{{entity: "alice"}, {entity: "alice"}}, []seen{h.next(t), h.next(t)})
	all := w.letters(t, 2)
	require.Equal(t, "no JSON", string(all[1].Data))
	require.Contains(t, all[1].Reason, "malformed event")
	require.Equal(t, subject, all[1].Subject)
	require.Equal(t, "test", all[1].Service)
	require.False(t, all[1].At.IsZero())
	require.Equal(t, "2", fmt.Sprint(m.metric(t, "tidegate_feed_dead_letters_total")))

	dead := feed.NewDeadLetters(w.js)
	one, next, err := dead.List(t.Context(), "", 0, 1)
	require.NoError(t, err)
	require.Equal(t, all[:1], one)
	one, next, err = dead.List(t.Context(), "test", next, 1)
	require.NoError(t, err)
	require.Equal(t, all[1:], one)
	one, next, err = dead.List(t.Context(), "test", next, 1)
	require.NoError(t, err)
	require.Empty(t, one)
	require.Zero(t, next)
	none, _, err := dead.List(t.Context(), "relay", 0, 10)
	require.NoError(t, err)
	require.Empty(t, none, "of another service")
	got, err := dead.Get(t.Context(), all[1].Number)
	require.NoError(t, err)
	require.Equal(t, all[1], got)
	_, err = dead.Get(t.Context(), 99)
	require.ErrorIs(t, err, feed.ErrNoDeadLetter)
	require.ErrorIs(t, dead.Replay(t.Context(), 99), feed.ErrNoDeadLetter)
}

// A record that is refused can be replayed, as often as it takes, and keeps its
// mark.
func TestARefusedRecordIsReplayed(t *testing.T) {
	w := newWorld(t)
	p, h := w.publisher(t), newWatcher()
	h.refuse = func(entity string) error {
		if entity == "bob" {
			return errors.New("there is no room\nfor bob")
		}
		return nil
	}
	m := w.member(t, "a", h.handle)
	for _, entity := range []string{"alice", "bob", "alice"} {
		p.publish(t, entity)
	}
	for range 3 {
		require.Empty(t, h.next(t).replay)
	}
	first := w.letters(t, 1)[0]
	require.Equal(t, "there is no room for bob", first.Reason, "headers have one line")
	event, err := events.Decode(first.Data)
	require.NoError(t, err)
	require.Equal(t, "bob", event.Key.(keys.Bucket).Entity)

	dead := feed.NewDeadLetters(w.js)
	require.NoError(t, dead.Replay(t.Context(), first.Number))
	again := h.next(t)
	require.Equal(t, "bob", again.entity)
	require.NotEmpty(t, again.replay)
	second := w.letters(t, 1)[0]
	require.NotEqual(t, first.Number, second.Number, "it fails again")
	require.ErrorIs(t, dead.Replay(t.Context(), first.Number), feed.ErrNoDeadLetter)

	m.leave(t)
	h.refuse = func(string) error { return nil }
	m = w.member(t, "b", h.handle)
	require.NoError(t, dead.Replay(t.Context(), second.Number))
	require.Equal(t, again, h.next(t), "the mark is the record's, whichever letter it comes from")
	w.letters(t, 0)
	m.leave(t) // and has counted
	require.Equal(t, "1", fmt.Sprint(m.metric(t, "tidegate_feed_records_total")))
}

// Marks never begin again, though the numbers of a feed do when it is made anew: records
// of both feeds are told apart, and a record that both have is known again.
func TestMarksOutliveTheFeed(t *testing.T) {
	w := newWorld(t)
	h := newWatcher()
	h.refuse = func(string) error { return errors.New("no room") }
	p := w.publisher(t)
	marks := map[string]string{} // by what the record says
	for n, malformed := range []string{"no JSON", "no JSON", "no JSON either"} {
		m := w.member(t, fmt.Sprint("member", n), h.handle)
		p.publish(t, "alice")
		p.send(t, events.Subject(events.KindBucket, 7), []byte(malformed))
		h.next(t)
		for _, letter := range w.letters(t, 2) {
			require.NoError(t, w.dead().Replay(t.Context(), letter.Number))
		}
		replayed := h.next(t).replay
		require.NotContains(t, marks, replayed, "another record")
		marks[replayed] = "alice"
		for _, letter := range w.letters(t, 2) { // they fail again
			raw, err := w.rawLetter(t, letter.Number)
			require.NoError(t, err)
			mark := raw.Header.Get("Tidegate-Feed-Sequence")
			if string(letter.Data) != malformed {
				require.Equal(t, replayed, mark)
				continue
			}
			if said, known := marks[mark]; known {
				require.Equal(t, said, malformed)
			}
			marks[mark] = malformed
		}
		m.leave(t)
		for _, stream := range []string{events.StreamName, "TIDEGATE_DLQ"} {
			require.NoError(t, w.js.DeleteStream(t.Context(), stream))
		}
		_, err := feed.EnsureFeed(t.Context(), w.js, feed.Retention{})
		require.NoError(t, err)
	}
	require.Len(t, marks, 3+2)
}

// dead are the dead letters of the world.
func (w *world) dead() *feed.DeadLetters { return feed.NewDeadLetters(w.js) }

// rawLetter reads a dead letter with its headers.
func (w *world) rawLetter(t *testing.T, number uint64) (*jetstream.RawStreamMsg, error) {
	t.Helper()
	stream, err := w.js.Stream(t.Context(), "TIDEGATE_DLQ")
	require.NoError(t, err)
	return stream.GetMsg(t.Context(), number)
}

// A crash between the dead letters and the acknowledgement puts a record there
// again.
func TestADeadLetterIsPutOnce(t *testing.T) {
	w := newWorld(t)
	dead := feed.NewDeadLetters(w.js)
	c := feed.DeadRecord{Subject: events.Subject(events.KindBucket, 7), Mark: "12", Data: []byte("x"), Reason: errors.New("?")}
	for range 2 {
		require.NoError(t, dead.Put(t.Context(), "test", c))
		require.NoError(t, dead.Put(t.Context(), "other", c))
	}
	first := w.letters(t, 1)[0]
	require.ErrorIs(t, dead.Replay(t.Context(), first.Number), feed.ErrTakesNoReplays, "the service never ran")
	w.letters(t, 1)
	c.Attempt = "13"
	require.NoError(t, dead.Put(t.Context(), "test", c))
	w.letters(t, 2)
}

// A kind of a later release is left out, and counted.
func TestAnUnknownKindIsSkipped(t *testing.T) {
	w := newWorld(t)
	p, h := w.publisher(t), newWatcher()
	m := w.member(t, "a", h.handle)
	lane := events.Lane(keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4"})
	p.send(t, events.Subject(events.KindBucket, lane), []byte(`{"v":1,"kind":"weather"}`))
	p.publish(t, "alice")
	require.Equal(t, "alice", h.next(t).entity)
	require.Equal(t, "1", fmt.Sprint(m.metric(t, "tidegate_feed_skipped_total")))
	require.Zero(t, m.metric(t, "tidegate_feed_dead_letters_total"))
}

// A version of a later release waits for that release, and its lane with it. The
// other lanes go on.
func TestAnUnknownVersionWaitsForItsRelease(t *testing.T) {
	w := newWorld(t)
	p, h := w.publisher(t), newWatcher()
	old := w.memberOf(t, "old", h.handle, fast(), events.Decode)
	key := keys.Bucket{Namespace: ns, Entity: "alice", Resource: "gpt-4"}
	p.send(t, events.Subject(events.KindBucket, events.Lane(key)), []byte(`{"v":99,"kind":"bucket"}`))
	p.publish(t, "alice")
	require.Eventually(t, func() bool { return old.metric(t, "tidegate_feed_lanes_waiting") == 1 }, patience, time.Millisecond)
	other := "bob"
	for i := 0; events.Lane(keys.Bucket{Namespace: ns, Entity: other, Resource: "gpt-4"}) == events.Lane(key); i++ {
		other = fmt.Sprint("bob", i)
	}
	p.publish(t, other)
	require.Equal(t, other, h.next(t).entity)
	old.leave(t)
	require.Empty(t, h.records, "nothing passes what waits")

	newer := w.memberOf(t, "new", h.handle, fast(), func(data []byte) (*events.Event, error) {
		e, err := events.Decode(data)
		if errors.Is(err, events.ErrUnknownVersion) {
			return &events.Event{Key: key, Bucket: &events.Change[events.Bucket]{}}, nil
		}
		return e, err
	})
	require.Equal(t, []seen{{entity: "alice"}, {entity: "alice"}}, []seen{h.next(t), h.next(t)})
	require.Zero(t, newer.metric(t, "tidegate_feed_lanes_waiting"))
	w.letters(t, 0)
}
