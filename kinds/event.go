package kinds

import (
	"context"
	"fmt"
	"time"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Event reports something that happened to an object. It belongs to events.{domain}/v1. Events are
// meant for people: they expire, and a reporter may use the same reason for another cause in a
// later release.
//
// The core group serves the same objects in the form of CoreEvent. The deprecated fields hold data
// that only that form has.
//
// Source: EVT-01, EVT-03.
type Event struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`

	EventTime                meta.MicroTime   `json:"eventTime" protobuf:"bytes,2,opt,name=eventTime" optional:"" doc:"When the event was first observed. Required for new events."`
	Series                   *EventSeries     `json:"series,omitempty" protobuf:"bytes,3,opt,name=series" doc:"How often the event was repeated, if it was."`
	ReportingController      string           `json:"reportingController,omitempty" protobuf:"bytes,4,opt,name=reportingController" doc:"The controller that reports. Required for new events."`
	ReportingInstance        string           `json:"reportingInstance,omitempty" protobuf:"bytes,5,opt,name=reportingInstance" doc:"The instance of the controller, at most 128 characters. Required for new events."`
	Action                   string           `json:"action,omitempty" protobuf:"bytes,6,name=action" doc:"What was done or failed, for programs, at most 128 characters. Required for new events."`
	Reason                   string           `json:"reason,omitempty" protobuf:"bytes,7,name=reason" doc:"Why, for people, at most 128 characters. Required for new events."`
	Regarding                ObjectReference  `json:"regarding,omitempty" protobuf:"bytes,8,opt,name=regarding" map:"atomic" patchStrategy:"merge" doc:"The object that the event is about."`
	Related                  *ObjectReference `json:"related,omitempty" protobuf:"bytes,9,opt,name=related" map:"atomic" patchStrategy:"merge" doc:"A second object involved in the event."`
	Note                     string           `json:"note,omitempty" protobuf:"bytes,10,opt,name=note" doc:"What happened, for people, at most 1024 bytes; readers must accept 64 KiB."`
	Type                     string           `json:"type,omitempty" protobuf:"bytes,11,opt,name=type" doc:"Normal or Warning; more types may be added."`
	DeprecatedSource         EventSource      `json:"deprecatedSource,omitempty" protobuf:"bytes,12,opt,name=deprecatedSource" doc:"The source of an event of the core group."`
	DeprecatedFirstTimestamp meta.Time        `json:"deprecatedFirstTimestamp,omitempty" protobuf:"bytes,13,opt,name=deprecatedFirstTimestamp" doc:"The firstTimestamp of an event of the core group."`
	DeprecatedLastTimestamp  meta.Time        `json:"deprecatedLastTimestamp,omitempty" protobuf:"bytes,14,opt,name=deprecatedLastTimestamp" doc:"The lastTimestamp of an event of the core group."`
	DeprecatedCount          int32            `json:"deprecatedCount,omitempty" protobuf:"varint,15,opt,name=deprecatedCount" doc:"The count of an event of the core group."`
}

// EventSeries says how often an event was seen.
//
// Source: EVT-17, EVT-33.
type EventSeries struct {
	Count            int32          `json:"count" protobuf:"varint,1,opt,name=count" optional:"" doc:"The number of occurrences up to the last report. Required for new events."`
	LastObservedTime meta.MicroTime `json:"lastObservedTime" protobuf:"bytes,2,opt,name=lastObservedTime" optional:"" doc:"When the last occurrence was seen."`
}

// EventSource identifies the component that reported an event of the core group.
//
// Source: EVT-21.
type EventSource struct {
	Component string `json:"component,omitempty" protobuf:"bytes,1,opt,name=component" doc:"The component that reports."`
	Host      string `json:"host,omitempty" protobuf:"bytes,2,opt,name=host" doc:"The node it runs on."`
}

// ObjectReference names an object or a part of one.
//
// Source: EVT-12.
type ObjectReference struct {
	Kind            string   `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind" doc:"The kind of the object."`
	Namespace       string   `json:"namespace,omitempty" protobuf:"bytes,2,opt,name=namespace" doc:"The namespace of the object."`
	Name            string   `json:"name,omitempty" protobuf:"bytes,3,opt,name=name" doc:"The name of the object."`
	UID             meta.UID `json:"uid,omitempty" protobuf:"bytes,4,opt,name=uid" doc:"The uid of the object."`
	APIVersion      string   `json:"apiVersion,omitempty" protobuf:"bytes,5,opt,name=apiVersion" doc:"The group and version of the kind."`
	ResourceVersion string   `json:"resourceVersion,omitempty" protobuf:"bytes,6,opt,name=resourceVersion" doc:"The version of the object, if it matters."`
	FieldPath       string   `json:"fieldPath,omitempty" protobuf:"bytes,7,opt,name=fieldPath" doc:"The part of the object, such as spec.containers{web}."`
}

// The types that a new event may have.
//
// Source: EVT-11.
const (
	EventTypeNormal  = "Normal"
	EventTypeWarning = "Warning"
)

// eventDoc is the published description of events (EVT-03).
const eventDoc = "An event reports something that happened to an object. It is information for people, kept for a limited time: " +
	"do not rely on an event being emitted or kept, or on a reason always having the same cause."

// DefaultEventTTL is how long an event is kept after its last write.
//
// Source: LIM-13.
const DefaultEventTTL = time.Hour

// EventOption changes how events are served.
type EventOption func(*events)

// EventTTL sets how long an event is kept after its last write. The default is DefaultEventTTL. The
// precision and the minimum are one second; 0 keeps events until they are deleted.
func EventTTL(d time.Duration) EventOption { return func(e *events) { e.ttl = d } }

