package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

// identify checks what the object says of a stored one, and restores the stored values of the fields that
// belong to the server. A configuration that was merged is also compared with the URL.
func identify(ctx context.Context, w *write) error {
	if !w.understood {
		if err := identifyDocument(ctx, w); err != nil {
			return err
		}
	}
	if w.creating() {
		return w.identifyNew()
	}
	return w.identifyStored()
}

// identifySent handles a document that is not stored. Plugins may rely on its metadata, even if the
// client sent none: a webhook adds labels to it (ADM-03).
func identifySent(ctx context.Context, w *write) error {
	if err := w.understand(ctx); err != nil {
		return err
	}
	if _, ok := w.sent.new["metadata"].(map[string]any); !ok && hasMetadata(w.sent.kind.Resource) {
		w.set(registry.Tree{}, "metadata")
	}
	return nil
}

// identifyDocument checks that the object agrees with the URL and fills in what it leaves out: kind,
// namespace and name, which are common to objects and to documents that are not stored.
func identifyDocument(_ context.Context, w *write) error {
	if err := w.identifyForm(); err != nil {
		return err
	}
	return w.identifyName()
}

// identifyForm handles the kind, and that there is metadata to have a name.
func (w *write) identifyForm() error {
	if err := w.identifyKind(); err != nil {
		return err
	}
	if m, ok := w.sent.new["metadata"]; ok && m != nil && !isMap(m) {
		if w.patching() { // PATCH-15: the patch, not the document, is what the client sent
			return status.Invalid(w.sent.kind.GroupKind(), w.target.Name, []status.FieldError{
				{Type: meta.CauseFieldValueInvalid, Field: "patch", Value: m, Detail: "the patch replaces metadata with a value that is not an object"},
			})
		}
		return status.BadRequest("metadata must be an object")
	}
	return nil
}

// identifyKind fills in apiVersion and kind, and rejects a body of another kind (CREATE-04, P8).
func (w *write) identifyKind() error {
	r := w.sent.kind
	version, kind := w.sent.new["apiVersion"], w.sent.new["kind"]
	if r.Group == "" && version == "/"+r.Version {
		version = "" // an empty group and the version: dynamic clients write it so
	}
	if sent, ok := version.(string); ok && w.handler != nil && slices.Contains(w.handler.Alike, sent) {
		version = ""
	}
	if (version == nil || version == "" || version == r.APIVersion()) && (kind == nil || kind == "" || kind == r.Names.Kind) {
		if version != r.APIVersion() {
			w.set(r.APIVersion(), "apiVersion")
		}
		if kind != r.Names.Kind {
			w.set(r.Names.Kind, "kind")
		}
		return nil
	}
	if w.statusOfOther(version, kind) {
		w.set(r.APIVersion(), "apiVersion")
		w.set(r.Names.Kind, "kind")
		return nil
	}
	text := fmt.Sprintf("the object provided is kind %s of %s, but %s takes kind %s of %s",
		word(kind), word(version), w.place(), r.Names.Kind, r.APIVersion())
	sent, isText := kind.(string)
	switch {
	case w.patching() && r.Type == nil: // kube-apiserver decodes it as what it says it is, and judges that
		if problems, of := w.otherType(version, kind); len(problems) > 0 {
			return status.Invalid(of, identity(w.sent.new).Name, problems)
		}
		return status.BadRequest("%s", text)
	case version != nil && version != "" && version != r.APIVersion(): // kube-apiserver's words first
		data, _ := version.(string)
		return status.BadRequest("the API version in the data (%s) does not match the expected API version (%s): %s", clip.Text(data, 100), r.APIVersion(), text)
	case r.Type == nil && isText:
		f := &status.Fields{}
		f.At("kind").Invalid(sent, "must be "+r.Names.Kind)
		return status.Invalid(meta.GroupKind{Group: r.Group, Kind: clip.Text(sent, 100)}, identity(w.sent.new).Name, f.Errors())
	}
	return status.BadRequest("%s", text)
}

// statusOfOther reports whether a body of another type is taken as a status of this one. Of what is sent
// to the status of a custom resource, kube-apiserver takes nothing but the status before it judges
// the type. It compares the version of a document before that, and that of what is applied.
func (w *write) statusOfOther(version, kind any) bool {
	r := w.sent.kind
	if r.Type != nil || w.target.Subresource != "status" || w.verb == verbApply {
		return false
	}
	if text, ok := kind.(string); kind != nil && (!ok || text == "") {
		return false
	}
	text, ok := version.(string)
	if version == nil || text == r.APIVersion() {
		return true
	}
	_, err := meta.ParseGroupVersion(text)
	return ok && text != "" && err == nil && w.verb == verbPatch
}

