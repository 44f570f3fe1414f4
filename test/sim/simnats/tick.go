package simnats

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// tick does what time brings, and returns when it is to be called again.
func (c *consumer) tick(now time.Time) (next time.Time) {
	soonest := func(t time.Time) { sooner(&next, t) }
	if c.pin != "" {
		if !now.Before(c.pinEnds) {
			c.pin = ""
		} else {
			soonest(c.pinEnds)
		}
	}
	for _, p := range slices.Clone(c.waiting) {
		switch {
		case !p.expires.IsZero() && !now.Before(p.expires):
			c.status(p, "408 Request Timeout")
			c.drop(p)
			continue
		case p.interval > 0 && !now.Before(p.beat):
			c.st.server.route(&message{subject: p.reply, header: header("100 Idle Heartbeat")})
			p.beat = now.Add(p.interval)
		}
		if !p.expires.IsZero() {
			soonest(p.expires)
		}
		if p.interval > 0 {
			soonest(p.beat)
		}
	}
	for _, number := range slices.Sorted(maps.Keys(c.pending)) {
		if f := c.pending[number]; !now.Before(f.until) {
			if !slices.Contains(c.again, number) {
				c.again = append(c.again, number)
			}
		} else {
			soonest(f.until)
		}
	}
	c.tickPush(now, soonest)
	c.deliver()
	return next
}

// tickPush sends heartbeats of a push consumer, and drops a consumer without interest.
func (c *consumer) tickPush(now time.Time, soonest func(time.Time)) {
	if c.cfg.DeliverSubject == "" {
		return
	}
	if len(c.st.server.interested(c.cfg.DeliverSubject)) > 0 {
		c.idleSince = now
		if c.cfg.IdleHeartbeat > 0 {
			if !now.Before(c.beat) {
				c.st.server.route(&message{subject: c.cfg.DeliverSubject, header: header("100 Idle Heartbeat",
					"Nats-Last-Consumer", strconv.FormatUint(c.delivered.Consumer, 10), "Nats-Last-Stream", strconv.FormatUint(c.delivered.Stream, 10))})
				c.beat = now.Add(c.cfg.IdleHeartbeat)
			}
			soonest(c.beat)
		}
		return
	}
	if c.cfg.Durable == "" {
		if end := c.idleSince.Add(c.cfg.InactiveThreshold); !now.Before(end) {
			c.st.removeConsumer(c)
		} else {
			soonest(end)
		}
	}
}

// Tick does what time brings: expiry, heartbeats, deliveries again. It returns when it is
// to be called again, the zero time for never.
func (s *Server) Tick() (next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	if !s.due.IsZero() && !now.Before(s.due) {
		s.due = time.Time{}
		for _, name := range s.streamNames() {
			st := s.streams[name]
			sooner(&s.due, st.expire(now))
			for _, name := range st.names() {
				c := st.consumers[name]
				if !c.due.IsZero() && !now.Before(c.due) {
					c.due = time.Time{}
					c.soon(c.tick(now))
				}
			}
			for _, c := range st.consumers {
				sooner(&s.due, c.due)
			}
		}
	}
	next = s.due
	for _, l := range s.links {
		for _, held := range []time.Time{l.inHeld, l.outHeld} {
			if held.After(now) {
				sooner(&next, held)
			}
		}
	}
	return next
}
