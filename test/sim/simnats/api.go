package simnats

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// apiPrefix begins the subjects of JetStream's API.
const apiPrefix = "$JS.API."

// reply answers a request with JSON.
func (s *Server) reply(to string, body any) {
	if to == "" {
		return
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // of plain values
	}
	s.route(&message{subject: to, data: b})
}

func (s *Server) fail(to string, f *failure) { s.reply(to, map[string]any{"error": f}) }

// serve executes a request of JetStream's API.
func (s *Server) serve(m *message) {
	parts := strings.Split(strings.TrimPrefix(m.subject, apiPrefix), ".")
	if parts[0] == "INFO" {
		s.reply(m.reply, map[string]any{"memory": 0, "storage": 0, "streams": len(s.streams), "api": map[string]any{"level": 3}})
		return
	}
	switch {
	case parts[0] == "DIRECT":
		s.direct(m, parts[2], strings.Join(parts[3:], "."))
	case parts[0] == "STREAM" && parts[1] == "MSG":
		s.withStream(m, parts[3], func(st *stream) any { return st.apiMessage(m.data, parts[2]) })
	case parts[0] == "STREAM":
		s.serveStream(m, parts[1], parts[2])
	case parts[0] == "CONSUMER" && parts[1] == "MSG":
		s.withConsumer(m, parts[3], parts[4], func(c *consumer) any { c.request(m); return nil })
	case parts[0] == "CONSUMER":
		s.serveConsumer(m, parts[1], parts[2], parts[3:])
	default:
		panic("simnats: the request " + m.subject)
	}
}

func (s *Server) withStream(m *message, name string, do func(*stream) any) {
	st := s.streams[name]
	if st == nil {
		s.fail(m.reply, failStreamNotFound)
		return
	}
	if answer := do(st); answer != nil {
		s.reply(m.reply, answer)
	}
}

func (s *Server) withConsumer(m *message, name, consumerName string, do func(*consumer) any) {
	s.withStream(m, name, func(st *stream) any {
		c := st.consumers[consumerName]
		if c == nil {
			if strings.Contains(m.subject, ".MSG.NEXT.") {
				s.route(&message{subject: m.reply, header: header("503")})
				return nil
			}
			return map[string]any{"error": failConsumerNotFound}
		}
		return do(c)
	})
}

func decode(data []byte, into any) {
	if len(data) == 0 {
		return
	}
	if err := json.Unmarshal(data, into); err != nil {
		panic(fmt.Sprintf("simnats: the request %s: %v", data, err))
	}
}

func (s *Server) serveStream(m *message, verb, name string) {
	switch verb {
	case "CREATE":
		s.createStream(m, name)
	case "UPDATE":
		s.withStream(m, name, func(st *stream) any {
			st.configure(m.data)
			return st.info("")
		})
	case "INFO":
		var q struct {
			Filter string `json:"subjects_filter"`
		}
		decode(m.data, &q)
		s.withStream(m, name, func(st *stream) any { return st.info(q.Filter) })
	case "DELETE":
		s.withStream(m, name, func(*stream) any {
			delete(s.streams, name)
			return map[string]any{"success": true}
		})
	case "PURGE":
		var q struct {
			Sequence uint64 `json:"seq"`
			Filter   string `json:"filter"`
			Keep     uint64 `json:"keep"`
		}
		decode(m.data, &q)
		s.withStream(m, name, func(st *stream) any {
			purged := st.purge(q.Filter, q.Sequence, q.Keep)
			for _, c := range slices.Sorted(maps.Keys(st.consumers)) {
				st.consumers[c].purged()
			}
			return map[string]any{"success": true, "purged": purged}
		})
	default:
		panic("simnats: the request " + m.subject)
	}
}

// purged forgets deliveries of messages that are gone.
func (c *consumer) purged() {
	for number := range c.pending {
		if c.st.at(number) == nil {
			c.settle(number)
		}
	}
	c.next = max(c.next, c.st.first)
	if len(c.pending) == 0 {
		c.floor.Stream = max(c.floor.Stream, min(c.next-1, c.st.first-1))
	}
}

