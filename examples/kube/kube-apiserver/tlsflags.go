package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/kindwright/kindwright"
)

// tlsVersions are the values of --tls-min-version. The server never goes below 1.2.
func tlsVersions() map[string]uint16 {
	return map[string]uint16{
		"": tls.VersionTLS12, "VersionTLS10": tls.VersionTLS10, "VersionTLS11": tls.VersionTLS11,
		"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13,
	}
}

// checkTLS reads the flags of TLS.
func (o *options) checkTLS() (problems []error) {
	version, known := tlsVersions()[o.tlsMinVersion]
	switch {
	case !known:
		problems = append(problems, fmt.Errorf("--tls-min-version: unknown version %q; known are VersionTLS10, VersionTLS11, VersionTLS12 and VersionTLS13", o.tlsMinVersion))
	case version < tls.VersionTLS12:
		o.withoutEffectOf = append(o.withoutEffectOf, "--tls-min-version: connections have at least TLS 1.2")
	}
	suites, names := map[string]*tls.CipherSuite{}, []string{}
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		suites[s.Name] = s
		names = append(names, s.Name)
		if old, ok := strings.CutSuffix(s.Name, "_CHACHA20_POLY1305_SHA256"); ok {
			suites[old+"_CHACHA20_POLY1305"] = s // the name before Go 1.14, which Kubernetes still takes
		}
	}
	for _, name := range o.cipherSuites {
		switch suite, known := suites[name]; {
		case !known:
			problems = append(problems, fmt.Errorf("--tls-cipher-suites: unknown cipher suite %q%s", name, meant(name, names)))
		case suite.Insecure:
			o.withoutEffectOf = append(o.withoutEffectOf, "--tls-cipher-suites: "+name+" is not secure and is not offered")
		default:
			o.ciphers = append(o.ciphers, suite.ID)
		}
	}
	forHTTP2 := slices.Contains(o.ciphers, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) || slices.Contains(o.ciphers, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
	if len(problems) == 0 && len(o.cipherSuites) > 0 && !forHTTP2 && version < tls.VersionTLS13 {
		problems = append(problems, errors.New(
			"--tls-cipher-suites: HTTP/2 needs TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 among them"))
	}
	for _, d := range o.transport {
		if d != "includeSubDomains" && d != "preload" && !maxAge.MatchString(d) {
			problems = append(problems, fmt.Errorf(
				"--strict-transport-security-directives: unknown directive %q; known are max-age=<seconds>, includeSubDomains and preload", d))
		}
	}
	return slices.Concat(problems, o.checkServerNames(), o.checkCurves())
}

var maxAge = regexp.MustCompile(`^max-age=[0-9]+$`)

// checkServerNames reads --tls-sni-cert-key: a certificate's file and its key's, and after a colon the
// server names that it is for, if not its own.
func (o *options) checkServerNames() (problems []error) {
	for _, value := range o.sniPairs {
		pair, names, given := strings.Cut(value, ":")
		cert, key, ok := strings.Cut(pair, ",")
		if !ok || cert == "" || key == "" || strings.Contains(key, ",") || given && names == "" {
			problems = append(problems, fmt.Errorf("--tls-sni-cert-key: %q is not of the form certificate,key or certificate,key:name,name", value))
			continue
		}
		p := kindwright.KeyPair{CertFile: cert, KeyFile: key}
		if given {
			p.Names = strings.Split(names, ",")
		}
		o.sni = append(o.sni, p)
	}
	if len(o.sni) > 0 && o.tlsCertFile == "" && o.certDir == "" {
		problems = append(problems, errors.New("--tls-sni-cert-key: needs --tls-cert-file and --tls-private-key-file, or --cert-dir, for all other clients"))
	}
	return problems
}

// checkCurves reads --tls-curve-preferences.
func (o *options) checkCurves() (problems []error) {
	known := []tls.CurveID{
		tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519, tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024,
	}
	for _, value := range o.curvePreferences {
		if id := tls.CurveID(value); value < 0 || value > math.MaxUint16 || !slices.Contains(known, id) { //nolint:gosec // in range
			problems = append(problems, fmt.Errorf("--tls-curve-preferences: %d is no curve that crypto/tls has", value))
		} else {
			o.curves = append(o.curves, id)
		}
	}
	return problems
}

// tls is how connections are encrypted. certificate may be empty.
func (o *options) tls(certificate kindwright.KeyPair, authorities func() *x509.CertPool) kindwright.TLS {
	return kindwright.TLS{
		CertFile: certificate.CertFile, KeyFile: certificate.KeyFile, SNI: o.sni,
		MinVersion:   max(tls.VersionTLS12, tlsVersions()[o.tlsMinVersion]),
		CipherSuites: o.ciphers, Curves: o.curves, ClientCAs: authorities,
	}
}
