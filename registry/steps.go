package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// read loads the stored object that the URL names.
func read(ctx context.Context, w *write) error {
	if w.target.Name == "" {
		return nil // a POST: the name is in the body, and only the commit can tell whether it is free
	}
	w.key = storage.ObjectKey(w.resource().StorageName, w.target.Namespace, w.target.Name)
	old, err := w.engine.current(ctx, w.served, w.key)
	if err != nil {
		return err
	}
	if old == nil {
		if !w.mayCreate {
			return w.notFound()
		}
		return nil
	}
	if !w.mayUpdate {
		return w.alreadyExists(old.Facts().Deleted != nil)
	}
	w.old = old
	if w.storedTree, err = treeOf(old); err != nil {
		return err
	}
	if w.oldTree, err = w.resource().FromStored(ctx, w.storedTree); err != nil {
		return err
	}
	if v := w.view(); v != nil {
		return w.lookAt(ctx, v)
	}
	return nil
}

func compute(_ context.Context, w *write) error {
	t, err := w.compute(w)
	if err != nil {
		return err
	}
	w.object = t
	return nil
}

// decodeBody reads the object a client sent. Fields given twice are complaints that the mode of field validation
// decides about; the last one counts everywhere, so admission sees what is stored (B6).
func (w *write) decodeBody(body []byte) (Tree, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, status.BadRequest("the body of the request is empty; a %s is expected", w.kind().Names.Kind)
	}
	v, err := json.DecodeTree(body, json.TreeOptions{Duplicates: w.duplicate})
	if err != nil {
		return nil, status.BadRequest("the body of the request cannot be read: %v", err)
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, status.BadRequest("the body of the request is not a JSON object; a %s is expected", w.kind().Names.Kind)
	}
	return t, nil
}

// maxComplaints bounds the text about unknown and repeated fields of one request.
const maxComplaints = 100

func (w *write) duplicate(path string) { w.complain("duplicate", path) }

func (w *write) complain(what, path string) {
	if len(w.complaints) < maxComplaints {
		w.complaints = append(w.complaints, fmt.Sprintf("%s field %q", what, path))
	}
}

// conform reports and drops what the schema does not know, puts values in canonical form and fills defaults in.
func conform(ctx context.Context, w *write) error {
	pruned, unknown := w.kind().Schema.Prune(w.object)
	for _, path := range unknown {
		w.complain("unknown", path)
	}
	if err := w.answerComplaints(ctx); err != nil {
		return err
	}
	w.object = pruned
	return w.settle(ctx)
}

func (w *write) answerComplaints(ctx context.Context) error {
	if len(w.complaints) == 0 {
		return nil
	}
	switch w.opts.FieldValidation {
	case FieldValidationIgnore:
		return nil
	case FieldValidationStrict:
		text := "strict decoding error: " + strings.Join(w.complaints, ", ")
		if w.patching && !w.applying { // an apply is a document, as a create and an update are
			return status.Invalid(w.kind().GroupKind(), w.name(), []status.FieldError{
				{Type: meta.CauseFieldValueInvalid, Field: "patch", Value: "…", Detail: text},
			})
		}
		return status.BadRequest("%s", text)
	}
	for _, c := range w.complaints {
		Warn(ctx, c)
	}
	return nil
}

// settle brings w.object into canonical form with all defaults. A value of the wrong type ends the request here, with
// everything else the schema has to say: hooks are promised an object of the right shape.
func (w *write) settle(ctx context.Context) error {
	t, err := w.settled(ctx, w.kind(), w.object, w.oldTree)
	if err == nil {
		w.object = t
	}
	return err
}

// settled does it for an object of r, of which old is stored.
func (w *write) settled(ctx context.Context, r *Compiled, object, old Tree) (Tree, error) {
	canonical, problems := r.Schema.Canonical(object)
	t := r.Schema.Default(withoutEmptyMetadata(canonical))
	if len(problems) > 0 {
		if problems = blocking(r, t, old, problems); len(problems) > 0 {
			return nil, status.Invalid(r.GroupKind(), w.name(), problems)
		}
	}
	if r.Hooks.Default == nil {
		return t, nil
	}
	t, err := r.Hooks.Default(ctx, t)
	if err != nil {
		return nil, err
	}
	if t, problems = r.Schema.Canonical(t); len(problems) > 0 {
		return nil, status.Internal(fmt.Errorf("the Default hook of %s made an object its schema refuses: %s", r.GroupResource(), problems[0].Message()))
	}
	return r.Schema.Default(t), nil // of what the hook added: the next write would fill it in, and a replacement change something
}

