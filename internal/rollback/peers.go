package rollback

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

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

// peers tells the other nodes of this node's looks and knows of theirs. It is safe for
// concurrent use.
type peers struct {
	nats       *nats.Conn
	subject    string
	node       string // this node
	epochs     *Epochs
	now        func() time.Time
	quarantine time.Duration

	mu      sync.Mutex
	seen    leader.Term     // as last heard, zero while unknown; guarded by mu
	looked  leader.Term     // in which this node last found its beat; guarded by mu
	since   time.Time       // when looked was seen first; guarded by mu
	others  map[string]peer // guarded by mu
	changed chan struct{}   // is closed and replaced when a guarded field changes; guarded by mu
}

// hear takes in the report of a node.
func (p *peers) hear(data []byte) {
	var t told
	if err := json.Unmarshal(data, &t); err != nil || t.Node == "" || t.Node == p.node {
		return
	}
	p.epochs.Adopt(t.Epoch) // before its term counts
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.Leaving {
		delete(p.others, t.Node)
	} else {
		p.others[t.Node] = peer{heard: p.now(), term: t.Term}
	}
	p.signal()
}

// tell reports this node's state to the others. A lost report is repeated at the next tick.
func (p *peers) tell(leaving bool) {
	p.mu.Lock()
	t := told{Node: p.node, Term: p.looked, Leaving: leaving}
	p.mu.Unlock()
	t.Epoch = p.epochs.Current()
	data, _ := json.Marshal(t) // of strings, numbers and a time: cannot fail
	_ = p.nats.Publish(p.subject, data)
}

// forget drops the nodes that are silent, as long as nothing depends on them.
func (p *peers) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.certainLocked() {
		oldest := p.now().Add(-p.quarantine)
		for node, other := range p.others {
			if other.heard.Before(oldest) {
				delete(p.others, node)
			}
		}
	}
	p.signal() // the quarantine may be over
}

// certain reports whether all nodes that are known to live have looked in the present
// term. The channel is closed when that may have changed.
func (p *peers) certain() (bool, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.certainLocked(), p.changed
}

// certainLocked is certain for a caller that holds mu.
func (p *peers) certainLocked() bool {
	none := leader.Term{}
	if p.seen == none || p.seen != p.looked {
		return false
	}
	// The connection to a single server knows sooner than the next look.
	if p.looked.Server != "" && p.nats.ConnectedServerId() != p.looked.Server {
		return false
	}
	if p.now().Sub(p.since) >= p.quarantine {
		return true
	}
	for _, other := range p.others {
		if other.term != p.looked {
			return false
		}
	}
	return true
}

// signal wakes all that wait for a change. The caller holds mu.
func (p *peers) signal() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// meets adds a node that lives, before its first report.
func (p *peers) meets(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others[node] = peer{heard: p.now()}
}

// looks notes that this node has looked in a term.
func (p *peers) looks(term leader.Term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.looked != term {
		p.looked, p.since = term, p.now()
	}
	p.signal()
}

// hasLooked reports whether this node has last looked in a term.
func (p *peers) hasLooked(term leader.Term) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looked == term
}

// sees notes the term that the leader reports, or the zero Term.
func (p *peers) sees(term leader.Term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = term
}

// seesSingle reports whether the last term seen is that of a single server.
func (p *peers) seesSingle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.Server != ""
}
