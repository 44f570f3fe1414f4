package feed

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/pkg/events"
)

// Headers of dead letters and of their replays.
const (
	headerReason  = "Tidegate-Reason"        // the reason for the refusal
	headerSubject = "Tidegate-Subject"       // where in the feed it was
	headerMark    = "Tidegate-Feed-Sequence" // its mark; an earlier release wrote its number in the feed here

	// HeaderReplay has the mark of a dead letter that is given to its service again,
	// or of a message that the service published for it.
	HeaderReplay = "Tidegate-Replay"
)

// ErrNoDeadLetter says that there is no dead letter of that number, any more at
// least.
var ErrNoDeadLetter = errors.New("there is no such dead letter")

// ErrTakesNoReplays says that no consumer follows the feed for the service that a dead
// letter is of: it was never started on this server.
var ErrTakesNoReplays = errors.New("the service takes no replays")

// DeadLetters are the records that services could not read or apply.
type DeadLetters struct{ js jetstream.JetStream }

// NewDeadLetters gives access to the dead letters of all services. The
// feed must have been made, by anybody.
func NewDeadLetters(js jetstream.JetStream) *DeadLetters { return &DeadLetters{js} }

// DeadLetter is a record that a service could not read or apply.
type DeadLetter struct {
	Number  uint64    `json:"number"` // names it
	Service string    `json:"service"`
	Reason  string    `json:"reason"`
	Subject string    `json:"subject"` // where in the feed it was
	At      time.Time `json:"at"`      // when it was given up
	Data    []byte    `json:"data"`    // the event as it came
}

// DeadRecord is a record on its way to the dead letters.
type DeadRecord struct {
	Subject string // its subject in the feed, or the subject that it belongs to; a replay goes to the same lane
	Mark    string // names the record among the service's, and stays when it is replayed and fails again
	Attempt string // tells several attempts at the record apart; empty if there is only a single attempt
	Data    []byte
	Reason  error
}

// Put adds a record. A record that is there already, from before a crash, is left out
// within the two minutes for which JetStream remembers; later it is there twice, under
// the same mark, by which a service counts it once however often it is replayed.
func (d *DeadLetters) Put(ctx context.Context, service string, c DeadRecord) error {
	m := nats.NewMsg(events.DeadLetters(service))
	m.Data = c.Data
	m.Header.Set(headerReason, oneLine(c.Reason.Error()))
	m.Header.Set(headerSubject, c.Subject)
	m.Header.Set(headerMark, c.Mark)
	if _, err := d.js.PublishMsg(ctx, m, jetstream.WithMsgID(service+"/"+c.Mark+"/"+c.Attempt)); err != nil {
		return fmt.Errorf("put a record among the dead letters: %w", err)
	}
	return nil
}

// deadRecordOf is a record of the feed that a service gives up.
func deadRecordOf(c refusedMessage) (DeadRecord, error) {
	meta, err := c.message.Metadata()
	if err != nil {
		return DeadRecord{}, fmt.Errorf("a record without a place in its lane: %w", err)
	}
	return DeadRecord{
		Subject: c.message.Subject(), Mark: c.mark, Attempt: strconv.FormatUint(meta.Sequence.Stream, 10), Data: c.message.Data(), Reason: c.reason,
	}, nil
}

// markOf returns the mark of an unreadable record: the mark that it was replayed with,
// or the hash of its content. Numbers of a feed begin again when the feed is made anew.
func markOf(m jetstream.Msg) string {
	if mark := m.Headers().Get(HeaderReplay); mark != "" {
		return mark
	}
	hash := sha256.Sum256(m.Data())
	return "sha256:" + base64.RawURLEncoding.EncodeToString(hash[:])
}

// oneLine makes text fit a header.
func oneLine(text string) string {
	const longest = 1000
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}

// List returns dead letters of a service, or of all where it is empty, from a
// number on, oldest first, and the number to go on with; 0 at the end.
func (d *DeadLetters) List(ctx context.Context, service string, from uint64, limit int) (letters []DeadLetter, next uint64, err error) {
	stream, err := d.js.Stream(ctx, deadStream)
	if err != nil {
		return nil, 0, fmt.Errorf("open the dead letters: %w", err)
	}
	subject := events.DeadLettersAll
	if service != "" {
		subject = events.DeadLetters(service)
	}
	for from = max(1, from); len(letters) < limit; {
		m, err := stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return letters, 0, nil
		case err != nil:
			return nil, 0, fmt.Errorf("read the dead letters: %w", err)
		}
		letters = append(letters, letterOf(m))
		from = m.Sequence + 1
	}
	return letters, from, nil
}

