package watch

import (
	"strconv"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

// Event is one event of a watch. By type:
//
//   - meta.Added: the object was created or began to match the filter, or it is one of the initial
//     events.
//   - meta.Modified: the object changed and matched before and after.
//   - meta.Deleted: the object was deleted or stopped matching. Entry is the last state that
//     matched.
//   - meta.Bookmark: the initial events are complete. It comes once, only from a cursor of
//     [Cache.WatchFromSnapshot]. Entry is nil and Revision is the snapshot's.
type Event struct {
	Type     meta.EventType
	Entry    *Entry           // shared, never nil except for a bookmark
	Revision storage.Revision // of the commit; for an initial event, the entry's own
	Before   *Entry           // of a Modified event: the state before, shared
}

// AppendFrame appends the event as one line of a JSON watch stream: `{"type":"ADDED","object":{…}}`
// and a newline. The object's resourceVersion is the event's revision. The object of a bookmark has
// nothing else; callers that know the kind write a complete one.
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
