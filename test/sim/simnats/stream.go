package simnats

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// streamConfig is the part of a stream's configuration that the model follows. The rest
// is kept as it was sent.
type streamConfig struct {
	Name              string        `json:"name"`
	Subjects          []string      `json:"subjects"`
	Storage           string        `json:"storage"`
	MaxAge            time.Duration `json:"max_age"`
	MaxBytes          int64         `json:"max_bytes"`
	MaxMsgsPerSubject int64         `json:"max_msgs_per_subject"`
	Duplicates        time.Duration `json:"duplicate_window"`
	AllowDirect       bool          `json:"allow_direct"`
	AllowRollup       bool          `json:"allow_rollup_hdrs"`
	AllowAtomic       bool          `json:"allow_atomic"`
	DenyDelete        bool          `json:"deny_delete"`
	DenyPurge         bool          `json:"deny_purge"`
}

// stored is a message of a stream.
type stored struct {
	message
	number  uint64
	at      time.Time
	lasting bool // it never expires
}

func (m *stored) size() int64 {
	// As the server's file store counts it: record header, checksum, subject, and the
	// length of the header if it has one.
	n := 22 + len(m.subject) + len(m.header) + len(m.data) + 8
	if len(m.header) > 0 {
		n += 4
	}
	return int64(n)
}

type stream struct {
	server    *Server
	cfg       streamConfig
	raw       map[string]any // the configuration as the server reports it
	created   time.Time
	messages  []*stored // in the order of numbers
	bySubject map[string][]*stored
	bytes     int64
	last      uint64
	lastAt    time.Time
	first     uint64 // number of the oldest message, or the next one
	seen      map[string]seen
	consumers map[string]*consumer
	sorted    []string // names of the consumers; outdated if their number differs
	batches   map[string]*batch
}

// seen is a message id of the window of duplicates.
type seen struct {
	number uint64
	at     time.Time
}

// batch is an atomic batch that is not committed.
type batch struct {
	messages []*message
	broken   bool
	began    time.Time
}

// batchLife is how long the server keeps an incomplete batch.
const batchLife = 10 * time.Second

func (st *stream) takes(subject string) bool {
	return slices.ContainsFunc(st.cfg.Subjects, func(p string) bool { return matches(p, subject) })
}

func (s *Server) streamNames() []string { return slices.Sorted(maps.Keys(s.streams)) }

// failure is an error of the JetStream API.
type failure struct {
	Code        int    `json:"code"`
	ErrorCode   int    `json:"err_code"`
	Description string `json:"description"`
}

// The errors, with the server's codes.
//
//nolint:gochecknoglobals // constants
var (
	failStreamNotFound   = &failure{404, 10059, "stream not found"}
	failConsumerNotFound = &failure{404, 10014, "consumer not found"}
	failConsumerExists   = &failure{400, 10148, "consumer already exists"}
	failNoMessage        = &failure{404, 10037, "no message found"}
	failFull             = &failure{503, 10077, "maximum bytes exceeded"}
	failIncomplete       = &failure{400, 10176, "atomic publish batch is incomplete"}
)

func failSequence(last uint64) *failure {
	return &failure{400, 10071, "wrong last sequence: " + strconv.FormatUint(last, 10)}
}

// pubAck is the reply to a publish.
type pubAck struct {
	Error     *failure `json:"error,omitempty"`
	Stream    string   `json:"stream"`
	Sequence  uint64   `json:"seq"`
	Duplicate bool     `json:"duplicate,omitempty"`
	BatchID   string   `json:"batch,omitempty"`
	Count     int      `json:"count,omitempty"`
}

