package simnats_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/tidegate/tidegate/internal/embednats/natstest"
	"github.com/tidegate/tidegate/internal/leader"
	"github.com/tidegate/tidegate/test/sim/simnats"
)

// serve returns a connection to a model that moves every message on at once.
func serve(t *testing.T) *nats.Conn {
	t.Helper()
	wake, stop, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	s := simnats.New(simnats.Options{Rand: rand.New(rand.NewPCG(1, 1)), Now: time.Now, Arrived: func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			s.Tick()
			for queues := s.Queues(); len(queues) > 0; queues = s.Queues() {
				s.Step(queues[0], 1)
			}
			select {
			case <-wake:
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	nc, err := nats.Connect("nats://sim", nats.InProcessServer(s.Party("a")), nats.ReconnectBufSize(-1))
	require.NoError(t, err)
	t.Cleanup(func() {
		nc.Close()
		close(stop)
		<-ended
	})
	return nc
}

// side is a server under comparison.
type side struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	stream   jetstream.Stream
	consumer jetstream.Consumer
	fetched  []jetstream.Msg
}

func open(t *testing.T, nc *nats.Conn) *side {
	t.Helper()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s := &side{nc: nc, js: js}
	s.stream, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, AllowAtomicPublish: true, AllowRollup: true, AllowDirect: true, MaxBytes: 3000,
		Discard: jetstream.DiscardNew,
	})
	require.NoError(t, err)
	s.consumer, err = s.stream.CreateOrUpdateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "c", FilterSubjects: []string{"s.a.*", "s.b.1"}, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, MaxAckPending: 1000,
		PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{"g"}, PinnedTTL: time.Hour,
	})
	require.NoError(t, err)
	return s
}

// problem describes an error, the same on both sides.
func problem(err error) string {
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		return strconv.Itoa(int(refused.ErrorCode))
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func message(subject, data string, headers ...string) *nats.Msg {
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	return m
}

// do executes an operation that r draws, and describes its result.
func (s *side) do(t *testing.T, r *rand.Rand, n int) string {
	t.Helper()
	ctx, subject, data := t.Context(), fmt.Sprintf("s.%c.%d", 'a'+rune(r.IntN(3)), r.IntN(3)), fmt.Sprint("data ", n)
	number, count, kind := r.Uint64N(12), 1+r.IntN(4), r.IntN(12)
	switch kind {
	case 0, 1:
		ack, err := s.js.PublishMsg(ctx, message(subject, data))
		return fmt.Sprint("publish ", ack, problem(err))
	case 2:
		ack, err := s.js.PublishMsg(ctx, message(subject, data, jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(number)))
		return fmt.Sprint("publish expecting ", ack, problem(err))
	case 3:
		ack, err := s.js.PublishMsg(ctx, message(subject, data, jetstream.MsgIDHeader, fmt.Sprint(number)))
		return fmt.Sprint("publish once ", ack, problem(err))
	case 4:
		subject = fmt.Sprintf("s.c.%d", count) // removals that the consumer does not see
		ack, err := s.js.PublishMsg(ctx, message(subject, data, jetstream.MsgRollup, jetstream.MsgRollupSubject))
		return fmt.Sprint("roll up ", ack, problem(err))
	case 5:
		var batch []*nats.Msg
		for i := range count {
			batch = append(batch, message(subject, fmt.Sprint(data, i)))
			subject = fmt.Sprintf("s.a.%d", i)
		}
		if number < 4 {
			batch[0].Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(number))
		}
		done, err := leader.Publish(ctx, s.nc, batch)
		return fmt.Sprint("batch ", done.Last, problem(err))
	case 6:
		m, err := leader.Last(ctx, s.nc, "S", subject)
		if err != nil {
			return "last: " + problem(err)
		}
		return fmt.Sprint("last ", m.Sequence, string(m.Data))
	case 7:
		m, err := s.stream.GetMsg(ctx, number+1, jetstream.WithGetMsgSubject(subject))
		if err != nil {
			return "next: " + problem(err)
		}
		return fmt.Sprint("next ", m.Sequence, string(m.Data))
	case 8:
		if number > 2 {
			return "" // a purge is rare
		}
		subject = fmt.Sprintf("s.c.%d", count)
		return "purge " + problem(s.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)))
	case 9:
		return s.fetch(t, count)
	case 10:
		if len(s.fetched) == 0 {
			return ""
		}
		m := s.fetched[0]
		s.fetched = s.fetched[1:]
		return "ack " + problem(m.DoubleAck(ctx))
	default:
		if number > 2 {
			return ""
		}
		s.fetched = nil
		reset, err := s.stream.ResetConsumer(ctx, "c")
		require.NoError(t, err)
		return fmt.Sprint("reset ", reset.ResetSeq)
	}
}

func (s *side) fetch(t *testing.T, n int) string {
	t.Helper()
	batch, err := s.consumer.Fetch(n, jetstream.FetchPriorityGroup("g"), jetstream.FetchMaxWait(300*time.Millisecond))
	require.NoError(t, err)
	said := "fetch"
	for m := range batch.Messages() {
		s.fetched = append(s.fetched, m)
		meta, err := m.Metadata()
		require.NoError(t, err)
		said += fmt.Sprint(" ", m.Subject(), meta.Sequence, meta.NumDelivered)
	}
	return said + " " + problem(batch.Error())
}

// state describes the stream. The consumer's own numbers are left out: the server estimates
// pending messages after a removal, and may still hold a pull that has timed out.
func (s *side) state(t *testing.T) string {
	t.Helper()
	info, err := s.stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	return fmt.Sprint(info.State.Msgs, info.State.LastSeq, info.State.Subjects)
}

func TestTheModelAnswersAsTheServerDoes(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			model, real := open(t, serve(t)), open(t, natstest.Start(t).Connect(t))
			one, two := rand.New(rand.NewPCG(seed, 9)), rand.New(rand.NewPCG(seed, 9))
			for n := range 120 {
				want := real.do(t, two, n)
				require.Equal(t, want, model.do(t, one, n), "operation %d", n)
				require.Equal(t, real.state(t), model.state(t), "after operation %d: %s", n, want)
			}
		})
	}
}

func TestRequestsWithoutAResponderFail(t *testing.T) {
	nc := serve(t)
	_, err := nc.Request("nobody", nil, time.Minute)
	require.ErrorIs(t, err, nats.ErrNoResponders)
}

func TestAMemberOfAGroupGetsEachRequest(t *testing.T) {
	nc := serve(t)
	for range 2 {
		_, err := nc.QueueSubscribe("q.*", "group", func(m *nats.Msg) { _ = m.Respond(m.Data) })
		require.NoError(t, err)
	}
	heard, err := nc.SubscribeSync("q.>")
	require.NoError(t, err)
	for i := range 10 {
		m, err := nc.Request(fmt.Sprint("q.", i), []byte("x"), time.Minute)
		require.NoError(t, err)
		require.Equal(t, "x", string(m.Data))
		_, err = heard.NextMsg(time.Minute)
		require.NoError(t, err)
	}
	_, err = heard.NextMsg(10 * time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout)
}