func (s *Server) createStream(m *message, name string) {
	st := s.streams[name]
	if st == nil {
		st = &stream{
			server: s, created: s.options.Now().UTC(), bySubject: map[string][]*stored{}, seen: map[string]seen{},
			consumers: map[string]*consumer{}, batches: map[string]*batch{}, first: 0,
		}
		s.streams[name] = st
		st.configure(m.data)
	}
	s.reply(m.reply, st.info(""))
}

// configure takes a configuration over.
func (st *stream) configure(data []byte) {
	st.cfg, st.raw = streamConfig{}, map[string]any{}
	decode(data, &st.cfg)
	decode(data, &st.raw)
	st.cfg.normalize()
	st.raw["duplicate_window"] = st.cfg.Duplicates
	st.raw["subjects"] = st.cfg.Subjects
}

// info describes the stream, with its subjects if filter is not empty.
func (st *stream) info(filter string) any {
	zero := time.Time{}
	state := map[string]any{
		"messages": len(st.messages), "bytes": st.bytes, "first_seq": st.first, "last_seq": st.last,
		"first_ts": zero, "last_ts": st.lastAt.UTC(), "consumer_count": len(st.consumers), "num_subjects": len(st.bySubject),
	}
	if len(st.messages) > 0 {
		state["first_ts"] = st.messages[0].at.UTC()
	}
	answer := map[string]any{"config": st.raw, "created": st.created, "state": state, "ts": st.server.options.Now().UTC()}
	if filter != "" {
		subjects := st.subjects(filter)
		state["subjects"] = subjects
		answer["total"], answer["offset"], answer["limit"] = len(subjects), 0, 100_000
	}
	return answer
}

// apiMessage reads or deletes a message.
func (st *stream) apiMessage(data []byte, verb string) any {
	var q struct {
		Sequence uint64 `json:"seq"`
		Last     string `json:"last_by_subj"`
		Next     string `json:"next_by_subj"`
	}
	decode(data, &q)
	if verb == "DELETE" {
		m := st.at(q.Sequence)
		if m == nil {
			return map[string]any{"error": &failure{400, 10043, "message not found"}}
		}
		st.remove([]*stored{m})
		return map[string]any{"success": true}
	}
	m := st.lookup(q.Sequence, q.Last, q.Next)
	if m == nil {
		return map[string]any{"error": failNoMessage}
	}
	answer := map[string]any{"subject": m.subject, "seq": m.number, "data": m.data, "time": m.at.UTC()}
	if len(m.header) > 0 {
		answer["hdrs"] = m.header
	}
	return map[string]any{"message": answer}
}

func (st *stream) lookup(number uint64, last, next string) *stored {
	switch {
	case last != "":
		return st.newest(last)
	case next != "":
		return st.next(number, next)
	}
	return st.at(number)
}

// direct answers a direct get.
func (s *Server) direct(m *message, name, subject string) {
	st := s.streams[name]
	if st == nil || !st.cfg.AllowDirect {
		s.route(&message{subject: m.reply, header: header("503")})
		return
	}
	var q struct {
		Sequence uint64 `json:"seq"`
		Last     string `json:"last_by_subj"`
		Next     string `json:"next_by_subj"`
	}
	decode(m.data, &q)
	if subject != "" {
		q.Last = subject
	}
	found := st.lookup(q.Sequence, q.Last, q.Next)
	if found == nil {
		s.route(&message{subject: m.reply, header: header("404 Message Not Found")})
		return
	}
	h := found.header
	for _, pair := range [][2]string{
		{"Nats-Stream", name},
		{"Nats-Subject", found.subject},
		{"Nats-Sequence", strconv.FormatUint(found.number, 10)},
		{"Nats-Time-Stamp", found.at.UTC().Format(time.RFC3339Nano)},
	} {
		h = extended(h, pair[0], pair[1])
	}
	s.route(&message{subject: m.reply, header: h, data: found.data})
}

