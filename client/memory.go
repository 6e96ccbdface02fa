package client

import (
	"container/list"
	"sync"
)

// identity is one state of one object. A version never comes twice, so what is remembered under it
// stays true.
type identity struct{ namespace, name, version string }

// memory remembers objects as the server sent them, the most recently used within a budget of
// bytes. Nothing depends on what it has forgotten but an extra request.
type memory struct {
	budget int

	mu    sync.Mutex // guards what follows
	bytes int
	used  list.List // of *remembered, the latest first
	index map[identity]*list.Element
}

type remembered struct {
	id   identity
	text []byte // never changed
}

// entryBytes is about what an entry costs beside its text.
const entryBytes = 200

func (m *memory) put(id identity, text []byte) {
	cost := len(text) + entryBytes
	if id.version == "" || cost > m.budget {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, has := m.index[id]; has {
		m.used.MoveToFront(e)
		return
	}
	if m.index == nil {
		m.index = make(map[identity]*list.Element)
	}
	m.index[id] = m.used.PushFront(&remembered{id, text})
	m.bytes += cost
	for m.bytes > m.budget {
		m.forget(m.used.Back())
	}
}

func (m *memory) get(id identity) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, has := m.index[id]
	if !has {
		return nil, false
	}
	m.used.MoveToFront(e)
	return e.Value.(*remembered).text, true
}

func (m *memory) forget(e *list.Element) {
	r := m.used.Remove(e).(*remembered)
	delete(m.index, r.id)
	m.bytes -= len(r.text) + entryBytes
}
