package storage

import (
	"context"
	"fmt"
	"iter"
	"reflect"
)

// Usable returns why [New] and [Prefix] do not use a backend, or nil: it is nil, also behind a view, or it has
// a limit below 0. The error is an ErrInvalid.
func Usable(b Backend) error {
	for {
		if m, ok := b.(misused); ok {
			return m.err
		}
		if b == nil || reflect.ValueOf(b).Kind() == reflect.Pointer && reflect.ValueOf(b).IsNil() {
			return fmt.Errorf("%w: the backend is nil: pass one, such as that of package storage/memory", ErrInvalid)
		}
		view, ok := b.(Unwrapper)
		if !ok {
			return checkLimits(b.Limits())
		}
		b = view.Unwrap()
	}
}

// usable returns b, or a backend that says what is wrong with it.
func usable(b Backend) Backend {
	if err := Usable(b); err != nil {
		return misused{b, err}
	}
	return b
}

func checkLimits(l Limits) error {
	for _, field := range []struct {
		name  string
		value int
	}{{"MaxValueBytes", l.MaxValueBytes}, {"MaxOps", l.MaxOps}, {"MaxCommitBytes", l.MaxCommitBytes}} {
		if field.value < 0 {
			return fmt.Errorf("%w: Limits.%s of the backend is %d: it must not be negative", ErrInvalid, field.name, field.value)
		}
	}
	return nil
}

// misused is a backend that was never there. Its constructors return no error, so each call does.
type misused struct {
	backend Backend // what was given
	err     error
}

var (
	_ Backend   = misused{}
	_ Unwrapper = misused{}
)

// Unwrap returns what was given, which may be nil.
func (m misused) Unwrap() Backend { return m.backend }

func (m misused) Get(context.Context, string) (Record, error)     { return Record{}, m.err }
func (m misused) List(context.Context, ListRequest) (Page, error) { return Page{}, m.err }
func (m misused) Commit(context.Context, []Op) (Revision, error)  { return 0, m.err }
func (m misused) Revision(context.Context) (Revision, error)      { return 0, m.err }
func (m misused) Sync(context.Context, string) (Revision, error)  { return 0, m.err }
func (m misused) Compact(context.Context, Revision) error         { return m.err }
func (m misused) Close() error                                    { return nil }
func (m misused) History(context.Context, HistoryRequest) (HistoryPage, error) {
	return HistoryPage{}, m.err
}

// Limits are those of any small store, so that what is asked reaches the answer.
func (misused) Limits() Limits {
	return Limits{MaxValueBytes: 1 << 20, MaxOps: 128, MaxCommitBytes: 1 << 20}
}

func (m misused) Watch(context.Context, string, Revision) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) { yield(Batch{}, m.err) }
}
