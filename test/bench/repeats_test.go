package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
	"github.com/tidegate/tidegate/services/admission"
)

// noisyTenant is the namespace whose caller repeats itself.
const noisyTenant = "noisy"

// BenchmarkRepeats: a tenant acquires and settles leases while another tenant repeats a
// single adjust 4,000 times a second. It shows the part of the first tenant's settlements
// that is left.
func BenchmarkRepeats(b *testing.B) {
	for _, nodes := range []int{1, 2} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) { measureRepeats(b, nodes) })
	}
}

func measureRepeats(b *testing.B, nodes int) {
	b.Helper()
	const rate, callers, rounds, turn = 4000, 32, 4, time.Second
	w := newWorld(b)
	w.tenant(noisyTenant, ample("rpm"), ample("tpm"))
	for range nodes {
		w.node(storeLatency, admission.Tuning{})
	}
	conns := w.conns()
	clients := w.clients(conns)
	settle := func(caller int) error {
		l, err := clients[caller%connections].Acquire(b.Context(), entityName(caller), resource, consume())
		if err == nil {
			err = l.Adjust(b.Context(), tidegate.Deltas{"tpm": -1})
		}
		return err
	}
	noisy, err := tidegate.New(conns[0], tidegate.WithNamespace(noisyTenant))
	require.NoError(b, err)
	l, err := noisy.Acquire(b.Context(), "noisy", resource, consume())
	require.NoError(b, err)
	repeat := fmt.Appendf(nil, `{"lease":%q,"deltas":{"tpm":1}}`, l.Token())
	alone, beside := &contender{call: settle}, &contender{call: settle}
	for range rounds {
		alone.run(b, callers, turn)
		stop := w.flood(conns, rate, api.Subject(noisyTenant, api.VerbAdjust), repeat)
		beside.run(b, callers, turn)
		stop()
	}
	b.ReportMetric(alone.rate(), "settlements/s")
	b.ReportMetric(beside.rate()/alone.rate(), "beside/alone")
	b.ReportMetric(0, "ns/op")
}

// flood sends a request so many times a second, without waiting for answers, until stop.
func (w *world) flood(conns []*nats.Conn, rate int, subject string, body []byte) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	inbox := nats.NewInbox()
	heard, err := conns[0].Subscribe(inbox, func(*nats.Msg) {})
	require.NoError(w.tb, err)
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		start, sent := time.Now(), 0
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			for ; sent < int(time.Since(start).Seconds()*float64(rate)); sent++ {
				_ = conns[sent%len(conns)].PublishRequest(subject, inbox, body) // a lost repeat is made up for by the next
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		_ = heard.Unsubscribe() // the connection may be closed
	}
}
