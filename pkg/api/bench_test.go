package api_test

import (
	"encoding/json"
	"testing"

	"github.com/tidegate/tidegate/pkg/api"
)

const (
	sampleAcquire  = `{"entity":"api-key-123","resource":"gpt-4","consume":{"rpm":1,"tpm":500}}`
	sampleAdmitted = `{"allowed":true,"lease":"eyJhIjoxfQ.0123456789abcdef0123456789abcdef0123456789abcdef","limits":[` +
		`{"entity":"api-key-123","name":"rpm","capacity":100,"requested":1,"available":99},` +
		`{"entity":"api-key-123","name":"tpm","capacity":10000,"requested":500,"available":9500}]}`
)

func BenchmarkDecodeAcquire(b *testing.B) {
	payload := []byte(sampleAcquire)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := api.DecodeAcquire(payload, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeAcquireEncodingJSON is what the reader is measured against; it
// is neither strict nor does it check anything.
func BenchmarkDecodeAcquireEncodingJSON(b *testing.B) {
	payload := []byte(sampleAcquire)
	b.ReportAllocs()
	for b.Loop() {
		var q struct {
			Entity, Resource string
			Consume          map[string]int64
		}
		if err := json.Unmarshal(payload, &q); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendAcquire(b *testing.B) {
	q, err := api.DecodeAcquire([]byte(sampleAcquire), false)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		dst = q.AppendJSON(dst[:0])
	}
}

func BenchmarkAppendReply(b *testing.B) {
	reply, err := api.DecodeAcquireReply([]byte(sampleAdmitted))
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		dst = reply.AppendJSON(dst[:0])
	}
}

func BenchmarkDecodeReply(b *testing.B) {
	payload := []byte(sampleAdmitted)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := api.DecodeAcquireReply(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeReplyEncodingJSON(b *testing.B) {
	payload := []byte(sampleAdmitted)
	b.ReportAllocs()
	for b.Loop() {
		var reply api.AcquireReply
		if err := json.Unmarshal(payload, &reply); err != nil {
			b.Fatal(err)
		}
	}
}