// The headers of publishes.
const (
	headerID          = "Nats-Msg-Id"
	headerLastSubject = "Nats-Expected-Last-Subject-Sequence"
	headerRollup      = "Nats-Rollup"
	headerTTL         = "Nats-TTL"
	headerBatch       = "Nats-Batch-Id"
	headerBatchNumber = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// store executes a publish to a stream and acknowledges it.
func (s *Server) store(st *stream, m *message) {
	h := headers(m.header)
	if id := h[headerBatch]; id != "" {
		s.storeBatch(st, m, id, h)
		return
	}
	ack := pubAck{Stream: st.cfg.Name}
	if before, ok := st.seen[h[headerID]]; ok && h[headerID] != "" && s.options.Now().Sub(before.at) < st.cfg.Duplicates {
		ack.Sequence, ack.Duplicate = before.number, true
	} else if ack.Error = st.check([]*message{m}); ack.Error == nil {
		ack.Sequence = st.add(m, h)
	}
	s.reply(m.reply, ack)
	st.offer(m)
}

// storeBatch adds a message to a batch, and executes the batch at its commit.
func (s *Server) storeBatch(st *stream, m *message, id string, h map[string]string) {
	number, err := strconv.Atoi(h[headerBatchNumber])
	b := st.batches[id]
	switch {
	case number == 1:
		b = &batch{began: s.options.Now()}
		st.batches[id] = b
	case b == nil:
		b = &batch{broken: true}
	}
	b.broken = b.broken || err != nil || number != len(b.messages)+1
	b.messages = append(b.messages, m)
	if h[headerBatchCommit] == "" {
		if m.reply != "" && !b.broken {
			s.route(&message{subject: m.reply})
		}
		return
	}
	delete(st.batches, id)
	ack := pubAck{Stream: st.cfg.Name}
	if b.broken {
		ack.Error = failIncomplete
	} else if ack.Error = st.check(b.messages); ack.Error == nil {
		for _, part := range b.messages {
			ack.Sequence = st.add(part, headers(part.header))
		}
		ack.BatchID, ack.Count = id, len(b.messages)
	}
	s.reply(m.reply, ack)
	st.offer(b.messages...)
}

// check reports why messages cannot be stored, as a whole.
func (st *stream) check(messages []*message) *failure {
	newest, size := map[string]uint64{}, st.bytes
	for i, m := range messages {
		h := headers(m.header)
		last, inBatch := newest[m.subject]
		if list := st.bySubject[m.subject]; !inBatch && len(list) > 0 {
			last = list[len(list)-1].number
		}
		if want, ok := h[headerLastSubject]; ok {
			if n, err := strconv.ParseUint(want, 10, 64); err != nil || n != last {
				return failSequence(last)
			}
		}
		newest[m.subject] = st.last + uint64(i) + 1 //nolint:gosec // counts from 0
		size += (&stored{message: *m}).size()
	}
	if st.cfg.MaxBytes > 0 && size > st.cfg.MaxBytes {
		return failFull
	}
	return nil
}

// add stores a message and returns its number.
func (st *stream) add(m *message, h map[string]string) uint64 {
	now := st.server.options.Now()
	st.last, st.lastAt = st.last+1, now
	sm := &stored{message: *m, number: st.last, at: now, lasting: h[headerTTL] == "never"}
	if id := h[headerID]; id != "" {
		st.seen[id] = seen{sm.number, now}
	}
	switch h[headerRollup] {
	case "sub":
		st.remove(slices.Clone(st.bySubject[m.subject]))
	case "all":
		st.remove(slices.Clone(st.messages))
	}
	st.messages = append(st.messages, sm)
	st.bySubject[m.subject] = append(st.bySubject[m.subject], sm)
	st.bytes += sm.size()
	if most := st.cfg.MaxMsgsPerSubject; most > 0 {
		if list := st.bySubject[m.subject]; int64(len(list)) > most {
			st.remove(slices.Clone(list[:int64(len(list))-most]))
		}
	}
	st.first = st.messages[0].number
	if st.cfg.MaxAge > 0 && !sm.lasting {
		sooner(&st.server.due, now.Add(st.cfg.MaxAge))
	}
	return sm.number
}

// remove takes messages out of the stream.
func (st *stream) remove(list []*stored) {
	for _, m := range list {
		if i, ok := st.find(m.number); ok {
			st.messages = slices.Delete(st.messages, i, i+1)
		}
		left := slices.DeleteFunc(st.bySubject[m.subject], func(other *stored) bool { return other == m })
		if st.bySubject[m.subject] = left; len(left) == 0 {
			delete(st.bySubject, m.subject)
		}
		st.bytes -= m.size()
		for _, c := range st.consumers {
			if c.pending[m.number] != nil {
				c.settle(m.number)
			}
		}
	}
	st.first = st.last + 1
	if len(st.messages) > 0 {
		st.first = st.messages[0].number
	}
}

// find returns the place of the first message from a number on.
func (st *stream) find(number uint64) (int, bool) {
	return slices.BinarySearchFunc(st.messages, number, func(m *stored, n uint64) int { return cmp.Compare(m.number, n) })
}

// at returns the message with a number.
func (st *stream) at(number uint64) *stored {
	if i, ok := st.find(number); ok {
		return st.messages[i]
	}
	return nil
}

// newest returns the last message whose subject matches a pattern.
func (st *stream) newest(pattern string) *stored {
	if !isPattern(pattern) {
		if list := st.bySubject[pattern]; len(list) > 0 {
			return list[len(list)-1]
		}
		return nil
	}
	for _, m := range slices.Backward(st.messages) {
		if matches(pattern, m.subject) {
			return m
		}
	}
	return nil
}

// next returns the first message from a number on whose subject matches a pattern.
func (st *stream) next(from uint64, pattern string) *stored {
	i, _ := st.find(from)
	for _, m := range st.messages[i:] {
		if pattern == "" || matches(pattern, m.subject) {
			return m
		}
	}
	return nil
}
