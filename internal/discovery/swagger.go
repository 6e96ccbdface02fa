package discovery

import (
	"sync"
	"time"
)

// swagger is one form of the OpenAPI v2 document. It is as large as all kinds together and few
// clients ask for it, so it is dropped when it is idle. Its hash stays: clients that have the
// document need nothing else.
type swagger struct {
	build func() ([]byte, error)
	keep  time.Duration

	mu      sync.Mutex // held while the document is built
	hash    string     // empty until it was built once
	body    []byte     // nil while it is dropped
	idle    *time.Timer
	retired bool // it is no longer the current one, and is not kept
}

// known returns the hash of the document, or "" before it is built for the first time.
func (s *swagger) known() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hash
}

// document returns the document and keeps it for some time.
func (s *swagger) document() (*document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &document{body: s.body, hash: s.hash}
	if d.body == nil {
		body, err := s.build()
		if err != nil {
			return nil, err
		}
		d = newDocument(body)
		s.hash = d.hash
	}
	if s.retired {
		return d, nil
	}
	s.body = d.body
	if s.idle == nil {
		s.idle = time.AfterFunc(s.keep, s.drop)
	} else {
		s.idle.Reset(s.keep)
	}
	return d, nil
}

func (s *swagger) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = nil
}

// retire drops what is kept for a limited time, now and in the future. c may be nil.
func (c *catalog) retire() {
	if c == nil {
		return
	}
	for _, s := range c.swagger {
		s.mu.Lock()
		s.body, s.retired = nil, true
		if s.idle != nil {
			s.idle.Stop()
		}
		s.mu.Unlock()
	}
}
