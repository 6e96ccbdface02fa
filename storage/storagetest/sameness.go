package storagetest

import (
	"bytes"
	"fmt"

	"github.com/kindwright/kindwright/storage"
)

// sameBatches returns how two watches of the same commits differ.
func sameBatches(want, got []storage.Batch) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d batches, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Revision != w.Revision || !g.Time.Equal(w.Time) {
			return fmt.Errorf("batch %d of %v, want %d of %v", g.Revision, g.Time, w.Revision, w.Time)
		}
		if err := sameChanges(w.Changes, g.Changes); err != nil {
			return fmt.Errorf("revision %d: %w", w.Revision, err)
		}
	}
	return nil
}

// sameChanges compares the changes of a batch, in any order.
func sameChanges(want, got []storage.Change) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d changes, want %d", len(got), len(want))
	}
	byKey := map[string]storage.Change{}
	for _, c := range got {
		byKey[c.Key] = c
	}
	for _, w := range want {
		g, ok := byKey[w.Key]
		if !ok {
			return fmt.Errorf("no change of %q", w.Key)
		}
		if err := sameChange(w, g); err != nil {
			return err
		}
	}
	return nil
}

func sameChange(want, got storage.Change) error {
	if want.Deleted != got.Deleted || (want.Prev == nil) != (got.Prev == nil) {
		return fmt.Errorf("change %+v, want %+v", got, want)
	}
	if want.Prev != nil {
		if err := sameRecord(*got.Prev, *want.Prev); err != nil {
			return fmt.Errorf("previous record: %w", err)
		}
	}
	return sameRecord(
		storage.Record{Key: got.Key, Value: got.Value, Revision: got.Revision},
		storage.Record{Key: want.Key, Value: want.Value, Revision: want.Revision})
}

// sameRecord returns how two records differ. Empty and nil values are equal.
func sameRecord(a, b storage.Record) error {
	switch {
	case a.Key != b.Key:
		return fmt.Errorf("record of %q where %q should be", a.Key, b.Key)
	case a.Revision != b.Revision:
		return fmt.Errorf("key %q has revision %d where it should be %d", a.Key, a.Revision, b.Revision)
	case !bytes.Equal(a.Value, b.Value):
		return fmt.Errorf("key %q at %d has a value of %d bytes, want one of %d with other bytes", a.Key, a.Revision,
			len(a.Value), len(b.Value))
	}
	return nil
}
