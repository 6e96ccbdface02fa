package engine

import (
	lru "container/list"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Shape names a form of an object other than the JSON that it is kept in, which has to be made and which many readers may ask
// for. All shapes of all objects of an engine live under one budget of bytes (design rule 11).
type Shape uint8

// The shapes of an object.
const (
	converted      Shape = iota // an entry, in the form of another served version
	Packed                      // its JSON, compressed (READ-02)
	Message                     // its protobuf message
	PackedMessage               // the same, compressed
	Rows                        // of a segment of a list: its objects as rows (TABLE-04), or their metadata alone (TABLE-10)
	PackedRows                  // the same, as a part of a compressed body
	PackedSegment               // of a segment of a list: its objects, as a part of a compressed body
	SegmentObjects              // of a segment of a list in another form than the stored one: its objects
)

// shapeBudget is how many bytes of shapes an engine keeps.
const shapeBudget = 16 << 20

// shapeOverhead is about what the place of a shape costs beside its bytes.
const shapeOverhead = 256

// Shape returns an object of the live view or of its log in another shape, which build makes where it is not kept. From the
// second time that it is asked for it is kept for all readers, until others push it out. The bytes must not be changed. What
// a dry run made must not be passed: it has the name and version of something else.
func (s *Served) Shape(e *watch.Entry, shape Shape, build func() ([]byte, error)) ([]byte, error) {
	v, err := s.shelf.make(s.shelf.key(e, shape), func() (shapeValue, error) {
		b, err := build()
		return shapeValue{bytes: b}, err
	})
	return v.bytes, err
}

// Segment returns some neighbours of a list, as many as they may be, in another shape; it is Shape for all of them at once.
// about tells apart what build makes of the same objects.
func (s *Served) Segment(entries []*watch.Entry, shape Shape, about string, build func() ([]byte, error)) ([]byte, error) {
	name := make([]byte, 0, len(entries)*8+len(about))
	for _, e := range entries { // a version names one state of one object of a resource (design rule 1)
		name = binary.BigEndian.AppendUint64(name, uint64(e.Revision()))
	}
	v, err := s.shelf.make(shapeKey{s.shelf, shape, string(append(name, about...)), 0}, func() (shapeValue, error) {
		b, err := build()
		return shapeValue{bytes: b}, err
	})
	return v.bytes, err
}

// shelf is the place of one served resource among the shapes. It is not the resource itself, lest a shape that nobody asks
// for any more keep the objects of a removed resource in memory.
type shelf struct{ *shapes }

// shapeKey names a shape of one state of an object. It does not hold the entry, which may be long gone.
type shapeKey struct {
	shelf    *shelf
	shape    Shape
	object   string // its storage key; of a segment what names it
	revision storage.Revision
}

// shapeValue is a shape: bytes, or an entry.
type shapeValue struct {
	bytes []byte
	entry *watch.Entry
}

// keptShape is a shape in its place.
type keptShape struct {
	key   shapeKey
	value shapeValue
	size  int
}

// shapes keeps what was asked for more than once, the least recently used of which goes first.
type shapes struct {
	budget int
	seed   maphash.Seed

	mu     sync.Mutex
	bytes  int
	kept   map[shapeKey]*lru.Element
	recent lru.List // of *keptShape, the most recently used first

	// asked holds hashes of what was asked for lately and is not kept, the latest of each group first. The low bits of a
	// hash name its group. The table forgets, and it takes one for another, both of which cost a little work and nothing
	// else. It is made on first use.
	asked [][askedTogether]uint32
}

// askedGroups and askedTogether say how many shapes are remembered that were asked for once: more than the budget holds of
// small ones. A shape is forgotten after as many others of its group were asked for.
const (
	askedGroups   = 1 << 13
	askedTogether = 4
)

func newShapes() *shapes {
	return &shapes{budget: shapeBudget, seed: maphash.MakeSeed(), kept: map[shapeKey]*lru.Element{}}
}

func (s *shelf) key(e *watch.Entry, shape Shape) shapeKey {
	return shapeKey{s, shape, e.Key(), e.Revision()}
}

// make returns what a key names, made by build where it is not kept. Two readers may build the same one at once.
func (s *shelf) make(key shapeKey, build func() (shapeValue, error)) (shapeValue, error) {
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

// add keeps what a key names, and returns it.
func (s *shelf) add(key shapeKey, value shapeValue) shapeValue {
	kept := &keptShape{key: key, value: value}
	kept.value.bytes = slices.Clone(value.bytes) // of just its size
	kept.size = shapeOverhead + len(key.object) + cap(kept.value.bytes)
	if value.entry != nil {
		kept.size += value.entry.Size()
	}
	s.keep(kept)
	return kept.value
}

// find looks for a shape. Where it is not kept, again tells whether it has been asked for before.
func (s *shapes) find(key shapeKey) (value shapeValue, ok, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if el, ok := s.kept[key]; ok {
		s.recent.MoveToFront(el)
		return place(el).value, true, false
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
	return shapeValue{}, false, again
}

// keep gives a shape its place, and takes the places of those that no longer fit.
func (s *shapes) keep(k *keptShape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.kept[k.key]; ok || k.size > s.budget {
		return
	}
	s.kept[k.key] = s.recent.PushFront(k)
	s.bytes += k.size
	for s.bytes > s.budget {
		old := place(s.recent.Back())
		s.recent.Remove(s.recent.Back())
		delete(s.kept, old.key)
		s.bytes -= old.size
	}
}

func place(el *lru.Element) *keptShape { return el.Value.(*keptShape) }
