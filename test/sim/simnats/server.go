package simnats

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options configure a server. All fields are required.
type Options struct {
	Rand *rand.Rand // chooses members of queue groups; only Step and Tick use it
	Now  func() time.Time
	// Arrived is called after frames were queued, from the client's goroutine. It must not
	// block.
	Arrived func()
}

// Server is a model of a NATS server. Its methods other than Party are called by one
// goroutine, the scheduler.
type Server struct {
	options Options

	mu       sync.Mutex
	id       string // of the process; guarded by mu
	starts   int
	lastLink uint64
	links    []*link
	refused  map[string]bool // parties that cannot connect
	exact    map[string][]*subscription
	patterns []*subscription
	streams  map[string]*stream
	names    int       // that were generated
	due      time.Time // when Tick has something to do; zero: never
}

// message is a published message.
type message struct {
	subject, reply string
	header, data   []byte
}

type subscription struct {
	link           *link
	sid            string
	subject, group string
	left           int // messages before it ends; 0: no bound
	got            int
}

// New returns a server without links and streams.
func New(o Options) *Server {
	s := &Server{options: o, refused: map[string]bool{}, exact: map[string][]*subscription{}, streams: map[string]*stream{}}
	s.begin()
	return s
}

func (s *Server) begin() {
	s.starts++
	s.id = fmt.Sprintf("SIM%053d", s.starts)
}

// Party returns the way of a party to the server.
func (s *Server) Party(name string) Party { return Party{server: s, name: name} }

// Party connects clients under a name. It implements nats.InProcessConnProvider.
type Party struct {
	server *Server
	name   string
}

// InProcessConn opens a link. It fails while the party is partitioned from the server.
func (p Party) InProcessConn() (net.Conn, error) {
	s := p.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused[p.name] {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: fmt.Errorf("%s does not reach the server", p.name)}
	}
	s.lastLink++
	l := &link{server: s, party: p.name, id: s.lastLink, wake: make(chan struct{}, 1), subs: map[string]*subscription{}}
	l.readable.Write(s.info(l.id))
	s.links = append(s.links, l)
	return l, nil
}

// arrive queues the frames of a client.
func (s *Server) arrive(l *link, frames []frame) {
	now := s.options.Now()
	s.mu.Lock()
	for !l.greeted && !l.gone && len(frames) > 0 {
		// nats.go holds its lock during the handshake, which no scheduler of a bubble can
		// see: the handshake takes no time.
		if f := frames[0]; f.kind == kindPing {
			l.greeted = true
			l.deliver([]byte("PONG\r\n"))
		} else {
			s.handle(l, &f)
		}
		frames = frames[1:]
	}
	for i := range frames {
		f := &frames[i]
		if l.gone {
			break
		}
		// A subscription takes effect at once: its order among the frames of other
		// goroutines does not count.
		if f.kind == kindSub || f.kind == kindUnsub {
			s.handle(l, f)
			continue
		}
		f.arrived = now
		l.in = append(l.in, *f)
	}
	s.mu.Unlock()
	s.options.Arrived()
}

// closing notes that a client has closed its link.
func (s *Server) closing(l *link) {
	s.mu.Lock()
	l.out = nil
	l.in = append(l.in, frame{kind: kindConnect}) // without data: the end
	s.mu.Unlock()
	s.options.Arrived()
}

// drop removes a link. The caller holds mu.
func (s *Server) drop(l *link) {
	if l.gone {
		return
	}
	l.gone, l.in, l.out = true, nil, nil
	for _, sub := range l.subs {
		s.forget(sub)
	}
	l.subs = nil
	s.links = slices.DeleteFunc(s.links, func(other *link) bool { return other == l })
}

func (s *Server) subscribe(l *link, f *frame) {
	sub := &subscription{link: l, sid: f.sid, subject: f.subject, group: f.group}
	l.subs[f.sid] = sub
	if isPattern(f.subject) {
		s.patterns = append(s.patterns, sub)
	} else {
		s.exact[f.subject] = append(s.exact[f.subject], sub)
	}
}

