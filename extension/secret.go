package extension

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/internal/mirror"
	"github.com/kindwright/kindwright/internal/selfsigned"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// secret is the part of a Secret that is used.
type secret struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty"`

	Type string            `json:"type,omitempty"`
	Data map[string][]byte `json:"data,omitempty"`
}

// The entries of the secret: the pair that is served, what the host is to trust, and the pair that is
// served next, once the host has had time to learn of it.
const (
	certEntry     = "tls.crt"
	keyEntry      = "tls.key"
	bundleEntry   = "ca.crt"
	nextCertEntry = "next.crt"
	nextKeyEntry  = "next.key"
)

// renewal says how the content of the secret goes on. It is a function of the content, the time and
// what this replica has seen, so replicas need no leader: each does the next step, and the version of
// the secret decides whose step counts.
type renewal struct {
	hosts             []string
	lifetime, overlap time.Duration
}

// seen is what a replica has seen itself. It counts from then on, so a host that was away delays the
// next step and does not miss one.
type seen struct {
	told   time.Time // since when the APIServices have the bundle of the secret; zero if they do not
	served time.Time // since when the replica serves the pair of the secret
}

// step returns the content after the next step, or nil if there is nothing to do before a later time.
func (r renewal) step(data map[string][]byte, now time.Time, by seen) (next map[string][]byte, later time.Time, err error) {
	serves, err := r.read(data[certEntry], data[keyEntry], now)
	isOfUse := err == nil
	bundle := certificatesOf(data[bundleEntry])
	if len(data[nextCertEntry]) > 0 {
		coming, wrong := r.read(data[nextCertEntry], data[nextKeyEntry], now)
		switch at := by.told.Add(r.overlap); {
		case wrong != nil || !signed(bundle, coming):
			next, err = r.stage(data, now)
			return next, time.Time{}, err
		case !isOfUse: // the host may know the next authority already
			return promoted(data), time.Time{}, nil
		case by.told.IsZero():
			return nil, now.Add(renewRetry), nil
		case now.Before(at):
			return nil, at, nil
		}
		return promoted(data), time.Time{}, nil
	}
	if !isOfUse || !signed(bundle, serves) { // there is no time for an overlap
		next, err = r.begin(data, certEntry, keyEntry, now)
		return next, time.Time{}, err
	}
	renews := serves.NotBefore.Add(selfsigned.Backdate + r.lifetime*2/3)
	drops := by.served.Add(r.overlap)
	switch {
	case !now.Before(renews):
		next, err = r.stage(data, now)
		return next, time.Time{}, err
	case len(bundle) == 1:
		return nil, renews, nil
	case now.Before(drops):
		return nil, drops, nil
	}
	next = maps.Clone(data)
	for _, ca := range bundle {
		if serves.CheckSignatureFrom(ca) == nil {
			next[bundleEntry] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
		}
	}
	return next, time.Time{}, nil
}

// promoted serves the next pair.
func promoted(data map[string][]byte) map[string][]byte {
	next := maps.Clone(data)
	next[certEntry], next[keyEntry] = data[nextCertEntry], data[nextKeyEntry]
	delete(next, nextCertEntry)
	delete(next, nextKeyEntry)
	return next
}

// stage adds the pair that is served next, and its authority.
func (r renewal) stage(data map[string][]byte, now time.Time) (map[string][]byte, error) {
	return r.begin(data, nextCertEntry, nextKeyEntry, now)
}

// begin makes a pair by an authority of its own, whose key is forgotten, and adds the authority to those
// of the bundle that are still of use.
func (r renewal) begin(data map[string][]byte, cert, key string, now time.Time) (map[string][]byte, error) {
	authority, err := selfsigned.NewAuthorityFor(r.hosts[0], r.lifetime)
	if err != nil {
		return nil, err
	}
	pair, err := authority.Serving(r.hosts...)
	if err != nil {
		return nil, err
	}
	next := maps.Clone(data)
	if next == nil {
		next = map[string][]byte{}
	}
	next[cert], next[key] = pair.Cert, pair.Key
	var bundle []byte
	for _, ca := range certificatesOf(data[bundleEntry]) {
		if now.Before(ca.NotAfter) {
			bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})...)
		}
	}
	next[bundleEntry] = append(bundle, authority.PEM()...)
	return next, nil
}

// read returns the certificate of a pair that can be served.
func (r renewal) read(cert, key []byte, now time.Time) (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if !now.Before(pair.Leaf.NotAfter) {
		return nil, errors.New("the certificate has expired")
	}
	for _, host := range r.hosts {
		if err := pair.Leaf.VerifyHostname(host); err != nil {
			return nil, err
		}
	}
	return pair.Leaf, nil
}

// signed reports whether one of the authorities has signed a certificate.
func signed(authorities []*x509.Certificate, cert *x509.Certificate) bool {
	for _, ca := range authorities {
		if cert.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}

// certificatesOf reads the certificates of a text in PEM, and skips what is not one.
func certificatesOf(data []byte) (out []*x509.Certificate) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			out = append(out, cert)
		}
	}
	return out
}

