package rollback

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/tidegate/tidegate/internal/leader"
)

// peer is another node.
type peer struct {
	heard time.Time
	term  leader.Term // that it has looked at
}

// told is the message in which a node reports its state.
type told struct {
	Node    string      `json:"node"`
	Term    leader.Term `json:"term"` // that it has looked at
	Epoch   int64       `json:"epoch"`
	Leaving bool        `json:"leaving,omitempty"`
}

// meet finds the nodes that live by their beats, so that a node that has just
// started waits for them too.
func (g *Guard) meet(ctx context.Context) error {
	call, cancel := g.request(ctx)
	defer cancel()
	info, err := leader.Info(call, g.cfg.NATS, g.stream)
	if err != nil {
		return g.fails(ctx, err)
	}
	g.maxAge = info.Config.MaxAge
	subjects, err := leader.Subjects(call, g.cfg.NATS, g.stream, g.beatPrefix()+">")
	if err != nil {
		return g.fails(ctx, err)
	}
	for _, subject := range subjects {
		m, err := leader.Last(call, g.cfg.NATS, g.stream, subject)
		if errors.Is(err, leader.ErrNone) {
			continue
		}
		if err != nil {
			return g.fails(ctx, err)
		}
		node, _, _ := strings.Cut(strings.TrimPrefix(subject, g.beatPrefix()), ".")
		if isAlive := m.Header.Get(headerOperation) == "" && info.TimeStamp.Sub(m.Time) < 2*g.tuning.Renew; isAlive && node != g.node {
			g.mu.Lock()
			g.peers[node] = peer{heard: g.cfg.Now()}
			g.mu.Unlock()
		}
	}
	return nil
}

// hear takes in the report of a node.
func (g *Guard) hear(data []byte) {
	var t told
	if err := json.Unmarshal(data, &t); err != nil || t.Node == "" || t.Node == g.node {
		return
	}
	g.cfg.Epochs.Adopt(t.Epoch) // before its term counts
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.Leaving {
		delete(g.peers, t.Node)
	} else {
		g.peers[t.Node] = peer{heard: g.cfg.Now(), term: t.Term}
	}
	g.signal()
}

// tell reports this node's state to the others. A lost report is repeated at the next tick.
func (g *Guard) tell(leaving bool) {
	g.mu.Lock()
	t := told{Node: g.node, Term: g.looked, Leaving: leaving}
	g.mu.Unlock()
	t.Epoch = g.cfg.Epochs.Current()
	data, _ := json.Marshal(t) // of strings, numbers and a time: cannot fail
	_ = g.cfg.NATS.Publish(g.cfg.Subject, data)
}

// forget drops the nodes that are silent, as long as nothing depends on them.
func (g *Guard) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.certainLocked() {
		oldest := g.cfg.Now().Add(-g.tuning.Quarantine)
		for node, p := range g.peers {
			if p.heard.Before(oldest) {
				delete(g.peers, node)
			}
		}
	}
	g.signal() // the quarantine may be over
}
