package x509

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/certfile"
)

// The limits of a certificate (security vector A11). The whole chain is read before its sender is
// known.
const (
	// MaxChain is the largest number of certificates in a chain.
	MaxChain = 10

	// MaxGroups is the largest number of organizations in a certificate.
	MaxGroups = 256

	// MaxNameBytes is the longest common name, organization or uid.
	MaxNameBytes = 1024
)

// CredentialID is the key of the extra fact that identifies the certificate: "X509SHA256=" and the
// SHA-256 of the certificate in hexadecimal.
const CredentialID = "authentication.kubernetes.io/credential-id"

// Authenticator authenticates by client certificates of some authorities. It is safe for concurrent
// use.
type Authenticator struct {
	roots    func() *x509.CertPool
	now      func() time.Time
	accounts bool
	failed   func(error)
	rule     func([]*x509.Certificate) error
	file     *certfile.Authorities // nil unless the authorities come from a file
	cache    cache
}

var _ authn.Authenticator = (*Authenticator)(nil)

// Option configures an [Authenticator].
type Option func(*Authenticator)

// WithNow sets the clock for validity checks. The default is time.Now.
func WithNow(now func() time.Time) Option { return func(a *Authenticator) { a.now = now } }

// WithServiceAccounts accepts certificates that name service accounts. Give it only for authorities
// that are trusted to speak for all of them. By default such a certificate is an error.
func WithServiceAccounts() Option { return func(a *Authenticator) { a.accounts = true } }

// WithReloadError sets what [Open]'s authenticator calls with the error of a changed file that it
// cannot read. By default nobody is told.
func WithReloadError(failed func(error)) Option { return func(a *Authenticator) { a.failed = failed } }

// WithRule sets what the authorities of [Open]'s file must be like: a file for whose certificates the
// rule returns an error is a bad one, at the start and later. By default all are allowed.
func WithRule(rule func([]*x509.Certificate) error) Option {
	return func(a *Authenticator) { a.rule = rule }
}

// Open returns an authenticator for certificates of the authorities in a file, in PEM. It reads the
// file again when it changes: at most a second later, the certificates of an authority that is gone
// are errors. While the file is damaged, in part too, or gone, the last good authorities count;
// [Authenticator.Healthy] says so.
func Open(path string, opts ...Option) (*Authenticator, error) {
	a := &Authenticator{now: time.Now, failed: func(error) {}}
	err := a.apply(opts)
	if err != nil {
		return nil, err
	}
	if a.file, err = certfile.OpenAuthorities(func(err error) { a.failed(err) }, a.rule, path); err != nil {
		return nil, err
	}
	a.roots = a.file.Pool
	return a, nil
}

// apply applies options. The methods that they set are called without a look.
func (a *Authenticator) apply(opts []Option) error {
	for i, o := range opts {
		if o == nil {
			return fmt.Errorf("authn/x509: option %d is nil", i)
		}
		o(a)
	}
	if a.now == nil {
		return errors.New("authn/x509: the function of WithNow must not be nil")
	}
	if a.failed == nil {
		a.failed = func(error) {}
	}
	return nil
}

// Healthy returns why the file of [Open] cannot be used as it is now, or nil. The last good
// authorities count then.
func (a *Authenticator) Healthy() error {
	if a.file == nil {
		return nil
	}
	return a.file.Healthy()
}

// PEM returns the certificates of the authorities of now, without what else [Open]'s file has, or nil if
// there is no file. Nobody may modify it.
func (a *Authenticator) PEM() []byte {
	if a.file == nil {
		return nil
	}
	return a.file.PEM()
}

// New returns an authenticator for certificates of these authorities. The pool must not be modified
// afterwards; [Open] follows a file. A nil pool is an error: package crypto/x509 would use the
// system's authorities, whose certificates anyone can buy.
func New(roots *x509.CertPool, opts ...Option) (*Authenticator, error) {
	if roots == nil {
		return nil, errors.New("authn/x509: the pool of certificate authorities must not be nil")
	}
	a := &Authenticator{roots: func() *x509.CertPool { return roots }, now: time.Now}
	return a, a.apply(opts)
}

// Following returns an authenticator for certificates of the authorities that a function returns: the
// same pool until they change. The function is called for each request, so an authority that is gone
// counts no more from then on. While it returns nil there is no authority, and certificates are left to
// other authenticators.
func Following(roots func() *x509.CertPool, opts ...Option) (*Authenticator, error) {
	if roots == nil {
		return nil, errors.New("authn/x509: the function that returns certificate authorities must not be nil")
	}
	a := &Authenticator{roots: roots, now: time.Now}
	return a, a.apply(opts)
}

// Authorities returns the authorities of now, for [crypto/tls.Config.ClientCAs], so that clients with
// several certificates know which one to send. Nobody may modify the pool.
func (a *Authenticator) Authorities() *x509.CertPool { return a.roots() }

