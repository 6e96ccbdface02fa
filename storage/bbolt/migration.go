package bbolt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

// Format 3 adds a layout of records, for commits of several revisions. All records of format 2 are
// valid in it, so a migration changes nothing but the number. It comes after a copy of the file
// beside it, because programs that know format 2 cannot open the file any more.

// keep copies a file of an older format, byte for byte, to a name beside it: "store.db.format-2". It
// is durable when keep returns. A copy that exists stays: the next has another name.
func keep(f *os.File, path string, number uint32) (err error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	temp, err := os.CreateTemp(dir, "."+name+".old-*") // with rights for the owner alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ignore(os.Remove(temp.Name()), fs.ErrNotExist)) }()
	_, err = io.Copy(temp, io.NewSectionReader(f, 0, math.MaxInt64))
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	kept := fmt.Sprintf("%s.format-%d", path, number)
	err = publishFile(temp.Name(), kept)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		err = publishFile(temp.Name(), fmt.Sprintf("%s.%d", kept, n))
	}
	return err
}

// migrate makes a file one of the current format.
func migrate(b *bolt.DB) error {
	return guard(func() error {
		return b.Update(func(tx *bolt.Tx) error {
			m := tx.Bucket([]byte(metaBucket))
			if m == nil {
				return damaged("bucket %q is gone", metaBucket)
			}
			return m.Put([]byte(formatKey), formatRecord(format))
		})
	})
}
