package bbolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
)

// bbolt maps its file and trusts it: pages have no checksum, so a damaged one is served, sends the
// reader in circles, off the map, or out of the process. image reads the same format with plain
// reads and believes nothing. Everything that bbolt will follow later is required to have the one
// value that bbolt itself would have written: page numbers, types and extents, where each element
// begins and ends, the order of keys, separators equal to the first key below them, and no page in
// two places. What the elements hold is protected by our own checksums; what is left (free pages,
// the rest of a page) is never read.
//
// The layout, in the byte order of the machine, is bbolt's version 2:
//
//	page     id uint64, flags uint16, count uint16, overflow uint32, elements, data
//	branch   pos uint32, key size uint32, child uint64         data at pos from here: key
//	leaf     flags, pos, key size, value size uint32           data at pos from here: key, value
//	bucket   root uint64, sequence uint64                      root 0: one leaf page follows inline
//	meta     magic, version, page size, flags uint32, root bucket, freelist, pages, transaction, FNV-64a
type image struct {
	file     io.ReaderAt
	size     int64
	pageSize int64
	pages    pageID // how many pages are in use or were once
	root     pageID // of the tree of buckets
	seen     []uint64
	format   uint32 // of the store, once its state has been read

	window []byte // the bytes read last
	offset int64  // where window starts
	ahead  int64  // how much to read next if the read continues where window ends
}

type pageID uint64

const (
	pageHeader    = 16
	elementBytes  = 16
	bucketHeader  = 16
	metaBytes     = 64
	branchPage    = 0x01
	leafPage      = 0x02
	metaPage      = 0x04
	bucketElement = 0x01
	boltMagic     = 0xED0CDAED
	boltVersion   = 2
	noFreelist    = ^uint64(0)
	maxDepth      = 24 // a page has 2 children at least, and nobody has 2^24 pages at one per key
	minPageSize   = 1 << 10
	maxPageSize   = 1 << 20
	minAhead      = 16 << 10
	maxAhead      = 1 << 20
)

func damaged(text string, args ...any) error {
	return fmt.Errorf("%w: "+text, append([]any{ErrDamaged}, args...)...)
}

// newImage reads the meta pages of a file. Both must be intact. The lower transaction is useless,
// but if the higher one is damaged, going back by one would silently lose its acknowledged commits.
func newImage(file io.ReaderAt, size int64) (*image, error) {
	if size == 0 {
		return nil, damaged("it is empty")
	}
	if size < 2*minPageSize {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrForeign, size)
	}
	im := &image{file: file, size: size, pageSize: minPageSize}
	first, err := im.read(0, pageHeader+metaBytes)
	if err != nil {
		return nil, err
	}
	if magic := binary.NativeEndian.Uint32(first[pageHeader:]); magic != boltMagic {
		return nil, fmt.Errorf("%w: it does not begin like one", ErrForeign)
	}
	a, err := parseMeta(first, 0)
	if err != nil {
		return nil, err
	}
	im.pageSize = int64(a.pageSize)
	second, err := im.read(im.pageSize, pageHeader+metaBytes)
	if err != nil {
		return nil, err
	}
	b, err := parseMeta(second, 1)
	if err != nil {
		return nil, err
	}
	return im, im.choose(a, b)
}

// meta is a bbolt meta page.
type meta struct {
	pageSize           uint32
	root, freelist     uint64
	pages, transaction uint64
}

func parseMeta(b []byte, id pageID) (meta, error) {
	number := func(at int) uint64 { return binary.NativeEndian.Uint64(b[pageHeader+at:]) }
	small := func(at int) uint32 { return binary.NativeEndian.Uint32(b[pageHeader+at:]) }
	sum := fnv.New64a()
	_, _ = sum.Write(b[pageHeader : pageHeader+metaBytes-8])
	if sum.Sum64() != number(56) {
		return meta{}, damaged("meta page %d has a wrong checksum", id)
	}
	m := meta{small(8), number(16), number(32), number(40), number(48)}
	switch {
	case small(0) != boltMagic || small(4) != boltVersion:
		return meta{}, fmt.Errorf("%w: meta page %d has magic %08x and version %d", ErrForeign, id, small(0), small(4))
	case binary.NativeEndian.Uint64(b) != uint64(id) || binary.NativeEndian.Uint16(b[8:]) != metaPage:
		return meta{}, damaged("meta page %d has a wrong header", id)
	case m.pageSize < minPageSize || m.pageSize > maxPageSize || bits.OnesCount32(m.pageSize) != 1:
		return meta{}, damaged("meta page %d has page size %d", id, m.pageSize)
	}
	return m, nil
}