// blocking returns what an object with values of a wrong type is refused for. An update is not refused for values that
// were wrong before (KEP-4008), unless hooks are promised an object of the right shape.
func blocking(r *Compiled, t, old Tree, problems []status.FieldError) []status.FieldError {
	typed := r.Hooks.Default != nil || r.Hooks.Validate != nil || r.Hooks.ValidateUpdate != nil
	if typed || old == nil {
		return everyProblem(r, t, problems)
	}
	return r.Schema.ValidateUpdate(t, old)
}

// everyProblem joins the type errors of an object with what else its schema finds wrong, each field once.
func everyProblem(r *Compiled, t Tree, problems []status.FieldError) []status.FieldError {
	seen := map[string]bool{}
	for _, p := range problems {
		seen[p.Field] = true
	}
	for _, p := range r.Schema.Validate(t) {
		if !seen[p.Field] {
			seen[p.Field] = true
			problems = append(problems, p)
		}
	}
	return problems
}

// reset takes back what the requester may not change on this path.
func reset(ctx context.Context, w *write) error {
	switch {
	case w.sub != nil && w.sub.merge == nil:
	case w.sub != nil:
		sent := w.object
		var err error
		if w.object, err = w.sub.merge(ctx, tree.Without(w.oldTree, "metadata", "resourceVersion"), sent); err != nil {
			return err
		}
		if w.applying { // it has worked out who owns what already
			w.object = tree.Keep(w.object, sent, "metadata", "managedFields")
		}
	case w.resource().Reset != nil:
		w.object = w.resource().Reset(w.oldTree, w.object)
	}
	return nil
}

// gate asks whether the namespace takes new objects, and notes what must still hold when the object is committed.
func gate(ctx context.Context, w *write) error {
	if !w.creating() || w.resource().ClusterScoped || w.engine.cfg.Gate == nil {
		return nil
	}
	checks, err := w.engine.cfg.Gate.AdmitCreate(ctx, w.engine, w.resource().Resource, w.target.Namespace, tree.Text(w.object, "metadata", "name"))
	if err != nil {
		return err
	}
	w.checks = checks
	return nil
}

func mutate(ctx context.Context, w *write) error {
	chain := w.engine.cfg.Admission
	if !chain.Mutates(w.admissionTarget()) {
		return nil
	}
	sent := w.object
	t, changed, err := chain.Mutate(ctx, w.admission())
	if err != nil || !changed {
		return err
	}
	if path := changedIdentity(sent, t, w.creating()); path != "" { // X5
		return status.Internal(fmt.Errorf("an admission plugin changed %s of %s", path, w.resource().GroupResource()))
	}
	w.object, _ = w.kind().Schema.Prune(t)
	w.keepOwnership(ctx, sent)
	if err := w.confine(ctx, sent); err != nil {
		return err
	}
	return w.settle(ctx)
}

// confine takes back what nobody may change on this path, admission neither: the fields of the server, and those that
// belong to other endpoints (CREATE-06).
func (w *write) confine(ctx context.Context, sent Tree) error {
	for _, field := range meta.MetadataFields(meta.SetByServer) {
		w.object = tree.Keep(w.object, sent, "metadata", field)
	}
	w.object = tree.Keep(w.object, sent, "metadata", "resourceVersion")
	if !w.creating() {
		w.object = tree.Keep(w.object, sent, "metadata", "generateName")
	}
	owned := w.object
	if err := reset(ctx, w); err != nil {
		return err
	}
	w.object = tree.Keep(w.object, owned, "metadata", "managedFields")
	return nil
}

// changedIdentity names the first part of an object's identity in which two trees differ.
func changedIdentity(a, b Tree, creating bool) string {
	paths := [][]string{{"apiVersion"}, {"kind"}, {"metadata", "namespace"}, {"metadata", "uid"}}
	if !creating || tree.Text(a, "metadata", "name") != "" {
		paths = append(paths, []string{"metadata", "name"})
	}
	for _, p := range paths {
		if tree.Text(a, p...) != tree.Text(b, p...) {
			return strings.Join(p, ".")
		}
	}
	return ""
}

