package simnats

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// purge removes messages: those of a subject, below a number, and all but the newest keep.
func (st *stream) purge(subject string, below, keep uint64) int {
	var list []*stored
	for _, m := range st.messages {
		if (subject == "" || matches(subject, m.subject)) && (below == 0 || m.number < below) {
			list = append(list, m)
		}
	}
	if keep > 0 {
		list = list[:max(0, len(list)-int(keep))] //nolint:gosec // a stream of a test is short
	}
	st.remove(list)
	return len(list)
}

// expire removes what is too old, and returns when it is to be called again.
func (st *stream) expire(now time.Time) (next time.Time) {
	var old []*stored
	if st.cfg.MaxAge > 0 {
		for _, m := range st.messages {
			if m.lasting {
				continue
			}
			if end := m.at.Add(st.cfg.MaxAge); end.After(now) {
				next = end
				break
			}
			old = append(old, m)
		}
		st.remove(old)
	}
	for id, s := range st.seen {
		if now.Sub(s.at) >= st.cfg.Duplicates {
			delete(st.seen, id)
		}
	}
	for id, b := range st.batches {
		if now.Sub(b.began) >= batchLife {
			delete(st.batches, id)
		}
	}
	return next
}

// restart forgets what a process keeps in memory.
func (st *stream) restart() {
	clear(st.batches)
	for _, name := range slices.Sorted(maps.Keys(st.consumers)) {
		c := st.consumers[name]
		if c.cfg.Durable == "" {
			st.removeConsumer(c)
			continue
		}
		c.waiting, c.pin = nil, ""
	}
}

// names returns the names of the consumers, sorted.
func (st *stream) names() []string {
	if len(st.sorted) != len(st.consumers) {
		st.sorted = slices.Sorted(maps.Keys(st.consumers))
	}
	return st.sorted
}

// offer delivers to the consumers that want a subject of new messages.
func (st *stream) offer(messages ...*message) {
	for _, name := range st.names() {
		c := st.consumers[name]
		if slices.ContainsFunc(messages, func(m *message) bool { return c.wants(m.subject) }) {
			c.deliver()
		}
	}
}

// addConsumer and removeConsumer keep the order of names.
func (st *stream) addConsumer(c *consumer) {
	st.consumers[c.name], st.sorted = c, nil
}

func (st *stream) removeConsumer(c *consumer) {
	delete(st.consumers, c.name)
	st.sorted = nil
}

// Forget takes the last n messages of a stream away, as a power cut of a server does that
// acknowledges before it syncs. Consumers keep what they know. Call it before Restart.
func (s *Server) Forget(name string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[name]
	if st == nil || n <= 0 {
		return 0
	}
	n = min(n, len(st.messages))
	if n == 0 {
		return 0
	}
	lost := slices.Clone(st.messages[len(st.messages)-n:])
	st.remove(lost)
	st.last = lost[0].number - 1
	st.first = min(st.first, st.last+1)
	for id, before := range st.seen {
		if before.number > st.last {
			delete(st.seen, id)
		}
	}
	return n
}

// Streams returns the names of the streams, sorted.
func (s *Server) Streams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.streamNames()
}

// Subjects returns the number of messages by subject, of the subjects that match a
// pattern.
func (st *stream) subjects(pattern string) map[string]uint64 {
	found := map[string]uint64{}
	for subject, list := range st.bySubject {
		if matches(pattern, subject) || pattern == ">" {
			found[subject] = uint64(len(list))
		}
	}
	return found
}

// normalSubjects is the default of a stream without subjects: its name.
func (c *streamConfig) normalize() {
	if len(c.Subjects) == 0 {
		c.Subjects = []string{c.Name}
	}
	if c.Duplicates == 0 {
		c.Duplicates = 2 * time.Minute
	}
	if c.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, c.MaxAge)
	}
	c.Storage = strings.ToLower(c.Storage)
}
