package bbolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/storage"
)

// Examination is what can be read from a file, which may be damaged. It is a [storage.Backend] that
// has the newest record of each key and takes no commits, so that package storage/copy brings them
// into a new store. Nothing is known about what lies in the damaged parts: an object whose newest
// record was there is missing, or has an older state, and one whose deletion was there is back.
type Examination struct {
	Records int     // that can be read, with those of the history
	Damage  []error // what cannot be read; empty if the file is intact

	closed sync.Once
	mu     sync.Mutex // guards image: it reads into one window
	file   *os.File
	image  *image
	newest storage.Revision
	keys   []found // in order, without deleted ones
}

// found is where the newest readable record of a key is.
type found struct {
	key     string
	pos     position
	deleted bool
	page    pageID
	element int
	inline  []byte // the record itself, if it is in no page of its own
}

var _ storage.Backend = (*Examination)(nil)

// Examine reads a store's file without changing it, and whatever is damaged in it. It keeps the file
// locked until Close. Its errors are those of [Open], without ErrDamaged.
func Examine(path string) (*Examination, error) {
	before, err := os.Lstat(path)
	if err == nil && !before.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is a %s", ErrUnsafeFile, kindOf(before.Mode()))
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	e := &Examination{file: f}
	if err = lock(f, lockWait); err == nil {
		err = e.read(before.Size())
	}
	if err != nil {
		return nil, errors.Join(fileError(path, err), f.Close())
	}
	return e, nil
}

func (e *Examination) read(size int64) error {
	im, err := newImage(e.file, size)
	if err = notForeign(err, e.file, size); err != nil {
		if !errors.Is(err, ErrDamaged) || size == 0 {
			return err
		}
		e.Damage = append(e.Damage, err)
		if im = oneMeta(e.file, size); im == nil {
			return fmt.Errorf("%w: nothing can be brought over, as both of its first pages are lost", err)
		}
	}
	e.image = im
	newest := map[string]*found{}
	counted := 0
	says, err := e.walk(func(f found, key []byte) {
		counted++
		if have := newest[string(key)]; have == nil || have.pos.compare(f.pos) < 0 {
			f.key = string(key)
			newest[f.key] = &f
		}
		e.newest = max(e.newest, f.pos.rev)
	})
	if err != nil {
		return err
	}
	e.Records = counted
	e.newest = max(e.newest, says.reserved)
	for _, f := range newest {
		if !f.deleted {
			e.keys = append(e.keys, *f)
		}
	}
	slices.SortFunc(e.keys, func(a, b found) int { return strings.Compare(a.key, b.key) })
	if len(e.Damage) == 0 {
		// What fits together page by page must fit together as a whole.
		strict, err := newImage(e.file, size)
		if err == nil {
			_, err = readContents(strict)
		}
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		if err != nil {
			e.Damage = append(e.Damage, err)
		}
	}
	return nil
}

// oneMeta returns the image by the meta page that is intact, or nil.
func oneMeta(f *os.File, size int64) *image {
	var best *image
	var newest uint64
	for id, at := range metaPlaces() {
		im := &image{file: f, size: size, pageSize: minPageSize}
		b, err := im.read(at, pageHeader+metaBytes)
		if err != nil {
			continue
		}
		m, err := parseMeta(b, id)
		if err != nil || m.transaction < newest {
			continue
		}
		newest = m.transaction
		im.pageSize = int64(m.pageSize)
		im.begin(pageID(m.root), pageID(min(m.pages, uint64(size/im.pageSize))))
		best = im
	}
	return best
}

// metaPlaces yields where meta pages may be: the second one comes after a page of some size.
func metaPlaces() iter.Seq2[pageID, int64] {
	return func(yield func(pageID, int64) bool) {
		if !yield(0, 0) {
			return
		}
		for at := int64(minPageSize); at <= maxPageSize; at *= 2 {
			if !yield(1, at) {
				return
			}
		}
	}
}

// walk visits all records that can be read, and notes what cannot.
func (e *Examination) walk(visit func(found, []byte)) (says state, err error) {
	im := e.image
	buckets := map[string][]byte{}
	e.pages(im.root, maxDepth, func(n node, i int) {
		if n.flags(i) == bucketElement {
			buckets[string(n.key(i))] = bytes.Clone(n.value(i))
		}
	})
	if b := buckets[metaBucket]; b != nil {
		if says, err = im.readState(b); err != nil && !errors.Is(err, ErrDamaged) {
			return says, err // a newer format, above all
		}
	} else {
		err = damaged("bucket %q is lost", metaBucket)
	}
	if err != nil {
		e.Damage = append(e.Damage, err)
	}
	record := func(n node, i int) {
		r, err := parseRecord(n.key(i), n.value(i))
		if err != nil {
			e.Damage = append(e.Damage, named(err, n.value(i)))
			return
		}
		f := found{pos: r.pos, deleted: r.deleted, page: n.id, element: i}
		if n.id == 0 {
			f.inline = bytes.Clone(n.value(i))
		}
		visit(f, r.key)
	}
	log := buckets[logBucket]
	switch {
	case len(log) < bucketHeader:
		e.Damage = append(e.Damage, damaged("bucket %q is lost", logBucket))
	case binary.NativeEndian.Uint64(log) != 0:
		e.pages(pageID(binary.NativeEndian.Uint64(log)), maxDepth, record)
	case len(log) >= bucketHeader+pageHeader:
		n, _, err := parseNode(log[bucketHeader:], 0)
		if err != nil {
			e.Damage = append(e.Damage, err)
			break
		}
		for i := range n.count {
			record(n, i)
		}
	}
	return says, nil
}

