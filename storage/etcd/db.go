package etcd

import (
	"context"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kindwright/kindwright/storage"
)

// DB is a [storage.Backend] in etcd. Make it with [Open]; it is safe for concurrent use.
type DB struct {
	config  Config
	keys    keyspace
	client  *clientv3.Client
	kv      clientv3.KV // of client
	cluster uint64      // the id of the cluster

	timeline  atomic.Pointer[timeline] // never nil
	seen      atomic.Int64             // the highest revision of etcd that any answer had
	compacted atomic.Int64             // the highest revision of etcd that Compact was given here
	failure   atomic.Pointer[error]    // why the store is refused for good, or nil
	outage    atomic.Pointer[outage]   // why the store cannot be asked for now, or nil
	size      atomic.Int64             // bytes of the database of a member

	stray   atomic.Int64           // the highest revision of a base that an import without an answer has compared
	mark    atomic.Pointer[string] // what the next commit is to write as the owner, or nil
	newest  storage.Question[moment]
	groups  *groups
	feed    *feed
	sizes   sizes
	streams atomic.Int64 // how many streams of their own there have been

	life      context.Context // ends with Close
	end       context.CancelFunc
	running   sync.WaitGroup                // all goroutines; they end with life
	looking   chan struct{}                 // capacity 1: the health is to be looked at now
	suspected chan struct{}                 // capacity 1: a member may have failed
	chosen    atomic.Pointer[chan struct{}] // closed when members were asked again; never nil
	closing   sync.Once                     // of the client
}

var (
	_ storage.Backend   = (*DB)(nil)
	_ storage.Health    = (*DB)(nil)
	_ storage.Readiness = (*DB)(nil)
	_ storage.Sized     = (*DB)(nil)
	_ storage.Lineage   = (*DB)(nil)
	_ storage.Advancer  = (*DB)(nil)
	_ storage.Importer  = (*DB)(nil)
)

// Limits returns those of the configuration.
func (db *DB) Limits() storage.Limits { return db.config.Limits() }

const (
	ownOps      = 3        // the comparison of the base, the record of a wide commit, and the owner
	requestRoom = 64 << 10 // of a request, for keys that occur several times, and what encodes them
)

// Close ends the store: its watches, its goroutines and its connections. Etcd keeps the data.
func (db *DB) Close() error {
	db.end()
	db.feed.interrupt()
	db.running.Wait()
	var err error
	db.closing.Do(func() { err = db.client.Close() })
	return err
}

// Prefix returns where in etcd the store lies.
func (db *DB) Prefix() string { return db.config.Prefix }
