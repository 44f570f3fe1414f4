package loadgen

import "math"

// peaks keeps a value for each start in a sequence, adds to all starts up to an
// index, and finds the largest value: each in O(log n). It is a segment tree. A node
// holds the sum of the additions at its leaves, and the maximum, over the starts
// within the node, of the base plus all additions at or right of the start.
type peaks struct {
	leaves int
	nodes  []peakNode // 1 is the root; the leaves begin at index leaves
	bases  []int64
}

type peakNode struct{ sum, best int64 }

// dormant is the best of a start that is not awake: low enough to lose against
// any sum, high enough for an addition not to wrap.
const dormant = math.MinInt64 / 4

// newPeaks makes a row of starts with their bases, all dormant.
func newPeaks(bases []int64) *peaks {
	leaves := 1
	for leaves < len(bases) {
		leaves *= 2
	}
	p := &peaks{leaves: leaves, nodes: make([]peakNode, 2*leaves), bases: bases}
	for i := range p.nodes {
		p.nodes[i].best = dormant
	}
	return p
}

// wake lets a start take part in the maximum.
func (p *peaks) wake(start int) {
	leaf := &p.nodes[p.leaves+start]
	leaf.best = p.bases[start] + leaf.sum
	p.lift(start)
}

// add adds to the values of starts 0 to last.
func (p *peaks) add(last int, amount int64) {
	leaf := &p.nodes[p.leaves+last]
	leaf.sum += amount
	leaf.best += amount
	p.lift(last)
}

func (p *peaks) lift(start int) {
	for i := (p.leaves + start) / 2; i > 0; i /= 2 {
		left, right := p.nodes[2*i], p.nodes[2*i+1]
		p.nodes[i] = peakNode{sum: left.sum + right.sum, best: max(right.best, left.best+right.sum)}
	}
}

// max returns the largest value of all awake starts, and its start.
func (p *peaks) max() (value int64, start int) {
	i := 1
	for i < p.leaves {
		left, right := p.nodes[2*i], p.nodes[2*i+1]
		if i *= 2; right.best >= left.best+right.sum {
			i++
		}
	}
	return p.nodes[1].best, i - p.leaves
}
