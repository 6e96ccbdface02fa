package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// The verbs of writes that walk a list of steps.
const (
	verbCreate = "create"
	verbUpdate = "update"
	verbPatch  = "patch"
	verbApply  = "apply"
)

// intent is the write that a request asks for. All attempts of the request share it.
type intent struct {
	engine  *Engine
	at      *Resolved // nil if nobody asked for the write
	served  *Served
	kind    *Kind        // of served
	sub     *Subresource // nil on the main path
	view    *view        // of sub; nil where that exchanges the object itself
	handler *handler     // of the subresource, where that acts on a document
	target  registry.Target
	opts    registry.WriteOptions
	user    authn.User
	verb    string

	body  []byte
	patch meta.PatchType // how the body changes what is stored, for the verb patch

	mayCreate, mayUpdate bool                        // what the request may do in the store
	allowCreate          func(context.Context) error // asked before an object is created; may be nil

	notes    admission.Notes // of plugins
	attempts int             // generated names tried so far
	newest   bool            // further attempts read the newest state; see sight

	companion *companion // takes the operations, which another write commits; mostly nil
}

// part is a tree that a write reads and replaces.
type part struct {
	kind     *Kind
	old, new registry.Tree // old is nil if there is no object yet
}

// write is one attempt to carry out a request while it walks the list of steps. After a lost race
// another attempt starts from the read.
type write struct {
	*intent

	// sent is what the requester writes: the object, or a document of the subresource. object is
	// the object to store, in the form of the request. stored is the object in its stored form.
	//
	// sent and object are the same, with two exceptions: the document of a view is put into the
	// object, and a document that is acted upon has no object. In both forms old has a
	// resourceVersion.
	sent, object *part
	first        part // sent
	stored       part
	shown        registry.Tree // object.old in the stored form, once it is needed
	full         registry.Tree // stored.new with the defaults that readers fill in; nil if it has them

	sight                 sight
	key                   string
	entry                 *watch.Entry // the stored entry, nil if absent
	encoded               []byte       // canonical JSON of stored.new
	value                 []byte       // ends with encoded, behind room for the header of a record
	shared                *shared      // what is stored instead, for the sake of other programs on the store; mostly nil
	checks                []storage.Op // must hold at the commit (design rule 2)
	assumed               bool         // the checks are remembered ones, and the store has not been asked
	own                   bool         // sent.new and the metadata in it are maps that only this try has: it may change them
	understood, canonical bool         // what was sent has been judged alone; it is in canonical form too

	remove bool // the last finalizer is gone: the object is removed instead of stored

	claimed    registry.Tree // metadata as it was sent where it stays as it is stored, if plugins are to see it
	asked      registry.Tree // sent.new before the step reset, if plugins are to see what that took back
	applied    registry.Tree // the configuration of a server-side apply
	owners     []any         // managedFields of the object after a write through a view
	complaints []complaint   // unknown and repeated fields
	unowned    error         // why the owners could not be computed; mostly because the object is invalid
	generated  bool          // the server generated the name

	result *registry.Result // set by the step that ends the walk
}

// try begins an attempt.
func (in *intent) try() *write {
	w := &write{intent: in, first: part{kind: in.served.Kind}, sight: sight{newest: in.newest}}
	w.sent = &w.first
	switch {
	case in.handler != nil:
		w.sent.kind = in.handler.body
	case in.view != nil:
		w.sent.kind = in.sub.view.document
		w.object = &part{kind: in.served.Kind}
	default:
		w.object = w.sent
	}
	return w
}

// errRace reports that the store no longer holds what this try was computed from.
var errRace = errors.New("lost a race with another write")

// patching reports whether the requester sent changes and not the whole object.
func (in *intent) patching() bool { return in.verb == verbPatch || in.verb == verbApply }

func (w *write) creating() bool { return w.entry == nil }

func (w *write) ended() bool { return w.result != nil }

func (w *write) operation() admission.Operation {
	if w.creating() && (w.handler == nil || w.verb == verbCreate) {
		return admission.Create
	}
	return admission.Update
}

