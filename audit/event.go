package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Event is one record: one stage of one request. Its JSON is the document Event of the API group
// audit.k8s.io.
// Source: AUD-01 to AUD-16.
type Event struct {
	APIVersion string `json:"apiVersion"` // audit.k8s.io/v1, with the group domain of the server
	Kind       string `json:"kind"`       // Event

	Level      Level  `json:"level"`
	AuditID    string `json:"auditID"` // the same for all stages of a request
	Stage      Stage  `json:"stage"`
	RequestURI string `json:"requestURI"` // as the client sent it
	Verb       string `json:"verb"`       // of the API, or the method in lower case

	User                   UserInfo                `json:"user"`
	ImpersonatedUser       *UserInfo               `json:"impersonatedUser,omitempty"`
	AuthenticationMetadata *AuthenticationMetadata `json:"authenticationMetadata,omitempty"`

	// SourceIPs are where the request came from: what X-Forwarded-For and X-Real-Ip say, then the
	// other end of the connection. Only the last one is sure.
	SourceIPs []string `json:"sourceIPs,omitempty"`

	UserAgent string           `json:"userAgent,omitempty"` // what the client calls itself
	ObjectRef *ObjectReference `json:"objectRef,omitempty"` // nil unless a resource was asked for

	// ResponseStatus has the code of the answer, and all of a Status that was the answer.
	ResponseStatus *meta.Status `json:"responseStatus,omitempty"`

	RequestObject  Raw `json:"requestObject,omitempty"`  // at LevelRequest
	ResponseObject Raw `json:"responseObject,omitempty"` // at LevelRequestResponse

	RequestReceivedTimestamp meta.MicroTime `json:"requestReceivedTimestamp"`
	StageTimestamp           meta.MicroTime `json:"stageTimestamp"`

	Annotations map[string]string `json:"annotations,omitempty"`
}

// UserInfo is a user in a record.
type UserInfo struct {
	Username string              `json:"username,omitempty"`
	UID      string              `json:"uid,omitempty"`
	Groups   []string            `json:"groups,omitempty"`
	Extra    map[string][]string `json:"extra,omitempty"`
}

// UserInfoOf is a user for a record. Nil is nobody.
func UserInfoOf(u *authn.User) UserInfo {
	if u == nil {
		return UserInfo{}
	}
	return UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

// AuthenticationMetadata says how the user of a request became known.
type AuthenticationMetadata struct {
	// ImpersonationConstraint is the verb that allowed the impersonation, if it was a constrained one.
	ImpersonationConstraint string `json:"impersonationConstraint,omitempty"`
}

// ObjectReference names the object or the collection of a request.
type ObjectReference struct {
	Resource        string `json:"resource,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	APIGroup        string `json:"apiGroup,omitempty"`
	APIVersion      string `json:"apiVersion,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Subresource     string `json:"subresource,omitempty"`
}

// Raw is a JSON value as text.
type Raw []byte

// Line returns the value on one line. It copies a value that has several.
func (r Raw) Line() Raw {
	if bytes.IndexByte(r, '\n') < 0 && bytes.IndexByte(r, '\r') < 0 {
		return r
	}
	out := bytes.Clone(r)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' ' // only possible between values: strings have escapes
		}
	}
	return out
}

