package simnats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ackPrefix begins the subjects of acknowledgements.
const ackPrefix = "$JS.ACK."

// consumerConfig is the part of a consumer's configuration that the model follows.
type consumerConfig struct {
	Name              string        `json:"name"`
	Durable           string        `json:"durable_name"`
	DeliverPolicy     string        `json:"deliver_policy"`
	OptStartSeq       uint64        `json:"opt_start_seq"`
	OptStartTime      *time.Time    `json:"opt_start_time"`
	AckPolicy         string        `json:"ack_policy"`
	AckWait           time.Duration `json:"ack_wait"`
	MaxDeliver        int           `json:"max_deliver"`
	FilterSubject     string        `json:"filter_subject"`
	FilterSubjects    []string      `json:"filter_subjects"`
	MaxAckPending     int           `json:"max_ack_pending"`
	HeadersOnly       bool          `json:"headers_only"`
	InactiveThreshold time.Duration `json:"inactive_threshold"`
	DeliverSubject    string        `json:"deliver_subject"`
	IdleHeartbeat     time.Duration `json:"idle_heartbeat"`
	PriorityPolicy    string        `json:"priority_policy"`
	PriorityGroups    []string      `json:"priority_groups"`
	PinnedTTL         time.Duration `json:"priority_timeout"`
}

type consumer struct {
	st      *stream
	cfg     consumerConfig
	raw     map[string]any
	created time.Time
	name    string

	next      uint64 // number of the stream's message that is looked at next
	delivered place
	floor     place
	pending   map[uint64]*flight // by number in the stream
	attempts  map[uint64]int     // of deliveries
	again     []uint64           // to be delivered again
	starting  []uint64           // what the policy "last per subject" has left
	waiting   []*pull
	pin       string
	pinEnds   time.Time
	beat      time.Time // of a push consumer: when the next heartbeat is due
	idleSince time.Time // of a consumer without an interest
	due       time.Time // when tick has something to do; zero: never
}

// place is a position of a consumer.
type place struct {
	Consumer uint64 `json:"consumer_seq"`
	Stream   uint64 `json:"stream_seq"`
}

// flight is a delivery that is not acknowledged.
type flight struct {
	number uint64 // of the delivery
	until  time.Time
}

// pull is a request for messages.
type pull struct {
	reply    string
	left     int
	expires  time.Time // zero: never
	interval time.Duration
	beat     time.Time
	id       string
	grouped  bool
	noWait   bool
}

func (c *consumer) filters() []string {
	if c.cfg.FilterSubject != "" {
		return []string{c.cfg.FilterSubject}
	}
	return c.cfg.FilterSubjects
}

func (c *consumer) wants(subject string) bool {
	filters := c.filters()
	return len(filters) == 0 || slices.ContainsFunc(filters, func(p string) bool { return matches(p, subject) })
}

func (c *consumer) now() time.Time { return c.st.server.options.Now() }

// start sets the first message by the policy.
func (c *consumer) start() {
	c.pending, c.attempts = map[uint64]*flight{}, map[uint64]int{}
	switch c.cfg.DeliverPolicy {
	case "new":
		c.next = c.st.last + 1
	case "last":
		c.next = c.st.last + 1
		for _, m := range slices.Backward(c.st.messages) {
			if c.wants(m.subject) {
				c.next = m.number
				break
			}
		}
	case "by_start_sequence":
		c.next = max(1, c.cfg.OptStartSeq)
	case "by_start_time":
		c.next = c.st.last + 1
		for _, m := range c.st.messages {
			if !m.at.Before(*c.cfg.OptStartTime) {
				c.next = m.number
				break
			}
		}
	case "last_per_subject":
		for subject, list := range c.st.bySubject {
			if c.wants(subject) {
				c.starting = append(c.starting, list[len(list)-1].number)
			}
		}
		slices.Sort(c.starting)
		c.next = c.st.last + 1
	default:
		c.next = max(1, c.st.first)
	}
	c.floor.Stream = c.next - 1
	if len(c.starting) > 0 {
		c.floor.Stream = c.starting[0] - 1
	}
	c.delivered = c.floor
	c.beat, c.idleSince = c.now().Add(c.cfg.IdleHeartbeat), c.now()
	if c.cfg.DeliverSubject != "" {
		c.soon(c.now().Add(c.cfg.InactiveThreshold))
		c.soon(c.beat)
	}
}

// soon has tick called at a moment, at the latest.
func (c *consumer) soon(t time.Time) {
	sooner(&c.due, t)
	sooner(&c.st.server.due, t)
}

// sooner moves a moment forward. The zero moment is never.
func sooner(due *time.Time, t time.Time) {
	if !t.IsZero() && (due.IsZero() || t.Before(*due)) {
		*due = t
	}
}

// remaining counts the messages that the consumer has yet to deliver.
func (c *consumer) remaining() uint64 {
	n := uint64(len(c.starting))
	for i, _ := c.st.find(c.next); i < len(c.st.messages); i++ {
		if c.wants(c.st.messages[i].subject) {
			n++
		}
	}
	return n
}

// peek returns the message that is delivered next, nil for none.
func (c *consumer) peek() *stored {
	for len(c.again) > 0 {
		m := c.st.at(c.again[0])
		if m != nil && c.pending[m.number] != nil {
			return m
		}
		delete(c.pending, c.again[0])
		c.again = c.again[1:]
	}
	if c.cfg.MaxAckPending > 0 && len(c.pending) >= c.cfg.MaxAckPending {
		return nil
	}
	for len(c.starting) > 0 {
		if m := c.st.at(c.starting[0]); m != nil {
			return m
		}
		c.starting = c.starting[1:]
	}
	for i, _ := c.st.find(c.next); i < len(c.st.messages); i++ {
		if m := c.st.messages[i]; c.wants(m.subject) {
			return m
		}
		c.next = c.st.messages[i].number + 1
	}
	return nil
}

