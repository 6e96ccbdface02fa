package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// certificate returns the files of the server's certificate: those that flags name, or those in
// --cert-dir. If they are not there yet, the program makes a pair for clients that want to trust it.
// Without names of files the server makes a certificate that it keeps to itself.
func (o *options) certificate() (kindwright.KeyPair, error) {
	if o.tlsCertFile != "" {
		return kindwright.KeyPair{CertFile: o.tlsCertFile, KeyFile: o.tlsKeyFile}, nil
	}
	if o.certDir == "" {
		return kindwright.KeyPair{}, nil
	}
	pair := kindwright.KeyPair{CertFile: filepath.Join(o.certDir, "apiserver.crt"), KeyFile: filepath.Join(o.certDir, "apiserver.key")}
	err := files.Directory(o.certDir)
	if err == nil {
		_, err = os.Lstat(pair.CertFile)
		_, key := os.Lstat(pair.KeyFile)
		if err = errors.Join(err, key); errors.Is(err, os.ErrNotExist) {
			err = o.makeCertificate(pair.CertFile, pair.KeyFile)
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
