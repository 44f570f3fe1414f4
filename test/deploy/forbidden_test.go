package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/pkg/events"
)

// mayAsk are the subjects that each kind of user may publish to, with the end
// that stands for any.
func mayAsk() map[string][]string {
	verbs := func(verbs ...api.Verb) []string {
		subjects := make([]string, len(verbs))
		for i, verb := range verbs {
			subjects[i] = api.Subject("acme", verb)
		}
		return subjects
	}
	return map[string][]string{
		"acme":          verbs(api.VerbAcquire, api.VerbAdjust, api.VerbRelease, api.VerbStatus, api.VerbLimitsResolve),
		"acme-override": verbs(api.VerbAcquire, api.VerbAcquireOverride, api.VerbAdjust, api.VerbRelease, api.VerbStatus, api.VerbLimitsResolve),
		"acme-admin":    verbs(api.VerbStatus, "admin.>"),
		operatorUser:    {api.Subject(api.OperatorNamespace, "admin.>"), "$SRV.>"},
	}
}

// within reports whether a subject is one of those, or under one that ends in ">".
func within(subject string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		prefix, any := strings.CutSuffix(a, ">")
		return a == subject || any && strings.HasPrefix(subject, prefix)
	})
}

// homeOf is the namespace of a kind of user.
func homeOf(user string) string {
	if user == operatorUser {
		return api.OperatorNamespace
	}
	return "acme"
}

// innerSubjects are Tidegate's and the server's own traffic, and others' inboxes.
func innerSubjects() []string {
	return []string{
		"tidegate.changes.v1.bucket.0", "tidegate.checkpoint.v1.shard", "tidegate.dlq.v1.aggregator", "tidegate.dlq.v1.archiver", events.LoadSubject,
		api.ConfigSubject("acme"), api.ConfigSubject("beta"), api.ConfigSubject(api.OperatorNamespace),
		events.ReplaySubject(aggregatorUser, 0),
		"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.KV_TIDEGATE_LEASES", "$JS.ACK.x", "$JS.FC.x",
		"$JS.API.DIRECT.GET." + events.StreamName, "$JS.API.STREAM.MSG.GET." + events.StreamName, "$JS.API.STREAM.PURGE." + events.StreamName,
		"$JS.API.CONSUMER.CREATE." + events.StreamName + ".spy", "$JS.API.CONSUMER.MSG.NEXT." + events.StreamName + ".aggregator-00",
		"$JS.API.STREAM.MSG.DELETE.TIDEGATE_DLQ", "$JS.API.DIRECT.GET.KV_TIDEGATE_LEASES.x",
		"$KV.TIDEGATE_LEASES.x", "$KV.TIDEGATE_MEMBERS_aggregator.x", "$SYS.REQ.SERVER.PING", "$SYS.ACCOUNT.TIDEGATE.CONNECT",
		"_INBOX.x", api.InboxPrefix("beta") + ".x", "_R_.x", "elsewhere",
	}
}

// refused reports whether the server refused what try did.
func refused(t *testing.T, nc *nats.Conn, try func() error) bool {
	t.Helper()
	require.NoError(t, try())
	require.NoError(t, nc.Flush()) // the server's errors come before its answer to this
	err := nc.LastError()
	if err == nil {
		return false
	}
	require.ErrorIs(t, err, nats.ErrPermissionViolation)
	return true
}

// Every user may ask for the verbs of its kind in its namespace, and publish
// nothing else.
func TestNobodyPublishesElsewhere(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	for user, allowed := range mayAsk() {
		t.Run(user, func(t *testing.T) {
			subjects := append(innerSubjects(), "$SRV.PING", "$SRV.STATS."+api.ServiceName)
			for _, namespace := range []string{"acme", "beta", api.DefaultNamespace, api.OperatorNamespace} {
				for _, verb := range api.Verbs() {
					subjects = append(subjects, api.Subject(namespace, verb))
				}
			}
			for _, subject := range subjects {
				nc := w.nats.connect(t, user)
				got := refused(t, nc, func() error { return nc.Publish(subject, []byte("{}")) })
				require.Equal(t, !within(subject, allowed), got, subject)
				nc.Close()
			}
		})
	}
}

