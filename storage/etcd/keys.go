package etcd

import (
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keyspace is where the parts of the store lie in etcd. Keys of records begin with "d/", so they
// reach nothing else.
type keyspace struct {
	root string // the configured prefix
}

func (k keyspace) owner() string { return k.root + "/m/owner" }
func (k keyspace) base() string  { return k.root + "/m/base" }
func (k keyspace) wide() string  { return k.root + "/m/wide" }

// data is the key in etcd of a record, or of the beginning of a range of records.
func (k keyspace) data(key string) string { return k.root + "/d" + key }

// key reverses data. ok is false for keys that are no records.
func (k keyspace) key(data []byte) (key string, ok bool) {
	return strings.CutPrefix(string(data), k.root+"/d")
}

// below is the range of all records with a prefix of whole segments, or of all records.
func (k keyspace) below(prefix string) (begin, end string) {
	if prefix == "" {
		prefix = "/"
	}
	begin = k.data(prefix)
	return begin, clientv3.GetPrefixRangeEnd(begin)
}

// all is the range of everything that belongs to the store.
func (k keyspace) all() (begin, end string) {
	return k.root + "/", clientv3.GetPrefixRangeEnd(k.root + "/")
}
