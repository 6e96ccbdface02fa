package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/etcd"
)

// defaultDataDir is the data directory if no flag sets one.
const defaultDataDir = "kube-apiserver-data"

// checkPrefix accepts a prefix that can become a file name.
func checkPrefix(prefix string) error {
	name := fileName(prefix)
	if name == "" {
		return errors.New("it is empty")
	}
	if len(name) > 200 {
		return errors.New("it is longer than 200 characters")
	}
	for _, c := range prefix {
		if c < ' ' || c == 0x7f || c == '\\' {
			return errors.New("it has characters that no file name can have")
		}
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("it has the part %q", part)
		}
	}
	return nil
}

// fileName returns the file of the objects below a prefix. Different prefixes have different files,
// unless they differ only in slashes at their ends. etcd does not distinguish those either.
func fileName(prefix string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.Trim(prefix, "/"), "%", "%25"), "/", "%2F")
}

// openEncrypted opens the store, encrypted as the flags say.
func (o *options) openEncrypted(ctx context.Context, log logr.Logger) (storage.Backend, []health.Check, string, error) {
	if err := o.encryption.CheckFile(); err != nil { // before anything is made
		return nil, nil, "", err
	}
	db, where, err := o.openStore(ctx, log)
	if err != nil {
		return nil, nil, "", err
	}
	encrypted, checks, err := o.encryption.Wrap(db, log)
	if err != nil {
		return nil, nil, "", errors.Join(err, db.Close())
	}
	return encrypted, checks, where, nil
}

// openStore opens the store that the flags name, and says where it is.
func (o *options) openStore(ctx context.Context, log logr.Logger) (db storage.Backend, where string, err error) {
	dir := o.dataDir
	switch {
	case len(o.etcdServers) > 0:
		found, answered := findDirectory(ctx, o.tunnels.selector.Dialer(egress.Etcd), o.etcdServers)
		if !answered {
			db, err := o.openEtcd(ctx, log)
			return db, strings.Join(o.etcdServers, ","), err
		}
		dir = found
	case dir == "":
		dir = defaultDataDir
	}
	if err := files.Directory(dir); err != nil {
		return nil, "", fmt.Errorf("--data-dir: %w", err)
	}
	file := filepath.Join(dir, fileName(o.etcdPrefix)+".db")
	db, err = bbolt.Open(file, bbolt.WithLimits(storage.Limits{MaxValueBytes: o.maxObject, MaxOps: maxOps}))
	return db, file, err
}

// openEtcd opens the store in etcd.
func (o *options) openEtcd(ctx context.Context, log logr.Logger) (storage.Backend, error) {
	settings, err := etcd.TLSFiles(o.etcdCA, o.etcdCert, o.etcdKey)
	if err != nil {
		return nil, fmt.Errorf("--etcd-cafile, --etcd-certfile, --etcd-keyfile: %w", err)
	}
	endpoints := make([]string, len(o.etcdServers))
	for i, server := range o.etcdServers {
		endpoints[i] = strings.TrimSuffix(server, "/")
	}
	db, err := etcd.Open(ctx, etcd.Config{
		Endpoints: endpoints, TLS: settings, Prefix: "/" + strings.Trim(o.etcdPrefix, "/"), Owner: "kube-apiserver stand-in", Logger: log,
		Dial: o.tunnels.selector.Dialer(egress.Etcd),
	})
	if err != nil {
		return nil, fmt.Errorf("--etcd-servers: %w", err)
	}
	return db, nil
}

// Limits for requests to the etcd stand-in.
const (
	askTimeout = 5 * time.Second
	maxAnswer  = 64 << 10
)

// findDirectory asks servers, in order, whether they are stand-ins for etcd, and returns the data
// directory of the first that is one.
func findDirectory(ctx context.Context, dial egress.DialFunc, servers []string) (dir string, ok bool) {
	for _, server := range servers {
		if dir, ok = askDirectory(ctx, dial, server); ok {
			break
		}
	}
	return dir, ok
}

// askDirectory asks one server. Whatever fails, it is no stand-in, or one that is of no use.
func askDirectory(ctx context.Context, dial egress.DialFunc, server string) (dir string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(server, "/")+"/kindwright", nil)
	if err != nil {
		return "", false
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}} // a single request
	answer, err := client.Do(request)
	if err != nil {
		return "", false
	}
	defer func() { _ = answer.Body.Close() }() // it is read
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return "", false
	}
	var told struct {
		DataDir string `json:"dataDir"`
	}
	ok = answer.StatusCode == http.StatusOK && json.Unmarshal(body, &told) == nil && filepath.IsAbs(told.DataDir)
	return told.DataDir, ok
}
