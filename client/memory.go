package client

import (
	"container/list"
	"sync"
)

// identity names one state of one object. Versions are never reused, so a remembered text stays
// valid.
type identity struct{ namespace, name, version string }

// memory caches objects as the server sent them: the most recently used ones, up to a budget of
// bytes. A miss costs one request.
type memory struct {
	budget int

	mu    sync.Mutex // guards the fields below
	bytes int
	used  list.List // of *remembered, most recent first
	index map[identity]*list.Element
}

type remembered struct {
	id   identity
	text []byte // never changed
}

// entryBytes is the approximate overhead of an entry.
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
