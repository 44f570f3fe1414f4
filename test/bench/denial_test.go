package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/pkg/api"
	tidegate "github.com/tidegate/tidegate/pkg/client"
)

// BenchmarkDenials: everybody wants tokens of a bucket that has none. The rate
// shall be at least 0.35 of the echo's through the client and 0.6 raw, with at
// most one write per second.
func BenchmarkDenials(b *testing.B) {
	const callers, rounds, turn = 2048, 4, 400 * time.Millisecond
	daily := api.Limit{Name: "rpm", Capacity: 1, RefillAmount: 1, RefillPeriodSeconds: 86400}
	w := newApart(b, daily, ample("tpm"))
	conns := w.conns()
	clients := w.clients(conns)
	_, err := clients[0].Acquire(b.Context(), "poor", resource, consume())
	require.NoError(b, err)
	subject, request, reply := sample(b, conns[0], "poor")
	echo := &contender{call: raw(conns, w.echo(len(reply)), request)}
	rawly := &contender{call: raw(conns, subject, request)}
	client := &contender{call: func(caller int) error {
		_, err := clients[caller%connections].Acquire(b.Context(), "poor", resource, consume())
		var denied *tidegate.DeniedError
		if !errors.As(err, &denied) {
			return errors.Join(errors.New("not denied"), err)
		}
		return nil
	}}
	before := w.spent().Count
	compare(b, callers, rounds, turn, echo, client, rawly)
	cost := minus(w.spent().Count, before)
	took := (client.time + rawly.time).Seconds()

	b.ReportMetric(echo.rate(), "echo/s")
	b.ReportMetric(client.rate()/echo.rate(), "client/echo")
	b.ReportMetric(rawly.rate()/echo.rate(), "raw/echo")
	b.ReportMetric(cost.WriteUnits/took, "WCU/s")
	b.ReportMetric(cost.ReadUnits/took, "RCU/s")
	b.ReportMetric(0, "ns/op")
}