// deliver hands out messages for as long as there are takers.
func (c *consumer) deliver() {
	for {
		m := c.peek()
		if m == nil {
			return
		}
		to, pin := c.cfg.DeliverSubject, ""
		if to == "" {
			p := c.taker()
			if p == nil {
				return
			}
			to, pin = p.reply, c.pin
			if p.left--; p.left == 0 {
				c.drop(p)
			}
		} else if len(c.st.server.interested(to)) == 0 {
			return
		}
		c.hand(m, to, pin)
	}
}

// hand sends a message.
func (c *consumer) hand(m *stored, to, pin string) {
	switch {
	case len(c.again) > 0 && c.again[0] == m.number:
		c.again = c.again[1:]
	case len(c.starting) > 0 && c.starting[0] == m.number:
		c.starting = c.starting[1:]
	default:
		c.next = m.number + 1
	}
	c.delivered.Consumer++
	c.delivered.Stream = max(c.delivered.Stream, m.number)
	c.attempts[m.number]++
	attempt := c.attempts[m.number]
	if c.cfg.AckPolicy == "explicit" {
		f := &flight{c.delivered.Consumer, c.now().Add(c.cfg.AckWait)}
		c.pending[m.number] = f
		c.soon(f.until)
	} else {
		delete(c.attempts, m.number)
		c.floor = c.delivered
	}
	sent := &message{
		subject: m.subject, header: m.header, data: m.data,
		reply: fmt.Sprintf("%s%s.%s.%d.%d.%d.%d.%d", ackPrefix, c.st.cfg.Name, c.name, attempt, m.number, c.delivered.Consumer, m.at.UnixNano(), c.remaining()),
	}
	if c.cfg.HeadersOnly {
		sent.header, sent.data = extended(sent.header, "Nats-Msg-Size", strconv.Itoa(len(m.data))), nil
	}
	if pin != "" {
		sent.header = extended(sent.header, "Nats-Pin-Id", pin)
	}
	for _, sub := range c.st.server.interested(to) { // the subject is not the one that was subscribed to
		c.st.server.send(sub, sent)
	}
	c.beat = c.now().Add(c.cfg.IdleHeartbeat)
}

// taker returns the pull that gets the next message, nil for none.
func (c *consumer) taker() *pull {
	pinned := c.cfg.PriorityPolicy == "pinned_client"
	for _, p := range slices.Clone(c.waiting) {
		switch {
		case len(c.st.server.interested(p.reply)) == 0:
			c.drop(p)
		case !pinned || c.pin != "" && p.id == c.pin:
			return p
		case p.id != "":
			c.status(p, "423 Nats-Wrong-Pin-Id")
			c.drop(p)
		case c.pin == "" && p.grouped:
			c.st.server.names++
			c.pin = fmt.Sprintf("PIN%019d", c.st.server.names)
			c.pinEnds = c.now().Add(c.cfg.PinnedTTL)
			c.soon(c.pinEnds)
			p.id = c.pin
			return p
		}
	}
	return nil
}

func (c *consumer) drop(p *pull) {
	c.waiting = slices.DeleteFunc(c.waiting, func(other *pull) bool { return other == p })
}

// status ends a pull with a status.
func (c *consumer) status(p *pull, status string) {
	c.st.server.route(&message{subject: p.reply, header: header(status, "Nats-Pending-Messages", strconv.Itoa(p.left), "Nats-Pending-Bytes", "0")})
}

// acknowledge executes an acknowledgement.
func (s *Server) acknowledge(m *message) {
	parts := strings.Split(m.subject, ".")
	st := s.streams[parts[2]]
	if st == nil || st.consumers[parts[3]] == nil {
		return
	}
	c := st.consumers[parts[3]]
	number, err := strconv.ParseUint(parts[5], 10, 64)
	delivery, errDelivery := strconv.ParseUint(parts[6], 10, 64)
	if err != nil || errDelivery != nil {
		panic("simnats: the acknowledgement " + m.subject)
	}
	f := c.pending[number]
	switch word := string(m.data); {
	case word == "" || word == "+ACK" || word == "+TERM":
		if f != nil && f.number == delivery {
			c.settle(number)
		}
	case f == nil:
	case word == "+WPI":
		f.until = c.now().Add(c.cfg.AckWait)
	case strings.HasPrefix(word, "-NAK"):
		c.again = append(c.again, number)
	default:
		panic("simnats: the acknowledgement " + word)
	}
	if m.reply != "" {
		s.route(&message{subject: m.reply})
	}
	c.deliver()
}

// settle takes a delivery as acknowledged, and moves the floor.
func (c *consumer) settle(number uint64) {
	delete(c.pending, number)
	delete(c.attempts, number)
	c.again = slices.DeleteFunc(c.again, func(n uint64) bool { return n == number })
	c.floor = c.delivered
	for n, f := range c.pending {
		c.floor.Stream = min(c.floor.Stream, n-1)
		c.floor.Consumer = min(c.floor.Consumer, f.number-1)
	}
}

// reset sets the consumer back, to the number after the floor if seq is 0.
func (c *consumer) reset(seq uint64) uint64 {
	if seq == 0 {
		seq = c.floor.Stream + 1
	}
	c.pending, c.attempts, c.again, c.starting = map[uint64]*flight{}, map[uint64]int{}, nil, nil
	c.next = seq
	c.floor = place{0, seq - 1}
	c.delivered = c.floor
	c.deliver()
	return seq
}
