package engine

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/hookcontext"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

const (
	suffixLetters    = "bcdfghjklmnpqrstvwxz2456789" // no vowels, no look-alikes (NAME-08)
	suffixLength     = 5
	maxGeneratedBase = 63 - suffixLength
	maxNameAttempts  = 8 // NAME-09

	maxOwners = 1000 // far above any use, low enough to bound the cost of a write (B16)

	// maxOwnerUID bounds the uid of an owner, which the managed fields repeat twice. A UUID has 36
	// bytes.
	maxOwnerUID = 1024
)

// generateName names a new object if the client left the name to the server.
func generateName(ctx context.Context, w *write) error {
	if !w.creating() {
		return nil
	}
	name := tree.Text(w.object.new, "metadata", "name")
	if prefix := tree.Text(w.object.new, "metadata", "generateName"); name == "" && prefix != "" {
		suffix, err := randomText(w.engine.cfg.Rand, suffixLength)
		if err != nil {
			return status.Internal(fmt.Errorf("make a name: %w", err))
		}
		w.attempts++
		w.generated = true
		name = strings.ToValidUTF8(prefix[:min(len(prefix), maxGeneratedBase)], "") + suffix
		w.object.new = tree.With(w.object.new, name, "metadata", "name")
	}
	if name == "" || w.nameProblem(name) != "" {
		return nil // it cannot be a key; the validation step reports it with all other errors
	}
	w.key = storage.ObjectKey(w.kind.StorageName, w.target.Namespace, name)
	if w.generated && w.kind.Hooks.Default != nil {
		w.own = false
		return w.settle(ctx, w.object) // some defaults depend on the name
	}
	return nil
}

// nameTaken handles a collision of a generated name. It retries until the attempts are used up
// (NAME-09).
func (w *write) nameTaken() error {
	if w.attempts < maxNameAttempts {
		return errRace
	}
	err := status.AlreadyExists(w.kind.GroupResource(), w.name())
	return err.WithMessage(err.Error() + ": the server was not able to generate a unique name for the object").WithRetryAfter(1)
}

// randomText returns n characters of suffixLetters, each equally likely.
func randomText(r io.Reader, n int) (string, error) {
	const fair = 256 / len(suffixLetters) * len(suffixLetters) // bytes from here on would favour the first letters
	out := make([]byte, 0, n)
	var b [1]byte
	for len(out) < n {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return "", err
		}
		if int(b[0]) < fair {
			out = append(out, suffixLetters[int(b[0])%len(suffixLetters)])
		}
	}
	return string(out), nil
}

// newUID returns a random UUID, version 4 (META-07, RFC 9562).
func newUID(r io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return "", err
	}
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:]), nil
}

// stamp formats a time as metadata does: RFC 3339, seconds, UTC (META-05).
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// stampMetadata sets the identity and creation time of a new object, which only the server sets, and
// lets the kind set the fields that belong to the server.
func stampMetadata(ctx context.Context, w *write) (err error) {
	w.object.new = withoutRepeatedOwners(ctx, w.object.new, afterMutation)
	if w.creating() {
		if err := w.stampNew(); err != nil {
			return err
		}
	}
	if w.kind.Hooks.Complete != nil {
		w.own = false
		w.object.new, err = w.kind.completed(w.through(ctx), w.object.new, w.object.old)
	}
	return err
}

// count sets the generation of an object whose desired state changed. It also decides whether an
// object whose last finalizer is gone is removed. Both go by the stored form.
func count(ctx context.Context, w *write) error {
	if w.creating() {
		return nil
	}
	base := w.kind.base
	if !base.Writes.NoGeneration && !base.Writes.FixedGeneration && !hookcontext.IsUncounted(ctx) && w.desiredStateChanged() {
		next := generation(w.stored.old) + 1 // META-12
		switch same := tree.Same(w.object.new, w.stored.new); {
		case same && w.owns():
			tree.Set(w.object.new, next, "metadata", "generation")
		case same:
			w.object.new = tree.With(w.object.new, next, "metadata", "generation")
			w.stored.new = w.object.new
		default:
			w.object.new = tree.With(w.object.new, next, "metadata", "generation")
			w.stored.new = tree.With(w.stored.new, next, "metadata", "generation")
		}
	}
	w.remove = deleting(w.stored.new) && !base.held(w.stored.new) // META-13
	return nil
}

