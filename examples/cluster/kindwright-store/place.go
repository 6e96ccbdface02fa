package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/etcd"
)

// etcdFlags say how to reach etcd, on either side of a copy.
type etcdFlags struct {
	caFile, certFile, keyFile string
	user, passwordFile        string
	owner                     string
	maxRequestBytes           int
}

func (e *etcdFlags) add(set *flag.FlagSet) {
	set.StringVar(&e.caFile, "etcd-cafile", "", "PEM file of the authorities of etcd's certificates")
	set.StringVar(&e.certFile, "etcd-certfile", "", "PEM file of the certificate to show to etcd")
	set.StringVar(&e.keyFile, "etcd-keyfile", "", "PEM file of the key of --etcd-certfile")
	set.StringVar(&e.user, "etcd-username", "", "user of etcd, where it asks for passwords")
	set.StringVar(&e.passwordFile, "etcd-password-file", "", "file of the password of --etcd-username")
	set.StringVar(&e.owner, "etcd-owner", "example.dev", "the name of the API, which is Config.Owner of its servers")
	set.IntVar(&e.maxRequestBytes, "etcd-max-request-bytes", 0, "the --max-request-bytes of etcd (default etcd's own, 1.5 MiB)")
}

func (e *etcdFlags) check() error {
	switch {
	case (e.certFile == "") != (e.keyFile == ""):
		return errors.New("--etcd-certfile and --etcd-keyfile: give both or neither")
	case (e.user == "") != (e.passwordFile == ""):
		return errors.New("--etcd-username and --etcd-password-file: give both or neither")
	case e.maxRequestBytes < 0:
		return fmt.Errorf("--etcd-max-request-bytes %d: must not be negative", e.maxRequestBytes)
	}
	return nil
}

// open opens the store at "URL,URL/PREFIX".
func (e *etcdFlags) open(ctx context.Context, at string) (*etcd.DB, error) {
	config := etcd.Config{User: e.user, Owner: e.owner, MaxRequestBytes: e.maxRequestBytes}
	last := strings.LastIndex(at, "://") + len("://")
	if i := strings.IndexByte(at[last:], '/'); i >= 0 {
		config.Prefix = at[last+i:]
		at = at[:last+i]
	}
	config.Endpoints = strings.Split(at, ",")
	var err error
	if config.TLS, err = etcd.TLSFiles(e.caFile, e.certFile, e.keyFile); err != nil {
		return nil, fmt.Errorf("--etcd-cafile, --etcd-certfile, --etcd-keyfile: %w", err)
	}
	if e.passwordFile != "" {
		password, err := files.ReadSecret(e.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("--etcd-password-file: %w", err)
		}
		config.Password = string(bytes.TrimRight(password, "\r\n"))
	}
	return etcd.Open(ctx, config)
}

// place is where a store is.
type place struct{ kind, at string }

// parsePlace reads "bbolt:PATH" or "etcd:URL/PREFIX".
func parsePlace(name, text string) (place, error) {
	kind, at, ok := strings.Cut(text, ":")
	if !ok || kind != "bbolt" && kind != "etcd" || at == "" {
		return place{}, usageError{fmt.Errorf("%s %q: must be bbolt:PATH, or etcd:URL/PREFIX such as etcd:http://127.0.0.1:2379/kindwright", name, text)}
	}
	return place{kind, at}, nil
}

// source opens a store that must exist. A damaged file is opened as far as it can be read, if that is
// asked for.
func (p place) source(ctx context.Context, f *flags) (storage.Backend, []error, error) {
	if p.kind == "etcd" {
		db, err := f.etcd.open(ctx, p.at)
		if err != nil {
			return nil, nil, err
		}
		return db, nil, nil
	}
	if _, err := os.Lstat(p.at); err != nil {
		return nil, nil, err // Open would make a new store
	}
	db, err := bbolt.Open(p.at)
	switch {
	case err == nil:
		return db, nil, nil
	case !errors.Is(err, bbolt.ErrDamaged):
		return nil, nil, err
	case !f.leaveOut:
		return nil, nil, fmt.Errorf("%w; or bring over what can be read of it, with copy --leave-out-unreadable", err)
	}
	e, err := bbolt.Examine(p.at)
	if err != nil {
		return nil, nil, err
	}
	return e, e.Damage, nil
}

// target opens a store to write to. undo removes what was made to open it.
func (p place) target(ctx context.Context, f *flags) (b storage.Backend, undo func() error, err error) {
	if p.kind == "etcd" {
		db, err := f.etcd.open(ctx, p.at)
		if err != nil {
			return nil, nil, err
		}
		return db, func() error { return nil }, nil
	}
	_, missing := os.Lstat(p.at)
	db, err := bbolt.Open(p.at)
	if err != nil {
		return nil, nil, err
	}
	undo = func() error {
		if errors.Is(missing, fs.ErrNotExist) {
			return os.Remove(p.at)
		}
		return nil
	}
	return db, undo, nil
}
