package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// serverFlags say who asks a server for its backup.
type serverFlags struct {
	caFile, certFile, keyFile, tokenFile string
}

func (s *serverFlags) add(set *flag.FlagSet, command string) {
	if command != "backup" {
		return
	}
	set.StringVar(&s.caFile, "ca-file", "", "PEM file of the authorities of the server's certificate")
	set.StringVar(&s.certFile, "cert-file", "", "PEM file of the certificate to show to the server")
	set.StringVar(&s.keyFile, "key-file", "", "PEM file of the key of --cert-file")
	set.StringVar(&s.tokenFile, "token-file", "", "file of the bearer token to show to the server")
}

// client returns a client that shows what the flags name.
func (s *serverFlags) client() (*http.Client, string, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.caFile != "" {
		text, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, "", fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, "", fmt.Errorf("--ca-file: %s has no certificate in PEM form", s.caFile)
		}
	}
	if s.certFile != "" || s.keyFile != "" {
		pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
		if err != nil {
			return nil, "", fmt.Errorf("--cert-file, --key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	token := ""
	if s.tokenFile != "" {
		text, err := files.ReadSecret(s.tokenFile)
		if err != nil {
			return nil, "", fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment}}, token, nil
}

// download writes the backup of a running server to a file, after it has been read as a whole.
func download(ctx context.Context, f *flags, out io.Writer) (err error) {
	client, token, err := f.server.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	url := strings.TrimSuffix(f.from, "/")
	if !strings.HasSuffix(url, "/debug/backup") {
		url += "/debug/backup"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usageError{fmt.Errorf("--from: %w", err)}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("--from: %s answers %s%s", url, res.Status, advice(res.StatusCode))
	}
	dir, err := unfinished(f.to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "store.db")
	if err := save(res.Body, path); err != nil {
		return fmt.Errorf("the backup broke off: %w; try again", err)
	}
	e, err := bbolt.Examine(path)
	if err != nil {
		return fmt.Errorf("what %s sent is no backup: %w", url, err)
	}
	if err := errors.Join(e.Close(), errors.Join(e.Damage...)); err != nil {
		return fmt.Errorf("the backup arrived damaged: %w; try again", err)
	}
	if err := publish(path, f.to); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "done: %s has %d records\n", f.to, e.Len())
	return err
}

func advice(code int) string {
	switch code {
	case http.StatusNotFound:
		return ": it needs --serve-backup, or kindwright.Debug{Backup: true}"
	case http.StatusUnauthorized:
		return ": give --token-file, or --cert-file and --key-file"
	case http.StatusForbidden:
		return ": the user needs the verb get on the path /debug/backup"
	}
	return ""
}

func save(body io.Reader, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