// pages visits the elements of all pages below one that can be read.
func (e *Examination) pages(id pageID, depth int, visit func(node, int)) {
	n, err := e.image.page(id)
	if err == nil && depth == 0 {
		err = damaged("page %d lies too deep", id)
	}
	if err != nil {
		e.Damage = append(e.Damage, err)
		return
	}
	if n.leaf {
		for i := range n.count {
			visit(n, i)
		}
		return
	}
	children := make([]pageID, n.count) // they are read into the same window
	for i := range children {
		children[i] = n.child(i)
	}
	for _, child := range children {
		e.pages(child, depth-1, visit)
	}
}

// named adds the key that a damaged record seems to have.
func named(err error, data []byte) error {
	if len(data) <= recordHeader {
		return err
	}
	start := recordHeader
	if data[4] == wideLayout {
		start = wideHeader
	}
	end := start + int(binary.BigEndian.Uint16(data[24:]))
	if end > len(data) {
		return err
	}
	storageName, namespace, name, ok := storage.SplitObjectKey(string(data[start:end]))
	if !ok {
		return err
	}
	return fmt.Errorf("%w (it seems to be of %s %s/%s)", err, storageName, namespace, name)
}

// Len returns how many keys can be read.
func (e *Examination) Len() int { return len(e.keys) }

// record reads a record again.
func (e *Examination) record(f *found) storage.Record {
	r := storage.Record{Key: f.key, Revision: f.pos.rev}
	data := f.inline
	e.mu.Lock()
	defer e.mu.Unlock()
	if data == nil {
		clear(e.image.seen)
		n, err := e.image.page(f.page)
		if err != nil || !n.leaf || f.element >= n.count {
			r.Err = fmt.Errorf("%w: %w", storage.ErrUnreadable, errors.Join(err, damaged("page %d has changed", f.page)))
			return r
		}
		data = n.value(f.element)
	}
	rec, err := parseRecord(f.pos.appendTo(nil), data)
	if err != nil {
		r.Err = fmt.Errorf("%w: %w", storage.ErrUnreadable, err)
		return r
	}
	r.Value = clone(rec.value)
	return r
}

// Get returns the newest readable record of a key.
func (e *Examination) Get(_ context.Context, key string) (storage.Record, error) {
	i := sort.Search(len(e.keys), func(i int) bool { return e.keys[i].key >= key })
	if i == len(e.keys) || e.keys[i].key != key {
		return storage.Record{}, storage.ErrNotFound
	}
	r := e.record(&e.keys[i])
	return r, r.Err
}

// List returns a page of the newest readable records.
func (e *Examination) List(ctx context.Context, r storage.ListRequest) (storage.Page, error) {
	p := storage.Page{Revision: e.newest}
	from := max(r.Prefix, r.After)
	for i := sort.Search(len(e.keys), func(i int) bool { return e.keys[i].key >= from }); i < len(e.keys); i++ {
		switch key := e.keys[i].key; {
		case key == r.After:
		case !strings.HasPrefix(key, r.Prefix):
			return p, ctx.Err()
		case len(p.Records) == r.Limit:
			p.More = true
			return p, ctx.Err()
		default:
			p.Records = append(p.Records, e.record(&e.keys[i]))
		}
	}
	return p, ctx.Err()
}

// Revision returns the newest revision that the file tells of.
func (e *Examination) Revision(context.Context) (storage.Revision, error) { return e.newest, nil }

// Sync returns the same.
func (e *Examination) Sync(context.Context, string) (storage.Revision, error) {
	return e.newest, nil
}

// Limits returns the default ones.
func (e *Examination) Limits() storage.Limits { return newOptions(nil).limits }

// Commit fails: nothing is written to a file that is examined.
func (e *Examination) Commit(context.Context, []storage.Op) (storage.Revision, error) {
	return 0, fmt.Errorf("%w: the file is only examined", storage.ErrClosed)
}

// Watch fails: there is no history.
func (e *Examination) Watch(context.Context, string, storage.Revision) iter.Seq2[storage.Batch, error] {
	return func(yield func(storage.Batch, error) bool) { yield(storage.Batch{}, storage.ErrCompacted) }
}

// History fails, too.
func (e *Examination) History(context.Context, storage.HistoryRequest) (storage.HistoryPage, error) {
	return storage.HistoryPage{}, storage.ErrCompacted
}

// Compact does nothing.
func (e *Examination) Compact(context.Context, storage.Revision) error { return nil }

// Close gives the file back.
func (e *Examination) Close() (err error) {
	e.closed.Do(func() { err = errors.Join(unlock(e.file), e.file.Close()) })
	return err
}
