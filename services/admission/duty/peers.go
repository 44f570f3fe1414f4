package duty

import (
	"encoding/json"
	"sync"
	"time"
)

// report is the message in which a node reports its state.
type report struct {
	Node string `json:"node"`
	Able bool   `json:"able"`
}

// peers knows which other nodes are able. It is safe for concurrent use.
type peers struct {
	node string // this node
	now  func() time.Duration

	mu   sync.Mutex
	able map[string]time.Duration // guarded by mu: when each able node was heard last
}

// hear takes in the report of a node.
func (p *peers) hear(data []byte) {
	var r report
	if err := json.Unmarshal(data, &r); err != nil || r.Node == "" || r.Node == p.node {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Able {
		p.able[r.Node] = p.now()
	} else {
		delete(p.able, r.Node)
	}
}

// anyAble reports whether another node was able a moment ago. It forgets silent nodes.
func (p *peers) anyAble() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := p.now() - heardTime
	for node, heard := range p.able {
		if heard < oldest {
			delete(p.able, node)
		}
	}
	return len(p.able) > 0
}
