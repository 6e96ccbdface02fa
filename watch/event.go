package watch

import (
	"strconv"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Event is one thing a watcher is told.
//
//   - meta.Added: the object was created, or began to match the filter; or it is part of the
//     initial events.
//   - meta.Modified: it changed and matches as it did before.
//   - meta.Deleted: it was deleted, or stopped matching. Entry is the last state that matched.
//   - meta.Bookmark: only from a cursor of [Cache.WatchFromSnapshot], once: the initial events are
//     complete. Entry is nil, Revision the snapshot's.
type Event struct {
	Type     meta.EventType
	Entry    *Entry           // shared, never nil except for a bookmark
	Revision storage.Revision // of the commit that caused the event; of an initial event, the entry's own
}

// AppendFrame appends the event as one line of a JSON watch stream: `{"type":"ADDED","object":{…}}`
// and a newline. The object's resourceVersion is the event's revision. A bookmark's object is
// nothing but that: who knows the kind writes a fuller one.
func (e Event) AppendFrame(dst []byte) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, e.Type...)
	dst = append(dst, `","object":`...)
	if e.Entry == nil {
		dst = append(dst, `{"metadata":{"resourceVersion":"`...)
		dst = strconv.AppendUint(dst, uint64(e.Revision), 10)
		dst = append(dst, `"}}`...)
	} else {
		dst = e.Entry.AppendJSONAt(dst, e.Revision)
	}
	return append(dst, "}\n"...)
}