// secretCertificates serve the certificate of a secret of the host, and renew it.
type secretCertificates struct {
	key      meta.Key
	renewal  renewal
	keeper   *keeper
	log      logr.Logger
	secrets  *client.Client[secret]
	known    *mirror.Mirror[secret, *secret]
	wake     chan struct{} // holds one wake-up
	ready    chan struct{} // closed once there is a certificate
	isClosed sync.Once

	mu      sync.RWMutex
	pair    *tls.Certificate // guarded by mu, as are the others
	served  time.Time        // since when there is this pair
	trusted []byte
	wrong   error
}

// renewTimeout bounds one step.
const renewTimeout = 10 * time.Second

// renewRetry is how long a step that has failed waits.
const renewRetry = 5 * time.Second

func newSecretCertificates(cfg *Config, k *keeper, log logr.Logger) *secretCertificates {
	service := cfg.Name + "." + cfg.Namespace + ".svc"
	hosts := []string{service, service + ".cluster.local"}
	if host, _, err := cfg.advertised(); err == nil {
		hosts = append(hosts, host)
	}
	s := &secretCertificates{
		key: meta.Key{Namespace: cfg.Namespace, Name: cfg.Name + "-serving"}, keeper: k, log: log,
		renewal: renewal{hosts: hosts, lifetime: cfg.Certificate.Lifetime, overlap: cfg.Certificate.Overlap},
		wake:    make(chan struct{}, 1), ready: make(chan struct{}), wrong: errors.New("it has not been read yet"),
	}
	s.secrets = client.For(cfg.Host.Requests(), client.Resource[secret]{Version: "v1", Plural: "secrets", Kind: "Secret"},
		client.At(cfg.Host.URL), client.WithLogger(log), client.WithMaxWait(mirror.MaxWait))
	only, err := meta.NewFieldSelector(meta.FieldRequirement{Field: "metadata.name", Op: meta.Equals, Value: s.key.Name})
	if err != nil {
		s.wrong = err // cannot happen: the name was checked
	}
	s.known = mirror.New[secret](mirror.Config[secret]{
		Client: s.secrets, Selection: client.Selection{Namespace: s.key.Namespace, Fields: only},
		Changed: s.look,
		Failed:  func(err error) { log.Error(err, "the secret with the serving certificate cannot be followed") },
	})
	return s
}

// look makes run look at the secret.
func (s *secretCertificates) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *secretCertificates) run(ctx context.Context) {
	var follows sync.WaitGroup
	defer follows.Wait()
	follows.Go(func() { s.known.Run(ctx) })
	select {
	case <-s.known.Synced():
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		again, err := s.renew(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Error(err, "the serving certificate cannot be renewed; trying again", "secret", s.key.String())
			again = time.Now().Add(renewRetry)
		}
		s.mu.Lock()
		s.wrong = err
		s.mu.Unlock()
		timer := time.NewTimer(time.Until(again))
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// renew takes over what the secret holds, does the next step, and returns when to look again.
func (s *secretCertificates) renew(ctx context.Context) (again time.Time, err error) {
	have, exists := s.known.Get(s.key)
	if !exists {
		have = &secret{ObjectMeta: meta.Named(s.key.Namespace, s.key.Name), Type: "kubernetes.io/tls"}
	}
	by := seen{served: s.take(have.Data)}
	if len(have.Data[nextCertEntry]) > 0 {
		by.told = s.keeper.told(ctx, have.Data[bundleEntry])
	}
	next, later, err := s.renewal.step(have.Data, time.Now(), by)
	if err != nil || next == nil {
		return later, err
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	changed := *have
	changed.Data = next
	if exists {
		_, err = s.secrets.Update(ctx, &changed)
	} else {
		_, err = s.secrets.Create(ctx, &changed)
	}
	if status.IsConflict(err) || status.IsAlreadyExists(err) {
		err = nil // another replica has done it, and the watch brings its step
	}
	return time.Now().Add(renewRetry), err // or earlier, when the watch brings the step
}

// take serves the pair of the secret from now on, if it can be served, and returns since when it does.
func (s *secretCertificates) take(data map[string][]byte) (served time.Time) {
	now := time.Now()
	if _, err := s.renewal.read(data[certEntry], data[keyEntry], now); err != nil {
		return now
	}
	pair, err := tls.X509KeyPair(data[certEntry], data[keyEntry])
	if err != nil {
		return now
	}
	s.mu.Lock()
	if s.pair == nil || !bytes.Equal(s.pair.Certificate[0], pair.Certificate[0]) {
		s.served = now
	}
	s.pair, served = &pair, s.served
	changed := !bytes.Equal(s.trusted, data[bundleEntry])
	s.trusted = data[bundleEntry]
	s.mu.Unlock()
	s.isClosed.Do(func() { close(s.ready) })
	if changed {
		s.keeper.wake()
	}
	return served
}

func (s *secretCertificates) await(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), s.known.Err(), s.check())
	}
}

func (s *secretCertificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pair, nil
}

func (s *secretCertificates) bundle() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.trusted
}

func (s *secretCertificates) check() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.wrong != nil {
		return fmt.Errorf("secret %s: %w", s.key, s.wrong)
	}
	return nil
}
