package x509

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
)

// maxCached bounds the cache: as many callers as are likely to be connected at once.
const maxCached = 1024

// cache remembers chains that were found good. A connection sends the same chain with every
// request, and verifying its signatures costs more than serving a small object. Bad chains are not
// remembered: anybody can make new ones.
//
// An entry holds for as long as every certificate of the chain is valid, which is what verifying
// again would find, since neither the authorities nor the certificates can change.
type cache struct {
	mu      sync.RWMutex
	entries map[chainKey]verified // guarded by mu
}

type chainKey [sha256.Size]byte

type verified struct {
	user        authn.User
	from, until time.Time
}

// keyOf covers the whole chain as presented: another intermediate may be what makes a leaf good.
func keyOf(chain []*x509.Certificate) chainKey {
	h := sha256.New()
	for _, c := range chain {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(c.Raw)))) // a hash never fails to write
		_, _ = h.Write(c.Raw)
	}
	return chainKey(h.Sum(nil))
}

func (c *cache) get(key chainKey, now time.Time) (authn.User, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.entries[key]
	if !ok || now.Before(v.from) || now.After(v.until) {
		return authn.User{}, false
	}
	return v.user, true
}

func (c *cache) put(key chainKey, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = make(map[chainKey]verified)
	}
	for old := range c.entries { // any will do: whoever is still there comes back at the price of one verification
		if len(c.entries) < maxCached {
			break
		}
		delete(c.entries, old)
	}
	c.entries[key] = v
}
