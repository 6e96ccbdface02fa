package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"slices"
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
	suites, names := map[string]uint16{}, []string{}
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		suites[s.Name] = s.ID
		names = append(names, s.Name)
	}
	for _, name := range o.cipherSuites {
		id, known := suites[name]
		if !known {
			problems = append(problems, fmt.Errorf("--tls-cipher-suites: unknown cipher suite %q%s", name, meant(name, names)))
			continue
		}
		o.ciphers = append(o.ciphers, id)
	}
	forHTTP2 := slices.Contains(o.ciphers, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256) || slices.Contains(o.ciphers, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
	if len(problems) == 0 && len(o.ciphers) > 0 && !forHTTP2 && version < tls.VersionTLS13 {
		problems = append(problems, errors.New(
			"--tls-cipher-suites: HTTP/2 needs TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 among them"))
	}
	for _, d := range o.transport {
		if d != "includeSubDomains" && d != "preload" && !maxAge.MatchString(d) {
			problems = append(problems, fmt.Errorf(
				"--strict-transport-security-directives: unknown directive %q; known are max-age=<seconds>, includeSubDomains and preload", d))
		}
	}
	return problems
}

var maxAge = regexp.MustCompile(`^max-age=[0-9]+$`)

// tlsConfig is the configuration of connections.
func (o *options) tlsConfig(certificate tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   max(tls.VersionTLS12, tlsVersions()[o.tlsMinVersion]),
		CipherSuites: o.ciphers,
	}
}
