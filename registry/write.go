package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// Result is the outcome of a write.
type Result struct {
	Entry   *watch.Entry // the object as it is stored now; in a dry run, as it would be; after a removal, as it was last
	Created bool         // the object did not exist before
	Removed bool         // the object is gone

	// Document is set instead of Entry where there is nothing in the store that could have a version: the answer of a
	// virtual resource, and the new object of a dry run.
	Document []byte

	// Kind is that of a Document which is not of the resource's own kind: the answer of a subresource.
	Kind meta.GroupVersionKind
}

// write is the state of one write while it walks the step list. It belongs to one request, and to one try of it: after
// a lost race a fresh one starts from the read.
type write struct {
	engine *Engine
	served *Served
	sub    *CompiledSubresource // nil on the main path
	target Target
	opts   WriteOptions
	user   authn.User

	// compute returns the object that the requester wants, given the stored one with its resourceVersion (nil when
	// absent). It runs in the step of that name, so patches are computed anew for each try.
	compute func(w *write) (Tree, error)

	mayCreate, mayUpdate bool // what this call may do to the store
	patching             bool // compute applies a patch
	applying             bool // that patch is a server-side apply
	attempt              *int // generated names tried so far, over all tries

	key     string
	old     *watch.Entry // what is stored, nil when absent
	oldTree Tree         // the same, decoded, with resourceVersion, in the form of the request
	object  Tree         // what is to be stored, in the form of the request
	encoded []byte       // canonical JSON of object in its stored form
	checks  []storage.Op // must hold at the commit (design rule 2)
	remove  bool         // object's last finalizer went: it is removed instead of stored

	storedTree, storedObject Tree // oldTree and object in the stored form

	looking *looking // set where the subresource is a view
	action  *handler // set where it is an action
	verb    string   // of the action

	complaints []string // unknown and repeated fields
	unowned    error    // why it could not be worked out who owns what; mostly, that the object is invalid
	generated  bool     // the name is of the server's making

	result *Result // set by the step that ends the walk
}

// errRace reports that the store no longer holds what this try was computed from.
var errRace = errors.New("lost a race with another write")

func (w *write) resource() *Compiled { return w.served.Kind }

// kind describes what object holds at this moment: an object of the resource, or a document of the subresource.
func (w *write) kind() *Compiled {
	switch {
	case w.action != nil:
		return w.action.body
	case w.looking != nil && !w.looking.merged:
		return w.sub.view.document
	}
	return w.resource()
}

func (w *write) creating() bool { return w.old == nil }

func (w *write) operation() admission.Operation {
	if w.creating() && (w.action == nil || w.verb == "create") {
		return admission.Create
	}
	return admission.Update
}

// name returns the name to use in errors: what the client asked for, or what the object is called by now.
func (w *write) name() string {
	if w.target.Name != "" {
		return w.target.Name
	}
	return tree.Text(w.object, "metadata", "name")
}

func (w *write) notFound() error { return status.NotFound(w.resource().GroupResource(), w.target.Name) }

func (w *write) conflict(why string) error {
	return status.Conflict(w.resource().GroupResource(), w.name(), why)
}

// current reads the newest state of an object: what any write acknowledged before this call has stored.
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
func treeOf(entry *watch.Entry) (Tree, error) {
	t, err := decodeObject(entry.AppendJSON(make([]byte, 0, entry.Length())))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("decode %s at revision %s: %w", entry.Key(), entry.Revision(), err))
	}
	return t, nil
}

// someObject is about how long the JSON of an object is of which nothing is known.
const someObject = 1536

// encode makes the canonical JSON of an object for the store: without the resourceVersion, which is where it is stored. size
// is about how long it will be.
func encode(t Tree, size int) ([]byte, error) {
	out, err := json.AppendTree(make([]byte, 0, size), tree.Without(t, "metadata", "resourceVersion"))
	if err != nil {
		return nil, status.Internal(fmt.Errorf("encode an object: %w", err))
	}
	return out, nil
}