// choose takes the newer of the two meta pages.
func (im *image) choose(a, b meta) error {
	newer, older, slot := a, b, uint64(0)
	if b.transaction > a.transaction {
		newer, older, slot = b, a, 1
	}
	switch {
	case newer.transaction != older.transaction+1 || newer.transaction%2 != slot || a.pageSize != b.pageSize:
		return damaged("the meta pages are of transactions %d and %d", a.transaction, b.transaction)
	case newer.pages < 2 || newer.pages > uint64(im.size/im.pageSize):
		return damaged("it has %d bytes and should have %d pages of %d: it was cut off", im.size, newer.pages, im.pageSize)
	case newer.freelist != noFreelist:
		return fmt.Errorf("%w: it has a list of free pages", ErrForeign)
	}
	im.begin(pageID(newer.root), pageID(newer.pages))
	return nil
}

// begin prepares the image for a walk from a root.
func (im *image) begin(root, pages pageID) {
	im.root, im.pages = root, pages
	im.seen = make([]uint64, pages/64+1)
}

// read returns n bytes of the file, valid until the next read. A read that continues where the last
// one ended reads more and more at once; any other reads little.
func (im *image) read(at, n int64) ([]byte, error) {
	if end := im.offset + int64(len(im.window)); at < im.offset || at+n > end {
		if at >= im.offset && at <= end+im.pageSize {
			im.ahead = min(2*im.ahead, maxAhead)
		} else {
			im.ahead = minAhead
		}
		want := min(max(n, im.ahead), im.size-at)
		if want < n {
			return nil, damaged("it ends within the page at byte %d: it was cut off", at)
		}
		if int64(cap(im.window)) < want {
			im.window = make([]byte, want)
		}
		im.window, im.offset = im.window[:want], at
		if got, err := im.file.ReadAt(im.window, at); int64(got) < want {
			im.window = im.window[:0]
			if errors.Is(err, io.EOF) {
				return nil, damaged("it became shorter while it was read")
			}
			return nil, fmt.Errorf("reading at byte %d: %w", at, err)
		}
	}
	return im.window[at-im.offset:][:n:n], nil
}

// page reads a page with its overflow and requires that the walk has not met it before.
func (im *image) page(id pageID) (node, error) {
	if id < 2 || id >= im.pages {
		return node{}, damaged("page %d does not exist, there are %d", id, im.pages)
	}
	head, err := im.read(int64(id)*im.pageSize, im.pageSize)
	if err != nil {
		return node{}, err
	}
	if self := pageID(binary.NativeEndian.Uint64(head)); self != id {
		return node{}, damaged("page %d calls itself %d", id, self)
	}
	extra := pageID(binary.NativeEndian.Uint32(head[12:]))
	if extra >= im.pages-id {
		return node{}, damaged("page %d has %d more, there are %d in all", id, extra, im.pages)
	}
	for i := id; i <= id+extra; i++ {
		if im.seen[i/64]&(1<<(i%64)) != 0 {
			return node{}, damaged("page %d is in two places", i)
		}
		im.seen[i/64] |= 1 << (i % 64)
	}
	data, err := im.read(int64(id)*im.pageSize, int64(extra+1)*im.pageSize)
	if err != nil {
		return node{}, err
	}
	n, used, err := parseNode(data, id)
	if err != nil {
		return node{}, err
	}
	if need := (int64(used) + im.pageSize - 1) / im.pageSize; need != int64(extra)+1 {
		return node{}, damaged("page %d has %d more for %d bytes", id, extra, used)
	}
	return n, nil
}

// node is a page whose elements are known to be in their places.
type node struct {
	id    pageID // 0: inline in its bucket's parent
	leaf  bool
	count int
	data  []byte
}

// parseNode checks a page's type and the place of each element, and returns how many bytes they
// take. bbolt packs elements without gaps.
func parseNode(data []byte, id pageID) (n node, used int, err error) {
	n = node{id: id, count: int(binary.NativeEndian.Uint16(data[10:])), data: data}
	switch kind := binary.NativeEndian.Uint16(data[8:]); kind {
	case leafPage:
		n.leaf = true
	case branchPage:
		if n.count == 0 {
			return n, 0, damaged("branch page %d has no children", id)
		}
	default:
		return n, 0, damaged("page %d has type %x", id, kind)
	}
	used = pageHeader + n.count*elementBytes
	if used > len(data) {
		return n, 0, damaged("page %d has no room for %d elements", id, n.count)
	}
	for i := range n.count {
		pos, key, value := n.extent(i)
		if pos != uint64(used-pageHeader-i*elementBytes) || key == 0 || uint64(used)+key+value > uint64(len(data)) {
			return n, 0, damaged("element %d of page %d lies at %d with %d and %d bytes", i, id, pos, key, value)
		}
		used += int(key + value)
	}
	return n, used, nil
}

