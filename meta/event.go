package meta

// EventType says what happened to an object, as one watch sees it.
type EventType string

// The event types of a watch.
const (
	Added    EventType = "ADDED"    // created, or began to match the selector
	Modified EventType = "MODIFIED" // changed
	Deleted  EventType = "DELETED"  // deleted, or no longer matches; carries the last state that matched
	Bookmark EventType = "BOOKMARK" // no change: only metadata.resourceVersion counts
	Error    EventType = "ERROR"    // a Status; the stream ends after it
)

// WatchEvent is one document of a watch stream.
type WatchEvent struct {
	Type   EventType `json:"type" protobuf:"bytes,1,opt,name=type"`
	Object RawJSON   `json:"object" protobuf:"bytes,2,opt,name=object"`
}
