package engine

import (
	lru "container/list"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Encoding names a form of an object other than the JSON that is stored, which many readers may ask
// for. One cache keeps those of all objects of an engine, within a budget of bytes (design rule 11).
type Encoding uint8

// The encodings.
const (
	converted      Encoding = iota // an entry, in the form of another served version
	Packed                         // its JSON, compressed (READ-02)
	Message                        // its protobuf message
	PackedMessage                  // the same, compressed
	Rows                           // of a segment of a list: its objects as rows (TABLE-04), or their metadata alone (TABLE-10)
	PackedRows                     // the same, as a part of a compressed body
	PackedSegment                  // of a segment of a list: its objects, as a part of a compressed body
	SegmentObjects                 // of a segment of a list in another form than the stored one: its objects
	Messages                       // of a segment of a list: its objects, or their metadata, as items of a message
	PackedMessages                 // the same, as a part of a compressed body
)

// encodingBudget is how many bytes the cache of an engine may take, with recentBudget.
const encodingBudget = 16 << 20

// heldBudget is how many bytes all lists of an engine may hold at once until they are sent, beside what
// each may always hold.
const heldBudget = 2 * encodingBudget

// encodingOverhead is about what an entry of the cache costs beside its bytes.
const encodingOverhead = 256

// Encoding returns an object of the live view or of its log in another encoding. build makes it if the
// cache does not have it. The cache keeps it from the second time that it is asked for, until others
// displace it. The caller must not change the bytes, and must not pass the result of a dry run: its
// name and version belong to another object.
func (s *Served) Encoding(e *watch.Entry, encoding Encoding, build func() ([]byte, error)) ([]byte, error) {
	v, err := s.scope.make(s.scope.key(e, encoding), func() (encoded, error) {
		b, err := build()
		return encoded{bytes: b}, err
	})
	return v.bytes, err
}

// Segment returns some neighbours of a list in another encoding: it is Encoding for all of them at
// once. about distinguishes what build makes of the same objects.
func (s *Served) Segment(entries []*watch.Entry, encoding Encoding, about string, build func() ([]byte, error)) ([]byte, error) {
	name := make([]byte, 0, len(entries)*8+len(about))
	for _, e := range entries { // a version names one state of one object of a resource (design rule 1)
		name = binary.BigEndian.AppendUint64(name, uint64(e.Revision()))
	}
	v, err := s.scope.make(encodingKey{s.scope, encoding, string(append(name, about...)), 0}, func() (encoded, error) {
		b, err := build()
		return encoded{bytes: b}, err
	})
	return v.bytes, err
}

// Hold reserves memory for bytes of a list that wait until they can be sent. It reports whether there
// is room. The caller must pass what it has reserved to LetGo.
func (s *Served) Hold(bytes int) bool {
	if s.scope.held.Add(int64(bytes)) <= heldBudget {
		return true
	}
	s.LetGo(bytes)
	return false
}

// LetGo gives back what Hold has reserved.
func (s *Served) LetGo(bytes int) { s.scope.held.Add(-int64(bytes)) }

// scope is the part of the cache that belongs to one served resource. It is not the resource itself,
// because a cached encoding would then keep the objects of a removed resource in memory.
type scope struct{ *encodings }

// encodingKey names an encoding of one state of an object. It does not hold the entry, which may be
// long gone.
type encodingKey struct {
	scope    *scope
	encoding Encoding
	object   string // its storage key; of a segment what names it
	revision storage.Revision
}

// encoded is an object in an encoding: bytes, or an entry.
type encoded struct {
	bytes []byte
	entry *watch.Entry
}

// cachedEncoding is an entry of the cache.
type cachedEncoding struct {
	key   encodingKey
	value encoded
	size  int
}

// encodings caches what was asked for more than once, and evicts the least recently used.
type encodings struct {
	budget int
	seed   maphash.Seed
	held   atomic.Int64 // bytes reserved by Hold
	recent recent       // frames of events

	mu     sync.Mutex
	bytes  int
	kept   map[encodingKey]*lru.Element
	latest lru.List // of *cachedEncoding, the most recently used first

	// asked holds hashes of what was asked for lately and is not cached, the latest of each group
	// first. The low bits of a hash name its group. The table forgets, and may take one key for
	// another; both cost a little work and nothing else. It is made on first use.
	asked [][askedTogether]uint32
}

// askedGroups and askedTogether say how many keys are remembered that were asked for once: more than
// the budget holds of small encodings. A key is forgotten after that many others of its group.
const (
	askedGroups   = 1 << 13
	askedTogether = 4
)

func newEncodings() *encodings {
	return &encodings{budget: encodingBudget - recentBudget, seed: maphash.MakeSeed(), kept: map[encodingKey]*lru.Element{}}
}

func (s *scope) key(e *watch.Entry, encoding Encoding) encodingKey {
	return encodingKey{s, encoding, e.Key(), e.Revision()}
}

// make returns what a key names. build makes it if it is not cached; two readers may build the same
// one at once.
func (s *scope) make(key encodingKey, build func() (encoded, error)) (encoded, error) {
	value, ok, again := s.find(key)
	if ok {
		return value, nil
	}
	value, err := build()
	if err != nil || !again {
		return value, err
	}
	return s.add(key, value), nil
}

// add caches what a key names, and returns it.
func (s *scope) add(key encodingKey, value encoded) encoded {
	kept := &cachedEncoding{key: key, value: value}
	kept.value.bytes = slices.Clone(value.bytes) // of just its size
	kept.size = encodingOverhead + len(key.object) + cap(kept.value.bytes)
	if value.entry != nil {
		kept.size += value.entry.Size()
	}
	s.keep(kept)
	return kept.value
}

// find looks a key up. If it is not cached, again tells whether it has been asked for before.
func (s *encodings) find(key encodingKey) (value encoded, ok, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el, ok := s.kept[key]; ok {
		s.latest.MoveToFront(el)
		return cached(el).value, true, false
	}
	if s.asked == nil {
		s.asked = make([][askedTogether]uint32, askedGroups)
	}
	h := maphash.Comparable(s.seed, key)
	group, mark := &s.asked[h%askedGroups], uint32(h>>32)
	again = slices.Contains(group[:], mark)
	if !again {
		copy(group[1:], group[:])
		group[0] = mark
	}
	return encoded{}, false, again
}

// keep adds an entry, and evicts those that no longer fit.
func (s *encodings) keep(k *cachedEncoding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[k.key]; ok || k.size > s.budget {
		return
	}
	s.kept[k.key] = s.latest.PushFront(k)
	s.bytes += k.size
	for s.bytes > s.budget {
		old := cached(s.latest.Back())
		s.latest.Remove(s.latest.Back())
		delete(s.kept, old.key)
		s.bytes -= old.size
	}
}

func cached(el *lru.Element) *cachedEncoding { return el.Value.(*cachedEncoding) }