// owns reports whether the object to store is a map that only this try has, and its metadata too.
func (w *write) owns() bool { return w.own && w.object == w.sent }

// set puts a value into what the requester writes.
func (w *write) set(value any, path ...string) {
	if w.own {
		tree.Set(w.sent.new, value, path...)
		return
	}
	w.sent.new = tree.With(w.sent.new, value, path...)
}

// setMetadata is tree.WithMetadata for what the requester writes.
func (w *write) setMetadata(from registry.Tree, names ...string) {
	if w.own {
		tree.SetMetadata(w.sent.new, from, names...)
		return
	}
	w.sent.new = tree.WithMetadata(w.sent.new, from, names...)
}

// name returns the name to use in errors: the one that the client asked for, or the one that the
// object has by now.
func (w *write) name() string {
	if w.target.Name != "" {
		return w.target.Name
	}
	return tree.Text(w.sent.new, "metadata", "name")
}

func (w *write) notFound() error { return status.NotFound(w.kind.GroupResource(), w.target.Name) }

func (w *write) conflict(why string) error {
	return status.Conflict(w.kind.GroupResource(), w.name(), why)
}

// treeOf decodes a live object, with its resourceVersion, as clients see it.
func treeOf(entry *watch.Entry) (registry.Tree, error) { return keptTreeOf(entry, nil) }

// keptTreeOf is treeOf that shares the fields of managers with others.
func keptTreeOf(entry *watch.Entry, kept *json.Kept) (registry.Tree, error) {
	document := entry.AppendJSON(make([]byte, 0, entry.Length()))
	t, err := decodeTree(document, json.TreeOptions{Shared: true, Kept: kept})
	if err != nil {
		return nil, status.Internal(fmt.Errorf("decode %s at revision %s: %w", entry.Key(), entry.Revision(), err))
	}
	return t, nil
}

// someObject is a guess for the length of an object's JSON when nothing is known about it.
const someObject = 1536

// encode sets the canonical JSON of what is to be stored. It is made in memory that others have used,
// and copied once, to where the record has it: a record in its own memory would be a second copy. A large
// object, for which there is no such memory, is made where it stays.
func (w *write) encode() error {
	// A large value would have grown step by step to its length.
	size := max(someObject, len(w.body)+256)
	if w.entry != nil {
		size = max(size, w.entry.Length()+256)
	}
	header := w.kind.base.headerLength()
	if size > maxScratch {
		size = json.Length(w.stored.new) + 256
		err := w.encodeTo(make([]byte, header, header+size))
		if len(w.value) < cap(w.value)/2 { // the body had much white space
			w.value = bytes.Clone(w.value)
			w.encoded = w.value[header:]
		}
		return err
	}
	room := scratch.Get().(*[]byte)
	defer scratch.Put(room)
	if err := w.encodeTo(slices.Grow((*room)[:0], header+size)[:header]); err != nil {
		return err
	}
	if cap(w.value) <= maxScratch {
		*room = w.value
	}
	w.value = bytes.Clone(w.value)
	w.encoded = w.value[header:]
	return nil
}

// encodeTo appends what is to be stored to the room for the header of its record.
func (w *write) encodeTo(room []byte) error {
	value, err := json.AppendStored(room, w.stored.new)
	if err != nil {
		return status.Internal(fmt.Errorf("encode an object: %w", err))
	}
	w.value, w.encoded = value, value[len(room):]
	return nil
}

// scratch holds memory in which objects are encoded. What is in it belongs to nobody.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxScratch limits the memory that is kept there for each processor.
const maxScratch = 64 << 10

// encode returns the canonical JSON of an object for the store, without the resourceVersion, which
// is implied by where the JSON is stored. size is the approximate length of the result.
func encode(t registry.Tree, size int) ([]byte, error) {
	out, err := json.AppendStored(make([]byte, 0, size), t)
	if err != nil {
		return nil, status.Internal(fmt.Errorf("encode an object: %w", err))
	}
	return out, nil
}