// Every user hears the answers to its namespace's requests, and nothing else.
func TestNobodyListensElsewhere(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	subjects := append(innerSubjects(),
		">", "*", "*.>", "*.*", "tidegate.>", "tidegate.*.>", api.SubjectAll, api.ConfigSubjectAll,
		"tidegate.changes.>", "tidegate.checkpoint.>", "tidegate.dlq.>", "tidegate.replay.>",
		"$JS.>", "$KV.>", "$SRV.>", "$SYS.>", "_R_.>", "_INBOX.>",
		api.Subject("acme", api.VerbAcquire), api.Subject("beta", ">"), api.InboxPrefix("beta")+".>", api.InboxPrefix("*")+".>")
	for other := range mayAsk() { // of the same tenant, too
		subjects = append(subjects, inboxOf(other)+".>", inboxOf(other)+".x")
	}
	for user := range mayAsk() {
		t.Run(user, func(t *testing.T) {
			inbox := inboxOf(user) + "."
			for _, subject := range append(subjects, inbox+">", inbox+"x", inbox+"*.y") {
				for _, queue := range []string{"", api.QueueGroup} {
					nc := w.nats.connect(t, user)
					got := refused(t, nc, func() error {
						_, err := nc.QueueSubscribe(subject, queue, func(*nats.Msg) {})
						return err
					})
					require.Equal(t, !strings.HasPrefix(subject, inbox), got, "%s in the group %q", subject, queue)
					nc.Close()
				}
			}
		})
	}
}

// Every service hears what JetStream answers to it, and not what it answers to others.
func TestServicesHearTheirOwnAnswers(t *testing.T) {
	w := newWorld(t)
	users := []string{admissionUser, relayUser, aggregatorUser, sharderUser, archiverUser, lettersUser}
	for _, user := range users {
		for _, other := range users {
			for _, subject := range []string{inboxOf(other) + ".>", inboxOf(other) + ".x", "_INBOX.>", "*.>"} {
				nc := w.nats.connect(t, user)
				got := refused(t, nc, func() error {
					_, err := nc.SubscribeSync(subject)
					return err
				})
				require.Equal(t, !strings.HasPrefix(subject, inboxOf(user)+"."), got, "%s listens to %s", user, subject)
				nc.Close()
			}
		}
	}
}

// A user whose permissions were left out is kept within its account: there is
// nothing else in it.
func TestTheAccountAloneKeepsTenantsApart(t *testing.T) {
	setPasswords(t, "acme", "beta")
	config := natsFiles(t, "acme", "beta")
	file := filepath.Join(filepath.Dir(config), "tenants", "acme.conf")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	permissions := regexp.MustCompile(`(?s)permissions: \{.*?\n {6}\}`)
	require.Len(t, permissions.FindAll(text, -1), 3)
	require.NoError(t, os.WriteFile(file, permissions.ReplaceAll(text, nil), 0o600))
	w := newWorldOn(t, startNATS(t, config), "acme", "beta")
	stop := w.runAdmission(t)
	beta := limited(t, w, "beta")

	spy := w.nats.connect(t, "acme")
	var sent []string
	heard, err := spy.SubscribeSync(">")
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	for _, subject := range append(innerSubjects(),
		api.Subject("beta", api.VerbAcquire), api.Subject("beta", api.VerbLimitsSet), api.Subject(api.OperatorNamespace, api.VerbKeyRotate)) {
		if strings.HasPrefix(subject, "_R_") || strings.HasPrefix(subject, "$JS.API.") {
			continue // the server refuses to everybody; JetStream's comes below
		}
		sent = append(sent, subject)
		require.NoError(t, spy.Publish(subject, []byte(`{"entity":"key","resource":"gpt-4","consume":{"rpm":1}}`)))
	}
	_, err = beta.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 1})
	require.NoError(t, err)
	status, err := beta.Status(t.Context(), "key", resource, nil)
	require.NoError(t, err)
	require.EqualValues(t, 9, status.Limits[0].Available, "beta alone has spent")
	stop() // all is answered
	require.NoError(t, spy.Flush())
	for range sent {
		m, err := heard.NextMsg(patience)
		require.NoError(t, err)
		require.Contains(t, sent, m.Subject, "it hears itself, and nobody else: %s", m.Data)
		sent = slices.Delete(sent, slices.Index(sent, m.Subject), slices.Index(sent, m.Subject)+1)
	}
	pending, _, err := heard.Pending()
	require.NoError(t, err)
	require.Zero(t, pending)
	answer, err := spy.Request("$JS.API.STREAM.INFO.KV_TIDEGATE_LEASES", nil, patience)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), "JetStream not enabled for account")
}

// limited is a client of a tenant that has limits at its system level.
func limited(t *testing.T, w *world, tenant string) *tidegate.Client {
	t.Helper()
	_, err := w.client(t, tenant+"-admin", tenant).Admin().SetLimits(t.Context(), tenRPM(true))
	require.NoError(t, err)
	return w.client(t, tenant, tenant)
}

