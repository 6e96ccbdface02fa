package requestheader

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/authn"
)

// Live authenticates by header fields of front proxies, by settings that may change while it is in
// use. Each request is judged by the settings of that moment. Without settings nobody is a proxy. It
// is safe for concurrent use; the zero value has no settings.
type Live struct {
	current  atomic.Pointer[Authenticator]
	revision atomic.Uint64
	mu       sync.Mutex // one change at a time
}

var (
	_ authn.Authenticator = (*Live)(nil)
	_ authn.HeaderOwner   = (*Live)(nil)
	_ authn.HeaderChanger = (*Live)(nil)
)

// Set changes the settings; see [New] for them and for the error, after which nothing has changed.
func (l *Live) Set(proxies authn.Authenticator, cfg Config) error {
	a, err := New(proxies, cfg)
	if err != nil {
		return err
	}
	l.change(a)
	return nil
}

// Unset takes the settings away: from now on nobody is a proxy.
func (l *Live) Unset() { l.change(nil) }

func (l *Live) change(to *Authenticator) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.Store(to)
	l.revision.Add(1) // afterwards: whoever sees it, sees the settings
}

// IdentityHeaders returns the fields that name a user now, for [authn.Middleware].
func (l *Live) IdentityHeaders() (names, prefixes []string) {
	if a := l.current.Load(); a != nil {
		return a.IdentityHeaders()
	}
	return nil, nil
}

// HeaderRevision counts the changes.
func (l *Live) HeaderRevision() uint64 { return l.revision.Load() }

// Authenticate returns the user whom a verified proxy names; see [Authenticator.Authenticate].
func (l *Live) Authenticate(r *http.Request) (authn.User, bool, error) {
	if a := l.current.Load(); a != nil {
		return a.Authenticate(r)
	}
	return authn.User{}, false, nil
}

// nobody knows no proxy.
type nobody struct{}

// Authenticate knows nobody.
func (nobody) Authenticate(*http.Request) (authn.User, bool, error) { return authn.User{}, false, nil }
