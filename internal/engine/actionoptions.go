package engine

import (
	"context"
	"slices"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/nearly"
	"github.com/kindwright/kindwright/meta"
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
		if slices.Contains(limits[:], field.Name) || nearly.Name(field.Name, limits[:]) != "" {
			return status.BadRequest("unknown field %q: a %s has no such option at this place", clip.Text(field.Path, maxShownPath), w.sent.kind.Names.Kind)
		}
	}
	return checkLimits(w.sent.new)
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