// otherType says what is wrong with the type of an object that a patch has made, and names the kind that it is
// of then. There are no problems if that is no kind at all.
func (w *write) otherType(version, kind any) ([]status.FieldError, meta.GroupKind) {
	r, f := w.sent.kind, &status.Fields{}
	of := r.GroupKind()
	switch v := kind.(type) {
	case nil:
	case string:
		if v != "" && v != r.Names.Kind {
			f.At("kind").Invalid(clip.Text(v, 100), "must be "+r.Names.Kind)
			of.Kind = clip.Text(v, 100)
		}
	default:
		return nil, of
	}
	switch v := version.(type) {
	case nil:
	case string:
		if v != "" && v != r.APIVersion() {
			f.At("apiVersion").Invalid(clip.Text(v, 100), "must be "+r.APIVersion())
			gv, _ := meta.ParseGroupVersion(v)
			of.Group = clip.Text(gv.Group, 100)
		}
	default:
		return nil, of
	}
	return f.Errors(), of
}

// place returns a name for the target of the write, for messages.
func (w *write) place() string {
	if w.target.Subresource == "" {
		return w.kind.GroupResource().String()
	}
	return w.kind.GroupResource().String() + "/" + w.target.Subresource
}

// word formats a value of the body for a message, cut to a sensible length.
func word(v any) string {
	s, ok := v.(string)
	switch {
	case v == nil || s == "" && ok:
		return "(none)"
	case !ok:
		return "(not a string)"
	case len(s) > 100:
		return fmt.Sprintf("%q…", s[:100])
	}
	return fmt.Sprintf("%q", s)
}

// identifyName compares name and namespace with the URL (NS-04, NAME-13, P7).
func (w *write) identifyName() error {
	id := identity(w.sent.new)
	if w.handler != nil {
		return w.identifyAction(id)
	}
	if w.kind.ClusterScoped {
		w.sent.new = tree.Without(w.sent.new, "metadata", "namespace") // kube-apiserver drops it, too
	} else {
		if id.Namespace != "" && id.Namespace != w.target.Namespace {
			return status.BadRequest("the namespace of the provided object does not match the namespace sent on the request (%s, %q)", word(id.Namespace), w.target.Namespace)
		}
		if id.Namespace == "" {
			w.set(w.target.Namespace, "metadata", "namespace")
		}
	}
	if w.target.Name == "" {
		return nil
	}
	switch id.Name {
	case w.target.Name:
	case "":
		return w.nameless()
	default:
		return w.misnamed(id.Name)
	}
	return nil
}

// nameless is the error for an object that does not say what it is called.
func (w *write) nameless() error {
	return status.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided",
		clip.Text(w.target.Name, 100))
}

// misnamed is the error for an object that is called otherwise than the URL says.
func (w *write) misnamed(name string) error {
	return status.BadRequest("the name of the object (%s) does not match the name on the URL (%s)",
		clip.Text(name, 100), clip.Text(w.target.Name, 100))
}

// identifyAction does the same for the document of an action. The URL fills in what the document
// leaves out, unless it is a PUT, whose document replaces something: an empty one would clear it. Some
// actions want the name in any case.
func (w *write) identifyAction(id meta.Key) error {
	if id.Name == "" && (w.verb == verbUpdate || w.handler.Named) && hasMetadata(w.sent.kind.Resource) {
		return w.nameless()
	}
	if id.Name != "" && id.Name != w.target.Name {
		if w.handler.Misnamed != nil {
			return w.handler.Misnamed(id.Name)
		}
		return w.misnamed(id.Name)
	}
	if id.Namespace != "" && id.Namespace != w.target.Namespace {
		return status.BadRequest("the namespace of the provided object does not match the namespace sent on the request (%s, %q)", word(id.Namespace), w.target.Namespace)
	}
	if !hasMetadata(w.sent.kind.Resource) {
		return nil
	}
	w.sent.new = tree.With(w.sent.new, w.target.Name, "metadata", "name")
	if w.target.Namespace != "" {
		w.sent.new = tree.With(w.sent.new, w.target.Namespace, "metadata", "namespace")
	}
	return nil
}

