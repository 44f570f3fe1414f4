package simnats

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Queue is a direction of a link that has messages to move.
type Queue struct {
	link    *link
	inbound bool
}

// Queues returns the queues that may move now, sorted by party and link.
func (s *Server) Queues() []Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	slices.SortFunc(s.links, func(a, b *link) int {
		return cmp.Or(strings.Compare(a.party, b.party), cmp.Compare(a.id, b.id))
	})
	var queues []Queue
	for _, l := range s.links {
		if len(l.in) > 0 && !now.Before(l.inHeld) {
			queues = append(queues, Queue{l, true})
		}
		if len(l.out) > 0 && !now.Before(l.outHeld) {
			queues = append(queues, Queue{l, false})
		}
	}
	return queues
}

// Party returns the name of the link's party.
func (q Queue) Party() string { return q.link.party }

// Inbound reports whether the queue leads to the server.
func (q Queue) Inbound() bool { return q.inbound }

// Len returns the number of messages in the queue.
func (s *Server) Len(q Queue) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(*q.frames())
}

func (q Queue) frames() *[]frame {
	if q.inbound {
		return &q.link.in
	}
	return &q.link.out
}

// Head describes the first message of a queue.
type Head struct {
	Subject string // or the command
	Reply   string
	Data    []byte
}

// Head returns the first message of a queue.
func (s *Server) Head(q Queue) Head {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.inbound {
		arrange(q.link.in)
	}
	f := (*q.frames())[0]
	if f.subject == "" || f.kind == kindSub {
		return Head{Subject: [...]string{"CONNECT", "PING", "PONG", "SUB", "UNSUB", "PUB", "RAW"}[f.kind]}
	}
	return Head{Subject: f.subject, Reply: f.reply, Data: f.data}
}

// Step moves the first n messages of a queue on.
func (s *Server) Step(q Queue, n int) {
	s.mu.Lock()
	if q.inbound {
		arrange(q.link.in)
		for range min(n, len(q.link.in)) {
			f := q.link.in[0]
			q.link.in = q.link.in[1:]
			if s.handle(q.link, &f); q.link.gone {
				break
			}
		}
		s.mu.Unlock()
		return
	}
	var b []byte
	for _, f := range q.link.out[:min(n, len(q.link.out))] {
		b = append(b, f.raw...)
	}
	q.link.out = q.link.out[min(n, len(q.link.out)):]
	s.mu.Unlock()
	q.link.deliver(b)
}

// Lose drops the first message of a queue to a client if core NATS may lose it: a
// subscriber that falls behind loses messages.
func (s *Server) Lose(q Queue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.inbound || len(q.link.out) == 0 || q.link.out[0].kind != kindRaw {
		return false
	}
	q.link.out = q.link.out[1:]
	return true
}

// Stall holds a queue until a moment.
func (s *Server) Stall(q Queue, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.inbound {
		q.link.inHeld = until
	} else {
		q.link.outHeld = until
	}
}

// arrange sorts messages that concurrent goroutines of a client have published at the same
// instant, so that the scheduler of the machine does not decide their order. Requests come
// first, by subject: a goroutine waits for the reply before it publishes again. Writes keep
// their order, for a goroutine may publish several.
func arrange(frames []frame) {
	for start := 0; start < len(frames); {
		end := start
		for end < len(frames) && frames[end].kind == kindPub && frames[end].arrived.Equal(frames[start].arrived) {
			end++
		}
		slices.SortStableFunc(frames[start:end], func(a, b frame) int { return strings.Compare(flow(&a), flow(&b)) })
		start = max(end, start+1)
	}
}

// flow is equal for messages whose order counts.
func flow(f *frame) string {
	switch {
	case strings.HasPrefix(f.subject, ackPrefix):
		parts := strings.SplitN(f.subject, ".", 5)
		return "1" + parts[2] + "." + parts[3]
	case strings.HasPrefix(f.subject, apiPrefix+"CONSUMER."):
		parts := strings.Split(f.subject, ".")
		if parts[3] == "MSG" {
			return "1" + strings.Join(parts[5:7], ".")
		}
		return "1" + strings.Join(parts[4:min(6, len(parts))], ".")
	case strings.HasPrefix(f.subject, apiPrefix):
		return "2" + f.subject + string(f.data)
	case strings.HasPrefix(f.subject, "$KV."), strings.Contains(string(f.header), headerBatch):
		return "5"
	case strings.HasPrefix(f.subject, "_INBOX."):
		return "4"
	}
	return "3" + f.subject
}

// Cut ends the links of a party.
func (s *Server) Cut(party string) {
	s.mu.Lock()
	var cut []*link
	for _, l := range slices.Clone(s.links) {
		if l.party == party {
			cut = append(cut, l)
			s.drop(l)
		}
	}
	s.mu.Unlock()
	for _, l := range cut {
		l.end(errReset)
	}
}

// Partition cuts a party off from the server, or ends that. A party that is cut off loses
// its links, and cannot connect.
func (s *Server) Partition(party string, cut bool) {
	s.mu.Lock()
	s.refused[party] = cut
	s.mu.Unlock()
	if cut {
		s.Cut(party)
	}
}

// Restart ends all links and begins another term of the server. Streams in files and
// their consumers stay; change, if set, may alter them first.
func (s *Server) Restart() {
	s.mu.Lock()
	links := slices.Clone(s.links)
	for _, l := range links {
		s.drop(l)
	}
	s.begin()
	for _, name := range s.streamNames() {
		s.streams[name].restart()
		if s.streams[name].cfg.Storage == "memory" {
			delete(s.streams, name)
		}
	}
	s.mu.Unlock()
	for _, l := range links {
		l.end(errReset)
	}
}

// Repeat puts a second copy of the first message behind it, as a caller that asks again.
func (s *Server) Repeat(q Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	frames := q.frames()
	*frames = append([]frame{(*frames)[0]}, *frames...)
}
