package registry

import (
	"context"
	"fmt"
	"reflect"

	"github.com/kindwright/kindwright/internal/typed"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Action is a subresource that does something with an object T when a document D is POSTed to it,
// and answers with an A: the eviction of a pod, a token for an account. What is sent is read as
// strictly as an object is: its kind is checked, unknown fields are reported, defaults filled in,
// the rules of its schema kept. Admission sees it as the creation of D through the subresource.
// Nothing is stored but what Run stores.
// Source: MODEL-22, PATH-21.
type Action[T, D, A any] struct {
	Name string // the path segment
	Verb string // "create", for POST, which is the default; or "update", for PUT

	Kind   meta.GroupVersionKind // of D; default: the Go type's name, in the group and version of the kind
	Alike  []string              // API versions ("policy/v1beta1") beside that of Kind which documents may have too: they are read as D
	Answer meta.GroupVersionKind // of A; default: that of D if A is D, v1 Status for meta.Status; else as for Kind

	// Run does it. A nil answer without an error is sent as a Status that says Success. Errors are sent as those of other
	// hooks are. It must not change anything where call.DryRun is set.
	Run func(ctx context.Context, call *Call[T], doc *D) (*A, error)

	// Misnamed, if not nil, makes the answer to a document whose metadata names another object than the URL.
	// The usual answer is a BadRequest.
	Misnamed func(name string) error

	// Named rejects a document whose metadata has no name, instead of taking the one of the URL. It is for
	// what must not happen to another object by mistake.
	Named bool

	// Default and Validate are to documents what those of Kind are to objects.
	Default  func(ctx context.Context, doc *D)
	Validate func(ctx context.Context, doc *D, f *status.Fields)
}

// Describe makes the action a Subresource.
func (a Action[T, D, A]) Describe(of *Resource, env Env) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource %q: %w", a.Name, err)
	}
	if err := checkObject[T](a.Name, of); err != nil {
		return Subresource{}, err
	}
	if a.Verb == "" {
		a.Verb = "create"
	}
	if a.Verb != "create" && a.Verb != "update" {
		return fail(fmt.Errorf("an action has the verb create or update, not %q", a.Verb))
	}
	if a.Run == nil {
		return fail(errNoFunction("Run"))
	}
	body, err := describeDocument[D](a.Kind, of, env)
	if err != nil {
		return fail(err)
	}
	body.Hooks = Rules[D]{Default: a.Default, Validate: a.Validate}.hooks()
	answer := body
	if a.Answer != (meta.GroupVersionKind{}) || reflect.TypeFor[A]() != reflect.TypeFor[D]() {
		if answer, err = describeDocument[A](a.Answer, of, env); err != nil {
			return fail(err)
		}
	}
	run := func(ctx context.Context, in *Call[Tree], doc Tree) (Tree, error) {
		call, err := callOf[T](in)
		if err != nil {
			return nil, err
		}
		sent, err := typed.Decode[D](doc)
		if err != nil {
			return nil, status.Internal(err)
		}
		out, err := a.Run(ctx, call, sent)
		if err != nil || out == nil {
			return nil, err
		}
		return typed.Encode(out)
	}
	return Subresource{Name: a.Name, Verbs: []string{a.Verb}, Handlers: map[string]*Handler{a.Verb: {Body: body, Alike: a.Alike, Answer: answer, Run: run, Misnamed: a.Misnamed, Named: a.Named}}}, nil
}