func (n node) element(i int) []byte { return n.data[pageHeader+i*elementBytes:] }

// extent returns the offset of element i's data from the element itself, and the length of its key
// and value.
func (n node) extent(i int) (pos, key, value uint64) {
	e := n.element(i)
	small := func(at int) uint64 { return uint64(binary.NativeEndian.Uint32(e[at:])) }
	if n.leaf {
		return small(4), small(8), small(12)
	}
	return small(0), small(4), 0
}

func (n node) key(i int) []byte {
	pos, key, _ := n.extent(i)
	return n.element(i)[pos:][:key:key]
}

func (n node) value(i int) []byte {
	pos, key, value := n.extent(i)
	return n.element(i)[pos+key:][:value:value]
}

// flags of a leaf's element: bucketElement or 0.
func (n node) flags(i int) uint32 { return binary.NativeEndian.Uint32(n.element(i)) }

// child of a branch's element.
func (n node) child(i int) pageID { return pageID(binary.NativeEndian.Uint64(n.element(i)[8:])) }

// visitor receives each element of a bucket in order. The slices are valid only during the call.
type visitor func(key, value []byte, flags uint32) error

// walkBucket visits the elements of a bucket that is the value of an element of the root.
func (im *image) walkBucket(value []byte, visit visitor) error {
	if len(value) < bucketHeader {
		return damaged("a bucket has %d bytes", len(value))
	}
	root := pageID(binary.NativeEndian.Uint64(value))
	if sequence := binary.NativeEndian.Uint64(value[8:]); sequence != 0 {
		return damaged("a bucket has sequence %d", sequence)
	}
	inline := value[bucketHeader:]
	if root != 0 {
		if len(inline) != 0 {
			return damaged("a bucket has both a root page and %d bytes inline", len(inline))
		}
		return im.walk(root, nil, nil, maxDepth, visit)
	}
	if len(inline) < pageHeader {
		return damaged("an inline bucket has %d bytes", len(inline))
	}
	if self, extra := binary.NativeEndian.Uint64(inline), binary.NativeEndian.Uint32(inline[12:]); self != 0 || extra != 0 {
		return damaged("an inline bucket calls itself page %d with %d more", self, extra)
	}
	n, used, err := parseNode(inline, 0)
	if err != nil {
		return err
	}
	if !n.leaf || used != len(inline) {
		return damaged("an inline bucket uses %d of its %d bytes", used, len(inline))
	}
	return n.visit(nil, nil, visit)
}

// walk visits the elements below a page. Unless they are nil, first must be the first key, and all
// keys must be below end.
func (im *image) walk(id pageID, first, end []byte, depth int, visit visitor) error {
	if depth == 0 {
		return damaged("page %d lies too deep", id)
	}
	n, err := im.page(id)
	if err != nil {
		return err
	}
	if n.leaf {
		return n.visit(first, end, visit)
	}
	type branch struct {
		key   []byte
		child pageID
	}
	// Copy them: the children are read into the same window.
	branches := make([]branch, 0, n.count)
	if err := n.checkKeys(first, end); err != nil {
		return err
	}
	for i := range n.count {
		branches = append(branches, branch{bytes.Clone(n.key(i)), n.child(i)})
	}
	for i, b := range branches {
		below := end
		if i+1 < len(branches) {
			below = branches[i+1].key
		}
		if err := im.walk(b.child, b.key, below, depth-1, visit); err != nil {
			return err
		}
	}
	return nil
}

// checkKeys requires ascending keys from first to below end.
func (n node) checkKeys(first, end []byte) error {
	if first != nil && (n.count == 0 || !bytes.Equal(n.key(0), first)) {
		return damaged("page %d does not begin with the key that leads to it", n.id)
	}
	for i := 1; i < n.count; i++ {
		if bytes.Compare(n.key(i-1), n.key(i)) >= 0 {
			return damaged("keys %d and %d of page %d are out of order", i-1, i, n.id)
		}
	}
	if end != nil && n.count > 0 && bytes.Compare(n.key(n.count-1), end) >= 0 {
		return damaged("page %d reaches into the next one", n.id)
	}
	return nil
}

func (n node) visit(first, end []byte, visit visitor) error {
	if err := n.checkKeys(first, end); err != nil {
		return err
	}
	for i := range n.count {
		if err := visit(n.key(i), n.value(i), n.flags(i)); err != nil {
			return err
		}
	}
	return nil
}
