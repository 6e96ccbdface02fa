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
	"github.com/kindwright/kindwright/storage/copy"
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

// config says how to open the store at "URL,URL/PREFIX", which must exist.
func (e *etcdFlags) config(at string) (etcd.Config, error) {
	config := etcd.Config{User: e.user, Owner: e.owner, MaxRequestBytes: e.maxRequestBytes, MustExist: true}
	last := strings.LastIndex(at, "://") + len("://")
	if i := strings.IndexByte(at[last:], '/'); i >= 0 {
		config.Prefix = at[last+i:]
		at = at[:last+i]
	}
	config.Endpoints = strings.Split(at, ",")
	var err error
	if config.TLS, err = etcd.TLSFiles(e.caFile, e.certFile, e.keyFile); err != nil {
		return config, fmt.Errorf("--etcd-cafile, --etcd-certfile, --etcd-keyfile: %w", err)
	}
	if e.passwordFile != "" {
		password, err := files.ReadSecret(e.passwordFile)
		if err != nil {
			return config, fmt.Errorf("--etcd-password-file: %w", err)
		}
		config.Password = string(bytes.TrimRight(password, "\r\n"))
	}
	return config, nil
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

// source opens a store that must exist, and changes nothing in it. A damaged file is opened as far as
// it can be read, if that is asked for.
func (p place) source(ctx context.Context, f *flags) (storage.Backend, []error, error) {
	if p.kind == "etcd" {
		db, err := f.openEtcd(ctx, p.at)
		return db, nil, err
	}
	db, err := bbolt.Open(p.at, bbolt.WithReadOnly())
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

// openEtcd opens a store in etcd that must exist.
func (f *flags) openEtcd(ctx context.Context, at string) (storage.Backend, error) {
	config, err := f.etcd.config(at)
	if err != nil {
		return nil, err
	}
	db, err := etcd.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// target opens a store to write to, after it was checked that the source can be copied there: before
// that, nothing is written to what exists. undo removes what was made to open it.
func (p place) target(ctx context.Context, f *flags, source storage.Backend) (b storage.Backend, undo func() error, err error) {
	nothing := func() error { return nil }
	if p.kind == "etcd" {
		b, err = p.targetInEtcd(ctx, f, source)
		return b, nothing, err
	}
	seen, err := bbolt.Open(p.at, bbolt.WithReadOnly())
	switch {
	case err == nil:
		if err := errors.Join(copy.Check(ctx, source, seen, f.options(nil)), seen.Close()); err != nil {
			return nil, nil, err
		}
		undo = nothing
	case errors.Is(err, fs.ErrNotExist):
		undo = func() error { return os.Remove(p.at) }
	default:
		return nil, nil, fmt.Errorf("--to: %w", err)
	}
	db, err := bbolt.Open(p.at)
	if err != nil {
		return nil, nil, fmt.Errorf("--to: %w", err)
	}
	return db, undo, nil
}

// targetInEtcd opens the store that is there, or makes one if the source can be copied.
func (p place) targetInEtcd(ctx context.Context, f *flags, source storage.Backend) (storage.Backend, error) {
	config, err := f.etcd.config(p.at)
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	db, err := etcd.Open(ctx, config)
	if errors.Is(err, etcd.ErrNoStore) {
		if err := copy.Unfinished(ctx, source); err != nil {
			return nil, fmt.Errorf("the source: %w", err)
		}
		if _, err := copy.Examine(ctx, source, config.Limits(), f.leaveOut); err != nil {
			return nil, err
		}
		config.MustExist = false
		db, err = etcd.Open(ctx, config)
	}
	if err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	return db, nil
}

// unfinished opens the target of a copy that was not finished. Any other store is refused, and nothing
// is written to it.
func (p place) unfinished(ctx context.Context, f *flags) (storage.Backend, error) {
	if p.kind == "etcd" {
		return f.openEtcd(ctx, p.at)
	}
	seen, err := bbolt.Open(p.at, bbolt.WithReadOnly())
	if err != nil {
		return nil, err
	}
	if err = copy.Unfinished(ctx, seen); !errors.Is(err, copy.ErrUnfinished) {
		return nil, errors.Join(copy.Clear(ctx, seen), seen.Close()) // it says why it refuses
	}
	if err := seen.Close(); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(p.at)
	if err != nil {
		return nil, err
	}
	return db, nil
}
