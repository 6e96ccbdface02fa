package copy_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/copy"
)

// mortal is the target of a program that is killed at its n-th change of the target, before or
// after that has happened.
type mortal struct {
	storage.Backend
	left   *int
	before bool
}

var errKilled = errors.New("the program was killed")

func (m mortal) change(do func() error) error {
	if *m.left--; *m.left < 0 || *m.left == 0 && m.before {
		return errKilled
	}
	err := do()
	if err == nil && *m.left == 0 {
		err = errKilled
	}
	return err
}

func (m mortal) Commit(ctx context.Context, ops []storage.Op) (rev storage.Revision, err error) {
	err = m.change(func() (err error) {
		rev, err = m.Backend.Commit(ctx, ops)
		return err
	})
	return rev, err
}

func (m mortal) Compact(ctx context.Context, at storage.Revision) error {
	return m.change(func() error { return m.Backend.Compact(ctx, at) })
}

func (m mortal) Advance(ctx context.Context, to storage.Revision) error {
	a, _ := storage.As[storage.Advancer](m.Backend)
	return m.change(func() error { return a.Advance(ctx, to) })
}

// keeping is a mortal that keeps revisions.
type keeping struct{ mortal }

func (k keeping) Import(ctx context.Context, i storage.Import) error {
	return k.change(func() error { return k.Backend.(storage.Importer).Import(ctx, i) })
}

// A move is killed at each change that it makes, also at those of its end, and the source goes on
// before it is tried again. A target that a server would start on is whole and goes on above the
// source.
func TestOPS_MovesThatAreKilledAtEachStep(t *testing.T) {
	for name, keeps := range map[string]bool{"keeping revisions": true, "giving new ones": false} {
		for when, before := range map[string]bool{"before": true, "after": false} {
			t.Run(name+", killed "+when, func(t *testing.T) {
				dir := t.TempDir()
				from := open(t, filepath.Join(dir, "from.db"))
				churn(t, from, 1, 300, 60)
				kills := 0
				for n := 1; ; n++ {
					to, err := bbolt.Open(filepath.Join(dir, "to.db"))
					require.NoError(t, err)
					err = move(t, from, to, keeps, n, before)
					finished := copy.Unfinished(t.Context(), to) == nil && len(all(t, to)) > 0
					if finished {
						alike(t, from, to, keeps)
						there, err := to.Revision(t.Context())
						require.NoError(t, err)
						here, err := from.Revision(t.Context())
						require.NoError(t, err)
						require.Greater(t, there, here)
					} else {
						require.ErrorIs(t, err, errKilled)
						kills++
					}
					require.NoError(t, to.Close())
					if finished {
						break
					}
					churn(t, from, uint64(n), 3, 60)
					if n%3 == 0 {
						rev, err := from.Revision(t.Context())
						require.NoError(t, err)
						require.NoError(t, from.Compact(t.Context(), rev))
					}
				}
				require.Greater(t, kills, 2)
			})
		}
	}
}

// move makes one attempt.
func move(t *testing.T, from, to storage.Backend, keeps bool, left int, before bool) error {
	m := mortal{to, &left, before}
	target := storage.Backend(m)
	if keeps {
		target = keeping{m}
	}
	f, err := copy.Begin(t.Context(), from, target, copy.Options{})
	if err == nil {
		_, err = f.Finish(t.Context())
	}
	return err
}