// forget removes a subscription from the index. The caller holds mu.
func (s *Server) forget(sub *subscription) {
	isIt := func(other *subscription) bool { return other == sub }
	if isPattern(sub.subject) {
		s.patterns = slices.DeleteFunc(s.patterns, isIt)
		return
	}
	if s.exact[sub.subject] = slices.DeleteFunc(s.exact[sub.subject], isIt); len(s.exact[sub.subject]) == 0 {
		delete(s.exact, sub.subject)
	}
}

// interested returns the subscriptions that match a subject, in the order of their links.
func (s *Server) interested(subject string) []*subscription {
	found := slices.Clone(s.exact[subject])
	for _, sub := range s.patterns {
		if matches(sub.subject, subject) {
			found = append(found, sub)
		}
	}
	slices.SortStableFunc(found, func(a, b *subscription) int {
		return cmp.Or(strings.Compare(a.link.party, b.link.party), cmp.Compare(a.link.id, b.link.id))
	})
	return found
}

// route hands a message to its subscribers: all that are in no group, and one member of
// each group. It returns their number.
func (s *Server) route(m *message) int {
	groups, handed := map[string][]*subscription{}, 0
	var names []string
	for _, sub := range s.interested(m.subject) {
		if sub.group == "" {
			s.send(sub, m)
			handed++
			continue
		}
		if groups[sub.group] == nil {
			names = append(names, sub.group)
		}
		groups[sub.group] = append(groups[sub.group], sub)
	}
	slices.Sort(names)
	for _, name := range names {
		members := groups[name]
		s.send(members[s.options.Rand.IntN(len(members))], m)
		handed++
	}
	return handed
}

// send queues a message for a subscriber.
func (s *Server) send(sub *subscription, m *message) {
	sub.link.out = append(sub.link.out, frame{kind: kindRaw, subject: m.subject, reply: m.reply, data: m.data, raw: messageFrame(sub.sid, m), arrived: s.options.Now()})
	if sub.got++; sub.left > 0 && sub.got >= sub.left {
		s.forget(sub)
		delete(sub.link.subs, sub.sid)
	}
}

// handle executes a client's frame. The caller holds mu.
func (s *Server) handle(l *link, f *frame) {
	switch f.kind {
	case kindConnect:
		if f.data == nil {
			s.drop(l)
			return
		}
		l.noResponders = strings.Contains(string(f.data), `"no_responders":true`)
	case kindPing:
		l.out = append(l.out, frame{kind: kindPong, subject: "PONG", raw: []byte("PONG\r\n"), arrived: s.options.Now()})
	case kindSub:
		s.subscribe(l, f)
	case kindUnsub:
		s.unsubscribe(l, f)
	case kindPub:
		m := &message{subject: f.subject, reply: f.reply, header: f.header, data: f.data}
		if s.publish(m) == 0 && m.reply != "" && l.noResponders {
			s.route(&message{subject: m.reply, header: header("503")})
		}
	case kindPong, kindRaw:
	}
}

func (s *Server) unsubscribe(l *link, f *frame) {
	sub := l.subs[f.sid]
	if sub == nil {
		return
	}
	if f.max > 0 && sub.got < f.max {
		sub.left = f.max
		return
	}
	s.forget(sub)
	delete(l.subs, f.sid)
}

// publish hands a message to JetStream and to subscribers. It returns the number of
// receivers.
func (s *Server) publish(m *message) int {
	switch {
	case strings.HasPrefix(m.subject, apiPrefix):
		s.serve(m)
		return 1
	case strings.HasPrefix(m.subject, ackPrefix):
		s.acknowledge(m)
		return 1
	}
	handed := s.route(m)
	for _, name := range s.streamNames() {
		if st := s.streams[name]; st.takes(m.subject) {
			s.store(st, m)
			handed++
		}
	}
	return handed
}
