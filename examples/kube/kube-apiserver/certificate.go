package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// certificate returns the server's certificate. It comes from the files that flags name, or from
// --cert-dir. Otherwise the program makes a pair and, if there is a --cert-dir, stores it there for
// clients that want to trust it.
func (o *options) certificate() (tls.Certificate, error) {
	if o.tlsCertFile != "" {
		pair, err := files.KeyPair(o.tlsCertFile, o.tlsKeyFile)
		if err != nil {
			return pair, fmt.Errorf("--tls-cert-file and --tls-private-key-file: %w", err)
		}
		return pair, nil
	}
	if o.certDir == "" {
		return selfsigned.Certificate(o.bindAddress.String())
	}
	certFile, keyFile := filepath.Join(o.certDir, "apiserver.crt"), filepath.Join(o.certDir, "apiserver.key")
	if err := files.Directory(o.certDir); err != nil {
		return tls.Certificate{}, fmt.Errorf("--cert-dir: %w", err)
	}
	pair, err := files.KeyPair(certFile, keyFile)
	if errors.Is(err, os.ErrNotExist) {
		if err = o.makeCertificate(certFile, keyFile); err == nil {
			pair, err = files.KeyPair(certFile, keyFile)
		}
	}
	if err != nil {
		return pair, fmt.Errorf("--cert-dir: %w", err)
	}
	return pair, nil
}

// makeCertificate makes a pair. It never replaces a key. It writes the certificate first, so that a
// program that is killed in between leaves no key, and the next one makes a new pair.
func (o *options) makeCertificate(certFile, keyFile string) error {
	if _, err := os.Lstat(keyFile); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s exists without its certificate %s; add that, or remove the key", keyFile, certFile), err)
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
	if err := files.Write(certFile, append(made.Cert, authority.PEM()...)); err != nil {
		return err
	}
	return files.Write(keyFile, made.Key)
}
