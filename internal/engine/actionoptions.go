package engine

import (
	"context"
	"slices"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/nearly"
	"github.com/kindwright/kindwright/internal/tree"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// limits are members of documents that limit what an action does, wherever they are: the options of
// a deletion, which documents such as an Eviction contain.
var limits = [...]string{
	"dryRun", "preconditions", "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "deleteOptions",
}

// maxShownPath bounds how much of a path an error repeats.
const maxShownPath = 200

// checkActionOptions checks the names of what an action is sent. Other documents keep what they are
// sent, so that their senders see what is missing. An action has happened by then, and with an option
// that it ignored it has done more than was meant: "dryrun" evicts.
//
// Source: S23.
func checkActionOptions(_ context.Context, w *write) error {
	if w.sub == nil {
		return nil
	}
	if len(w.complaints) > 0 { // so far there are duplicates only
		return status.BadRequest("the body of the request is ambiguous: %s", w.complaints[0])
	}
	for field := range w.sent.kind.Schema.Unknown(w.sent.new) {
		if near := nearly.Name(field.Name, field.Known); near != "" {
			return status.BadRequest("unknown field %q; did you mean %q?", clip.Text(field.Path, maxShownPath), near)
		}
		if meansLimit(field.Name) || hidesLimit(field.Value) {
			return status.BadRequest("unknown field %q: a %s has no such option at this place", clip.Text(field.Path, maxShownPath), w.sent.kind.Names.Kind)
		}
	}
	return checkLimits(w.sent.new)
}

func meansLimit(name string) bool {
	return slices.Contains(limits[:], name) || nearly.Name(name, limits[:]) != ""
}

// hidesLimit reports whether an option is anywhere in the value of an unknown field: an Eviction has
// no "spec" in which a dry run could be asked for.
func hidesLimit(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if meansLimit(name) || hidesLimit(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hidesLimit)
	}
	return false
}

// checkActionConditions compares the uid and the version in the metadata of an action's document with
// those of the object. Whoever sends them does not mean a successor, or a state that they have not
// seen. An action whose names have answers of their own compares the uid itself.
//
// Source: S23, W9.
func checkActionConditions(w *write, object registry.Tree) error {
	if !hasMetadata(w.sent.kind.Resource) {
		return nil
	}
	uid, version := tree.Text(w.sent.new, "metadata", "uid"), tree.Text(w.sent.new, "metadata", "resourceVersion")
	is := tree.Text(object, "metadata", "uid")
	if uid != "" && uid != is && w.handler.Misnamed == nil {
		return w.actionConflict("Precondition failed: UID in precondition: " + tree.Cut(uid) + ", UID in object meta: " + is)
	}
	is = tree.Text(object, "metadata", "resourceVersion")
	if version != "" && version != "0" && version != is {
		return w.actionConflict("Precondition failed: ResourceVersion in precondition: " + tree.Cut(version) + ", ResourceVersion in object meta: " + is)
	}
	return nil
}

func (w *write) actionConflict(why string) error {
	r := w.kind.GroupResource()
	r.Resource += "/" + w.target.Subresource
	return status.Conflict(r, w.target.Name, why)
}

// checkLimits rejects an option without a value, and a dry run with a value that Kubernetes does not
// know.
func checkLimits(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if err := checkLimit(name, value); err != nil {
				return err
			}
			if name == "metadata" {
				continue // whose maps have keys of their own
			}
			if err := checkLimits(value); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := checkLimits(item); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkLimit(name string, value any) error {
	if name == "deleteOptions" || !slices.Contains(limits[:], name) {
		return nil
	}
	empty := value == nil || value == ""
	switch value := value.(type) {
	case map[string]any:
		empty = len(value) == 0 && name != "preconditions" // clients send those without any
	case []any:
		empty = len(value) == 0
		for _, item := range value {
			if text, ok := item.(string); name == "dryRun" && ok && text != meta.DryRunAll {
				return status.BadRequest("dryRun: %q is not supported; the only value is %q", clip.Text(text, maxShownPath), meta.DryRunAll)
			}
		}
	}
	if empty {
		return status.BadRequest("the option %q is empty; leave it out if it is not meant", name)
	}
	return nil
}
