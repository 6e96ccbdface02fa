package x509

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"sync"
	"time"

	"github.com/kindwright/kindwright/authn"
)

// maxCached limits the cache to the callers that are likely to be connected at once.
const maxCached = 1024

// cache remembers valid chains. A connection sends the same chain with every request, and verifying
// its signatures costs more than serving a small object. It does not remember invalid chains, of
// which anyone can make new ones.
//
// An entry is valid as long as every certificate of the chain is, and the authorities are the same.
type cache struct {
	mu      sync.RWMutex
	roots   *x509.CertPool        // that the entries were verified with; guarded by mu
	entries map[chainKey]verified // guarded by mu
}

type chainKey [sha256.Size]byte

type verified struct {
	user        authn.User
	from, until time.Time
}

// keyOf covers the whole chain as presented, because the validity of a leaf may depend on an
// intermediate.
func keyOf(chain []*x509.Certificate) chainKey {
	h := sha256.New()
	for _, c := range chain {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(c.Raw)))) // a hash never fails to write
		_, _ = h.Write(c.Raw)
	}
	return chainKey(h.Sum(nil))
}

func (c *cache) get(roots *x509.CertPool, key chainKey, now time.Time) (authn.User, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.entries[key]
	if !ok || roots != c.roots || now.Before(v.from) || now.After(v.until) {
		return authn.User{}, false
	}
	return v.user, true
}

func (c *cache) put(roots *x509.CertPool, key chainKey, v verified) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil || roots != c.roots {
		c.roots, c.entries = roots, make(map[chainKey]verified)
	}
	for old := range c.entries { // evict any entry: its caller comes back at the price of one verification
		if len(c.entries) < maxCached {
			break
		}
		delete(c.entries, old)
	}
	c.entries[key] = v
}
