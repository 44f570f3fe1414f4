package main

// relayMutants change the relay: its markers, and the order of stream shards.
func relayMutants() []mutant {
	const reader, checkpoint, publish, lineage = "services/relay/reader.go", "services/relay/checkpoint.go", "services/relay/publish.go", "services/relay/lineage.go"
	return []mutant{
		{name: "known-record-comes-again", file: checkpoint, old: `	return a > b`, new: `	return a >= b`},
		{name: "order-of-numbers-as-text", file: checkpoint, old: `	if len(a) != len(b) {
		return len(a) > len(b)
	}
`, new: ``},
		{name: "marker-of-an-older-stream", file: checkpoint, old: `m.begun = m.number > 0 && m.Stream == at.arn;`, new: `m.begun = m.number > 0;`},
		{name: "marker-without-fence", file: publish, old: `	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(fence, 10))
`, new: `	_ = strconv.FormatUint(fence, 10)
`},
		{name: "marker-that-expires", file: publish, old: `	m.Header.Set(jetstream.MsgTTLHeader, never)
`, new: ``},
		{name: "marker-before-its-records", file: publish, old: `append(messages, last)`, new: `append([]*nats.Msg{last}, messages...)`},
		{name: "marker-trusted-after-a-failure", file: reader, old: `		r.loaded = false // whatever became of it, the marker tells
`, new: ``},
		{name: "records-relayed-again", file: reader, old: `record.Dynamodb == nil || record.Dynamodb.SequenceNumber == nil || !later(*record.Dynamodb.SequenceNumber, position)`, new: `record.Dynamodb == nil || record.Dynamodb.SequenceNumber == nil`},
		{name: "end-of-a-shard-not-marked", file: reader, old: `	if messages > 0 || closed {`, new: `	if messages > 0 {`},
		{name: "publishes-in-an-old-term", file: reader, old: `	if err := r.relay.history.check(call, r.term); err != nil {
		return err
	}
`, new: ``},
		{name: "unreadable-record-skipped", file: reader, old: `		return nil, r.putAside(ctx, &record, err)`, new: `		return nil, nil`},
		{name: "page-of-before-the-marker", file: reader, old: `	r.begin()
	r.loaded, r.mark`, new: `	r.loaded, r.mark`, equivalent: "the failure after which a marker is read again has begun anew already"},
		{name: "newer-streams-do-not-wait", file: lineage, old: `len(open) > 0 {
			break // newer streams wait`, new: `len(open) > 0 {
			continue`},
		{name: "children-do-not-wait", file: lineage, old: `			} else if !over {
				continue
			}
		}`, new: `			}
			_ = over
		}`},
	}
}

// consumerMutants change the consumers of the change feed.
func consumerMutants() []mutant {
	const lane, batch, history = "internal/feed/lane.go", "internal/feed/batch.go", "internal/feed/history.go"
	return []mutant{
		{name: "ack-before-the-write", file: lane, old: `	for failed := false; ; {
		if l.handle(batch) {`, new: `	_ = l.acknowledge(context.WithoutCancel(ctx), batch)
	for failed := false; ; {
		if l.handle(batch) {`},
		{name: "failed-batch-acknowledged", file: lane, old: `	case <-m.Nacked():
		return false`, new: `	case <-m.Nacked():
		return true`},
		{name: "failure-of-the-handler-ignored", file: batch, old: `		if err := g.cfg.Handle(ctx, b); err != nil {
			return g.waits(ctx, p.lane, err)
		}`, new: `		_ = g.cfg.Handle(ctx, b)`},
		{name: "dead-letter-lost", file: batch, old: `		if err != nil {
			return g.waits(ctx, p.lane, err)
		}
	}
	g.metrics`, new: `		if err != nil {
			_ = g.waits(ctx, p.lane, err)
		}
	}
	g.metrics`},
		{name: "refused-record-lost", file: batch, old: `		dead = append(dead, refusedMessage{b.Records[i].message, b.Records[i].Mark(), reason})`, new: `		_ = refusedMessage{b.Records[i].message, b.Records[i].Mark(), reason}`},
		{name: "newer-version-is-dead", file: batch, old: `		case errors.Is(err, events.ErrUnknownVersion):
			return nil, nil, err
`, new: ``},
		{name: "gap-in-a-lane", file: lane, old: `	if first.Sequence.Consumer == l.next && ascending && unbroken {`, new: `	if ascending && unbroken {`},
		{name: "records-out-of-order", file: lane, old: `			ascending = ascending && meta.Sequence.Stream > last.Sequence.Stream
`, new: ``},
		{name: "delivery-lost-inside-a-batch", file: lane, old: `			unbroken = unbroken && meta.Sequence.Consumer == last.Sequence.Consumer+1
`, new: ``},
		{name: "acknowledged-in-an-old-term", file: lane, old: `err != nil || !current {
		return errors.Join(err, l.comesAgain(ctx)) // the watermarks`, new: `err != nil {
		_ = current
		return errors.Join(err, l.comesAgain(ctx)) // the watermarks`},
		{name: "handled-in-an-old-term", file: lane, old: `err != nil || !current {
		return errors.Join(err, l.comesAgain(work)) // it may`, new: `err != nil {
		_ = current
		return errors.Join(err, l.comesAgain(work)) // it may`},
		{name: "another-record-is-the-same", file: history, old: `	case m.Time.Equal(p.at):`, new: `	case !m.Time.IsZero():`},
		{name: "lost-end-of-the-feed", file: history, old: `isForgotten := kept == keptOther || p.number > info.State.LastSeq`, new: `isForgotten := kept == keptOther && p.number <= info.State.LastSeq`},
		{name: "replay-loses-its-mark", file: "internal/feed/deadletters.go", old: `	m.Header.Set(HeaderReplay, mark)
`, new: ``},
	}
}

