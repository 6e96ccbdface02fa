package etcd

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/kindwright/kindwright/storage"
)

// headerBytes is what precedes each value: how far the record's revision lies below the last one of
// its commit, and the number of the commit.
const headerBytes = 1 + 8

// nonce is a number that tells a commit from all others, but for its first bit, which says that the
// commit shared a transaction with others.
type nonce uint64

const grouped nonce = 1 << 63

// newNonce returns a number that no other commit has.
func newNonce() nonce { return nonce(rand.Uint64()) &^ grouped }

// of returns the number for an attempt in a group, or alone.
func (n nonce) of(group bool) nonce {
	if group {
		return n | grouped
	}
	return n &^ grouped
}

// seal puts the header before a value.
func seal(value []byte, below uint8, n nonce) string {
	b := make([]byte, headerBytes, headerBytes+len(value))
	b[0] = below
	binary.BigEndian.PutUint64(b[1:], uint64(n))
	return string(append(b, value...))
}

// A value that was imported begins with a byte that no distance is, its revision, and one more byte.
// By the last one every such value is greater than its first nine bytes, so that two comparisons
// tell whether a key has a record of a revision.
const (
	foreignMark        = perCommit
	foreignHeaderBytes = headerBytes + 1
)

// sealForeign puts a header with the revision itself before a value.
func sealForeign(value []byte, rev storage.Revision) string {
	b := make([]byte, 0, foreignHeaderBytes+len(value))
	b = append(append(b, foreignPrefix(rev)...), 1)
	return string(append(b, value...))
}

// foreignPrefix is what all imported values of a revision begin with.
func foreignPrefix(rev storage.Revision) string {
	return string(binary.BigEndian.AppendUint64([]byte{foreignMark}, uint64(rev)))
}

// openForeign takes such a header off. ok is false for values with the other one.
func openForeign(sealed []byte) (value []byte, rev storage.Revision, ok bool) {
	if len(sealed) < foreignHeaderBytes || sealed[0] != foreignMark || sealed[headerBytes] != 1 {
		return nil, 0, false
	}
	rev = storage.Revision(binary.BigEndian.Uint64(sealed[1:]))
	return sealed[foreignHeaderBytes:], rev, rev != 0
}

// open takes the header off.
func open(sealed []byte) (value []byte, below uint8, n nonce, err error) {
	if len(sealed) < headerBytes || sealed[0] >= perCommit {
		return nil, 0, 0, fmt.Errorf("%w: its value in etcd does not begin as ours do; something else wrote it", storage.ErrUnreadable)
	}
	return sealed[headerBytes:], sealed[0], nonce(binary.BigEndian.Uint64(sealed[1:])), nil
}

// shared reports whether the commit that wrote a value shared a transaction with others, so that the
// revision of the record is that of its commit.
func shared(sealed []byte) bool {
	_, _, foreign := openForeign(sealed)
	_, _, n, err := open(sealed)
	return !foreign && err == nil && n&grouped != 0
}

// record makes a record of what etcd returned.
func (t *timeline) record(key string, kv *mvccpb.KeyValue) storage.Record {
	if value, rev, ok := openForeign(kv.Value); ok {
		return storage.Record{Key: key, Value: value, Revision: rev}
	}
	value, below, _, err := open(kv.Value)
	return storage.Record{Key: key, Value: value, Revision: t.last(kv.ModRevision) - storage.Revision(below), Err: err}
}
