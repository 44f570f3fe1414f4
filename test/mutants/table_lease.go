package main

// leaseMutants change settlements and the records of leases.
func leaseMutants() []mutant {
	const decide, record = "services/admission/lease/decide.go", "services/admission/lease/record.go"
	const settlement, write = "services/admission/lease/settlement.go", "services/admission/lease/settlement_write.go"
	return []mutant{
		{name: "any-repeat-is-done", file: decide, old: `case r.Done > 0 && op.number == r.Done && op.hash == r.Hash:`, new: `case r.Done > 0 && op.number == r.Done:`},
		{name: "repeat-counts-again", file: decide, old: `	case r.Done > 0 && op.number == r.Done && op.hash == r.Hash:
		return step{ruling: rulingDone}
	case op.number <= r.Done, r.Closed:`, new: `	case op.number < r.Done, r.Closed:`},
		{name: "adjust-after-release", file: decide, old: `	case op.number <= r.Done, r.Closed:`, new: `	case op.number <= r.Done:`},
		{name: "old-token-settles", file: decide, old: `	case op.number <= r.Done, r.Closed:`, new: `	case r.Closed:`},
		{name: "busy-for-ever", file: decide, old: ` && int64(now-r.Pending.At) < lifetime.Milliseconds()`, new: ``},
		{name: "never-busy", file: decide, old: `busy := r.Pending != nil && r.Pending.Busy && int64(now-r.Pending.At) < lifetime.Milliseconds()`, new: `busy := r.Pending != nil && r.Pending.Busy && int64(now-r.Pending.At) < 0*lifetime.Milliseconds()`},
		{name: "lost-records-give-back", file: decide, old: `		case op.gives():
			return refuse(conflict("earlier settlements of the lease are forgotten: nothing can be given back"))
`, new: ``},
		{name: "release-of-a-busy-lease", file: decide, old: `	case busy:
		return step{ruling: rulingWait}
	case r.Closed && r.Held.isZero():`, new: `	case r.Closed && r.Held.isZero():`},
		{name: "release-leaves-it-open", file: decide, old: `newTokenTable(l), true, nil`, new: `newTokenTable(l), false, nil`},
		{name: "resumed-adjust-begins-anew", file: decide, old: `	if r.Pending != nil && r.Pending.Hash == op.hash {`, new: `	if false {`},
		{name: "credits-stay-held", file: decide, old: `	s.record.Held = r.Held.minus(s.credits)
`, new: ``},
		{name: "gives-more-than-is-held", file: decide, old: `credits[i][n] = min(held[i][n], -d.Tokens-sum)`, new: `credits[i][n] = -d.Tokens - sum`},
		{name: "every-shard-is-debited", file: decide, old: `					debits[i][n] = d.Tokens
					break`, new: `					debits[i][n] = d.Tokens
					continue`},
		{name: "lost-record-holds-the-acquire", file: record, old: `	if op.number > 1 {`, new: `	if false {`},
		{name: "held-before-it-is-written", file: record, old: `	after.Held = r.Held.plus(written)`, new: `	after.Held = r.Held.plus(written).plus(left)`},
		{name: "half-written-is-done", file: record, old: `	if left.isZero() {`, new: `	if true {`},
		{name: "overtaken-record-is-ours", file: settlement, old: `case stored.Record == nil || stored.Record.Nonce != rec.Nonce:`, new: `case stored.Record == nil:`},
		{name: "unknown-record-gives-back", file: settlement, old: `if version.Revision, epoch = st.insist(ctx, version.Record, revision); version.Revision == 0 {`, new: `if version.Revision, epoch = st.insist(ctx, version.Record, revision); false {`},
		{name: "forgotten-epoch-gives-back", file: settlement, old: `if st.op.gives() && !next.credits.isZero() && st.Lease.Epoch < epoch {`, new: `if st.Lease.Epoch < epoch && false {`},
		{name: "overtaken-debit-is-done", file: write, old: `	case errors.Is(err, ErrOvertaken):
		return conflict("another settlement of the lease overtook this one: what it spent stays spent")
`, new: ``},
		{name: "late-debit-counts-as-written", file: write, old: `		case o.Late:
			left[level] = debits[level]
			refusal = unavailable(errSettling)
`, new: ``},
		{name: "gives-back-without-records", file: write, old: `	if st.op.gives() {
		return answer{refusal: unavailable(errors.New("the lease records cannot be reached, so nothing can be given back"))}
	}
`, new: ``},
	}
}