// completed returns the object with the fields that the kind sets on the server's behalf. An object that
// its schema refuses already, such as one that was stored under an earlier schema, is left to the
// validation.
func (r *Kind) completed(ctx context.Context, t, old registry.Tree) (registry.Tree, error) {
	out, err := r.Hooks.Complete(ctx, t, old)
	if err != nil {
		return nil, status.From(err)
	}
	canonical, problems := r.Schema.Canonical(out)
	if len(problems) == 0 {
		return canonical, nil
	}
	if _, before := r.Schema.Canonical(t); len(before) > 0 {
		return out, nil
	}
	return nil, status.Internal(fmt.Errorf("the Complete hook of %s made an object its schema refuses: %s", r.GroupResource(), problems[0].Message()))
}

// withoutEmptyMetadata drops empty maps and lists of metadata. There, unlike elsewhere, empty means
// absent: clients that decode metadata into a struct never send them back.
func withoutEmptyMetadata(t registry.Tree) registry.Tree {
	for _, field := range [...]string{"labels", "annotations", "finalizers", "ownerReferences"} {
		switch v := tree.At(t, "metadata", field).(type) {
		case map[string]any:
			if v != nil && len(v) == 0 {
				t = tree.Without(t, "metadata", field)
			}
		case []any:
			if v != nil && len(v) == 0 {
				t = tree.Without(t, "metadata", field)
			}
		}
	}
	return t
}

func (w *write) stampNew() error {
	uid, err := newUID(w.engine.cfg.Rand)
	if err != nil {
		return status.Internal(fmt.Errorf("make a uid: %w", err))
	}
	created := stamp(w.engine.cfg.Now())
	if w.owns() {
		metadata := tree.Map(w.object.new, "metadata")
		metadata["uid"], metadata["creationTimestamp"] = uid, created
		if !w.kind.Writes.NoGeneration {
			metadata["generation"] = int64(1)
		}
		return nil
	}
	stamps := map[string]any{"uid": uid, "creationTimestamp": created}
	names := []string{"uid", "creationTimestamp", "generation"}
	if w.kind.Writes.NoGeneration {
		names = names[:2]
	} else {
		stamps["generation"] = int64(1)
	}
	w.object.new = tree.WithMetadata(w.object.new, stamps, names...)
	return nil
}

// held reports whether an object that is marked for deletion must stay for now.
func (r *Kind) held(t registry.Tree) bool {
	return len(finalizers(t)) > 0 || r.graceful(t) > 0 || r.Hooks.Held != nil && r.Hooks.Held(t)
}

func generation(t registry.Tree) int64 {
	g, _ := tree.At(t, "metadata", "generation").(int64)
	return g
}

// desiredStateChanged reports whether the desired state changed: everything but metadata, and but
// status if that is a subresource.
func (w *write) desiredStateChanged() bool {
	kind, old, next := w.kind.base, w.stored.old, w.stored.new
	if w.kind.straight() { // the stored form may be another one than that of the record
		kind, old, next = w.kind, w.object.old, w.object.new
	}
	if kind.Writes.CountAnnotations && w.target.Subresource == "" && !json.Equal(tree.At(next, "metadata", "annotations"), tree.At(old, "metadata", "annotations")) {
		return true
	}
	_, hasStatus := kind.Endpoint("status")
	skip := func(name string) bool { return name == "metadata" || name == "status" && hasStatus }
	for name := range old {
		if _, still := next[name]; !still && !skip(name) {
			return true
		}
	}
	for name, v := range next {
		if before, had := old[name]; !skip(name) && (!had || !json.Equal(v, before)) {
			return true
		}
	}
	return false
}

// withoutRepeatedOwners removes repeated owner references, with the warning of Kubernetes (META-14).
// when tells where they come from: from the request, or from what became of it since.
func withoutRepeatedOwners(ctx context.Context, t registry.Tree, when string) registry.Tree {
	t, repeated := uniqueOwners(t)
	if len(repeated) > 0 {
		registry.Warn(ctx, ".metadata.ownerReferences contains duplicate entries"+when+"; API server dedups owner references in 1.20+, "+
			"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "+clip.Text(strings.Join(repeated, ", "), 1000))
	}
	return t
}

