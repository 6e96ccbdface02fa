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
	"time"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/storage/bbolt"
)

// serverFlags say who asks a server for its backup.
type serverFlags struct {
	caFile, certFile, keyFile, tokenFile string

	timeout time.Duration
}

func (s *serverFlags) add(set *flag.FlagSet, command string) {
	if command != "backup" {
		return
	}
	set.StringVar(&s.caFile, "ca-file", "", "PEM file of the authorities of the server's certificate")
	set.StringVar(&s.certFile, "cert-file", "", "PEM file of the certificate to show to the server")
	set.StringVar(&s.keyFile, "key-file", "", "PEM file of the key of --cert-file")
	set.StringVar(&s.tokenFile, "token-file", "", "file of the bearer token to show to the server")
	set.DurationVar(&s.timeout, "timeout", time.Minute, "how long the server may send nothing")
}

// check returns what is wrong with the flags of a command that has them.
func (s *serverFlags) check() error {
	if s.timeout < 0 {
		return fmt.Errorf("--timeout %v: must not be negative; 0 waits for ever", s.timeout)
	}
	return nil
}

// lively ends what is read from a server that has sent nothing for a time.
type lively struct {
	io.Reader
	timer *time.Timer
	limit time.Duration
}

// heard returns a context that ends when the server has sent nothing for a time. 0 is no limit.
func heard(ctx context.Context, limit time.Duration) (context.Context, *lively, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &lively{limit: limit}
	if limit > 0 {
		l.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("the server has sent nothing for %v", limit)) })
	}
	return ctx, l, func() { l.rest(); cancel(nil) }
}

// rest stops the clock.
func (l *lively) rest() {
	if l.timer != nil {
		l.timer.Stop()
	}
}

// Read reads from the server.
func (l *lively) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 && l.timer != nil {
		l.timer.Reset(l.limit)
	}
	return n, err
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
	ctx, body, cancel := heard(ctx, f.server.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return usageError{fmt.Errorf("--from: %w", err)}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("--from: %w", why(ctx, err))
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
	body.Reader = res.Body
	if err := save(body, path); err != nil {
		return fmt.Errorf("the backup broke off: %w; try again", why(ctx, err))
	}
	body.rest()
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

// why is why a request ended, if it is not the error itself that says so.
func why(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
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
