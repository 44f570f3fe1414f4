package outage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidegate/tidegate/internal/leader"
)

// Is reports whether an error is an outage. Timeouts are outages. JetStream that does not
// answer is an outage too: a server that is about to start JetStream cannot be told from a
// server without it.
func Is(err error) bool {
	var refusal *jetstream.APIError
	var operation *smithy.OperationError
	var malformed *net.AddrError
	switch {
	case err == nil, isUntrusted(err), errors.As(err, &malformed):
		return false
	case errors.As(err, &refusal):
		return isMoment(refusal)
	case errors.As(err, &operation) && isThrottle(err):
		return true
	}
	var reply *smithyhttp.ResponseError
	if errors.As(err, &reply) && reply.HTTPStatusCode() >= http.StatusBadRequest {
		return reply.HTTPStatusCode() >= http.StatusInternalServerError
	}
	return isSilence(err)
}

// isUntrusted reports an error of TLS: a certificate that one side does not trust.
func isUntrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var network *net.OpError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) ||
		errors.As(err, &network) && (network.Op == "remote error" || network.Op == "local error") // of TLS's alerts
}

func isThrottle(err error) bool {
	return (retry.ThrottleErrorCode{Codes: retry.DefaultThrottleErrorCodes}).IsErrorThrottle(err) == aws.TrueTernary
}

// Codes of JetStream's API, beside the codes that nats.go names.
const (
	codeNoPeers       jetstream.ErrorCode = 10005 // the cluster knows too few servers yet
	codeInvalidStream jetstream.ErrorCode = 10052 // an invalid configuration of a stream
	codeStreamExists  jetstream.ErrorCode = 10058 // another service has just made the stream
	codeReplicasAlone jetstream.ErrorCode = 10074 // more replicas than 1, and the server is not part of a cluster
)

// isMoment reports a refusal of JetStream's API that ends by itself: no leader yet, too
// few servers, a stream that another service makes or that is about to be made.
func isMoment(refusal *jetstream.APIError) bool {
	passing := []jetstream.ErrorCode{codeNoPeers, codeStreamExists, jetstream.JSErrCodeStreamNotFound, jetstream.JSErrCodeConsumerNotFound}
	mistakes := []jetstream.ErrorCode{jetstream.JSErrCodeJetStreamNotEnabledForAccount, codeReplicasAlone, codeInvalidStream}
	return slices.Contains(passing, refusal.ErrorCode) ||
		refusal.Code >= http.StatusInternalServerError && !slices.Contains(mistakes, refusal.ErrorCode)
}

// isSilence reports that a server cannot be reached, or did not answer.
func isSilence(err error) bool {
	for _, silence := range []error{
		context.DeadlineExceeded, os.ErrDeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, syscall.ECONNRESET,
		nats.ErrNoServers, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrDisconnected, nats.ErrStaleConnection,
		nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		jetstream.ErrNoStreamResponse, leader.ErrInterrupted, jetstream.ErrNoHeartbeat,
	} {
		if errors.Is(err, silence) {
			return true
		}
	}
	var operation *net.OpError
	var name *net.DNSError
	var timed interface{ Timeout() bool }
	return errors.As(err, &operation) || errors.As(err, &name) || errors.As(err, &timed) && timed.Timeout()
}
