package bbolt

import bolt "go.etcd.io/bbolt"

// The pages of the map that were looked at stay in the memory of the process, and
// after a load, or a read of all history, that is the whole file. They are copies of
// what the system has in its cache anyway, so from time to time they are given back:
// the next look finds them there.
const (
	// residentBytes is about how much of the file is looked at between two times.
	residentBytes = 8 << 20
	// pageTouch is about what one page that is looked at brings along. The system
	// maps some of its neighbours, which are often the next.
	pageTouch = 16 << 10
)

// touch notes that a transaction, which is still open, has looked at so many bytes of
// the map, and gives all of it back when these have become many. While a transaction
// is open its map stays where it is; that others read from it meanwhile does no harm.
func (db *DB) touch(tx *bolt.Tx, bytes int) {
	if db.touched.Add(int64(bytes)) < residentBytes {
		return
	}
	db.touched.Store(0) // what is forgotten here by two at once is little
	release(db.bolt.Info().Data, tx.Size())
}
