package bbolt

import bolt "go.etcd.io/bbolt"

// Pages of the map that were read stay in the memory of the process; after a load or a read of the
// whole history that is the entire file. They are copies of the system's cache, so they are
// released from time to time. The next read finds them in that cache.
const (
	// residentBytes is how many bytes of the file are read between two releases, roughly.
	residentBytes = 8 << 20
	// pageTouch is about how many bytes a read of one page maps. The system also maps some of its
	// neighbours, which are often the next to be read.
	pageTouch = 16 << 10
)

// touch counts the bytes of the map that an open transaction has read, and releases all pages once
// there are many. The map stays in place while a transaction is open; concurrent reads are
// harmless.
func (db *DB) touch(tx *bolt.Tx, bytes int) {
	if db.touched.Add(int64(bytes)) < residentBytes {
		return
	}
	db.touched.Store(0) // two concurrent calls lose little of the count
	release(db.bolt.Info().Data, tx.Size())
}
