package engine

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// A Converter may move a selectable field or change its value, and may change labels, so objects of a
// straight kind are selected by what they are converted to. The live view cannot do that: it would
// have to ask the Converter about every change, for all readers. So it selects by all else, and
// readers select from what they get.

// late is what is judged by what objects are converted to.
type late struct {
	labels meta.Selector
	fields meta.FieldSelector
}

func (l late) empty() bool { return l.labels.Empty() && l.fields.Empty() }

func (l late) matches(labels meta.Labels, fields fieldValues) bool {
	return l.labels.Matches(labels) && l.fields.Matches(fields)
}

// lateOf returns the part of selectors that is judged by what objects are converted to.
func (s *Served) lateOf(labels meta.Selector, fields meta.FieldSelector) (out late, err error) {
	if !s.selectsLate() {
		return late{}, nil
	}
	out.labels = labels
	if !fields.Empty() {
		out.fields, err = requirements(fields, func(field string) bool { return !strings.HasPrefix(field, "metadata.") })
	}
	return out, err
}

// earlyLabels returns the part of a label selector that lateOf leaves out.
func (s *Served) earlyLabels(labels meta.Selector) meta.Selector {
	if s.selectsLate() {
		return meta.Selector{}
	}
	return labels
}

// earlyFields returns the rest of a field selector.
func (s *Served) earlyFields(fields meta.FieldSelector) (meta.FieldSelector, error) {
	if fields.Empty() || !s.selectsLate() {
		return fields, nil
	}
	return requirements(fields, func(field string) bool { return strings.HasPrefix(field, "metadata.") })
}

func (s *Served) selectsLate() bool {
	return s.Kind.straight() && !s.stored.Resource.SelectByRecord && len(*s.records.known.Load()) > 1
}

// requirements returns the requirements of a selector about some fields.
func requirements(f meta.FieldSelector, about func(field string) bool) (meta.FieldSelector, error) {
	out, err := meta.NewFieldSelector(slices.DeleteFunc(f.Requirements(), func(r meta.FieldRequirement) bool { return !about(r.Field) })...)
	if err != nil {
		return out, status.Internal(err)
	}
	return out, nil
}

// fieldValues are the selectable fields of one object.
type fieldValues struct{ names, values []string }

// Get returns the value of a field.
func (f fieldValues) Get(name string) (string, bool) {
	if i := slices.Index(f.names, name); i >= 0 && i < len(f.values) {
		return f.values[i], true
	}
	return "", false
}

// scannedLabels are the labels of one object, sorted by key.
type scannedLabels []json.Pair

// Get returns the value of a label.
func (l scannedLabels) Get(key string) (string, bool) {
	i, ok := slices.BinarySearchFunc(l, key, func(p json.Pair, key string) int { return strings.Compare(p.Key, key) })
	if !ok {
		return "", false
	}
	return l[i].Value, true
}

// chosen reports which objects a selector chooses in the form of s. It converts them in one call.
func (s *Served) chosen(ctx context.Context, by late, entries []*watch.Entry) ([]bool, error) {
	shown, err := s.together(ctx, entries, true)
	if err != nil {
		return nil, err
	}
	out := make([]bool, len(entries))
	for i, e := range shown {
		if e == entries[i] { // the record is in this form
			facts := e.Facts()
			out[i] = by.matches(facts.Labels, fieldValues{s.stored.fields.names, facts.Fields})
			continue
		}
		body := e.Body()
		metadata, values, err := json.ScanObject(slices.Concat(body.Prefix, body.Suffix), s.Kind.selected)
		if err != nil {
			return nil, status.Internal(err)
		}
		out[i] = by.matches(scannedLabels(metadata.Labels), fieldValues{s.Kind.Selectable, values})
	}
	return out, nil
}

// lateChoice chooses from the objects of a list.
type lateChoice struct {
	ctx    context.Context //nolint:containedctx // of the request that the list belongs to
	served *Served
	by     late
	err    error // why the walk has ended early
}

// from walks over the entries that are chosen, a stretch at a time.
func (c *lateChoice) from(walk iter.Seq[*watch.Entry]) iter.Seq[*watch.Entry] {
	return func(yield func(*watch.Entry) bool) {
		var stretch []*watch.Entry
		flush := func() bool {
			which, err := c.served.chosen(c.ctx, c.by, stretch)
			if err != nil {
				c.err = err
				return false
			}
			for i, e := range stretch {
				if which[i] && !yield(e) {
					return false
				}
			}
			stretch = stretch[:0]
			return true
		}
		for e := range walk {
			if stretch = append(stretch, e); len(stretch) == showMost && !flush() {
				return
			}
		}
		flush()
	}
}

// Chooses reports whether selectors are judged by what objects are converted to.
func (at *Resolved) Chooses(labels meta.Selector, fields meta.FieldSelector) bool {
	by, err := at.Served.lateOf(labels, fields)
	return err == nil && !by.empty()
}

// Choose returns the events of a watch that its selectors choose. An object that begins or
// ceases to match is added or deleted, as for the selectors that cursors judge.
func (at *Resolved) Choose(ctx context.Context, labels meta.Selector, fields meta.FieldSelector, events []watch.Event) ([]watch.Event, error) {
	by, err := at.Served.lateOf(labels, fields)
	if err != nil || by.empty() {
		return events, err
	}
	var states []*watch.Entry
	for _, event := range events {
		if event.Entry != nil {
			states = append(states, event.Entry)
		}
		if event.Before != nil {
			states = append(states, event.Before)
		}
	}
	which, err := at.Served.chosen(ctx, by, states)
	if err != nil {
		return nil, err
	}
	next := func() bool {
		first := which[0]
		which = which[1:]
		return first
	}
	out := events[:0]
	for _, event := range events {
		if event.Entry == nil {
			out = append(out, event)
			continue
		}
		now := next()
		before := event.Type == meta.Deleted && now
		if now = now && !before; event.Before != nil {
			before = next()
		}
		switch {
		case before && now:
		case now:
			event.Type = meta.Added
		case before && event.Before != nil:
			event.Type, event.Entry = meta.Deleted, event.Before
		case !before:
			continue
		}
		out = append(out, event)
	}
	return out, nil
}
