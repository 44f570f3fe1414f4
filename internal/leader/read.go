package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The requests of JetStream's API, each followed by the stream's name.
const (
	apiGet  = "$JS.API.STREAM.MSG.GET."
	apiInfo = "$JS.API.STREAM.INFO."
)

// ErrNone says that the stream has no such message.
var ErrNone = errors.New("the stream has no such message")

// ErrInterrupted says that the connection changed while the leader was asked, so
// that its answer may be of another term.
var ErrInterrupted = errors.New("the connection to NATS was interrupted")

// Message is a stored message.
type Message struct {
	Subject  string
	Sequence uint64
	Header   nats.Header
	Data     []byte
	Time     time.Time // when it was stored
}

// Last returns the last message of a subject, or ErrNone if the subject has no message.
func Last(ctx context.Context, nc *nats.Conn, stream, subject string) (*Message, error) {
	return get(ctx, nc, stream, map[string]any{"last_by_subj": subject})
}

// At returns the message with a sequence number; the error is ErrNone where it is
// gone, or not yet there.
func At(ctx context.Context, nc *nats.Conn, stream string, sequence uint64) (*Message, error) {
	return get(ctx, nc, stream, map[string]any{"seq": sequence})
}

func get(ctx context.Context, nc *nats.Conn, stream string, what map[string]any) (*Message, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject  string    `json:"subject"`
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := ask(ctx, nc, apiGet+stream, what, &answer); err != nil {
		return nil, err
	}
	if e := answer.Error; e != nil {
		if e.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return nil, ErrNone
		}
		return nil, fmt.Errorf("read a message of %s: %w", stream, e)
	}
	if answer.Message == nil {
		return nil, fmt.Errorf("read a message of %s: the answer has none", stream)
	}
	m := &Message{Subject: answer.Message.Subject, Sequence: answer.Message.Sequence, Data: answer.Message.Data, Time: answer.Message.Time}
	if len(answer.Message.Header) > 0 {
		var err error
		if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return nil, fmt.Errorf("read a message of %s: its headers: %w", stream, err)
		}
	}
	return m, nil
}

// Info returns the leader's information about the stream.
func Info(ctx context.Context, nc *nats.Conn, stream string) (*jetstream.StreamInfo, error) {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := ask(ctx, nc, apiInfo+stream, nil, &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("look at %s: %w", stream, answer.Error)
	}
	return &answer.StreamInfo, nil
}

// Subjects returns the subjects of the stream's messages that match a filter.
func Subjects(ctx context.Context, nc *nats.Conn, stream, filter string) ([]string, error) {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		State struct {
			Subjects map[string]uint64 `json:"subjects"`
		} `json:"state"`
	}
	if err := ask(ctx, nc, apiInfo+stream, map[string]any{"subjects_filter": filter}, &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("list the subjects of %s: %w", stream, answer.Error)
	}
	return slices.Sorted(maps.Keys(answer.State.Subjects)), nil
}

// Term is a term of a stream's leader, the same for every client. It is comparable.
type Term struct {
	Server string    `json:"server,omitempty"` // the process's id, of a single server; empty in a cluster
	Leader string    `json:"leader,omitempty"` // the server's name, in a cluster
	Since  time.Time `json:"since,omitzero"`   // since when it leads, in a cluster
}

// TermOf returns the leader's present term. In a cluster, a replicated stream's
// leader tells since when it leads. A single server is its own leader, and its
// process the term. The error is ErrInterrupted where the connection broke
// meanwhile.
func TermOf(ctx context.Context, nc *nats.Conn, stream string) (Term, error) {
	before := nc.ConnectedServerId()
	info, err := Info(ctx, nc, stream)
	if err != nil {
		return Term{}, err
	}
	if c := info.Cluster; c != nil && c.LeaderSince != nil {
		return Term{Leader: c.Leader, Since: c.LeaderSince.UTC()}, nil
	}
	if before == "" || nc.ConnectedServerId() != before {
		return Term{}, ErrInterrupted
	}
	return Term{Server: before}, nil
}

// Holds reports whether a term still holds; the zero Term never does. The term of a single
// server is known from the connection, a cluster is asked.
func Holds(ctx context.Context, nc *nats.Conn, stream string, term Term) (bool, error) {
	switch {
	case term == (Term{}):
		return false, nil
	case term.Server != "":
		return nc.ConnectedServerId() == term.Server, nil
	}
	now, err := TermOf(ctx, nc, stream)
	return err == nil && now == term, err
}

func ask(ctx context.Context, nc *nats.Conn, subject string, request, answer any) error {
	var payload []byte
	if request != nil {
		var err error
		if payload, err = json.Marshal(request); err != nil {
			return fmt.Errorf("ask %s: %w", subject, err)
		}
	}
	reply, err := nc.RequestWithContext(ctx, subject, payload)
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	if err := json.Unmarshal(reply.Data, answer); err != nil {
		return fmt.Errorf("ask %s: the answer cannot be read: %w", subject, err)
	}
	return nil
}