func letterOf(m *jetstream.RawStreamMsg) DeadLetter {
	return DeadLetter{
		Number: m.Sequence, Service: strings.TrimPrefix(m.Subject, events.DeadLetters("")),
		Reason: m.Header.Get(headerReason), Subject: m.Header.Get(headerSubject), At: m.Time, Data: m.Data,
	}
}

// Get returns a dead letter, or ErrNoDeadLetter.
func (d *DeadLetters) Get(ctx context.Context, number uint64) (DeadLetter, error) {
	m, err := d.get(ctx, number)
	if err != nil {
		return DeadLetter{}, err
	}
	return letterOf(m), nil
}

func (d *DeadLetters) get(ctx context.Context, number uint64) (*jetstream.RawStreamMsg, error) {
	stream, err := d.js.Stream(ctx, deadStream)
	if err != nil {
		return nil, fmt.Errorf("open the dead letters: %w", err)
	}
	m, err := stream.GetMsg(ctx, number)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, fmt.Errorf("%w: %d", ErrNoDeadLetter, number)
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letter %d: %w", number, err)
	}
	return m, nil
}

// Replay gives a dead letter to its service again, in its lane, behind the records that are
// there already, and takes it from the dead letters. Asked twice within two minutes
// it is given once; later, after a crash in between, again, under the same mark.
// It fails with ErrNoDeadLetter or ErrTakesNoReplays where it cannot.
func (d *DeadLetters) Replay(ctx context.Context, number uint64) error {
	raw, err := d.get(ctx, number)
	if err != nil {
		return err
	}
	letter := letterOf(raw)
	lane, err := laneOf(letter.Subject)
	if err != nil {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	if err := d.isFollowed(ctx, letter.Service, lane); err != nil {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	// The mark belongs to the record, not to the letter: a record that fails again and is
	// replayed again is still the same.
	mark := raw.Header.Get(headerMark)
	m := nats.NewMsg(events.ReplaySubject(letter.Service, lane))
	m.Data = letter.Data
	m.Header.Set(HeaderReplay, mark)
	if _, err := d.js.PublishMsg(ctx, m, jetstream.WithMsgID("replay/"+letter.Service+"/"+strconv.FormatUint(number, 10)+"/"+mark)); err != nil {
		return fmt.Errorf("replay dead letter %d: %w", number, err)
	}
	stream, err := d.js.Stream(ctx, deadStream)
	if err == nil {
		err = stream.DeleteMsg(ctx, number)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("dead letter %d was replayed, but stays: %w", number, err)
	}
	return nil
}

// isFollowed fails unless somebody pulls the replays of a service in a lane.
func (d *DeadLetters) isFollowed(ctx context.Context, service string, lane int) error {
	feed, err := d.js.Stream(ctx, events.StreamName)
	if err != nil {
		return fmt.Errorf("look for the service %s: %w", service, err)
	}
	consumers := feed.ListConsumers(ctx)
	for c := range consumers.Info() {
		for _, subject := range append(c.Config.FilterSubjects, c.Config.FilterSubject) {
			if subject == events.ReplaySubject(service, lane) || subject == events.Replays(service) {
				return nil
			}
		}
	}
	if err := consumers.Err(); err != nil {
		return fmt.Errorf("look for the service %s: %w", service, err)
	}
	return fmt.Errorf("%w: %s", ErrTakesNoReplays, service)
}

// laneOf returns the lane of a subject of the feed, or of a replay's subject.
func laneOf(subject string) (int, error) {
	if _, lane, err := events.ParseSubject(subject); err == nil {
		return lane, nil
	}
	lane, err := strconv.Atoi(subject[strings.LastIndexByte(subject, '.')+1:])
	if err != nil || lane < 0 || lane >= events.Lanes {
		return 0, fmt.Errorf("%.200q is in no lane", subject)
	}
	return lane, nil
}
