package etcd

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/kindwright/kindwright/storage"
)

// headerBytes is what precedes each value: how far the record's revision lies below the last one of
// its commit, and the number of the commit.
const headerBytes = 1 + 8

// nonce is a number that tells a commit from all others.
type nonce uint64

// seal puts the header before a value.
func seal(value []byte, below uint8, n nonce) string {
	b := make([]byte, headerBytes, headerBytes+len(value))
	b[0] = below
	binary.BigEndian.PutUint64(b[1:], uint64(n))
	return string(append(b, value...))
}

// open takes the header off.
func open(sealed []byte) (value []byte, below uint8, n nonce, err error) {
	if len(sealed) < headerBytes || sealed[0] >= perCommit {
		return nil, 0, 0, fmt.Errorf("%w: its value in etcd does not begin as ours do; something else wrote it", storage.ErrUnreadable)
	}
	return sealed[headerBytes:], sealed[0], nonce(binary.BigEndian.Uint64(sealed[1:])), nil
}

// record makes a record of what etcd returned.
func (t *timeline) record(key string, kv *mvccpb.KeyValue) storage.Record {
	value, below, _, err := open(kv.Value)
	return storage.Record{Key: key, Value: value, Revision: t.last(kv.ModRevision) - storage.Revision(below), Err: err}
}
