package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/examples/internal/program"
	"github.com/kindwright/kindwright/internal/files"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/etcd"
)

// owner is what etcd remembers of whose objects these are.
const owner = "example.dev"

// cluster is a store in etcd, as the flags say.
type cluster struct {
	servers                   string
	prefix                    string
	caFile, certFile, keyFile string
	user, passwordFile        string
	restored                  bool
	maxRequestBytes           int
}

var _ program.Store = (*cluster)(nil)

// Name returns "cluster".
func (c *cluster) Name() string { return "cluster" }

// String returns "etcd".
func (c *cluster) String() string { return "etcd" }

// AddFlags adds the flags about etcd, named as those of kube-apiserver where it has them.
func (c *cluster) AddFlags(set *flag.FlagSet) {
	set.StringVar(&c.servers, "etcd-servers", "", "comma-separated client URLs of etcd, such as https://10.0.0.1:2379; required")
	set.StringVar(&c.prefix, "etcd-prefix", "/kindwright", "where in etcd the objects are; servers with the same prefix serve the same API")
	set.StringVar(&c.caFile, "etcd-cafile", "", "PEM file of the authorities of etcd's certificates")
	set.StringVar(&c.certFile, "etcd-certfile", "", "PEM file of the certificate to show to etcd; it is read again for each connection")
	set.StringVar(&c.keyFile, "etcd-keyfile", "", "PEM file of the key of --etcd-certfile")
	set.StringVar(&c.user, "etcd-username", "", "user of etcd, where it asks for passwords")
	set.StringVar(&c.passwordFile, "etcd-password-file", "", "file of the password of --etcd-username")
	set.BoolVar(&c.restored, "etcd-restored", false, "accept an etcd that was restored from a backup, once: revisions continue above all from before")
	set.IntVar(&c.maxRequestBytes, "etcd-max-request-bytes", 0, "the --max-request-bytes of etcd (default etcd's own, 1.5 MiB)")
}

// CheckFlags returns what is wrong with the values.
func (c *cluster) CheckFlags() []error {
	var problems []error
	if c.servers == "" {
		problems = append(problems, errors.New("--etcd-servers: give the client URLs of etcd, such as http://127.0.0.1:2379; examples/server needs no etcd"))
	}
	if (c.certFile == "") != (c.keyFile == "") {
		problems = append(problems, errors.New("--etcd-certfile and --etcd-keyfile: give both or neither"))
	}
	if (c.user == "") != (c.passwordFile == "") {
		problems = append(problems, errors.New("--etcd-username and --etcd-password-file: give both or neither"))
	}
	if c.maxRequestBytes < 0 {
		problems = append(problems, fmt.Errorf("--etcd-max-request-bytes %d: must not be negative", c.maxRequestBytes))
	}
	return problems
}

// Instead does nothing: the program has no other task than to serve.
func (c *cluster) Instead(context.Context, string, io.Writer) (bool, error) { return false, nil }

// Open connects to etcd. Objects are not in the data directory.
func (c *cluster) Open(ctx context.Context, _ string, through egress.DialFunc, log logr.Logger) (storage.Backend, error) {
	settings, err := etcd.TLSFiles(c.caFile, c.certFile, c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("--etcd-cafile, --etcd-certfile, --etcd-keyfile: %w", err)
	}
	var password []byte
	if c.passwordFile != "" {
		if password, err = files.ReadSecret(c.passwordFile); err != nil {
			return nil, fmt.Errorf("--etcd-password-file: %w", err)
		}
	}
	db, err := etcd.Open(ctx, etcd.Config{
		Endpoints: strings.Split(c.servers, ","), TLS: settings,
		User: c.user, Password: string(bytes.TrimRight(password, "\r\n")),
		Prefix: c.prefix, Owner: owner, Restored: c.restored,
		MaxRequestBytes: c.maxRequestBytes, Dial: through, Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("--etcd-servers: %w", err)
	}
	return db, nil
}
