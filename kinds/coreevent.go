package kinds

import "github.com/kindwright/kindwright/meta"

// CoreEvent is an Event in the form of the core group, which older recorders and `kubectl get
// events` use.
//
// Source: EVT-36.
type CoreEvent struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`

	InvolvedObject      ObjectReference  `json:"involvedObject" protobuf:"bytes,2,opt,name=involvedObject" optional:"" map:"atomic" patchStrategy:"merge" doc:"The object that the event is about."`
	Reason              string           `json:"reason,omitempty" protobuf:"bytes,3,opt,name=reason" doc:"Why, in a word for programs."`
	Message             string           `json:"message,omitempty" protobuf:"bytes,4,opt,name=message" doc:"What happened, for people."`
	Source              EventSource      `json:"source,omitempty" protobuf:"bytes,5,opt,name=source" doc:"The component that reports."`
	FirstTimestamp      meta.Time        `json:"firstTimestamp,omitempty" protobuf:"bytes,6,opt,name=firstTimestamp" doc:"When the event was first recorded."`
	LastTimestamp       meta.Time        `json:"lastTimestamp,omitempty" protobuf:"bytes,7,opt,name=lastTimestamp" doc:"When the event was last recorded."`
	Count               int32            `json:"count,omitempty" protobuf:"varint,8,opt,name=count" doc:"How often the event occurred."`
	Type                string           `json:"type,omitempty" protobuf:"bytes,9,opt,name=type" doc:"Normal or Warning; more types may be added."`
	EventTime           meta.MicroTime   `json:"eventTime,omitempty" protobuf:"bytes,10,opt,name=eventTime" doc:"When the event was first observed."`
	Series              *CoreEventSeries `json:"series,omitempty" protobuf:"bytes,11,opt,name=series" doc:"How often the event was repeated, if it was."`
	Action              string           `json:"action,omitempty" protobuf:"bytes,12,opt,name=action" doc:"What was done or failed, for programs."`
	Related             *ObjectReference `json:"related,omitempty" protobuf:"bytes,13,opt,name=related" map:"atomic" patchStrategy:"merge" doc:"A second object involved in the event."`
	ReportingController string           `json:"reportingComponent" protobuf:"bytes,14,opt,name=reportingComponent" optional:"" doc:"The controller that reports."`
	ReportingInstance   string           `json:"reportingInstance" protobuf:"bytes,15,opt,name=reportingInstance" optional:"" doc:"The instance of the controller."`
}

// CoreEventSeries says how often an event was seen.
type CoreEventSeries struct {
	Count            int32          `json:"count,omitempty" protobuf:"varint,1,name=count" doc:"The number of occurrences up to the last report."`
	LastObservedTime meta.MicroTime `json:"lastObservedTime,omitempty" protobuf:"bytes,2,name=lastObservedTime" doc:"When the last occurrence was seen."`
}

// event returns e in its stored form. The conversion is lossless in both directions.
func (e *CoreEvent) event() (*Event, error) {
	return &Event{
		TypeMeta: e.TypeMeta, ObjectMeta: e.ObjectMeta,
		EventTime:                e.EventTime,
		Series:                   (*EventSeries)(e.Series),
		ReportingController:      e.ReportingController,
		ReportingInstance:        e.ReportingInstance,
		Action:                   e.Action,
		Reason:                   e.Reason,
		Regarding:                e.InvolvedObject,
		Related:                  e.Related,
		Note:                     e.Message,
		Type:                     e.Type,
		DeprecatedSource:         e.Source,
		DeprecatedFirstTimestamp: e.FirstTimestamp,
		DeprecatedLastTimestamp:  e.LastTimestamp,
		DeprecatedCount:          e.Count,
	}, nil
}

// core returns e in its core group form.
func (e *Event) core() (*CoreEvent, error) {
	return &CoreEvent{
		TypeMeta: e.TypeMeta, ObjectMeta: e.ObjectMeta,
		InvolvedObject:      e.Regarding,
		Reason:              e.Reason,
		Message:             e.Note,
		Source:              e.DeprecatedSource,
		FirstTimestamp:      e.DeprecatedFirstTimestamp,
		LastTimestamp:       e.DeprecatedLastTimestamp,
		Count:               e.DeprecatedCount,
		Type:                e.Type,
		EventTime:           e.EventTime,
		Series:              (*CoreEventSeries)(e.Series),
		Action:              e.Action,
		Related:             e.Related,
		ReportingController: e.ReportingController,
		ReportingInstance:   e.ReportingInstance,
	}, nil
}
