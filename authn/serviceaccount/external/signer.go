package external

import (
	"context"
	"crypto"
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/authn/serviceaccount"
)

// shortest is the least that a signer may allow tokens to last.
const shortest = 10 * time.Minute

// maxRefresh bounds how long keys are used before they are fetched again; retry is how soon that is
// tried again after a failure.
const (
	maxRefresh = 24 * time.Hour
	retry      = 10 * time.Second
)

// Signer has tokens signed by another process, and has the keys that it publishes.
type Signer struct {
	caller  *caller
	longest time.Duration
	failed  func(error)
	keys    atomic.Pointer[serviceaccount.KeySet]
	stats   stats

	mu   sync.Mutex
	last []serviceaccount.PublicKey // of the set

	stop  context.CancelFunc
	ended sync.WaitGroup
}

var (
	_ serviceaccount.Signer    = (*Signer)(nil)
	_ serviceaccount.KeySource = (*Signer)(nil)
)

// Open asks the signer at a Unix socket how long tokens may last, and for its keys. It is an error if
// the signer does not answer. Afterwards the keys are fetched as often as the signer says; failed is
// told when that is not possible, and the last keys stay in use.
func Open(ctx context.Context, socket string, failed func(error)) (*Signer, error) {
	s := &Signer{caller: newCaller(socket), failed: failed}
	answer, err := s.caller.call(ctx, "Metadata", nil)
	if err == nil {
		s.longest, err = readLongest(answer)
		err = about("Metadata", err)
	}
	var next time.Duration
	if err == nil {
		next, err = s.fetch(ctx)
	}
	if err != nil {
		s.caller.client.Close()
		return nil, err
	}
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.ended.Go(func() { s.follow(ctx, next) })
	return s, nil
}

// MaxLifetime returns how long tokens may last.
func (s *Signer) MaxLifetime() time.Duration { return s.longest }

// Keys implements serviceaccount.KeySource. The keys are those that were fetched last.
func (s *Signer) Keys() *serviceaccount.KeySet { return s.keys.Load() }

// Sign implements serviceaccount.Signer. A key that is new is fetched before its first token is handed
// out. A token whose header is wrong, or whose key others cannot find, is not handed out: the error is
// then a [serviceaccount.SignatureError].
func (s *Signer) Sign(ctx context.Context, claims []byte) (string, error) {
	payload := base64.RawURLEncoding.EncodeToString(claims)
	answer, err := s.caller.call(ctx, "Sign", signRequest(payload))
	s.stats.signed(err)
	if err != nil {
		return "", err
	}
	head, signature, err := readSigned(answer)
	if err != nil {
		return "", about("Sign", err)
	}
	if err := s.check(ctx, head); err != nil {
		return "", err
	}
	if signature == "" {
		return "", &serviceaccount.SignatureError{Reason: "empty signature returned"}
	}
	return head + "." + payload + "." + signature, nil
}

// check reports what is wrong with the header of a token. A key that is new is fetched; why that fails is
// not for clients.
func (s *Signer) check(ctx context.Context, head string) error {
	h, err := readHeader(head)
	if err != nil {
		return wrongHeader(err)
	}
	if !s.knows(h.KeyID) {
		if _, err := s.fetch(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkKey(h.KeyID, s.last); err != nil {
		return wrongHeader(err)
	}
	return nil
}

func wrongHeader(err error) error {
	return &serviceaccount.SignatureError{Reason: fmt.Sprintf("while validating header: %v", err)}
}

// knows reports whether a key is among those of now.
func (s *Signer) knows(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.last, func(k serviceaccount.PublicKey) bool { return k.ID == id })
}

// Close ends the fetching of keys.
func (s *Signer) Close() {
	s.stop()
	s.ended.Wait()
	s.caller.client.Close()
}

// follow fetches the keys until ctx ends.
func (s *Signer) follow(ctx context.Context, next time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
		var err error
		if next, err = s.fetch(ctx); err != nil {
			next = retry
			if ctx.Err() == nil {
				s.failed(err)
			}
		}
	}
}

// fetch replaces the keys if they have changed, and returns after which time to fetch them again.
func (s *Signer) fetch(ctx context.Context) (time.Duration, error) {
	answer, err := s.caller.call(ctx, "FetchKeys", nil)
	var p published
	if err == nil {
		p, err = readPublished(answer)
		err = about("FetchKeys", err)
	}
	s.stats.fetching(err, p.looked)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.EqualFunc(p.keys, s.last, sameKey) {
		return p.refresh, nil // what was proven with the set still counts
	}
	set, err := serviceaccount.NewKeySet(p.keys...)
	if err != nil {
		return 0, about("FetchKeys", err)
	}
	s.last = p.keys
	s.keys.Store(set)
	return p.refresh, nil
}

// sameKey reports whether two keys are equal. Those of the standard library can tell.
func sameKey(a, b serviceaccount.PublicKey) bool {
	key, ok := a.Key.(interface {
		Equal(x crypto.PublicKey) bool
	})
	return ok && a.ID == b.ID && a.Unpublished == b.Unpublished && key.Equal(b.Key)
}