func (s *Server) serveConsumer(m *message, verb, streamName string, rest []string) {
	switch verb {
	case "CREATE":
		s.withStream(m, streamName, func(st *stream) any { return st.createConsumer(m.data, rest) })
		// The reply comes first. A server may send the first messages before it; a watcher
		// of nats.go then waits with a lock, which no scheduler of a bubble can see.
		if st := s.streams[streamName]; st != nil && len(rest) > 0 && st.consumers[rest[0]] != nil {
			st.consumers[rest[0]].deliver()
		}
	case "LIST":
		s.withStream(m, streamName, func(st *stream) any { return st.consumerList(m.data) })
	case "INFO":
		s.withConsumer(m, streamName, rest[0], func(c *consumer) any { return c.info() })
	case "DELETE":
		s.withConsumer(m, streamName, rest[0], func(c *consumer) any {
			c.st.removeConsumer(c)
			return map[string]any{"success": true}
		})
	case "UNPIN":
		s.withConsumer(m, streamName, rest[0], func(c *consumer) any {
			c.pin = ""
			c.deliver()
			return map[string]any{}
		})
	case "RESET":
		var q struct {
			Sequence uint64 `json:"seq"`
		}
		decode(m.data, &q)
		s.withConsumer(m, streamName, rest[0], func(c *consumer) any {
			seq := c.reset(q.Sequence)
			answer := c.info()
			answer["reset_seq"] = seq
			return answer
		})
	default:
		panic("simnats: the request " + m.subject)
	}
}

// consumerList returns a page of the consumers.
func (st *stream) consumerList(data []byte) any {
	var q struct {
		Offset int `json:"offset"`
	}
	decode(data, &q)
	names := slices.Sorted(maps.Keys(st.consumers))
	const page = 256
	list := []any{}
	for _, name := range names[min(q.Offset, len(names)):min(q.Offset+page, len(names))] {
		list = append(list, st.consumers[name].info())
	}
	return map[string]any{"total": len(names), "offset": q.Offset, "limit": page, "consumers": list}
}

// createConsumer makes a consumer, or updates it.
func (st *stream) createConsumer(data []byte, rest []string) any {
	var q struct {
		Config json.RawMessage `json:"config"`
		Action string          `json:"action"`
	}
	decode(data, &q)
	c := &consumer{st: st, created: st.server.options.Now().UTC(), raw: map[string]any{}}
	decode(q.Config, &c.cfg)
	decode(q.Config, &c.raw)
	c.name = c.cfg.Durable
	if c.name == "" {
		c.name = c.cfg.Name
	}
	if c.name == "" && len(rest) > 0 {
		c.name = rest[0]
	}
	if c.cfg.AckPolicy == "explicit" && c.cfg.AckWait == 0 {
		c.cfg.AckWait = 30 * time.Second
	}
	if c.cfg.AckPolicy == "explicit" && c.cfg.MaxAckPending == 0 {
		c.cfg.MaxAckPending = 1000
	}
	if c.cfg.InactiveThreshold == 0 {
		c.cfg.InactiveThreshold = 5 * time.Second
	}
	c.raw["name"] = c.name
	if before := st.consumers[c.name]; before != nil {
		if q.Action == "create" {
			return map[string]any{"error": failConsumerExists}
		}
		before.cfg, before.raw = c.cfg, c.raw
		return before.info()
	}
	st.addConsumer(c)
	c.start()
	return c.info()
}

// info describes the consumer.
func (c *consumer) info() map[string]any {
	again := 0
	for _, n := range c.attempts {
		if n > 1 {
			again++
		}
	}
	answer := map[string]any{
		"stream_name": c.st.cfg.Name, "name": c.name, "created": c.created, "config": c.raw,
		"delivered": c.delivered, "ack_floor": c.floor, "num_ack_pending": len(c.pending), "num_redelivered": again,
		"num_waiting": len(c.waiting), "num_pending": c.remaining(), "ts": c.now().UTC(),
	}
	if c.cfg.DeliverSubject != "" {
		answer["push_bound"] = len(c.st.server.interested(c.cfg.DeliverSubject)) > 0
	}
	return answer
}
