package admission

import "time"

// arm sets the alarm to the earliest moment at which a call has to be answered.
// c.mu is held.
func (c *committer) arm() {
	earliest := never
	for _, calls := range [][]*call{c.flight, c.queue} {
		for _, q := range calls {
			if !q.answered.Load() {
				earliest = min(earliest, q.answerBy)
			}
		}
	}
	if earliest == never {
		c.disarm()
		return
	}
	c.setAlarm(earliest)
}

// setAlarm sets the alarm to a moment; c.mu is held.
func (c *committer) setAlarm(at time.Duration) {
	c.alarmAt = at
	wait := max(0, at-c.node.clock.Mono())
	if c.alarm == nil {
		c.alarm = time.AfterFunc(wait, c.overdue)
	} else {
		c.alarm.Reset(wait)
	}
}

// disarm stops the alarm; c.mu is held.
func (c *committer) disarm() {
	if c.alarm != nil {
		c.alarm.Stop()
		c.alarm = nil
	}
	c.alarmAt = never
}

// overdue answers every call whose time is up, whatever the store does.
func (c *committer) overdue() {
	now := c.node.clock.Mono()
	var late []*call
	c.mu.Lock()
	for _, calls := range [][]*call{c.flight, c.queue} {
		for _, q := range calls {
			if q.answerBy <= now && !q.answered.Load() {
				late = append(late, q)
			}
		}
	}
	c.mu.Unlock()
	for _, q := range late {
		q.answer(result{err: errStoreSlow, settings: c.settings.Load()})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying {
		c.arm()
	}
}
