package main

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/requestheader"
	certificates "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/internal/files"
)

// frontProxy are the flags about proxies that name users in headers.
type frontProxy struct {
	caFile                     string
	names                      []string
	users, uids, groups, extra []string
}

func (p *frontProxy) flags(f *pflag.FlagSet) {
	f.StringVar(&p.caFile, "requestheader-client-ca-file", "",
		"PEM file of the authorities of front proxies, which name users in headers")
	f.StringSliceVar(&p.names, "requestheader-allowed-names", nil, "the common names of front proxies (default all names)")
	f.StringSliceVar(&p.users, "requestheader-username-headers", nil, "headers with the name of the user, such as X-Remote-User")
	f.StringSliceVar(&p.uids, "requestheader-uid-headers", nil, "headers with the uid of the user, such as X-Remote-Uid")
	f.StringSliceVar(&p.groups, "requestheader-group-headers", nil, "headers with groups of the user, such as X-Remote-Group")
	f.StringSliceVar(&p.extra, "requestheader-extra-headers-prefix", nil, "prefixes of headers with further facts, such as X-Remote-Extra-")
}

// authenticator returns nil without flags. It refuses an authority that signs users as well as
// proxies, if every name is one of a proxy (A3).
func (p *frontProxy) authenticator(log logr.Logger, clientCAFile string) (authn.Authenticator, error) {
	if p.caFile == "" {
		return nil, nil
	}
	if len(p.names) == 0 && clientCAFile != "" {
		shared, err := shareKeys(p.caFile, clientCAFile)
		if err != nil {
			return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
		}
		if shared {
			return nil, errors.New("--requestheader-client-ca-file and --client-ca-file have an authority in common, so every user could be a proxy; give --requestheader-allowed-names")
		}
	}
	proxies, err := certificates.Open(p.caFile, certificates.WithReloadError(reloadFailed(log, "requestheader-client-ca-file")))
	if err != nil {
		return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	if len(p.users) == 0 {
		return nil, nil
	}
	a, err := requestheader.New(proxies, requestheader.Config{
		UserHeaders: p.users, UIDHeaders: p.uids, GroupHeaders: p.groups, ExtraPrefixes: p.extra,
		ProxyNames: p.names, AnyProxyName: len(p.names) == 0,
	})
	if err != nil {
		return nil, fmt.Errorf("--requestheader-username-headers and its like: %w", err)
	}
	return a, nil
}

// warnings are about settings that are more open or more closed than they look.
func (p *frontProxy) warnings() []string {
	switch {
	case p.caFile == "" && len(slices.Concat(p.names, p.users, p.uids, p.groups, p.extra)) > 0:
		return []string{"--requestheader-username-headers and its like have no effect without --requestheader-client-ca-file"}
	case p.caFile != "" && len(p.users) == 0:
		return []string{"--requestheader-client-ca-file has no effect without --requestheader-username-headers"}
	case p.caFile != "" && len(p.names) == 0:
		return []string{"--requestheader-allowed-names is empty: every certificate of --requestheader-client-ca-file is that of a proxy"}
	}
	return nil
}

// published is what other servers may know about how clients are authenticated.
func (o *options) published() (map[string]string, error) {
	p := &o.proxy
	out := map[string]string{}
	for key, path := range map[string]string{"client-ca-file": o.clientCAFile, "requestheader-client-ca-file": p.caFile} {
		if path == "" {
			continue
		}
		data, err := files.Read(path)
		if err != nil {
			return nil, err
		}
		out[key] = string(data)
	}
	if p.caFile == "" {
		return out, nil
	}
	for key, list := range map[string][]string{
		"requestheader-allowed-names": p.names, "requestheader-username-headers": p.users, "requestheader-uid-headers": p.uids,
		"requestheader-group-headers": p.groups, "requestheader-extra-headers-prefix": p.extra,
	} {
		if list == nil {
			list = []string{}
		}
		text, err := json.Marshal(list)
		if err != nil {
			return nil, err
		}
		out[key] = string(text)
	}
	return out, nil
}

// shareKeys reports whether authorities of two PEM files have a key in common. The certificate of an
// authority that was renewed, or that another one has signed, is another one, and what its key signs is
// valid for both.
func shareKeys(a, b string) (bool, error) {
	first, err := keysOf(a)
	if err != nil {
		return false, err
	}
	second, err := keysOf(b)
	return slices.ContainsFunc(first, func(one []byte) bool {
		return slices.ContainsFunc(second, func(other []byte) bool { return bytes.Equal(one, other) })
	}), err
}

// keysOf returns the public keys of the certificates in a file.
func keysOf(path string) (out [][]byte, err error) {
	data, err := files.Read(path)
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil { // what cannot be read is an error later
			out = append(out, c.RawSubjectPublicKeyInfo)
		}
	}
	return out, err
}
