package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
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

// intent is what a request wants written. It is the same for all tries of the request.
type intent struct {
	engine  *Engine
	served  *Served
	sub     *Subresource // nil on the main path
	handler *handler     // of the subresource, where that acts on a document
	target  registry.Target
	opts    registry.WriteOptions
	user    authn.User
	verb    string

	body  []byte
	patch registry.PatchType // how the body changes what is stored, for the verb patch

	mayCreate, mayUpdate bool                        // what the request may do to the store
	allowCreate          func(context.Context) error // asked before an object is created; may be nil

	attempts int // generated names tried so far
}

// part is a tree that a write reads and replaces.
type part struct {
	kind     *Kind
	old, new registry.Tree // old is nil where there is nothing yet
}

// write is one try to do what a request wants, while it walks the list of steps. After a lost race
// another one starts from the read.
type write struct {
	*intent

	// sent is what the requester writes: the object, or a document of the subresource. object is
	// what is to be stored, in the form of the request. They are one and the same but for a view,
	// whose document is put into the object, and for a document that is acted upon, which has no
	// object. stored is the object in the form that it is stored in. Both forms have the
	// resourceVersion in what is old.
	sent, object *part
	stored       part

	key     string
	entry   *watch.Entry // what is stored, nil when absent
	encoded []byte       // canonical JSON of stored.new
	checks  []storage.Op // must hold at the commit (design rule 2)
	remove  bool         // the last finalizer went: the object is removed instead of stored

	owners     []any    // managedFields of the object after a write through a view
	complaints []string // unknown and repeated fields
	unowned    error    // why it could not be worked out who owns what; mostly, that the object is invalid
	generated  bool     // the name is of the server's making

	result *registry.Result // set by the step that ends the walk
}

// try begins a try.
func (in *intent) try() *write {
	w := &write{intent: in, sent: &part{kind: in.served.Kind}}
	switch {
	case in.handler != nil:
		w.sent.kind = in.handler.body
	case in.view() != nil:
		w.sent.kind = in.sub.view.document
		w.object = &part{kind: in.served.Kind}
	default:
		w.object = w.sent
	}
	return w
}

// errRace reports that the store no longer holds what this try was computed from.
var errRace = errors.New("lost a race with another write")

func (in *intent) resource() *Kind { return in.served.Kind }

// patching tells whether the requester sent changes, and not the whole object.
func (in *intent) patching() bool { return in.verb == verbPatch || in.verb == verbApply }

func (w *write) creating() bool { return w.entry == nil }

func (w *write) ended() bool { return w.result != nil }

func (w *write) operation() admission.Operation {
	if w.creating() && (w.handler == nil || w.verb == verbCreate) {
		return admission.Create
	}
	return admission.Update
}

// name returns the name to use in errors: what the client asked for, or what the object is called
// by now.
func (w *write) name() string {
	if w.target.Name != "" {
		return w.target.Name
	}
	return tree.Text(w.sent.new, "metadata", "name")
}

func (w *write) notFound() error { return status.NotFound(w.resource().GroupResource(), w.target.Name) }

func (w *write) conflict(why string) error {
	return status.Conflict(w.resource().GroupResource(), w.name(), why)
}

// current reads the newest state of an object: what any write acknowledged before this call has
// stored.
func (e *Engine) current(ctx context.Context, s *Served, key string) (*watch.Entry, error) {
	if err := s.Cache.Fresh(ctx); err != nil {
		return nil, e.readError(s.Kind, "get", err)
	}
	entry, ok := s.Cache.Get(key)
	if !ok {
		return nil, nil
	}
	return entry, nil
}

// treeOf decodes a live object, with its resourceVersion, as clients see it.
func treeOf(entry *watch.Entry) (registry.Tree, error) {
	t, err := decodeObject(entry.AppendJSON(make([]byte, 0, entry.Length())))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("decode %s at revision %s: %w", entry.Key(), entry.Revision(), err))
	}
	return t, nil
}

// someObject is about how long the JSON of an object is of which nothing is known.
const someObject = 1536

// encode makes the canonical JSON of an object for the store: without the resourceVersion, which is
// where it is stored. size is about how long it will be.
func encode(t registry.Tree, size int) ([]byte, error) {
	out, err := json.AppendTree(make([]byte, 0, size), tree.Without(t, "metadata", "resourceVersion"))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("encode an object: %w", err))
	}
	return out, nil
}
