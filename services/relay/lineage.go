package relay

// stream is a change stream of the table: a label, between the time that
// streaming was enabled and the next.
type stream struct {
	arn    string
	label  string
	shards []streamShard
}

// streamShard is a part of a stream that is in order.
type streamShard struct {
	id     string
	parent string // id; empty for a root
}

// source names a stream shard among all streams.
type source struct {
	arn   string
	label string
	shard string
}

// readable are the stream shards that may be read now, of streams given in order
// of their labels: unfinished shards without an unfinished shard that may have earlier
// changes of their items. That is the parent, and each shard of each older stream; a shard
// that is not listed any more counts as done. readable calls done for no shard
// that has to wait in any case. The error is done's.
func readable(streams []stream, done func(source) (bool, error)) (open []source, err error) {
	for _, st := range streams {
		behind, err := readableOf(st, done)
		if err != nil {
			return nil, err
		}
		if open = append(open, behind...); len(open) > 0 {
			break // newer streams wait
		}
	}
	return open, nil
}

func readableOf(st stream, done func(source) (bool, error)) (open []source, err error) {
	listed := make(map[string]bool, len(st.shards))
	for _, s := range st.shards {
		listed[s.id] = true
	}
	for _, s := range st.shards {
		if s.parent != "" && listed[s.parent] {
			if over, err := done(source{st.arn, st.label, s.parent}); err != nil {
				return nil, err
			} else if !over {
				continue
			}
		}
		at := source{st.arn, st.label, s.id}
		if over, err := done(at); err != nil {
			return nil, err
		} else if !over {
			open = append(open, at)
		}
	}
	return open, nil
}

// parentOf returns the parent of a stream shard and whether it is still listed; the
// zero source if the shard has no parent.
func parentOf(streams []stream, at source) (parent source, listed bool) {
	for _, st := range streams {
		if st.arn != at.arn {
			continue
		}
		name, there := "", map[string]bool{}
		for _, s := range st.shards {
			if there[s.id] = true; s.id == at.shard {
				name = s.parent
			}
		}
		if name != "" {
			return source{st.arn, st.label, name}, there[name]
		}
	}
	return source{}, false
}

// rootsOf returns the shards of a stream with parents that are not listed.
func rootsOf(streams []stream, arn string) (roots []source) {
	for _, st := range streams {
		if st.arn != arn {
			continue
		}
		for _, s := range st.shards {
			at := source{st.arn, st.label, s.id}
			if _, listed := parentOf(streams, at); !listed {
				roots = append(roots, at)
			}
		}
	}
	return roots
}
