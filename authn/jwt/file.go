package jwt

import (
	"errors"
	"slices"

	"github.com/kindwright/kindwright/internal/config"
)

// Open returns an authenticator for the configuration in a file; see [New] and [Parse].
//
// It reads the file again when it changes. While the file is damaged or gone, the last good
// configuration stays in effect. A good one takes effect when the keys of all its issuers are known,
// and until then the one before stays. [Authenticator.Check] says so, and so does the log.
//
// The section anonymous cannot change: it takes effect when a server starts.
func Open(path string, o Options) (*Authenticator, error) {
	a, err := prepare(o)
	if err != nil {
		return nil, err
	}
	a.live, err = config.Follow(path, a.read, config.LiveOptions{Log: a.options.Logger, Name: "authentication", ServerID: o.ServerID})
	if err != nil {
		_ = a.Close() // nothing has begun
		return nil, err
	}
	a.active.Store(a.live.Get())
	return a, nil
}

func (a *Authenticator) read(document []byte) (*state, error) {
	c, err := a.options.parse(document)
	if err != nil {
		return nil, err
	}
	if now := a.active.Load(); now != nil && !c.Anonymous.equal(now.configuration.Anonymous) {
		return nil, errors.New("anonymous: Forbidden: changed from initial configuration file")
	}
	return a.take(c)
}

func (a *Anonymous) equal(b *Anonymous) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Enabled == b.Enabled && slices.Equal(a.Conditions, b.Conditions)
}