// MarshalJSON returns the value.
func (r Raw) MarshalJSON() ([]byte, error) {
	if len(r) == 0 {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON copies the value.
func (r *Raw) UnmarshalJSON(data []byte) error {
	*r = append((*r)[:0], data...)
	return nil
}

// ParseEvent reads what [Sink.Write] gets.
func ParseEvent(data []byte) (*Event, error) {
	e := &Event{}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("audit event: %w", err)
	}
	return e, nil
}

// AppendJSON appends the event to dst as one line of JSON. It writes text that is not UTF-8 with
// replacement characters: a client must not be able to prevent its own record.
func (e *Event) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"kind":"Event","apiVersion":`...)
	dst = json.AppendString(dst, e.APIVersion)
	dst = member(dst, "level", string(e.Level))
	dst = member(dst, "auditID", e.AuditID)
	dst = member(dst, "stage", string(e.Stage))
	dst = member(dst, "requestURI", e.RequestURI)
	dst = member(dst, "verb", e.Verb)
	dst = append(dst, `,"user":`...)
	dst = e.User.append(dst)
	if e.ImpersonatedUser != nil {
		dst = append(dst, `,"impersonatedUser":`...)
		dst = e.ImpersonatedUser.append(dst)
	}
	if m := e.AuthenticationMetadata; m != nil {
		dst = append(dst, `,"authenticationMetadata":{"impersonationConstraint":`...)
		dst = append(json.AppendString(dst, m.ImpersonationConstraint), '}')
	}
	if len(e.SourceIPs) > 0 {
		dst = append(dst, `,"sourceIPs":`...)
		dst = list(dst, e.SourceIPs)
	}
	dst = optional(dst, "userAgent", e.UserAgent)
	if e.ObjectRef != nil {
		dst = append(dst, `,"objectRef":`...)
		dst = e.ObjectRef.append(dst)
	}
	if e.ResponseStatus != nil {
		dst = append(dst, `,"responseStatus":`...)
		dst = appendStatus(dst, e.ResponseStatus)
	}
	dst = raw(dst, "requestObject", e.RequestObject)
	dst = raw(dst, "responseObject", e.ResponseObject)
	dst = append(dst, `,"requestReceivedTimestamp":"`...)
	dst = appendTime(dst, e.RequestReceivedTimestamp.Time)
	dst = append(dst, `","stageTimestamp":"`...)
	dst = appendTime(dst, e.StageTimestamp.Time)
	dst = append(dst, '"')
	if len(e.Annotations) > 0 {
		dst = append(dst, `,"annotations":{`...)
		var room [8]string
		for i, key := range sortedKeys(room[:0], e.Annotations) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(json.AppendString(dst, key), ':')
			dst = json.AppendString(dst, e.Annotations[key])
		}
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// sortedKeys appends the keys of a map in order.
func sortedKeys[V any](keys []string, of map[string]V) []string {
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// microseconds is the layout of the times of a record.
const microseconds = "2006-01-02T15:04:05.000000Z"

// appendTime appends a time as microseconds says it. Times of these centuries are written without the
// layout, which takes a quarter of the time.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	if year < 1000 || year > 9999 {
		return t.AppendFormat(dst, microseconds)
	}
	hour, minute, second := t.Clock()
	dst = digits(dst, year, 4)
	dst = digits(append(dst, '-'), int(month), 2)
	dst = digits(append(dst, '-'), day, 2)
	dst = digits(append(dst, 'T'), hour, 2)
	dst = digits(append(dst, ':'), minute, 2)
	dst = digits(append(dst, ':'), second, 2)
	dst = digits(append(dst, '.'), t.Nanosecond()/1000, 6)
	return append(dst, 'Z')
}

// digits appends the last n digits of a number.
func digits(dst []byte, number, n int) []byte {
	var room [8]byte
	for i := n - 1; i >= 0; i-- {
		room[i] = byte('0' + number%10)
		number /= 10
	}
	return append(dst, room[:n]...)
}

func (u UserInfo) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, '{')
	dst = optional(dst, "username", u.Username)
	dst = optional(dst, "uid", u.UID)
	if len(u.Groups) > 0 {
		dst = append(dst, `,"groups":`...)
		dst = list(dst, u.Groups)
	}
	if len(u.Extra) > 0 {
		dst = append(dst, `,"extra":{`...)
		var room [8]string
		for i, key := range sortedKeys(room[:0], u.Extra) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(json.AppendString(dst, key), ':')
			dst = list(dst, u.Extra[key])
		}
		dst = append(dst, '}')
	}
	return closed(dst, start)
}

func (r *ObjectReference) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, '{')
	dst = optional(dst, "resource", r.Resource)
	dst = optional(dst, "namespace", r.Namespace)
	dst = optional(dst, "name", r.Name)
	dst = optional(dst, "uid", r.UID)
	dst = optional(dst, "apiGroup", r.APIGroup)
	dst = optional(dst, "apiVersion", r.APIVersion)
	dst = optional(dst, "resourceVersion", r.ResourceVersion)
	dst = optional(dst, "subresource", r.Subresource)
	return closed(dst, start)
}

// closed ends an object that began at start, whose members each begin with a comma.
func closed(dst []byte, start int) []byte {
	if len(dst) > start+1 {
		dst = append(dst[:start+1], dst[start+2:]...)
	}
	return append(dst, '}')
}

// appendStatus appends the status of an answer, which for most has a code alone (AUD-12).
func appendStatus(dst []byte, s *meta.Status) []byte {
	if s.Status == "" && s.Message == "" && s.Reason == "" && s.Details == nil {
		dst = append(dst, `{"metadata":{},"code":`...)
		return append(strconv.AppendInt(dst, int64(s.Code), 10), '}')
	}
	if out, err := json.Append(dst, s); err == nil {
		return out
	}
	dst = append(dst, `{"metadata":{}`...)
	dst = optional(dst, "status", s.Status)
	dst = optional(dst, "message", s.Message)
	dst = optional(dst, "reason", string(s.Reason))
	dst = append(dst, `,"code":`...)
	return append(strconv.AppendInt(dst, int64(s.Code), 10), '}')
}

// member appends a member that is always there.
func member(dst []byte, name, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return json.AppendString(dst, value)
}

// optional appends a member unless it is empty.
func optional(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return member(dst, name, value)
}

// raw appends a member that is JSON already, unless it is empty.
func raw(dst []byte, name string, value Raw) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return append(dst, value...)
}

func list(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = json.AppendString(dst, text)
	}
	return append(dst, ']')
}
