package process

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Defaults of a Sampler: a flood of a single cause then writes a line per second.
const (
	DefaultLogBurst    = 10
	DefaultLogInterval = 10 * time.Second
)

const (
	// maxCauses bounds the causes of one message that a Sampler tells apart by text. Texts
	// can be chosen by callers: further texts count together, by the type of their error.
	maxCauses = 32
	// maxKeys bounds all causes of an interval. Messages and types of errors are the
	// program's own, so that only a mistake in the program reaches the bound.
	maxKeys = 4096
)

// A Sampler is a slog.Handler that limits how often lines of one cause are written, so
// that a flood of errors neither fills the disk nor hides other errors. In each interval it
// passes the first lines of every cause on, and at the interval's end it writes one line
// per cause that had more, with their number:
//
//	level=ERROR msg="log lines were suppressed" line="the store failed" cause="doing=write error=…" suppressed=48211 interval=10s
//
// Lines have the same cause if they agree in level, message, and those attributes that tell a
// cause (error, reason, doing, service and the like), without the numbers and quoted texts in
// them. Debug lines and lines with a
// context from Unsampled are never suppressed. Memory is bounded, whatever is logged.
// It is safe for concurrent use.
type Sampler struct {
	next     slog.Handler
	attached string // causes of the attributes from WithAttrs
	state    *samplerState
}

// samplerState is shared by a Sampler and the handlers made from it.
type samplerState struct {
	root  slog.Handler // for the lines about suppressed lines
	burst int
	every time.Duration

	mu     sync.Mutex
	causes map[causeKey]*causeCount // guarded by mu; the causes of this interval
	order  []causeKey               // guarded by mu; keys of causes, oldest first
	texts  map[causeKey]int         // guarded by mu; number of causes by level and message
	ends   *time.Timer              // guarded by mu; nil between intervals
}

// causeKey identifies a cause. text is empty for the sum of the message's causes.
type causeKey struct {
	level   slog.Level
	message string
	text    string
}

type causeCount struct{ written, suppressed int }

// NewSampler returns a handler that passes burst lines per cause and interval on to next.
// Without a burst it passes all lines on. Flush must be called at the end.
func NewSampler(next slog.Handler, burst int, every time.Duration) *Sampler {
	s := &samplerState{root: next, burst: burst, every: every}
	s.clear()
	return &Sampler{next: next, state: s}
}

type unsampledKey struct{}

// Unsampled returns a context for lines that must never be suppressed: those that alone tell
// of a loss.
func Unsampled(ctx context.Context) context.Context {
	return context.WithValue(ctx, unsampledKey{}, true)
}

// Enabled implements slog.Handler.
func (s *Sampler) Enabled(ctx context.Context, level slog.Level) bool {
	return s.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (s *Sampler) Handle(ctx context.Context, r slog.Record) error {
	if s.state.burst > 0 && r.Level > slog.LevelDebug && ctx.Value(unsampledKey{}) == nil && !s.state.admit(s.attached, r) {
		return nil
	}
	return s.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s *Sampler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := newCause(s.attached)
	for _, a := range attrs {
		c.add(a)
	}
	return &Sampler{next: s.next.WithAttrs(attrs), attached: c.text(), state: s.state}
}

// WithGroup implements slog.Handler.
func (s *Sampler) WithGroup(name string) slog.Handler {
	return &Sampler{next: s.next.WithGroup(name), attached: s.attached, state: s.state}
}

// Flush ends the interval: it writes how many lines have been suppressed so far.
func (s *Sampler) Flush() { s.state.endInterval(nil) }

// admit counts a line and reports whether it is to be written.
func (s *samplerState) admit(attached string, r slog.Record) bool {
	c := newCause(attached)
	r.Attrs(func(a slog.Attr) bool {
		c.add(a)
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		var ends *time.Timer
		ends = time.AfterFunc(s.every, func() { s.endInterval(&ends) })
		s.ends = ends
	}
	n := s.count(causeKey{r.Level, r.Message, c.text()}, c)
	if n.written < s.burst {
		n.written++
		return true
	}
	n.suppressed++
	return false
}

// count returns the counter of a cause, or of those that it shares a counter with where the
// bounds are reached.
func (s *samplerState) count(key causeKey, c *cause) *causeCount {
	if n := s.causes[key]; n != nil {
		return n
	}
	message := causeKey{level: key.level, message: key.message}
	if s.texts[message] >= maxCauses {
		key.text = c.kind()
	}
	if len(s.causes) >= maxKeys {
		key = causeKey{level: key.level}
	}
	n := s.causes[key]
	if n == nil {
		n = new(causeCount)
		s.causes[key] = n
		s.order = append(s.order, key)
		s.texts[message]++
	}
	return n
}

// endInterval writes a line for each cause with suppressed lines and forgets all causes.
// Lines of the next interval wait for it. by is the timer that ran out, nil for Flush: a
// timer does not end a later interval than its own.
func (s *samplerState) endInterval(by **time.Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil || by != nil && s.ends != *by {
		return
	}
	s.ends.Stop()
	for _, key := range s.order {
		n := s.causes[key].suppressed
		if n == 0 {
			continue
		}
		slog.New(s.root).LogAttrs(context.Background(), key.level, "log lines were suppressed", slog.String("line", key.message),
			slog.String("cause", key.text), slog.Int("suppressed", n), slog.Duration("interval", s.every))
	}
	s.clear()
}

func (s *samplerState) clear() {
	s.causes, s.texts, s.order, s.ends = map[causeKey]*causeCount{}, map[causeKey]int{}, nil, nil
}