// Authenticate returns the user of the client certificate, whose Expires is the end of the first
// certificate of the chain that ends. It leaves requests without one to other
// authenticators. A certificate is an error if it
//
//   - does not lead to one of the authorities, is expired or not valid yet, or is not for client
//     authentication;
//   - is an authority's own certificate;
//   - has no common name, or several common names or uids;
//   - has a name, organization or uid that [authn.CheckIssued] rejects: with characters that do not
//     show, like a name of the system but not quite it, the anonymous user, or a service account,
//     see [WithServiceAccounts];
//   - exceeds the limits of this package.
func (a *Authenticator) Authenticate(r *http.Request) (authn.User, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return authn.User{}, false, nil
	}
	chain := r.TLS.PeerCertificates
	if len(chain) > MaxChain {
		return authn.User{}, false, fmt.Errorf("client certificate: chain of %d certificates, more than %d", len(chain), MaxChain)
	}
	roots := a.roots()
	if roots == nil {
		return authn.User{}, false, nil
	}
	key, now := keyOf(chain), a.now()
	if u, ok := a.cache.get(roots, key, now); ok {
		return u, true, nil
	}
	v, err := a.verify(roots, chain, now)
	if err != nil {
		return authn.User{}, false, fmt.Errorf("client certificate: %w", err)
	}
	a.cache.put(roots, key, v)
	return v.user, true, nil
}

// verify checks a chain and returns its user and how long the result is valid.
func (a *Authenticator) verify(roots *x509.CertPool, presented []*x509.Certificate, now time.Time) (verified, error) {
	leaf := presented[0]
	if leaf.BasicConstraintsValid && leaf.IsCA {
		return verified{}, errors.New("is an authority's own certificate")
	}
	options := x509.VerifyOptions{
		Roots:         roots,
		Intermediates: x509.NewCertPool(),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range presented[1:] {
		options.Intermediates.AddCert(c)
	}
	chains, err := leaf.Verify(options)
	if err != nil {
		return verified{}, err
	}
	u, err := userOf(leaf)
	if err == nil {
		err = authn.CheckIssued(u, a.accounts)
	}
	if err != nil {
		return verified{}, err
	}
	var v verified
	for _, chain := range chains { // the authorities may offer several ways
		if from, until := validity(chain); until.After(v.until) {
			v.from, v.until = from, until
		}
	}
	v.user, v.user.Expires = u, v.until
	return v, nil
}

// validity returns the time in which all certificates of a chain are valid.
func validity(chain []*x509.Certificate) (from, until time.Time) {
	from, until = chain[0].NotBefore, chain[0].NotAfter
	for _, c := range chain[1:] {
		if c.NotBefore.After(from) {
			from = c.NotBefore
		}
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return from, until
}

// uidAttribute is the type of the subject's attribute that holds the user's uid.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}

func userOf(leaf *x509.Certificate) (authn.User, error) {
	name, err := single(leaf.Subject.Names, commonName, "common name")
	if err != nil {
		return authn.User{}, err
	}
	if name == "" {
		return authn.User{}, errors.New("common name is empty")
	}
	uid, err := single(leaf.Subject.Names, uidAttribute, "uid")
	if err != nil {
		return authn.User{}, err
	}
	if n := len(leaf.Subject.Organization); n > MaxGroups {
		return authn.User{}, fmt.Errorf("%d organizations, more than %d", n, MaxGroups)
	}
	sum := sha256.Sum256(leaf.Raw)
	u := authn.User{
		Name: name, UID: uid, Method: "x509", Issuer: leaf.Issuer.String(),
		Extra: map[string][]string{CredentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}
	for _, group := range leaf.Subject.Organization {
		if len(group) > MaxNameBytes {
			return authn.User{}, tooLong("organization")
		}
		if group != "" && !slices.Contains(u.Groups, group) {
			u.Groups = append(u.Groups, group)
		}
	}
	return u, nil
}

// single returns the one value of an attribute of the subject, or "". If there are several,
// crypto/x509 reports the last, while another reader may take the first.
func single(names []pkix.AttributeTypeAndValue, kind asn1.ObjectIdentifier, what string) (string, error) {
	value, found := "", false
	for _, n := range names {
		if !n.Type.Equal(kind) {
			continue
		}
		text, ok := n.Value.(string)
		if found || !ok {
			return "", fmt.Errorf("%s must be a single text", what)
		}
		if text == "" { // not the same as no attribute: the issuer meant to say something
			return "", fmt.Errorf("%s is empty", what)
		}
		value, found = text, true
	}
	if len(value) > MaxNameBytes {
		return "", tooLong(what)
	}
	return value, nil
}

func tooLong(what string) error {
	return fmt.Errorf("%s is longer than %d bytes", what, MaxNameBytes)
}
