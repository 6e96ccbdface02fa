package bbolt

import bolt "go.etcd.io/bbolt"

// Pages of the map that were read stay in the memory of the process; after a load or a read of the
// whole history that is the entire file. They are copies of the system's cache, so they are
// released from time to time. The next read finds them in that cache.
const (
	// residentBytes is about how much of the file is looked at between two times.
	residentBytes = 8 << 20
	// pageTouch is about what one page that is looked at brings along. The system
	// maps some of its neighbours, which are often the next.
	pageTouch = 16 << 10
)

// touch counts the bytes of the map that an open transaction has read, and releases all pages once
// there are many. The map stays in place while a transaction is open; concurrent reads are
// harmless.
func (db *DB) touch(tx *bolt.Tx, bytes int) {
	if db.touched.Add(int64(bytes)) < residentBytes {
		return
	}
	db.touched.Store(0) // what is forgotten here by two at once is little
	release(db.bolt.Info().Data, tx.Size())
}
