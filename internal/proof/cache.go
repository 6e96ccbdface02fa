package proof

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash"
	"sync"
	"time"
)

// Cache remembers what tokens prove. It is safe for concurrent use.
type Cache[T any] struct {
	limit  int
	hashes sync.Pool

	mu      sync.Mutex
	young   map[digest]entry[T] // those that were used lately
	bytes   int                 // of the young tokens
	old     map[digest]entry[T]
	flights map[digest]*flight[T]
}

type digest [sha256.Size]byte

// entry is what a token proves.
type entry[T any] struct {
	proved  T
	expires time.Time
	by      any // what it was verified with
	size    int // of the token
}

// flight is a verification that is under way.
type flight[T any] struct {
	done  chan struct{}
	by    any
	size  int
	entry entry[T]
	err   error

	abandoned bool // the context of the one who ran it has ended
}

// usualSize is how long tokens usually are, at most. What a longer one proves, such as who it is meant for, may
// be long too, so it takes the place of several.
const usualSize = 2 << 10

// New returns a cache of at most limit tokens, or of fewer long ones. Those that nobody uses leave first.
func New[T any](limit int) *Cache[T] {
	var secret [sha256.Size]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &Cache[T]{
		limit:  limit,
		hashes: sync.Pool{New: func() any { return &hasher{Hash: hmac.New(sha256.New, secret[:])} }},
		young:  map[digest]entry[T]{}, old: map[digest]entry[T]{}, flights: map[digest]*flight[T]{},
	}
}

// Get returns what a token proves, which is remembered until it expires or by is another value, such
// as the keys that the issuer has published meanwhile. Otherwise prove finds it out. A token whose
// proof fails is not remembered.
//
// Requests that come while prove runs for their token wait for its result. If prove fails because
// the context of its caller has ended, the next one tries.
func (c *Cache[T]) Get(ctx context.Context, token string, by any, prove func(context.Context) (T, time.Time, error)) (T, error) {
	id := c.digest(token)
	for {
		c.mu.Lock()
		if e, ok := c.find(id, by); ok {
			c.mu.Unlock()
			return e.proved, nil
		}
		f, running := c.flights[id]
		if !running || f.by != by {
			f = &flight[T]{done: make(chan struct{}), by: by, size: len(token)}
			c.flights[id] = f
			c.mu.Unlock()
			return c.fly(ctx, id, f, prove)
		}
		c.mu.Unlock()
		var none T
		select {
		case <-f.done:
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
		switch {
		case f.err == nil:
			return f.entry.proved, nil
		case !f.abandoned:
			return none, f.err
		}
	}
}

// fly runs prove and tells those who wait.
func (c *Cache[T]) fly(ctx context.Context, id digest, f *flight[T], prove func(context.Context) (T, time.Time, error)) (T, error) {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.flights[id] == f {
			delete(c.flights, id)
		}
		if f.err == nil {
			c.keep(id, f.entry)
		}
		close(f.done)
	}()
	f.err, f.abandoned = errPanicked, true // until prove has returned
	proved, expires, err := prove(ctx)
	f.entry, f.err, f.abandoned = entry[T]{proved, expires, f.by, f.size}, err, ctx.Err() != nil
	return proved, err
}

// errPanicked stands for the result of a verification that panicked.
var errPanicked = errors.New("the verification of the token panicked")

// find returns what is remembered. It forgets what no longer counts.
func (c *Cache[T]) find(id digest, by any) (e entry[T], ok bool) {
	e, young := c.young[id]
	if !young {
		if e, ok = c.old[id]; !ok {
			return e, false
		}
	}
	if e.by != by || !time.Now().Before(e.expires) {
		c.drop(id)
		return e, false
	}
	if !young {
		c.keep(id, e)
	}
	return e, true
}

// drop forgets an entry, if there is one.
func (c *Cache[T]) drop(id digest) {
	c.bytes -= c.young[id].size
	delete(c.young, id)
	delete(c.old, id)
}

// keep remembers an entry. When half of the limit is young, those that are not become old, and the
// old ones leave.
func (c *Cache[T]) keep(id digest, e entry[T]) {
	c.drop(id)
	c.young[id] = e
	c.bytes += e.size
	if most := c.limit / 2; len(c.young) > most || c.bytes > most*usualSize {
		c.old, c.young, c.bytes = c.young, map[digest]entry[T]{}, 0
	}
}

// hasher hashes a token without allocating.
type hasher struct {
	hash.Hash
	token []byte
	sum   digest
}

func (c *Cache[T]) digest(token string) digest {
	h, _ := c.hashes.Get().(*hasher)
	defer c.hashes.Put(h)
	h.Reset()
	h.token = append(h.token[:0], token...)
	_, _ = h.Write(h.token) // never fails
	clear(h.token)
	h.Sum(h.sum[:0])
	return h.sum
}