// followerMutants change the aggregator and the sharder.
func followerMutants() []mutant {
	const apply, account = "services/aggregator/apply.go", "services/aggregator/account.go"
	const plan, step, entry = "services/sharder/plan.go", "services/sharder/step.go", "services/sharder/entry.go"
	return []mutant{
		{name: "record-counts-twice-in-a-batch", file: account, old: `other.shard == e.shard && other.at >= e.at`, new: `other.shard == e.shard && other.at > e.at`},
		{name: "replay-counts-twice-in-a-batch", file: account, old: `			if other.replay == e.replay {
				return
			}`, new: ``},
		{name: "counted-record-refused-for-good", file: account, old: `return counted.Counted[e.shard] >= e.at`, new: `return counted.Counted[e.shard] > e.at`},
		{name: "counted-replay-refused-for-good", file: account, old: `return slices.Contains(counted.Replays, e.replay)`, new: `return len(counted.Replays) > table.MaxReplays`},
		{name: "watermark-stays-at-the-first", file: account, old: `			shards[i].Last = e.at
`, new: ``},
		{name: "sum-of-a-limit-wraps", file: account, old: `milli > 0 && sum > math.MaxInt64-milli || milli < 0 && sum < math.MinInt64-milli`, new: `milli > 0 && sum > math.MaxInt64 || milli < 0 && sum < math.MinInt64`},
		{name: "too-many-limits-in-a-write", file: account, old: `	return n > table.MaxUsedLimits`, new: `	return n > 100*table.MaxUsedLimits`},
		{name: "replay-among-others", file: account, old: `			form.Replay = e.replay
			break`, new: `			form.Replay = e.replay
			continue`},
		{name: "purged-namespace-comes-back", file: apply, old: `	if err := c.clean(ctx, all); err != nil {
		return err
	}
`, new: ``},
		{name: "late-write-behind-a-purge", file: apply, old: `	if err := c.each(unwanted, remove); err != nil || !lingers {`, new: `	if err := c.each(unwanted, remove); err != nil || lingers || !lingers {`},
		{name: "unknown-write-is-forgotten", file: apply, old: `			a.unknown = a.unknown || store.OutcomeOf(err) == store.Unknown
`, new: ``},
		{name: "refused-write-looks-new", file: apply, old: `			a.made = true // by an earlier attempt, maybe of another aggregator that did not look
`, new: ``},
		{name: "replay-counts-where-it-was-counted", file: apply, old: `			if err := c.setApart(ctx, b.Records, r.record, all, refused); err != nil {
				return err
			}
`, new: ``},
		{name: "failed-write-is-given-up", file: apply, old: `			if failed++; failed == attempts {
				return nil, err
			}`, new: `			if failed++; failed == attempts {
				return nil, nil
			}`},

		{name: "doubles-without-use", file: plan, old: `if v.load >= tooMuch*int64(v.wanted) && v.serves(2*v.wanted) {`, new: `if v.load >= tooMuch*int64(v.wanted) {`},
		{name: "doubles-a-little-late", file: plan, old: `if v.load >= tooMuch*int64(v.wanted) && v.serves(2*v.wanted) {`, new: `if v.load > tooMuch*int64(v.wanted) && v.serves(2*v.wanted) {`},
		{name: "meddles-with-a-split", file: plan, old: `	if now < v.changed+settleMs { // the process that changes them may not be at the end
		return at
	}
`, new: ``},
		{name: "merges-at-once", file: plan, old: `1<<k < to && now >= v.noRoom[k]+idleMs`, new: `1<<k < to && now >= v.noRoom[k]`},
		{name: "step-of-another-state", file: step, old: `	if len(tree) == 0 || tree.Wanted() != e.from {`, new: `	if len(tree) == 0 {`},
		{name: "merges-under-a-new-load", file: step, old: `e.to < e.from && load > roomy*int64(e.to)`, new: `e.to < e.from && load < 0`},
		{name: "change-counts-twice", file: entry, old: `	if at <= s.at {
		return false
	}`, new: `	if at < s.at {
		return false
	}`},
		{name: "load-of-an-old-second", file: entry, old: `	case s.at > at:
		return // of a time that is over
`, new: ``},
		{name: "load-of-before-a-split", file: entry, old: `s.at*1000 >= now-staleMs && s.at >= (e.changed+settleMs)/1000`, new: `s.at*1000 >= now-staleMs`},
		{name: "old-load-counts", file: entry, old: `s.at*1000 >= now-staleMs && s.at >= (e.changed+settleMs)/1000`, new: `s.at >= (e.changed+settleMs)/1000`},
	}
}
