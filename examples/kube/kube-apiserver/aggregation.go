package main

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/aggregate"
	"github.com/kindwright/kindwright/internal/certfile"
)

// aggregation are the flags about servers that this one answers for.
type aggregation struct {
	certFile, keyFile string
	endpoints         bool
	loopback          bool
}

func (a *aggregation) flags(f *pflag.FlagSet) {
	f.StringVar(&a.certFile, "proxy-client-cert-file", "",
		"the client certificate under which users are named to the servers of APIServices, which ask for one of --requestheader-client-ca-file")
	f.StringVar(&a.keyFile, "proxy-client-key-file", "", "the key of --proxy-client-cert-file")
	f.BoolVar(&a.endpoints, "enable-aggregator-routing", false, "whether requests for APIServices go to endpoints and not to cluster addresses")
	f.BoolVar(&a.loopback, "aggregator-allow-loopback", false, "whether APIServices may be at loopback addresses (not a flag of the original)")
}

// check rejects half a key pair.
func (a *aggregation) check() error {
	if (a.certFile == "") != (a.keyFile == "") {
		return errors.New("--proxy-client-cert-file and --proxy-client-key-file belong together: give both or neither")
	}
	return nil
}

// option lets the server answer for others.
func (a *aggregation) option(log logr.Logger) (kindwright.Option, error) {
	cfg := aggregate.Config{
		EndpointRouting: a.endpoints, AllowLoopback: a.loopback,
		Certificate: func() (*tls.Certificate, error) { return nil, nil }, //nolint:nilnil // none: back ends see anonymous requests
	}
	if a.certFile != "" {
		pair, err := certfile.Open(reloadFailed(log, "proxy-client-cert-file"), certfile.Names{Cert: a.certFile, Key: a.keyFile})
		if err != nil {
			return nil, fmt.Errorf("--proxy-client-cert-file: %w", err)
		}
		cfg.Certificate = func() (*tls.Certificate, error) { return pair.Certificate(&tls.ClientHelloInfo{}) }
	}
	behind, err := aggregate.New(cfg)
	if err != nil {
		return nil, err
	}
	return kindwright.Aggregate(behind), nil
}