// identifyNew removes the fields that a client cannot set on a new object.
func (w *write) identifyNew() error {
	// An apply with version "0" accepts any version, including a missing object (PATCH-02).
	if rv := tree.At(w.sent.new, "metadata", "resourceVersion"); rv != nil && rv != "" && !(w.verb == verbApply && rv == "0") {
		_, bad := storage.ParseRevision(fmt.Sprint(rv))
		switch {
		case w.target.Name != "":
			return w.notFound() // a PUT that insists on a version of an object that is absent
		case bad == nil && !w.opts.DryRun: // one that is no version is removed; else as Kubernetes checks it only at the commit; clients dry-run copies of objects they read
			return status.BadRequest("resourceVersion should not be set on objects to be created") // META-18
		}
	}
	if uid := tree.Text(w.sent.new, "metadata", "uid"); uid != "" && w.target.Name != "" && w.verb != verbApply {
		// A replacement of an earlier object of this name must not create a new one (UPDATE-05).
		return w.conflict(fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: ", tree.Cut(uid)))
	}
	w.sent.new = tree.Without(w.sent.new, "metadata", "resourceVersion")
	if err := w.decodeDropped(nil); err != nil {
		return err
	}
	w.setMetadata(nil, meta.MetadataFields(meta.SetByServer)...)
	if _, ok := w.sent.new["metadata"].(map[string]any); !ok {
		w.set(registry.Tree(nil), "metadata")
	}
	return nil
}

// identifyStored checks the preconditions in the body and restores the fields of the server.
func (w *write) identifyStored() error {
	uid, ok := tree.At(w.sent.new, "metadata", "uid").(string)
	if !ok && tree.At(w.sent.new, "metadata", "uid") != nil {
		return status.BadRequest("metadata.uid must be a string")
	}
	other := uid != "" && uid != string(w.entry.UID())
	if other && !w.patching() {
		return w.conflict(fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", tree.Cut(uid), w.entry.UID()))
	}
	if err := w.checkVersion(); err != nil {
		return err
	}
	if other { // a patch says what to change, so the uid is no precondition
		return status.Invalid(w.sent.kind.GroupKind(), w.name(), []status.FieldError{
			{Type: meta.CauseFieldValueInvalid, Field: "metadata.uid", Value: tree.Cut(uid), Detail: "field is immutable"},
		})
	}
	stored := tree.Map(w.sent.old, "metadata")
	if err := w.decodeDropped(stored); err != nil {
		return err
	}
	if w.engine.cfg.DeletionIsImmutable {
		if problems := w.deletionProblems(stored); len(problems) > 0 {
			return status.Invalid(w.sent.kind.GroupKind(), w.name(), problems)
		}
	}
	w.claim()
	w.setMetadata(stored, meta.MetadataFields(meta.KeptOnUpdate)...)
	return nil
}

// claim remembers what was sent in the metadata that an update leaves as it is stored: mutating plugins see
// it, or that it was left out (ADM-12).
func (w *write) claim() {
	if !w.engine.mutates(w) {
		return
	}
	w.claimed = registry.Tree{}
	for _, field := range meta.MetadataFields(meta.KeptOnUpdate) {
		if v := tree.At(w.sent.new, "metadata", field); v != nil {
			w.claimed[field] = v
		}
	}
}

// deletionProblems are about what a client says of the deletion of a stored object. As in
// kube-apiserver, the time of one that is being deleted is ignored, and what is left out is as stored;
// so is everything in the document of a view, and in the status of a kind without a Go type.
func (w *write) deletionProblems(stored registry.Tree) (out []status.FieldError) {
	if w.view != nil || w.sub != nil && w.sent.kind.Type == nil {
		return nil
	}
	metadata, _ := w.sent.new["metadata"].(map[string]any)
	for _, field := range [...]string{"deletionTimestamp", "deletionGracePeriodSeconds"} {
		v := metadata[field]
		if v == nil || json.Equal(v, stored[field]) || field == "deletionTimestamp" && stored[field] != nil {
			continue
		}
		out = append(out, status.FieldError{
			Type: meta.CauseFieldValueInvalid, Field: "metadata." + field, Value: v, Detail: "field is immutable",
		})
	}
	return out
}

// checkVersion compares the resourceVersion in the body with the stored one (UPDATE-02, UPDATE-08,
// PATCH-04).
func (w *write) checkVersion() error {
	v := tree.At(w.sent.new, "metadata", "resourceVersion")
	sent, ok := v.(string)
	switch {
	case v == nil || ok && sent == "" || ok && sent == "0":
		if w.sent.kind.Writes.RequireVersion {
			plural := meta.GroupKind{Group: w.kind.Group, Kind: w.kind.Plural} // as kube-apiserver calls it here
			return status.Invalid(plural, w.name(), []status.FieldError{
				{Type: meta.CauseFieldValueInvalid, Field: "metadata.resourceVersion", Value: 0, Detail: "must be specified for an update"},
			})
		}
		return nil
	case !ok:
		return status.BadRequest("metadata.resourceVersion must be a string")
	}
	rev, err := storage.ParseRevision(sent)
	if err != nil {
		return status.BadRequest("invalid resource version in metadata.resourceVersion: %v", err)
	}
	if rev != w.entry.Revision() {
		return w.conflict("the object has been modified; please apply your changes to the latest version and try again")
	}
	return nil
}

// decodeDropped refuses values of the wrong type in the fields of metadata that only the server sets.
// What a client sends there is dropped, but kube-apiserver decodes it first. A value that is as stored
// is none of the client's, so an object that was stored otherwise can still be written.
func (w *write) decodeDropped(stored registry.Tree) error {
	metadata, _ := w.sent.new["metadata"].(map[string]any)
	var odd map[string]any
	for _, field := range meta.MetadataFields(meta.SetByServer) {
		v := metadata[field]
		if v == nil || json.Equal(v, stored[field]) {
			continue
		}
		if odd == nil {
			odd = map[string]any{}
		}
		odd[field] = v
	}
	if odd == nil {
		return nil
	}
	r := w.sent.kind
	if _, problems := r.Schema.Canonical(registry.Tree{"metadata": odd}); len(problems) > 0 {
		return status.Invalid(r.GroupKind(), w.name(), problems)
	}
	if g, _ := odd["generation"].(int64); g < 0 && w.creating() {
		return status.Invalid(r.GroupKind(), w.name(), []status.FieldError{
			{Type: meta.CauseFieldValueInvalid, Field: "metadata.generation", Value: g, Detail: "must be greater than or equal to 0"},
		})
	}
	return nil
}
