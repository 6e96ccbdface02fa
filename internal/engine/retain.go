package engine

import (
	"context"
	"errors"

	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// unknown reports whether a record has fields that this program does not know, and another process may: on a
// store that several processes have open, one of them may run a newer program. In a store of one process the
// program was exchanged for an older one, and unknown fields go with the next write.
func (e *Engine) unknown(s *Served, entry *watch.Entry) bool {
	if entry == nil || s.Kind.straight() || !s.stale.lossy(entry.Key(), entry.Revision()) {
		return false
	}
	one, ok := storage.As[storage.Exclusive](e.cfg.Store)
	return !ok || !one.Exclusive()
}

// retaining returns the value to store with what the record of an entry has and this program does not know. Like
// a write through another version, a write is a difference: what it changes in the fields that are known is
// changed in the record.
func (e *Engine) retaining(ctx context.Context, s *Served, entry *watch.Entry, next registry.Tree, value []byte) ([]byte, error) {
	if !e.unknown(s, entry) {
		return value, nil
	}
	rec, err := e.cfg.Store.Get(ctx, entry.Key())
	if errors.Is(err, storage.ErrNotFound) || err == nil && rec.Revision != entry.Revision() {
		return nil, errRace
	}
	base := s.Kind.base
	var have record
	if err == nil {
		have, err = parseRecord(rec.Value)
	}
	var whole registry.Tree
	if err == nil {
		whole, err = decodeObject(have.object)
	}
	if err != nil {
		return nil, e.readError(base, "update", err)
	}
	if tree.Text(whole, "apiVersion") != base.APIVersion() || tree.Text(whole, "kind") != base.Names.Kind {
		return value, nil // versions have rules of their own
	}
	known, _ := base.refresh(whole)
	object, err := encode(base.Schema.Merge(whole, known, next), len(have.object)+len(value))
	if err != nil {
		return nil, err
	}
	return e.valueOf(base, mixed, object), nil
}

// mixed is the fingerprint of a record that more than one program has written to: it is that of no schema, so
// that each reader brings the object to its own.
const mixed = 0
