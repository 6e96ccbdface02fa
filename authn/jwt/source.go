package jwt

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/jws"
	"github.com/kindwright/kindwright/internal/metrics"
)

// The bounds of what an issuer can make a server do.
const (
	fetchEvery   = 10 * time.Second // at most one fetch in this time, whoever asks
	refreshEvery = 5 * time.Minute  // a key that is taken out counts no longer than this
	retryEvery   = time.Minute      // while old keys are in use
	fetchTimeout = 10 * time.Second // for one document
	maxDocument  = 1 << 20
	maxHeader    = 64 << 10
	maxKeys      = 200
	maxWaiting   = 1000 // requests that wait for a fetch
)

const wellKnown = "/.well-known/openid-configuration"

// source has the keys of one issuer. A goroutine of its own fetches the discovery document at the
// start. It fetches the keys for the first token, every few minutes from then on, and when a token
// cannot be verified with those that are known. An issuer that nobody uses is not asked for keys, as
// in Kubernetes.
type source struct {
	issuer    Issuer
	hash      string                // of the issuer's URL
	took      [2]*metrics.Histogram // by outcome
	transport http.RoundTripper
	log       logr.Logger
	stop      context.CancelFunc // ends run
	kick      chan struct{}      // asks for a fetch

	mu        sync.Mutex
	keys      *keySet // nil before the first fetch succeeded
	err       error   // of the last fetch
	found     bool    // the discovery document has been read
	wanted    bool    // a token needs keys
	fetching  bool
	ended     bool
	began     time.Time     // the last fetch
	asked     time.Time     // the last fetch that failed, or was about keys
	fetched   [2]time.Time  // the last fetch of keys, by outcome
	latest    string        // the hash of the keys that were fetched last
	done      chan struct{} // closed when the next fetch has ended
	waiting   int
	keysURL   string // from the discovery document; empty before
	discovery time.Time
}

// keySet is what an issuer published at one time. Sets are compared by pointer.
type keySet struct {
	keys *jws.Keys
	text []byte // of the document, to notice that nothing changed
}

// identity is what makes two configurations of an issuer share a source.
type identity struct{ url, discoveryURL, authorities, egress string }

func (i Issuer) identity() identity {
	return identity{i.URL, i.DiscoveryURL, i.CertificateAuthority, i.EgressSelectorType}
}

func newSource(i Issuer, o Options) *source {
	s := &source{issuer: i, transport: o.transport, log: o.Logger, kick: make(chan struct{}, 1), done: make(chan struct{})}
	s.hash = digest([]byte(i.URL))
	for outcome := range s.took {
		s.took[outcome] = metrics.NewHistogram(latencies())
	}
	if s.transport == nil {
		s.transport = newTransport(i, o.Egress)
	}
	return s
}

func newTransport(i Issuer, through *egress.Selector) *http.Transport {
	t := &http.Transport{
		DialContext:            through.Dialer(egress.Traffic(i.EgressSelectorType)),
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: maxHeader,
		MaxIdleConns:           1,
		IdleConnTimeout:        time.Minute,
	}
	if i.CertificateAuthority != "" {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(i.CertificateAuthority))
	}
	return t
}

// run fetches keys until ctx ends.
func (s *source) run(ctx context.Context) {
	for {
		s.fetch(ctx)
		s.mu.Lock()
		pause := refreshEvery
		switch {
		case s.keys == nil && s.err != nil:
			pause = fetchEvery
		case s.err != nil:
			pause = retryEvery
		}
		timer := time.NewTimer(time.Until(s.began.Add(pause)))
		s.mu.Unlock()
		select {
		case <-timer.C:
		case <-s.kick:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			s.end()
			return
		}
	}
}

