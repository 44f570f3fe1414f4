package main

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"net"

	"github.com/nats-io/nats.go"
)

// natsTLSFlags name the trusted authorities and the client certificate for connections
// to NATS. The files are read again for each connection, so that certificates can be
// renewed while a service runs.
type natsTLSFlags struct {
	NATSCA   string `name:"nats-ca" variable:"" placeholder:"FILE" help:"Use TLS and trust NATS servers of this certificate authority (PEM). Default: the machine's authorities, with TLS if the server or a tls:// URL requires it."`
	NATSCert string `name:"nats-cert" variable:"" placeholder:"FILE" help:"Certificate to show to the NATS server (PEM)."`
	NATSKey  string `name:"nats-key" variable:"" placeholder:"FILE" help:"Private key of the certificate (PEM)."`
}

// options returns the TLS options of a connection.
func (f natsTLSFlags) options() ([]nats.Option, error) {
	var options []nats.Option
	if (f.NATSCert == "") != (f.NATSKey == "") {
		return nil, usageError{errors.New("--nats-cert and --nats-key belong together: give both")}
	}
	if f.NATSCA != "" {
		options = append(options, nats.RootCAs(f.NATSCA))
	}
	if f.NATSCert != "" {
		options = append(options, nats.ClientCert(f.NATSCert, f.NATSKey))
	}
	return options, nil
}

// words are the flags that were given, to paste.
func (f natsTLSFlags) words() []string {
	var words []string
	for _, flag := range [][2]string{{"--nats-ca", f.NATSCA}, {"--nats-cert", f.NATSCert}, {"--nats-key", f.NATSKey}} {
		if flag[1] != "" {
			words = append(words, flag[0], quoted(flag[1]))
		}
	}
	return words
}

// tlsRefused is the text of crypto/tls for an alert from the other side. The alert
// follows the client's handshake, so that the client may lose the race and only see
// nats.ErrTLS.
const tlsRefused = "remote error"

// adviceOn returns advice on a connection that failed over TLS, and "" for other errors.
func (f natsTLSFlags) adviceOn(err error) string {
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		network *net.OpError
		missing *fs.PathError
	)
	switch {
	case errors.As(err, &missing) && (missing.Path == f.NATSCA || missing.Path == f.NATSCert || missing.Path == f.NATSKey):
		return "Point --nats-ca, --nats-cert and --nats-key at files that can be read."
	case errors.As(err, &unknown):
		return "The server's certificate is of another authority than those trusted: point --nats-ca at the certificate of the one that signed it."
	case errors.As(err, &name):
		return "Reach the server by a name that its certificate has, or give it a certificate with this name."
	case errors.As(err, &invalid):
		return "The server's certificate does not hold: see its dates and what it is for, and this machine's clock."
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "The server speaks no TLS: leave out --nats-ca, --nats-cert and tls://, or turn TLS on there (deploy/nats/nats-server-tls.conf)."
	case !errors.Is(err, nats.ErrTLS) && (!errors.As(err, &network) || network.Op != tlsRefused):
		return ""
	case f.NATSCert == "":
		return "The server wants to see a certificate: give one with --nats-cert and --nats-key."
	default:
		return "The server does not take this certificate: point --nats-cert and --nats-key at one that its authority has signed for clients."
	}
}
