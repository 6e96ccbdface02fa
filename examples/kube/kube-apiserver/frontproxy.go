package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authn/requestheader"
	certificates "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/internal/certfile"
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

// open reads the file of the authorities, if there is one. The rule is about their certificates.
func (p *frontProxy) open(log logr.Logger, rule certfile.Rule) (*certificates.Authenticator, error) {
	if p.caFile == "" {
		return nil, nil
	}
	proxies, err := certificates.Open(p.caFile, certificates.WithRule(rule), certificates.WithReloadError(reloadFailed(log, "requestheader-client-ca-file")))
	if err != nil {
		return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	return proxies, nil
}

// authenticator returns nil without flags.
func (p *frontProxy) authenticator(proxies *certificates.Authenticator) (authn.Authenticator, error) {
	if proxies == nil || len(p.users) == 0 {
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

// standardUID is the header with the uid of the user that servers behind this one read.
const standardUID = "X-Remote-Uid"

// check rejects what kube-apiserver rejects. A name that is blank is that of no proxy, so that a list of it
// alone would look as if it let in some.
func (p *frontProxy) check() error {
	var problems []error
	for _, l := range []struct {
		flag string
		list []string
	}{
		{"requestheader-username-headers", p.users},
		{"requestheader-uid-headers", p.uids},
		{"requestheader-group-headers", p.groups},
		{"requestheader-extra-headers-prefix", p.extra},
		{"requestheader-allowed-names", p.names},
	} {
		if slices.ContainsFunc(l.list, func(s string) bool { return strings.TrimSpace(s) == "" }) {
			problems = append(problems, fmt.Errorf("empty value in --%s", l.flag))
		}
	}
	if len(p.uids) > 0 && !slices.ContainsFunc(p.uids, func(s string) bool { return strings.EqualFold(s, standardUID) }) {
		problems = append(problems, fmt.Errorf("--requestheader-uid-headers is set without the standard header %s: API aggregation will not work", standardUID))
	}
	return errors.Join(problems...)
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

// published is what other servers may know about how clients are authenticated: the authorities that
// are in use, whatever their files say by now.
func (a *authorities) published(p *frontProxy) (map[string]string, error) {
	out := map[string]string{}
	for key, of := range map[string]*certificates.Authenticator{"client-ca-file": a.users, "requestheader-client-ca-file": a.proxies} {
		if of != nil {
			out[key] = string(of.PEM())
		}
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