// validate collects everything that is wrong with the object and refuses it with all of it. What breaks a rule of the
// schema and did so before does not count (KEP-4008).
func validate(ctx context.Context, w *write) error {
	r := w.resource()
	if err := w.settleStored(ctx); err != nil {
		return err
	}
	f := &status.Fields{}
	f.Add(w.metadataProblems()...)
	f.Add(w.ownershipProblems()...)
	if through := w.target.Subresource; through != SubresourceFrom(ctx) {
		ctx = context.WithValue(ctx, subresourceKey{}, through)
	}
	if w.creating() {
		f.Add(r.Schema.Validate(w.object)...)
	} else {
		f.Add(r.Schema.ValidateUpdate(w.object, w.oldTree)...)
	}
	if r.Hooks.Validate != nil {
		r.Hooks.Validate(ctx, w.object, f)
	}
	if r.Hooks.ValidateUpdate != nil && !w.creating() {
		r.Hooks.ValidateUpdate(ctx, w.object, w.oldTree, f)
	}
	if f.Len() == 0 {
		w.validateStored(ctx, f)
	}
	if errs := f.Errors(); len(errs) > 0 {
		return status.Invalid(r.GroupKind(), w.name(), errs)
	}
	if w.unowned != nil {
		w.engine.cfg.Logger.Error(w.unowned, "managed fields could not be worked out", "resource", r.GroupResource().String(), "name", w.name())
	}
	return nil
}

// validateStored asks the stored form about what another form makes of it: its schema, and its rules where the other form has
// none of its own.
func (w *write) validateStored(ctx context.Context, f *status.Fields) {
	r := w.resource()
	if r.Stored == nil {
		return
	}
	stored := r.base()
	if w.creating() {
		f.Add(stored.Schema.Validate(w.storedObject)...)
	} else {
		f.Add(stored.Schema.ValidateUpdate(w.storedObject, w.storedTree)...)
	}
	if f.Len() > 0 {
		return
	}
	if r.Hooks.Validate == nil && stored.Hooks.Validate != nil {
		stored.Hooks.Validate(ctx, w.storedObject, f)
	}
	if r.Hooks.ValidateUpdate == nil && stored.Hooks.ValidateUpdate != nil && !w.creating() {
		stored.Hooks.ValidateUpdate(ctx, w.storedObject, w.storedTree, f)
	}
}

func admitFinal(ctx context.Context, w *write) error {
	if !w.engine.cfg.Admission.Validates(w.admissionTarget()) {
		return nil
	}
	return w.engine.cfg.Admission.Validate(ctx, w.admission())
}

// skipUnchanged ends a write that would store what is stored: same version, no event (UPDATE-09). An object stored under
// an earlier schema is written even so, which is how a plain get and replace migrates it (design rule 9).
func skipUnchanged(_ context.Context, w *write) error {
	size := someObject
	if w.old != nil {
		size = w.old.Length() + 256
	}
	encoded, err := encode(w.storedObject, size)
	if err != nil {
		return err
	}
	w.encoded = encoded
	if w.creating() || w.remove || w.served.stale.has(w.key, w.old.Revision()) {
		return nil
	}
	if w.old.IsBare(encoded) || w.sameButTimes() {
		w.result = &Result{Entry: w.old}
	}
	return nil
}

// store commits operations with their companions and waits until every read shows them.
func (e *Engine) store(ctx context.Context, s *Served, ops []storage.Op, c Change) (storage.Revision, error) {
	if companions := s.Kind.base().Writes.Companions; companions != nil {
		more, err := companions(c)
		if err != nil {
			return 0, err
		}
		ops = append(ops, more...)
	}
	rev, err := e.cfg.Store.Commit(ctx, ops)
	if err != nil {
		return 0, err
	}
	if err := s.Cache.WaitFor(ctx, rev); !errors.Is(err, watch.ErrGone) {
		return rev, err
	}
	return rev, nil // the kind is served no more, but the write was committed
}

// commitError tells what a failed commit means for this write.
func (e *Engine) commitError(ctx context.Context, w *write, err error) error {
	var lost *storage.ConflictError
	if !errors.As(err, &lost) {
		return e.writeError(w.resource(), err)
	}
	if waitErr := e.catchUp(ctx, w.served); waitErr != nil {
		return waitErr
	}
	if lost.Key != w.key || !w.creating() || w.target.Name != "" {
		return errRace
	}
	if w.generated {
		return w.nameTaken()
	}
	existing, ok := w.served.Cache.Get(w.key)
	return w.alreadyExists(ok && existing.Facts().Deleted != nil)
}

// catchUp waits until the live view shows what made a commit fail, so that the next try does not read the same again.
func (e *Engine) catchUp(ctx context.Context, s *Served) error {
	if err := s.Cache.Fresh(ctx); err != nil {
		return e.readError(s.Kind, "update", err)
	}
	return nil
}

func (w *write) alreadyExists(ending bool) error {
	err := status.AlreadyExists(w.resource().GroupResource(), w.name())
	if ending { // NAME-12
		return err.WithMessage("object is being deleted: " + err.Error())
	}
	return err
}
