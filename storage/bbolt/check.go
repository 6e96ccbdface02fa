package bbolt

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/kindwright/kindwright/storage"
)

// Check reads the whole file as Open does, every page and every record, and compares it with the
// index. Commits and reads continue. Pages that they free are not reused until Check has read the
// file, so the file may grow. Check needs about 32 bytes of memory per record. If it finds damage,
// the store refuses further commits (see [DB.Healthy]).
func (db *DB) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := check{ctx: ctx, seed: maphash.MakeSeed()}
	err := db.read(func() error {
		c.current = db.current
		return nil
	}, func(r *reading) error {
		im, err := db.imageOf(r)
		if err != nil {
			return err
		}
		return c.readFile(im)
	})
	// Compare with the index after the transaction has ended. Waiting for its lock inside the
	// transaction could deadlock with a writer that must remap.
	if err == nil {
		err = db.damage(c.compareIndex(db))
	}
	return err
}

// imageOf is the file as the transaction sees it. It does not read the meta pages, because they
// continue to change.
func (db *DB) imageOf(r *reading) (*image, error) {
	info, err := db.file.Stat()
	if err != nil {
		return nil, err
	}
	pageSize := int64(db.bolt.Info().PageSize)
	im := &image{file: db.file, size: info.Size(), pageSize: pageSize}
	im.begin(pageID(r.tx.Cursor().Bucket().Root()), pageID(r.tx.Size()/pageSize))
	return im, nil
}

// check is one run of Check.
type check struct {
	ctx     context.Context
	seed    maphash.Seed
	current storage.Revision // what was published when the transaction began
	records []checked        // of the file up to current, by position
}

// checked is a record that was found in the file.
type checked struct {
	position
	key   uint64 // its hash
	known bool   // the index knows it
}

func (c *check) readFile(im *image) error {
	var says, counted state
	err := im.walkStore(func(s state) error {
		says = s
		return nil
	}, func(r record) error {
		if counted.records%1024 == 0 && c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		counted.add(r.pos, r.checksum)
		if r.pos.rev <= c.current {
			c.records = append(c.records, checked{position: r.pos, key: maphash.Bytes(c.seed, r.key)})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return says.matches(counted)
}

// compareIndex checks that the file and the index have the same versions, except those compacted
// during the check.
func (c *check) compareIndex(db *DB) error {
	var compacted storage.Revision
	for from, more := "", true; more; {
		err := db.look(func() (err error) {
			compacted = db.compacted
			from, more, err = c.compareKeys(&db.index, from)
			return err
		})
		if err != nil {
			return err
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
	}
	for _, r := range c.records {
		if !r.known && r.rev > compacted {
			return damaged("record %v is in the log and not in the index", r.position)
		}
	}
	return nil
}

// compareKeys compares some keys of the index, starting at one, and returns the next key if there
// are more.
func (c *check) compareKeys(x *index, from string) (next string, more bool, err error) {
	const keys = 1024
	n := 0
	for e := range x.ascend(from) {
		if n++; n > keys {
			return e.key, true, nil
		}
		for _, v := range e.older() {
			if err := c.find(e.key, v.position); err != nil {
				return "", false, err
			}
		}
		if err := c.find(e.key, e.newest.position); err != nil {
			return "", false, err
		}
	}
	return "", false, nil
}

func (c *check) find(key string, p position) error {
	if p.rev > c.current {
		return nil // it was written later
	}
	i, ok := slices.BinarySearchFunc(c.records, p, func(r checked, p position) int { return r.compare(p) })
	if !ok || c.records[i].key != maphash.String(c.seed, key) {
		return damaged("record %v of key %q is in the index and not in the log", p, key)
	}
	c.records[i].known = true
	return nil
}
