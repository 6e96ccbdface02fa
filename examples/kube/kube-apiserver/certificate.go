package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kindwright/kindwright/internal/selfsigned"
)

// certificate returns the server's certificate. It comes from the files that flags name, or from
// --cert-dir. Otherwise the program makes a pair and, if there is a --cert-dir, stores it there for
// clients that want to trust it.
func (o *options) certificate() (tls.Certificate, error) {
	if o.tlsCertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.tlsCertFile, o.tlsKeyFile)
		if err != nil {
			return pair, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
		}
		return pair, nil
	}
	if o.certDir == "" {
		return selfsigned.Certificate(o.bindAddress.String())
	}
	certFile, keyFile := filepath.Join(o.certDir, "apiserver.crt"), filepath.Join(o.certDir, "apiserver.key")
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	switch {
	case err == nil:
		return pair, nil
	case !errors.Is(err, os.ErrNotExist):
		return pair, fmt.Errorf("--cert-dir: %w", err)
	}
	if err := o.makeCertificate(certFile, keyFile); err != nil {
		return pair, fmt.Errorf("--cert-dir: %w", err)
	}
	return tls.LoadX509KeyPair(certFile, keyFile)
}

func (o *options) makeCertificate(certFile, keyFile string) error {
	if err := os.MkdirAll(o.certDir, 0o700); err != nil {
		return err
	}
	authority, err := selfsigned.NewAuthority("kube-apiserver")
	if err != nil {
		return err
	}
	made, err := authority.Serving(o.bindAddress.String(), "localhost", "127.0.0.1", "kubernetes",
		"kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	if err := os.WriteFile(keyFile, made.Key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(certFile, append(made.Cert, authority.PEM()...), 0o600)
}
