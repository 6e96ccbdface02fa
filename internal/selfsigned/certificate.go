package selfsigned

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const lifetime = 365 * 24 * time.Hour

// Backdate is how long before the moment when it was made a certificate becomes valid, for clients whose
// clocks are slow.
const Backdate = time.Hour

// Certificate returns a self-signed serving certificate for localhost, the loop-back addresses and
// the given hosts.
func Certificate(hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template, err := serving(hosts, lifetime)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Pair is a certificate and its private key in PEM.
type Pair struct{ Cert, Key []byte }

// Authority signs certificates. Its key lives only as long as the value.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte

	valid time.Duration // its certificates
}

// NewAuthority returns an authority with a new key. It and its certificates are valid for a year.
func NewAuthority(name string) (*Authority, error) { return NewAuthorityFor(name, lifetime) }

// NewAuthorityFor returns an authority with a new key. It and its certificates are valid for so long.
func NewAuthorityFor(name string, valid time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := base(pkix.Name{CommonName: name}, valid)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), valid: valid}, nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return a.pem }

// Certificate returns the authority's certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// Serving signs a certificate for a server on localhost, the loop-back addresses and the given
// hosts.
func (a *Authority) Serving(hosts ...string) (Pair, error) {
	template, err := serving(hosts, a.valid)
	if err != nil {
		return Pair{}, err
	}
	return a.sign(template)
}

// Client signs a certificate that authenticates a user and its groups (AUTHN-06, AUTHN-20).
func (a *Authority) Client(user string, groups ...string) (Pair, error) {
	template, err := base(pkix.Name{CommonName: user, Organization: groups}, a.valid)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.sign(template)
}

func (a *Authority) sign(template *x509.Certificate) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func base(subject pkix.Name, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject,
		NotBefore: now.Add(-Backdate), NotAfter: now.Add(valid),
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
	}, nil
}

func serving(hosts []string, valid time.Duration) (*x509.Certificate, error) {
	template, err := base(pkix.Name{CommonName: "kindwright"}, valid)
	if err != nil {
		return nil, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if h != "" && h != "localhost" {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return template, nil
}
