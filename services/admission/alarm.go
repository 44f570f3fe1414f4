package admission

import "time"

// arm sets the alarm to the earliest moment at which a call has to be answered.
// w.mu is held.
func (w *writer) arm() {
	earliest := never
	for _, calls := range [][]*call{w.flight, w.waiting} {
		for _, q := range calls {
			if !q.answered.Load() {
				earliest = min(earliest, q.answerBy)
			}
		}
	}
	if earliest == never {
		w.disarm()
		return
	}
	w.setAlarm(earliest)
}

// setAlarm sets the alarm to a moment. w.mu is held.
func (w *writer) setAlarm(at time.Duration) {
	w.alarmAt = at
	wait := max(0, at-w.env.clock.Mono())
	if w.alarm == nil {
		w.alarm = time.AfterFunc(wait, w.overdue)
	} else {
		w.alarm.Reset(wait)
	}
}

// disarm stops the alarm. w.mu is held.
func (w *writer) disarm() {
	if w.alarm != nil {
		w.alarm.Stop()
		w.alarm = nil
	}
	w.alarmAt = never
}

// overdue answers every call that has run out of time, also while the store hangs.
func (w *writer) overdue() {
	now := w.env.clock.Mono()
	var late []*call
	w.mu.Lock()
	for _, calls := range [][]*call{w.flight, w.waiting} {
		for _, q := range calls {
			if q.answerBy <= now && !q.answered.Load() {
				late = append(late, q)
			}
		}
	}
	w.mu.Unlock()
	for _, q := range late {
		q.answer(shardResult{err: errStoreSlow, settings: w.settings.last()})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.flying && w.isIdle() && w.turn.leave() {
		w.end()
	}
	if w.flying {
		w.arm()
	}
}