// uniqueOwners is withoutRepeatedOwners without the warning. It returns the uids that were repeated.
func uniqueOwners(t registry.Tree) (_ registry.Tree, repeated []string) {
	refs := tree.List(t, "metadata", "ownerReferences")
	if len(refs) < 2 || len(refs) > maxOwners {
		return t, nil // validation rejects more than that anyway, so comparing them all would be wasted
	}
	kept := make([]any, 0, len(refs))
	byUID := map[any][]any{}
	for _, ref := range refs {
		uid := tree.At(registry.Tree{"ref": ref}, "ref", "uid")
		if slices.ContainsFunc(byUID[uid], func(have any) bool { return json.Equal(have, ref) }) {
			repeated = append(repeated, fmt.Sprint(uid))
			continue
		}
		byUID[uid] = append(byUID[uid], ref)
		kept = append(kept, ref)
	}
	if len(repeated) == 0 {
		return t, nil
	}
	return tree.With(t, kept, "metadata", "ownerReferences"), repeated
}

// The values of when for withoutRepeatedOwners.
const (
	asSent        = ""
	afterMutation = " after mutating admission happens"
)

func (w *write) nameProblem(name string) string {
	if why := meta.CheckPathSegment(name); why != "" {
		return why
	}
	return w.kind.NameRule(name)
}

// namedBy returns a name that is good if a prefix is: it may end in what no name ends in, and may be "." or "..".
func namedBy(prefix string) string {
	switch {
	case prefix == "." || prefix == "..":
		return prefix + "a"
	case len(prefix) > 1 && strings.HasSuffix(prefix, "-"):
		return prefix[:len(prefix)-2] + "a"
	}
	return prefix
}

// metadataProblems checks the rules that are the same for every kind (NAME-11, META-13 to META-16,
// B16).
func (w *write) metadataProblems(f *status.Fields) {
	name := tree.Text(w.object.new, "metadata", "name")
	if name == "" && w.creating() {
		f.At("metadata", "name").Required("name or generateName is required") // NAME-10
	} else if why := w.nameProblem(name); why != "" {
		f.At("metadata", "name").Invalid(tree.Cut(name), why)
	}
	if prefix := tree.Text(w.object.new, "metadata", "generateName"); prefix != "" && w.kind.Type == nil && w.creating() {
		// Kubernetes judges a prefix, too. Kinds with a Go type have rules of their own for that: a prefix that has
		// made a name is judged by the name (NAME-06).
		if why := w.nameProblem(namedBy(prefix)); why != "" {
			f.At("metadata", "generateName").Invalid(tree.Cut(prefix), why)
		}
	}
	if ns := tree.Text(w.object.new, "metadata", "namespace"); !w.kind.ClusterScoped {
		if why := meta.CheckDNSLabel(ns); why != "" {
			f.At("metadata", "namespace").Invalid(tree.Cut(ns), why)
		}
	}
	m := tree.Map(w.object.new, "metadata")
	if labels, _ := m["labels"].(map[string]any); len(labels) > 0 {
		checkLabels(f, labels)
	}
	if annotations, _ := m["annotations"].(map[string]any); len(annotations) > 0 {
		checkAnnotations(f, annotations)
	}
	if list, _ := m["finalizers"].([]any); len(list) > 0 {
		w.checkFinalizers(f)
	}
	if owners, _ := m["ownerReferences"].([]any); len(owners) > 0 {
		checkOwners(f, owners)
	}
}

// maxListedProblems limits how many members of one map are reported one by one.
const maxListedProblems = 20

// maxListedBytes bounds the labels and the finalizers of an object, as annotations are bounded. So
// their cost is bounded, and no use has that many (B16).
const maxListedBytes = meta.MaxAnnotationBytes

