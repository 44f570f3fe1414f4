package oteltidegate

import (
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
)

// Carrier is the headers of a NATS message, as a carrier of traces. It writes
// names as they are given, which W3C Trace Context wants in lower case, and reads
// them in any case, because a sender may have an HTTP library put its headers in
// canonical form ("Traceparent").
type Carrier nats.Header

var _ propagation.TextMapCarrier = Carrier(nil)

// Get returns the first value of a header. An exact match of the name wins over a match
// that differs in case.
func (c Carrier) Get(name string) string {
	values, ok := c[name]
	if !ok {
		for other, v := range c {
			if strings.EqualFold(other, name) {
				values = v
				break
			}
		}
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Set replaces all values of a header, whatever the case of its name: a forwarded message
// has a single trace.
func (c Carrier) Set(name, value string) {
	for other := range c {
		if strings.EqualFold(other, name) {
			delete(c, other)
		}
	}
	c[name] = []string{value}
}

// Keys are the names of all headers, as they are.
func (c Carrier) Keys() []string {
	names := make([]string, 0, len(c))
	for name := range c {
		names = append(names, name)
	}
	return names
}
