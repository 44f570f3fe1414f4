package feed

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// delivered is a delivery of a record.
type delivered struct {
	jetstream.Msg
	stream, consumer uint64
}

func (d delivered) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: d.stream, Consumer: d.consumer}}, nil
}

func TestALostDeliveryBreaksTheOrderOfABatch(t *testing.T) {
	for name, c := range map[string]struct {
		batch               []jetstream.Msg
		ascending, unbroken bool
	}{
		"a record":               {[]jetstream.Msg{delivered{stream: 7, consumer: 3}}, true, true},
		"records in order":       {[]jetstream.Msg{delivered{stream: 7, consumer: 3}, delivered{stream: 9, consumer: 4}}, true, true},
		"a delivery is lost":     {[]jetstream.Msg{delivered{stream: 7, consumer: 3}, delivered{stream: 9, consumer: 5}}, true, false},
		"an earlier record":      {[]jetstream.Msg{delivered{stream: 7, consumer: 3}, delivered{stream: 5, consumer: 4}}, false, true},
		"a record a second time": {[]jetstream.Msg{delivered{stream: 7, consumer: 3}, delivered{stream: 7, consumer: 4}}, false, true},
	} {
		ascending, unbroken, err := order(c.batch)
		require.NoError(t, err, name)
		require.Equal(t, c.ascending, ascending, name)
		require.Equal(t, c.unbroken, unbroken, name)
	}
}
