package engine

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// sharedRetryAfter is the number of seconds that a client should wait while servers are exchanged.
const sharedRetryAfter = 5

// shared is an object in the form that all programs on the store read. A newer program writes it
// until the last server that knows no other form is gone.
type shared struct {
	form    *Kind
	encoded []byte // canonical JSON
}

// formName is what processes call a form when they announce it.
func (r *Kind) formName() string { return r.APIVersion() + "/" + r.Names.Kind }

// agree announces the forms of the kinds that a change adds, before their objects are read. The
// forms of kinds with a Converter come from definitions in the store, which all processes know.
func (e *Engine) agree(ctx context.Context, c *change) error {
	if e.agreement == nil {
		return nil
	}
	reads := map[string][]string{}
	for name := range c.touched {
		f, ok := c.edit.families.get(name)
		if !ok || f.base.Kind.Virtual != nil || f.base.Kind.straight() {
			continue
		}
		names := []string{f.base.Kind.formName()}
		for _, one := range f.forms {
			if one != f.base {
				names = append(names, one.Kind.formName())
			}
		}
		reads[name] = names
	}
	if err := e.agreement.Join(ctx, reads); err != nil {
		return fmt.Errorf("agree with other servers on the form of objects: %w", err)
	}
	return nil
}

// settled looks for objects to migrate once no other program needs them in another form.
func (e *Engine) settled(storageName string) {
	e.migrations.note(storageName)
	e.migrations.look()
}

// share computes what is stored if other programs on the store do not read the stored form of this
// one. An object that the shared form cannot express is refused for now: the client tries again, and
// nothing is lost.
func (w *write) share(ctx context.Context) error {
	if w.shared = nil; w.remove {
		return nil
	}
	base := w.kind.base
	name, other := w.engine.agreement.Written(base.StorageName)
	if !other || w.kind.straight() {
		return nil
	}
	form := w.served.records.named(name)
	if form == nil {
		return w.unshared(name, "")
	}
	stored := tree.Without(w.stored.new, "metadata", "resourceVersion")
	made, err := FromStored(ctx, form.Resource, stored)
	var back registry.Tree
	if err == nil {
		back, err = ToStored(ctx, form.Resource, made)
	}
	if err != nil {
		w.engine.cfg.Logger.Info("an object cannot be stored in the form that other servers read", "resource", base.GroupResource().String(),
			"name", w.name(), "form", name, "reason", err.Error())
		return w.unshared(name, "")
	}
	c := comparison{}
	c.object(tree.Without(stored, "metadata"), tree.Without(base.Schema.Default(back), "metadata"), "")
	if c.lost != "" || c.changed != "" {
		return w.unshared(name, c.lost+c.changed)
	}
	encoded, err := encode(made, len(w.encoded))
	w.shared = &shared{form, encoded}
	return err
}

// unshared is the answer while servers of an older program are on the store.
func (w *write) unshared(form, path string) error {
	what := "it"
	if path != "" {
		what = path
	}
	return status.ServiceUnavailable(fmt.Sprintf("%s %q cannot be stored yet: other servers are still running a program that reads only %s, which has no place for %s; "+
		"try again when they have been upgraded", w.kind.GroupResource(), tree.Cut(w.name()), form, what)).WithRetryAfter(sharedRetryAfter)
}

// skipUnshared is skipUnchanged for a record in a shared form.
func (w *write) skipUnshared(ctx context.Context) error {
	if w.creating() || !w.served.records.inForm(w.entry, w.shared.form) {
		return nil
	}
	before, after := tree.Without(w.stored.old, "metadata", "resourceVersion"), tree.Without(w.stored.new, "metadata", "resourceVersion")
	if !json.Equal(before, after) && !w.sameButTimes(w.stored.new) {
		return nil
	}
	if outdated, err := w.engine.outdated(ctx, w.key, w.entry.Revision()); outdated || err != nil {
		return err
	}
	w.result = &registry.Result{Entry: w.entry}
	return nil
}

// named returns the form that processes call by a name, or nil.
func (k *records) named(name string) *Kind {
	for _, form := range *k.known.Load() {
		if form.formName() == name {
			return form
		}
	}
	return nil
}

// inForm reports whether an entry was made of a record in a form.
func (k *records) inForm(e *watch.Entry, form *Kind) bool {
	have := k.formOf(e)
	return have != nil && have.sameForm(form)
}

// entryIn makes a live entry of canonical JSON in any known form.
func (s *Served) entryIn(form *Kind, key string, rev storage.Revision, object []byte) (*watch.Entry, error) {
	body, facts, err := s.scan(form, object)
	if err != nil {
		return nil, err
	}
	return watch.NewEntry(key, rev, body, facts), nil
}
