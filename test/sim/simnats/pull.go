package simnats

import (
	"slices"
	"time"
)

// request queues a pull.
func (c *consumer) request(m *message) {
	q := struct {
		Expires   time.Duration `json:"expires"`
		Batch     int           `json:"batch"`
		NoWait    bool          `json:"no_wait"`
		Heartbeat time.Duration `json:"idle_heartbeat"`
		ID        string        `json:"id"`
		Group     string        `json:"group"`
	}{Batch: 1}
	decode(m.data, &q)
	p := &pull{reply: m.reply, left: max(1, q.Batch), interval: q.Heartbeat, id: q.ID, grouped: q.Group != "", noWait: q.NoWait}
	now := c.now()
	if q.Expires > 0 {
		p.expires = now.Add(q.Expires)
	}
	p.beat = now.Add(q.Heartbeat)
	if c.pin != "" && c.cfg.PriorityPolicy == "pinned_client" {
		switch {
		case p.id == c.pin:
			c.pinEnds = now.Add(c.cfg.PinnedTTL)
			c.soon(c.pinEnds)
		case p.id != "":
			c.status(p, "423 Nats-Pin-Id mismatch")
			return
		}
	}
	if p.noWait && c.peek() == nil {
		c.status(p, "404 No Messages")
		return
	}
	c.waiting = append(c.waiting, p)
	c.soon(p.expires)
	if p.interval > 0 {
		c.soon(p.beat)
	}
	c.deliver()
	if p.noWait && p.left > 0 && slices.Contains(c.waiting, p) {
		c.status(p, "408 Request Timeout")
		c.drop(p)
	}
}
