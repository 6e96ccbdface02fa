package requestheader

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/internal/certfile"
	"github.com/kindwright/kindwright/internal/json"
)

// Published are the settings that kube-apiserver publishes for extension servers, in the config map
// extension-apiserver-authentication of namespace kube-system.
type Published struct {
	// ClientCAs are the authorities whose certificates name users. Nil means that there are none.
	ClientCAs *x509.CertPool

	// ProxyCAs are the authorities of front proxies, and Config says what they send. Nil means that
	// nobody is a front proxy.
	ProxyCAs *x509.CertPool
	Config   Config
}

// The entries of the config map.
const (
	clientCAEntry = "client-ca-file"
	proxyCAEntry  = "requestheader-client-ca-file"
	namesEntry    = "requestheader-allowed-names"
	userEntry     = "requestheader-username-headers"
	uidEntry      = "requestheader-uid-headers"
	groupEntry    = "requestheader-group-headers"
	extraEntry    = "requestheader-extra-headers-prefix"
)

// ReadPublished reads the data of the config map. It is all or nothing: an entry that cannot be read
// is an error, and so is a front proxy without the fields that name users, or without the list of its
// names. An empty list of names stands for every name, unless the proxies have an authority in
// common with the users.
//
// The uid is read from a field only where the config map names it. Older servers pass on a field
// that the client itself has sent.
// Source: security vectors A2, A3.
func ReadPublished(data map[string]string) (Published, error) {
	var out Published
	users, err := authorities(data, clientCAEntry)
	if err != nil {
		return Published{}, err
	}
	proxies, err := authorities(data, proxyCAEntry)
	if err != nil {
		return Published{}, err
	}
	out.ClientCAs = poolOf(users)
	if out.ProxyCAs = poolOf(proxies); out.ProxyCAs == nil {
		return out, nil
	}
	cfg := &out.Config
	for entry, into := range map[string]*[]string{
		namesEntry: &cfg.ProxyNames, userEntry: &cfg.UserHeaders, uidEntry: &cfg.UIDHeaders, groupEntry: &cfg.GroupHeaders, extraEntry: &cfg.ExtraPrefixes,
	} {
		text, given := data[entry]
		if !given {
			continue
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			return Published{}, fmt.Errorf("%s: must be a list of texts in JSON: %w", entry, err)
		}
		if *into == nil { // null is no list; of names, it would stand for all
			return Published{}, fmt.Errorf("%s: must be a list of texts in JSON, and is null", entry)
		}
	}
	if _, given := data[namesEntry]; !given {
		return Published{}, fmt.Errorf("%s: is missing although there is %s; an empty list stands for all names", namesEntry, proxyCAEntry)
	}
	cfg.AnyProxyName = len(cfg.ProxyNames) == 0
	if cfg.AnyProxyName && certfile.ShareKeys(users, proxies) {
		return Published{}, fmt.Errorf("%s: is empty although %s and %s have an authority in common, so every user could be a proxy", namesEntry, proxyCAEntry, clientCAEntry)
	}
	_, err = New(nobody{}, *cfg)
	return out, err
}

// authorities reads the certificates of an entry, nil if there is no such entry.
func authorities(data map[string]string, entry string) ([]*x509.Certificate, error) {
	text, given := data[entry]
	if !given {
		return nil, nil
	}
	var out []*x509.Certificate
	rest := []byte(text)
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s: must be certificates in PEM", entry)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: certificate %d: %w", entry, len(out), err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, errors.New(entry + ": has no certificate")
	}
	return out, nil
}

func poolOf(certs []*x509.Certificate) *x509.CertPool {
	if len(certs) == 0 {
		return nil
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}
