package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/internal/files"
)

// dialer returns what connects to the tunnel server, with the certificates of now.
func (t *TCPTransport) dialer(log logr.Logger) (func(context.Context) (net.Conn, error), error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed")
	}
	address := t.address()
	if t.TLSConfig == nil {
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }, nil
	}
	var now atomic.Pointer[tls.Config]
	follow, err := files.Follow(func() error {
		c, err := t.TLSConfig.read(u.Hostname())
		if err == nil {
			now.Store(c)
		}
		return err
	}, func(err error) {
		if log.GetSink() != nil {
			log.Error(err, "a changed certificate or key for a tunnel server cannot be read; the last good one is used", "server", address)
		}
	}, t.TLSConfig.names()...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (net.Conn, error) {
		follow.Look()
		return (&tls.Dialer{Config: now.Load()}).DialContext(ctx, "tcp", address)
	}, nil
}

// names are the files that are followed.
func (c *TLSConfig) names() []string {
	out := []string{c.ClientCert, c.ClientKey}
	if c.CABundle != "" {
		out = append(out, c.CABundle)
	}
	return out
}

// read reads the files.
func (c *TLSConfig) read(host string) (*tls.Config, error) {
	pair, err := files.KeyPair(c.ClientCert, c.ClientKey)
	if err != nil {
		return nil, fmt.Errorf("failed to read key pair %s & %s, got %w", c.ClientCert, c.ClientKey, err)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, Certificates: []tls.Certificate{pair}}
	if c.TLSServerName != "" {
		out.ServerName = c.TLSServerName
	}
	if c.CABundle == "" {
		return out, nil
	}
	bundle, err := files.Read(c.CABundle)
	if err != nil {
		return nil, fmt.Errorf("failed to read cert file %s, got %w", c.CABundle, err)
	}
	out.RootCAs = x509.NewCertPool()
	if !out.RootCAs.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("%s has no certificate in PEM", c.CABundle)
	}
	return out, nil
}
