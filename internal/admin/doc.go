// Package admin serves the admin verbs: it decodes a request, does what it
// asks, tells every node what changed, and encodes the reply. Admission nodes
// serve it over NATS.
//
//	tidegate.v1.<ns>.admin.limits.set ──▶ Admin.Handle ──▶ config.LimitStore ──▶ table
//	                                          │
//	                                          └──▶ tidegate.config.v1.<ns>   which level changed
//
// # Words
//
//   - A verb is the end of a request's subject, such as "admin.limits.set".
//   - The principal is who asks, as far as the NATS server tells; it stands in
//     the audit event of a change.
//   - The broadcast goes over core NATS and may get lost: nodes read their
//     settings again after a minute in any case.
//
// # Example
//
//	reply, refusal := a.Handle(ctx, admin.Namespace{Name: "default", ID: id}, api.VerbLimitsSet,
//		[]byte(`{"resource":"gpt-4","limits":[{"name":"rpm","capacity":100,"refill_amount":100,"refill_period_seconds":60}]}`))
//	// reply: {"resource":"gpt-4","limits":[…],"config_version":1}
package admin
