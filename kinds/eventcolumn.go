package kinds

import (
	"strings"
	"time"

	"github.com/kindwright/kindwright/openapi"
)

// eventNames maps the data that both forms of events share to the field names of one form.
type eventNames struct {
	object, message, source, reporter, first, last, count string
}

// columns returns the columns of `kubectl get events`. Older and newer recorders use different
// fields for when, how often, and by whom an event was seen.
func (n eventNames) columns() []openapi.Column {
	eventTime, series := []string{"eventTime"}, []string{"series"}
	first, last := []string{n.first}, []string{n.last}
	return []openapi.Column{
		{
			Name: "Last Seen", Type: "string", Description: "How long ago the event was last seen.",
			Paths: [][]string{{"series", "lastObservedTime"}, last, first, eventTime}, Cell: ageOfFirst, Lasting: true,
		},
		{Name: "Type", Type: "string", Description: "Normal or Warning.", Path: []string{"type"}},
		{Name: "Reason", Type: "string", Description: "Why.", Path: []string{"reason"}},
		{
			Name: "Object", Type: "string", Description: "The kind and name of the object the event is about.",
			Paths: [][]string{{n.object, "kind"}, {n.object, "name"}}, Cell: kindAndName, Lasting: true,
		},
		{Name: "Subobject", Type: "string", Priority: 1, Description: "The part of the object.", Path: []string{n.object, "fieldPath"}},
		{
			Name: "Source", Type: "string", Priority: 1, Description: "Who reports, and from where.",
			Paths: [][]string{{n.source, "component"}, {n.reporter}, {n.source, "host"}, {"reportingInstance"}},
			Cell:  whoAndWhere, Lasting: true,
		},
		{Name: "Message", Type: "string", Description: "What happened.", Paths: [][]string{{n.message}}, Cell: trimmed, Lasting: true},
		{
			Name: "First Seen", Type: "string", Priority: 1, Description: "How long ago the event was first seen.",
			Paths: [][]string{first, eventTime}, Cell: ageOfFirst, Lasting: true,
		},
		{
			Name: "Count", Type: "integer", Priority: 1, Description: "How often the event was seen.",
			Paths: [][]string{series, {"series", "count"}, {n.count}}, Cell: timesSeen, Lasting: true,
		},
		{
			Name: "Name", Type: "string", Format: "name", Priority: 1, Description: "The name of the event.",
			Path: []string{"metadata", "name"},
		},
	}
}

// firstText returns the first value that is a non-empty string.
func firstText(values ...any) string {
	for _, v := range values {
		if text, _ := v.(string); text != "" {
			return text
		}
	}
	return ""
}

// ageOfFirst returns the age of the first time that is set.
func ageOfFirst(_ time.Time, values []any) any {
	text := firstText(values...)
	if text == "" {
		return "<unknown>"
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "<invalid>"
	}
	return openapi.Aged{Since: at}
}

// kindAndName names an object as on the kubectl command line: pod/web.
func kindAndName(_ time.Time, values []any) any {
	kind, name := strings.ToLower(firstText(values[0])), firstText(values[1])
	if name == "" {
		return kind
	}
	return kind + "/" + name
}

func whoAndWhere(_ time.Time, values []any) any {
	who, where := firstText(values[:2]...), firstText(values[2:]...)
	if where == "" {
		return who
	}
	return who + ", " + where
}

func trimmed(_ time.Time, values []any) any { return strings.TrimSpace(firstText(values...)) }

// timesSeen returns the count of the series, or the count of an older recorder. Without either, an
// event was seen once.
func timesSeen(_ time.Time, values []any) any {
	if series := values[0]; series != nil {
		count, _ := values[1].(int64)
		return count
	}
	if count, _ := values[2].(int64); count != 0 {
		return count
	}
	return int64(1)
}
