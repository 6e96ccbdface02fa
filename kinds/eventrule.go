package kinds

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The limits for new events (LIM-03 to LIM-05).
const (
	maxEventWord = 128  // characters
	maxEventNote = 1024 // bytes
)

// eventRules decides which events may be stored.
type eventRules struct {
	strict bool // apply all rules of Kubernetes (EVT-34, EVT-35)
}

// create checks a new event. An event that replaces another already has a version and is checked by
// update.
func (r eventRules) create(e *Event, f *status.Fields) {
	if e.ResourceVersion == "" {
		f.Add(r.problems(e)...)
	}
}

// update checks an event that replaces old. Existing problems are allowed: otherwise an event from
// the core group could not even be labelled.
func (r eventRules) update(e, old *Event, f *status.Fields) {
	f.Add(added(r.problems(e), r.problems(old))...)
	if r.strict {
		checkImmutable(e, old, f)
	}
}

// createCore checks a new event written through the core group (EVT-36).
func (r eventRules) createCore(e *CoreEvent, f *status.Fields) {
	if e.ResourceVersion == "" {
		f.Add(r.coreProblems(e)...)
	}
}

// updateCore checks an event that replaces old through the core group.
func (r eventRules) updateCore(e, old *CoreEvent, f *status.Fields) {
	f.Add(added(r.coreProblems(e), r.coreProblems(old))...)
}

// added returns the problems in now that are not in before.
func added(now, before []status.FieldError) []status.FieldError {
	return slices.DeleteFunc(now, func(p status.FieldError) bool { return slices.Contains(before, p) })
}

// problems returns the rules that e breaks as a new event (EVT-07 to EVT-17).
func (r eventRules) problems(e *Event) []status.FieldError {
	f := &status.Fields{}
	if e.EventTime.IsZero() {
		f.At("eventTime").Required("")
	}
	switch e.Type {
	case EventTypeNormal, EventTypeWarning:
	case "":
		f.At("type").Required("")
	default:
		f.At("type").NotSupported(e.Type, EventTypeNormal, EventTypeWarning) // READ-26
	}
	r.checkReport(e, f)
	r.checkSeries(e.Series, f)
	if r.strict {
		checkDeprecated(e, f)
	}
	return f.Errors()
}

// checkReport checks the reporter and its report.
func (r eventRules) checkReport(e *Event, f *status.Fields) {
	r.checkWord(f, "action", e.Action)
	r.checkWord(f, "reason", e.Reason)
	r.checkWord(f, "reportingInstance", e.ReportingInstance)
	checkLength(f, "note", e.Note, len(e.Note), maxEventNote, "bytes")
	if e.ReportingController == "" {
		f.At("reportingController").Required("")
	} else if why := meta.CheckQualifiedName(e.ReportingController); r.strict && why != "" {
		f.At("reportingController").Invalid(e.ReportingController, why)
	}
	if r.strict && e.Regarding.Namespace == "" && !slices.Contains([]string{"default", "kube-system"}, e.Namespace) {
		f.At("regarding", "namespace").Invalid("", "events about objects without a namespace belong in default or kube-system")
	}
}

// checkWord rejects a missing or overlong word. The documentation counts characters, Kubernetes
// counts bytes (READ-19).
func (r eventRules) checkWord(f *status.Fields, field, word string) {
	if word == "" {
		f.At(field).Required("")
	}
	if r.strict {
		checkLength(f, field, word, len(word), maxEventWord, "bytes")
		return
	}
	checkLength(f, field, word, utf8.RuneCountInString(word), maxEventWord, "characters")
}

// checkLength rejects text beyond its limit. The problem carries the text, so that replacing it by
// another overlong text counts as a new problem.
func checkLength(f *status.Fields, field, text string, length, limit int, unit string) {
	if length > limit {
		f.Add(status.FieldError{
			Type: meta.CauseFieldValueTooLong, Field: field, Value: text,
			Detail: fmt.Sprintf("may not be more than %d %s", limit, unit),
		})
	}
}

func (r eventRules) checkSeries(s *EventSeries, f *status.Fields) {
	if s == nil {
		return
	}
	least := int32(1)
	if r.strict {
		least = 2
		if s.LastObservedTime.IsZero() {
			f.At("series", "lastObservedTime").Required("")
		}
	}
	switch {
	case s.Count == 0:
		f.At("series", "count").Required("")
	case s.Count < least:
		f.At("series", "count").Invalid(s.Count, fmt.Sprintf("must be at least %d", least))
	}
}

// checkDeprecated rejects the fields that only events of the core group may set.
func checkDeprecated(e *Event, f *status.Fields) {
	const why = "must not be set"
	if e.DeprecatedSource != (EventSource{}) {
		f.At("deprecatedSource").Forbidden(why)
	}
	if !e.DeprecatedFirstTimestamp.IsZero() {
		f.At("deprecatedFirstTimestamp").Forbidden(why)
	}
	if !e.DeprecatedLastTimestamp.IsZero() {
		f.At("deprecatedLastTimestamp").Forbidden(why)
	}
	if e.DeprecatedCount != 0 {
		f.At("deprecatedCount").Forbidden(why)
	}
}

// checkImmutable rejects changes to anything but metadata and series (EVT-35).
func checkImmutable(e, old *Event, f *status.Fields) {
	now, before := reflect.ValueOf(e).Elem(), reflect.ValueOf(old).Elem()
	for i := range now.NumField() {
		name, _, _ := strings.Cut(now.Type().Field(i).Tag.Get("json"), ",")
		switch name {
		case "", "metadata", "series":
			continue
		}
		if !reflect.DeepEqual(now.Field(i).Interface(), before.Field(i).Interface()) {
			f.At(name).Forbidden("only metadata and series can be changed")
		}
	}
}

// coreProblems returns the reasons to reject an event of the core group. Without an eventTime, it
// must be in the namespace of its object, or in default if the object has none. With an eventTime,
// it comes from a recorder that knows the rules for new events; in strict mode most of them apply.
func (r eventRules) coreProblems(e *CoreEvent) []status.FieldError {
	f := &status.Fields{}
	switch {
	case e.EventTime.IsZero():
		if of := e.InvolvedObject.Namespace; of != e.Namespace && (of != "" || e.Namespace != "default") {
			f.At("involvedObject", "namespace").Invalid(of, "does not match the namespace of the event, "+e.Namespace)
		}
	case r.strict:
		stored, _ := e.event() // never fails
		checked := &status.Fields{}
		r.checkReport(stored, checked)
		for _, p := range checked.Errors() {
			p.Field = coreEventPath(p.Field)
			f.Add(p)
		}
	}
	return f.Errors()
}

// coreEventPath returns the core group's name for a field checked by checkReport.
func coreEventPath(field string) string {
	switch field {
	case "note":
		return "message"
	case "regarding.namespace":
		return "involvedObject.namespace"
	case "reportingController":
		return "reportingComponent"
	}
	return field
}