// An answer goes where the request says, within the account of who asked: never
// to another tenant, nor as a request to a verb that the caller may not use.
func TestAnswersStayWithinTheAccount(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	stop := w.runAdmission(t)
	acme := limited(t, w, "acme")
	lease, err := acme.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 1})
	require.NoError(t, err)
	before := changes(t, w)

	victims := map[*nats.Subscription]*nats.Conn{}
	for _, user := range []string{"beta", "acme-admin", operatorUser} {
		nc := w.nats.connect(t, user)
		heard, err := nc.SubscribeSync(inboxOf(user) + ".>")
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		victims[heard] = nc
	}
	attacker := w.nats.connect(t, "acme")
	for verb, body := range map[api.Verb]string{
		api.VerbAcquire: `{"entity":"key","resource":"gpt-4","consume":{"rpm":1}}`,
		api.VerbStatus:  `{"entity":"key","resource":"gpt-4"}`,
		api.VerbAdjust:  `{"lease":"` + lease.Token() + `","deltas":{"rpm":1}}`,
		api.VerbRelease: `{"lease":"` + lease.Token() + `"}`,
	} {
		replies := []string{api.InboxPrefix("beta") + ".x", api.InboxPrefix(api.OperatorNamespace) + ".x"}
		for _, aim := range api.Verbs() {
			replies = append(replies, api.Subject("acme", aim), api.Subject("beta", aim), api.Subject(api.OperatorNamespace, aim))
		}
		replies = append(replies, innerSubjects()...)
		for _, reply := range replies {
			if strings.HasPrefix(reply, "_R_") || strings.HasPrefix(reply, "$JS.ACK") {
				continue // the server refuses the request itself
			}
			require.NoError(t, attacker.PublishRequest(api.Subject("acme", verb), reply, []byte(body)))
		}
	}
	require.NoError(t, attacker.Flush())
	require.NoError(t, attacker.LastError())
	stop() // all is answered
	for heard, nc := range victims {
		require.NoError(t, nc.Flush())
		pending, _, err := heard.Pending()
		require.NoError(t, err)
		require.Zero(t, pending)
	}
	w.runAdmission(t)
	require.Equal(t, before, changes(t, w))
}

// changes are the audit events of the tenants and of the operators.
func changes(t *testing.T, w *world) []string {
	t.Helper()
	var ids []string
	for _, tenant := range []string{"acme", "beta"} {
		page, err := w.client(t, tenant+"-admin", tenant).Admin().ListAudit(t.Context(), api.AuditListRequest{LimitsTarget: api.LimitsTarget{System: true}})
		require.NoError(t, err)
		for _, e := range page.Events {
			ids = append(ids, tenant+" "+e.ID)
		}
	}
	keys, err := w.operator(t).ListLeaseKeys(t.Context())
	require.NoError(t, err)
	for _, key := range keys {
		ids = append(ids, "key "+key.ID)
	}
	return ids
}

// A lease is worth nothing to another tenant.
func TestLeasesStayWithinTheNamespace(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	w.runAdmission(t)
	lease, err := limited(t, w, "acme").Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 4})
	require.NoError(t, err)
	stolen := limited(t, w, "beta").Lease(lease.Token())
	var refusal *tidegate.Error
	require.ErrorAs(t, stolen.Release(t.Context()), &refusal)
	require.Equal(t, api.CodeInvalidLease, refusal.Code)
	status, err := w.client(t, "acme", "acme").Status(t.Context(), "key", resource, nil)
	require.NoError(t, err)
	require.EqualValues(t, 6, status.Limits[0].Available)
}

// What the server refuses is forbidden at once, and nothing has changed.
func TestTheClientIsRefused(t *testing.T) {
	w := newWorld(t, "acme", "beta")
	w.runAdmission(t)
	limited(t, w, "beta")
	limited(t, w, "acme")
	long := tidegate.WithTimeout(time.Hour)
	own := tidegate.OverrideLimits(api.Limit{Name: "rpm", Capacity: 100, RefillAmount: 1, RefillPeriodSeconds: 60})
	inBeta, err := tidegate.New(w.nats.connect(t, "acme"), tidegate.WithNamespace("beta"), long)
	require.NoError(t, err)
	acme := w.client(t, "acme", "acme", long)
	forbidden := func(err error) {
		t.Helper()
		var refused *api.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, api.CodeForbidden, refused.Code)
		require.Contains(t, refused.Message, `the user "acme"`)
	}
	_, err = inBeta.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 1}, tidegate.OnUnavailable(tidegate.Allow))
	forbidden(err)
	_, err = inBeta.Status(t.Context(), "key", resource, nil)
	forbidden(err)
	_, err = acme.Acquire(t.Context(), "key", resource, tidegate.Consume{"rpm": 1}, own)
	forbidden(err)
	_, err = acme.Admin().SetLimits(t.Context(), tenRPM(true))
	forbidden(err)
	_, err = acme.Operator().RotateLeaseKey(t.Context())
	forbidden(err)

	for _, tenant := range []string{"acme", "beta"} {
		status, err := w.client(t, tenant, tenant).Status(t.Context(), "key", resource, nil)
		require.NoError(t, err)
		require.EqualValues(t, 10, status.Limits[0].Available, tenant)
	}
}