// StrictEventRules applies all rules of Kubernetes to new events. By default only the documented
// rules apply: a series needs only a count, the deprecated fields may be set, and an update may
// change any field.
//
// Source: EVT-34, EVT-35, READ-18.
func StrictEventRules() EventOption { return func(e *events) { e.rules.strict = true } }

// Events serves the kind Event in events.{domain}/v1 and, in its older form, in the core group.
// Both forms show the same objects. A PUT creates a missing event and needs no resourceVersion.
//
// Events written through events.{domain}/v1 must follow the rules for new events. An update is
// rejected only for problems that it adds, so events from the core group can still be updated. The
// core group accepts the sparse events of older recorders.
//
// Tables show when an event was last seen and how often, whichever recorder wrote it.
//
// Source: EVT-36.
func Events(opts ...EventOption) registry.Definition {
	e := &events{ttl: DefaultEventTTL}
	for _, o := range opts {
		if o != nil {
			o(e)
		}
	}
	return e
}

type events struct {
	ttl   time.Duration
	rules eventRules
}

// Define implements registry.Definition.
func (e *events) Define(env registry.Env) (registry.Bundle, error) {
	if e.ttl < 0 || 0 < e.ttl && e.ttl < time.Second {
		return registry.Bundle{}, fmt.Errorf("events: time to live %s must be 0 or at least one second", e.ttl)
	}
	b, err := e.kind(env).Define(env)
	if err != nil {
		return registry.Bundle{}, err
	}
	stored, core := b.Resources[0], b.Resources[1]
	stored.Reset, core.Reset = resetEvent, resetEvent
	stored.Selectable = eventFields("regarding", "reportingController")
	core.Selectable = eventFields("involvedObject", "reportingComponent")
	stored.Blank = registry.Tree{"regarding": map[string]any{}, "deprecatedSource": map[string]any{}}
	core.Blank = registry.Tree{"involvedObject": map[string]any{}, "source": map[string]any{}}
	stored.Computed = map[string]func(registry.Tree) string{"source": eventSource}
	convert := core.Stored.To
	core.Stored.To = func(ctx context.Context, objects []registry.Tree) ([]registry.Tree, error) {
		out, err := convert(ctx, objects)
		for i := range out {
			out[i] = compact(out[i])
		}
		return out, err
	}
	return b, nil
}

func (e *events) kind(env registry.Env) registry.Kind[Event] {
	fields := map[string]string{}
	for i, name := range eventFields("regarding", "reportingController") {
		fields[eventFields("involvedObject", "reportingComponent")[i]] = name
	}
	writes := registry.WriteRules{CreateOnUpdate: true, NoGeneration: true, TTL: e.ttl}
	return registry.Kind[Event]{
		Group: "events." + env.GroupDomain, Version: "v1", Plural: "events",
		Names: registry.Names{ShortNames: []string{"ev"}}, Doc: eventDoc,
		Writes: writes, Deletion: registry.Deletion{NoDependents: true}, // META-14
		Table: registry.Table{Columns: eventNames{
			object: "regarding", message: "note", source: "deprecatedSource", reporter: "reportingController",
			first: "deprecatedFirstTimestamp", last: "deprecatedLastTimestamp", count: "deprecatedCount",
		}.columns()},
		Rules: registry.Rules[Event]{
			Validate:       func(_ context.Context, obj *Event, f *status.Fields) { e.rules.create(obj, f) },
			ValidateUpdate: func(_ context.Context, obj, old *Event, f *status.Fields) { e.rules.update(obj, old, f) },
		},
		Also: []registry.Form{registry.As(registry.Kind[CoreEvent]{
			Version: "v1", Plural: "events", Names: registry.Names{Kind: "Event", ShortNames: []string{"ev"}}, Doc: eventDoc,
			Writes: writes,
			Table: registry.Table{Columns: eventNames{
				object: "involvedObject", message: "message", source: "source", reporter: "reportingComponent",
				first: "firstTimestamp", last: "lastTimestamp", count: "count",
			}.columns()},
			Rules: registry.Rules[CoreEvent]{
				Validate:       func(_ context.Context, obj *CoreEvent, f *status.Fields) { e.rules.createCore(obj, f) },
				ValidateUpdate: func(_ context.Context, obj, old *CoreEvent, f *status.Fields) { e.rules.updateCore(obj, old, f) },
			},
		}, (*CoreEvent).event, (*Event).core, fields)},
	}
}

// eventFields returns the fields that events can be selected by (EVT-37). The two forms of events
// use different names for the object and the reporter.
func eventFields(object, reporter string) []string {
	out := []string{"reason", reporter, "source", "type"}
	for _, part := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} {
		out = append(out, object+"."+part)
	}
	return out
}

// eventSource computes the selectable field `source`: the reporting component, from either field
// that may hold it.
func eventSource(t registry.Tree) string {
	source, _ := t["deprecatedSource"].(map[string]any)
	if component, _ := source["component"].(string); component != "" {
		return component
	}
	controller, _ := t["reportingController"].(string)
	return controller
}

// resetEvent removes empty fields. Clients with Go types or protobuf add them to objects that they
// read; sending such an object back must not change the stored event.
func resetEvent(_, sent registry.Tree) registry.Tree { return compact(sent) }

// compact returns an event of either form without empty strings, zero counts and empty structs.
// Series and related may be empty: their Go types are pointers.
func compact(event registry.Tree) registry.Tree {
	out := make(registry.Tree, len(event))
	for name, v := range event {
		switch value := v.(type) {
		case string:
			if value == "" {
				continue
			}
		case int64:
			if value == 0 {
				continue
			}
		case map[string]any:
			if name == "metadata" || name == "series" {
				break
			}
			short := compact(value)
			if len(short) == 0 && name != "related" {
				continue
			}
			v = short
		}
		out[name] = v
	}
	return out
}