func checkLabels(f *status.Fields, labels map[string]any) {
	total := 0
	for key, value := range labels {
		text, _ := value.(string)
		total += len(key) + len(text)
	}
	if total > maxListedBytes {
		f.At("metadata", "labels").TooLong(maxListedBytes)
		return
	}
	problems := 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value, _ := labels[key].(string)
		if why := meta.CheckLabelKey(key); why != "" {
			f.At("metadata", "labels").Invalid(tree.Cut(key), why)
			problems++
		}
		if why := meta.CheckLabelValue(value); why != "" {
			f.At("metadata", "labels").Invalid(tree.Cut(value), why)
			problems++
		}
		if problems >= maxListedProblems {
			return
		}
	}
}

func checkAnnotations(f *status.Fields, annotations map[string]any) {
	total, problems := 0, 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value, _ := annotations[key].(string)
		total += len(key) + len(value)
		if why := meta.CheckAnnotationKey(key); why != "" && problems < maxListedProblems {
			f.At("metadata", "annotations").Invalid(tree.Cut(key), why)
			problems++
		}
	}
	if total > meta.MaxAnnotationBytes {
		f.At("metadata", "annotations").TooLong(meta.MaxAnnotationBytes)
	}
}

func (w *write) checkFinalizers(f *status.Fields) {
	now := finalizers(w.object.new)
	total, problems := 0, 0
	for _, name := range now {
		total += len(name)
	}
	if total > maxListedBytes {
		f.At("metadata", "finalizers").TooLong(maxListedBytes)
		return
	}
	for i, name := range now {
		if why := meta.CheckQualifiedName(name); why != "" && problems < maxListedProblems {
			f.At("metadata", "finalizers").Index(i).Invalid(tree.Cut(name), why)
			problems++
		}
	}
	if slices.Contains(now, meta.FinalizerOrphanDependents) && slices.Contains(now, meta.FinalizerDeleteDependents) {
		f.At("metadata", "finalizers").Invalid(now, "finalizers orphan and foregroundDeletion exclude each other")
	}
	if w.creating() || !deleting(w.object.old) {
		return
	}
	before := map[string]bool{}
	for _, name := range finalizers(w.object.old) {
		before[name] = true
	}
	added := slices.DeleteFunc(slices.Clone(now), func(n string) bool { return before[n] })
	if len(added) > 0 {
		f.At("metadata", "finalizers").Forbidden(fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %q", added))
	}
}

func checkOwners(f *status.Fields, refs []any) {
	if len(refs) > maxOwners {
		f.At("metadata", "ownerReferences").TooMany(len(refs), maxOwners)
		return
	}
	controllers := 0
	for i, v := range refs {
		ref, _ := v.(map[string]any)
		p := f.At("metadata", "ownerReferences").Index(i)
		for _, field := range []string{"apiVersion", "kind", "name", "uid"} {
			if s, sent := ref[field].(string); s == "" {
				if sent { // the schema misses what is absent
					p.Child(field).Required(field + " must not be empty")
				}
			} else if strings.ContainsFunc(s, unicode.IsControl) {
				p.Child(field).Invalid(tree.Cut(s), "must not contain control characters")
			}
		}
		if len(tree.Text(ref, "uid")) > maxOwnerUID {
			p.Child("uid").TooLong(maxOwnerUID)
		}
		if gv, err := meta.ParseGroupVersion(tree.Text(ref, "apiVersion")); err != nil && tree.Text(ref, "apiVersion") != "" {
			p.Child("apiVersion").Invalid(tree.Cut(tree.Text(ref, "apiVersion")), "must be a version, or group/version")
		} else if gv.Group == "" && gv.Version == "v1" && ref["kind"] == "Event" {
			p.Invalid("Event", "an Event may not own anything")
		}
		if ref["controller"] == true {
			controllers++
		}
	}
	if controllers > 1 {
		f.At("metadata", "ownerReferences").Invalid(controllers, "only one reference can have controller set to true")
	}
}

// releases reports whether the write takes a finalizer from an object that is to be deleted. A store
// without space accepts that, as it does deletions.
func (w *write) releases() bool {
	return w.stored.old != nil && deleting(w.stored.new) && holders(w.stored.new) < holders(w.stored.old)
}

// holders is how many finalizers an object has. Namespaces have some in their spec.
func holders(t map[string]any) int {
	return len(finalizers(t)) + len(tree.List(t, "spec", "finalizers"))
}
