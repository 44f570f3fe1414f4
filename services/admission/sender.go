package admission

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/tidegate/tidegate/pkg/api"
)

// maxSenderHeaders bounds the headers of a request that names its sender. Tidegate's
// clients send five headers at most. See isWhole for the reason.
const maxSenderHeaders = 12

// senderInfo returns the value of [api.HeaderRequestInfo] that the NATS server wrote into
// a request, and "" unless the header block leaves no doubt about it.
//
// The server replaces the header of a service import by bytes: it removes header lines of
// the name that it finds, cuts the last two bytes of the block, and appends its own line.
// A sender can keep the server from finding a line, end the block early, so that the client
// library does not read the server's line, or leave the last line open, so that the
// server's line becomes part of that line.
func senderInfo(m *nats.Msg) string {
	return info(m.Header, m.Size()-len(m.Subject)-len(m.Reply)-len(m.Data))
}

// info is senderInfo for a header that was read from a block of so many bytes.
func info(header nats.Header, block int) string {
	values := header[api.HeaderRequestInfo]
	if len(values) != 1 || !isWhole(header, block) {
		return ""
	}
	for key, values := range header {
		if key != api.HeaderRequestInfo && strings.Contains(key, api.HeaderRequestInfo) {
			return ""
		}
		for _, value := range values {
			if strings.Contains(value, api.HeaderRequestInfo) {
				return ""
			}
		}
	}
	return values[0]
}

// isWhole reports whether the client library read a header block to its end.
// The library stops at the first empty line and does not show the bytes behind it, but
// their number: the block then is longer than the headers that were read.
//
// A line may be two bytes shorter than its usual form "Key: value\r\n", without the space
// and the carriage return. maxSenderHeaders keeps the sum of these bytes below the length of
// the server's line, about 35 bytes and more, so that they cannot make up for it.
func isWhole(header nats.Header, block int) bool {
	const first, separator, end = "NATS/1.0\r\n", ": ", "\r\n"
	lines, usual := 0, len(first)+len(end)
	for key, values := range header {
		for _, value := range values {
			lines++
			usual += len(key) + len(separator) + len(value) + len(end)
		}
	}
	return lines <= maxSenderHeaders && block <= usual
}
