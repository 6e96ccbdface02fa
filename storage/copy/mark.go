package copy

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/storage"
)

// ErrUnfinished means that a store is the target of a copy that has not been finished. Its contents
// are a mixture of several moments.
var ErrUnfinished = errors.New("the store is an unfinished copy: finish the copy with the same source, or clear the store and copy again")

// markKey has the mark of a target that is not finished.
var markKey = storage.SysKey("copy")

// Unfinished returns ErrUnfinished if a store, or one that it is a view of, is a target that has not
// been finished. Other errors are those of Get.
func Unfinished(ctx context.Context, b storage.Backend) error {
	for b != nil {
		switch _, err := b.Get(ctx, markKey); {
		case err == nil || errors.Is(err, storage.ErrUnreadable):
			return ErrUnfinished
		case !errors.Is(err, storage.ErrNotFound):
			return err
		}
		w, ok := b.(storage.Unwrapper)
		if !ok {
			break
		}
		b = w.Unwrap()
	}
	return nil
}

// mark is what the mark says.
type mark struct {
	keeps   bool             // records have the revisions of the source
	reached storage.Revision // the target has everything up to here; 0 before that
	first   storage.Revision // the target's commits are above it, if it does not keep revisions
}

const markForm = "kindwright copy 1\nkeeps %t\nreached %d\nfirst %d\n"

func (m mark) write(ctx context.Context, to storage.Backend) error {
	value := fmt.Appendf(nil, markForm, m.keeps, m.reached, m.first)
	_, err := to.Commit(ctx, []storage.Op{storage.Put(markKey, value, storage.Any)})
	return err
}

// readMark returns the mark of a store; found is false if it has none.
func readMark(ctx context.Context, b storage.Backend) (m mark, found bool, err error) {
	r, err := b.Get(ctx, markKey)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return mark{}, false, nil
	case err != nil:
		return mark{}, false, err
	}
	if _, err := fmt.Sscanf(string(r.Value), markForm, &m.keeps, &m.reached, &m.first); err != nil {
		return mark{}, true, fmt.Errorf("the mark of the unfinished copy is of another version of this program: clear the target and copy again")
	}
	return m, true, nil
}

// Clear removes everything from a target that has not been finished, so that another copy can begin.
// It refuses any other store.
func Clear(ctx context.Context, b storage.Backend) error {
	switch err := Unfinished(ctx, b); {
	case err == nil:
		return errors.New("the store is no unfinished copy, so it is not cleared")
	case !errors.Is(err, ErrUnfinished):
		return err
	}
	s := newSink(b)
	for r, err := range records(ctx, b, 0) {
		if err != nil {
			return err
		}
		if r.Key == markKey {
			continue
		}
		if err := s.delete(ctx, r.Key); err != nil {
			return err
		}
	}
	if err := s.flush(ctx); err != nil {
		return err
	}
	_, err := b.Commit(ctx, []storage.Op{storage.Delete(markKey, storage.Any)})
	return err
}