// end lets those go who wait for a fetch.
func (s *source) end() {
	s.mu.Lock()
	s.ended = true
	close(s.done)
	s.mu.Unlock()
	if t, ok := s.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// fetch makes one attempt and tells those who wait for it.
func (s *source) fetch(ctx context.Context) {
	s.mu.Lock()
	s.began, s.fetching = time.Now(), true
	s.mu.Unlock()
	at, err := s.address(ctx)
	if err == nil && !s.needed() {
		return
	}
	var text []byte
	var keys *jws.Keys
	if err == nil {
		text, err = s.get(ctx, at)
	}
	if err == nil {
		if keys, err = jws.ParseKeys(text, maxKeys); err != nil {
			err = fmt.Errorf("the key set of the issuer: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.began
	s.count(at != "", text, err)
	if errors.Is(err, jws.ErrNoKeys) && s.keys != nil {
		keys = &jws.Keys{} // the issuer has withdrawn all keys: that is no outage, during which the old ones would count
	}
	if keys != nil && (s.keys == nil || !bytes.Equal(s.keys.text, text)) {
		s.keys = &keySet{keys, text}
	}
	if err != nil && ctx.Err() == nil {
		s.keysURL = "" // the issuer may have moved its keys
		s.log.Error(err, "the keys of an issuer of tokens cannot be fetched", "issuer", s.issuer.URL, "known", s.keys != nil && s.keys.keys.Len() > 0)
	}
	s.err, s.fetching = err, false
	close(s.done)
	s.done = make(chan struct{})
	select {
	case <-s.kick: // what it asked for has just happened
	default:
	}
}

// needed reports whether a token needs keys. If none does, the fetch has ended.
func (s *source) needed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.wanted {
		s.err, s.fetching = nil, false
	}
	return s.wanted
}

// address returns where the key set is published.
func (s *source) address(ctx context.Context) (string, error) {
	s.mu.Lock()
	at, discovered := s.keysURL, s.discovery
	s.mu.Unlock()
	if at != "" && time.Since(discovered) <= time.Hour {
		return at, nil
	}
	at, err := s.discover(ctx)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keysURL, s.discovery, s.found = at, time.Now(), true
	return at, nil
}

// discover returns where the key set is.
// Source: AUTHNCFG-15, AUTHNCFG-17 to AUTHNCFG-19.
func (s *source) discover(ctx context.Context) (string, error) {
	at := s.issuer.DiscoveryURL
	if at == "" {
		at = strings.TrimSuffix(s.issuer.URL, "/") + wellKnown
	}
	text, err := s.get(ctx, at)
	if err != nil {
		return "", err
	}
	var found struct {
		Issuer  string `json:"issuer"`
		KeysURL string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return "", fmt.Errorf("the discovery document at %s is no JSON object of its kind", at)
	}
	if found.Issuer != s.issuer.URL {
		return "", fmt.Errorf("the discovery document at %s is that of another issuer", at)
	}
	if !strings.HasPrefix(found.KeysURL, "https://") {
		return "", fmt.Errorf("jwks_uri of the discovery document at %s must be an https URL", at)
	}
	return found.KeysURL, nil
}

// get returns a document. It follows no redirect, and bounds time and size.
// Source: security vector J11.
func (s *source) get(ctx context.Context, at string) ([]byte, error) {
	text, err := s.fetchDocument(ctx, at, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return text, nil
}

// fetchDocument is get with headers. Its errors do not repeat the URL.
func (s *source) fetchDocument(ctx context.Context, at string, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed")
	}
	req.Header = header
	res, err := s.transport.RoundTrip(req) // and not a client, which would follow redirects
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // it has been read as far as it matters
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered with status %d", res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxDocument:
		return nil, fmt.Errorf("answered with more than %d bytes", maxDocument)
	}
	return text, nil
}

// errNotReady is wrapped by errors about tokens of an issuer whose keys are not known.
var errNotReady = errors.New("the keys of the issuer are not known yet")

// known returns the keys of now, and nil before there are any.
func (s *source) known() *keySet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// other returns keys that are not those of before, or nil if the issuer has not published any. It
// has them fetched and waits, unless the last fetch began a moment ago.
// Source: security vector J12.
func (s *source) other(ctx context.Context, before *keySet) *keySet {
	s.mu.Lock()
	defer s.mu.Unlock()
	recently := !s.fetching && time.Since(s.asked) < fetchEvery
	if s.keys == before && !s.ended && !recently && s.waiting < maxWaiting {
		s.wait(ctx)
	}
	if s.keys == before {
		return nil
	}
	return s.keys
}

// wait waits for the end of a fetch, which it asks for if there is none. It holds the lock before
// and after.
func (s *source) wait(ctx context.Context) {
	done := s.done
	s.wanted = true
	if !s.fetching {
		select {
		case s.kick <- struct{}{}:
		default: // somebody else has asked
		}
	}
	s.waiting++
	s.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.waiting--
}

// ready returns why the issuer has never been reached, or nil.
func (s *source) ready() error {
	s.mu.Lock()
	is := s.keys != nil || s.found && s.err == nil
	s.mu.Unlock()
	if is {
		return nil
	}
	return s.missing()
}

// missing returns why no token of the issuer can be verified while its keys are not known.
func (s *source) missing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("issuer %s: %w: %w", s.issuer.URL, errNotReady, s.err)
	}
	return fmt.Errorf("issuer %s: %w", s.issuer.URL, errNotReady)
}
