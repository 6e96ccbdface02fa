package bbolt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/kindwright/kindwright/storage"
)

// Backup writes the current records to a new file at path, readable only by its owner, and returns
// their revision. The file has the records with their revisions but no history. Commits and reads
// continue during the backup, and no transaction stays open for long.
//
// To restore, put the file in the place of the lost one and open it. A store opened from a backup
// continues far above its revision, because the lost store issued more revisions. Everything before
// counts as compacted, so a client's version from the lost time is never taken for a new one.
//
// The error is fs.ErrExist if the file exists; ErrCompacted if the store was compacted past the
// backup several times in a row; ErrClosed, the context's error, or an I/O error. After an error
// there is no file.
func (db *DB) Backup(ctx context.Context, path string) (storage.Revision, error) {
	const attempts = 3
	var rev storage.Revision
	var err error
	for range attempts {
		rev, err = db.backup(ctx, path)
		if !errors.Is(err, storage.ErrCompacted) {
			break
		}
	}
	if errors.Is(err, fs.ErrPermission) || isNoSpace(err) {
		err = fileError(path, err)
	}
	return rev, err
}

// BackupTo is Backup to a writer. The copy is made in the directory for temporary files; where the system
// permits, it has no name there any more when its first byte is written, so that a process that is killed
// leaves nothing. A slow writer holds up nobody else. The error wraps storage.ErrNoSpace if the directory
// has no room.
func (db *DB) BackupTo(ctx context.Context, w io.Writer) (rev storage.Revision, err error) {
	dir, err := os.MkdirTemp("", "kindwright-backup-") // for the owner alone
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "store.db")
	if rev, err = db.Backup(ctx, path); err != nil {
		if isNoSpace(err) {
			err = fmt.Errorf("%w in the directory for temporary files: %w", storage.ErrNoSpace, err)
		}
		return 0, err
	}
	f, err := os.Open(path) //nolint:gosec // our own
	if err != nil {
		return 0, err
	}
	_ = os.Remove(path) // some systems keep what is open, and then it goes at the end
	_, err = io.Copy(w, f)
	return rev, errors.Join(err, f.Close())
}

func (db *DB) backup(ctx context.Context, path string) (storage.Revision, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return 0, errors.Join(&fs.PathError{Op: "backup", Path: path, Err: fs.ErrExist}, err)
	}
	s, places, err := db.living(ctx)
	if err != nil {
		return 0, err
	}
	err = makeFile(path, s, func(b *bolt.DB) error {
		for chunk := range slices.Chunk(places, backupRecords) {
			if err := db.copyRecords(ctx, b, chunk, &s); err != nil {
				return err
			}
		}
		return b.Update(func(tx *bolt.Tx) error { return putState(tx, &s) })
	})
	return s.last, err
}

// backupRecords is how many records are copied in one transaction.
const backupRecords = 1000

// living returns the positions of the current records, in the order of the log, and the state of an
// empty copy.
func (db *DB) living(ctx context.Context) (state, []place, error) {
	s := state{copied: true}
	_, _ = rand.Read(s.id[:])
	var places []place
	r := storage.ListRequest{}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return s, nil, err
		}
		var found []place
		err := db.look(func() (err error) {
			if s.last, err = db.listable(s.last); err == nil {
				found, more = db.index.find(r, s.last, pageRecords)
			}
			return err
		})
		if err != nil {
			return s, nil, err
		}
		places = append(places, found...)
		if more {
			r.After = found[len(found)-1].key
		}
	}
	s.reserved, s.compacted = s.last, s.last
	slices.SortFunc(places, func(a, b place) int { return a.at.compare(b.at) })
	return s, places, nil
}

// copyRecords puts records into the log of a copy, as they are.
func (db *DB) copyRecords(ctx context.Context, b *bolt.DB, places []place, s *state) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var data []byte
	ends := make([]int, 0, len(places))
	err := db.read(func() error {
		_, err := db.listable(s.last)
		return err
	}, func(r *reading) error {
		for _, p := range places {
			rec, err := r.record(p.at, p.key)
			if err != nil {
				return err
			}
			data, _ = rec.appendTo(data)
			ends = append(ends, len(data))
			s.add(rec.pos, rec.checksum)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.Update(func(tx *bolt.Tx) error {
		log := tx.Bucket([]byte(logBucket))
		log.FillPercent = 1
		start := 0
		for i, end := range ends {
			if err := log.Put(places[i].at.appendTo(nil), data[start:end]); err != nil {
				return err
			}
			start = end
		}
		return nil
	})
}
