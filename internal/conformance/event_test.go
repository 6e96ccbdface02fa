package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
)

const (
	eventPath     = "/apis/events.k8s.io/v1/namespaces/default/events"
	eventsPath    = "/apis/events.k8s.io/v1/events"
	coreEventPath = "/api/v1/namespaces/default/events"
)

// eventJSON returns an event that obeys every rule for new events, with the members of changes.
// null removes a member.
func eventJSON(t *testing.T, name, changes string) string {
	t.Helper()
	return merged(t, `{"metadata":{"name":"`+name+`"},"eventTime":"2024-05-01T10:00:00.123456Z","action":"Pulling","reason":"Pulled",
		"reportingController":"example.dev/kubelet","reportingInstance":"kubelet-1","type":"Normal","note":"an image",
		"regarding":{"kind":"Pod","namespace":"default","name":"web","uid":"u1","apiVersion":"v1","resourceVersion":"7","fieldPath":"spec.containers{web}"}}`, changes)
}

// coreEventJSON returns an event as older recorders send it.
func coreEventJSON(t *testing.T, name, changes string) string {
	t.Helper()
	return merged(t, `{"metadata":{"name":"`+name+`"},"involvedObject":{"kind":"Pod","namespace":"default","name":"web"},"reason":"Started",
		"message":"a container","source":{"component":"kubelet","host":"n1"},"type":"Normal",
		"firstTimestamp":"2024-05-01T10:00:00Z","lastTimestamp":"2024-05-01T10:05:00Z","count":3}`, changes)
}

func merged(t *testing.T, object, changes string) string {
	t.Helper()
	var a, b map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &a))
	require.NoError(t, json.Unmarshal([]byte(cmp.Or(changes, "{}")), &b))
	maps.Copy(a, b)
	maps.DeleteFunc(a, func(_ string, v any) bool { return v == nil })
	out, err := json.Marshal(a)
	require.NoError(t, err)
	return string(out)
}

// event creates an event.
func (s *server) event(name, changes string) *answer {
	s.t.Helper()
	return s.create(eventPath, eventJSON(s.t, name, changes))
}

// refusesEvent requires that an event is rejected because of one field, on its creation and on a
// PUT that would create it.
func (s *server) refusesEvent(changes, cause, field string) {
	s.t.Helper()
	body := eventJSON(s.t, "bad", changes)
	for _, a := range []*answer{s.do("POST", eventPath, body), s.do("PUT", eventPath+"/bad", body)} {
		a.refused(422, "Invalid", `Event.events.k8s.io "bad" is invalid: `).because(cause, field, "")
		require.Len(s.t, a.at("details", "causes"), 1, "%s", a)
		require.Equal(s.t, "Event", a.at("details", "kind"))
		require.Equal(s.t, "events.k8s.io", a.at("details", "group"))
	}
}

func TestEVT_01_EventsAreBuiltIn(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		list := s.get("/apis/events.k8s.io/v1").is(200)
		require.Len(t, list.at("resources"), 1)
		resource := list.at("resources").([]any)[0]
		require.Equal(t, "events", at(resource, "name"))
		require.Equal(t, "Event", at(resource, "kind"))
		require.Equal(t, true, at(resource, "namespaced"))
		require.Equal(t, []any{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}, at(resource, "verbs"))
		s.event("a", "")
		s.get(eventPath + "/a").is(200)
		s.patch(eventPath+"/a", `{"note":"x"}`)
		s.delete(eventPath + "/a")
		s.get(eventPath+"/a").refused(404, "NotFound", `events.events.k8s.io "a" not found`)
	})
	onEach(t, func(_ *testing.T, s *server) {
		s.get("/apis/events.example.dev/v1/events").is(200)
		s.get("/apis/events.k8s.io/v1/events").refused(404, "NotFound", "could not find the requested resource")
	}, kindwright.Kubernetes{GroupDomain: "example.dev"})
}

func TestEVT_02_EventsAreKeptForALimitedTime(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		w := s.watch(eventPath + "?watch=1&timeoutSeconds=7200")
		s.event("idle", "")
		s.event("busy", "")
		w.expect("ADDED", "idle")
		w.expect("ADDED", "busy")
		time.Sleep(30 * time.Minute)
		s.patch(eventPath+"/busy", `{"note":"seen again"}`)
		w.expect("MODIFIED", "busy")
		time.Sleep(30*time.Minute - 2*time.Second)
		s.get(eventPath + "/idle").is(200)
		time.Sleep(4 * time.Second)
		s.get(eventPath + "/idle").is(404)
		gone := w.expect("DELETED", "idle")
		require.Equal(t, "an image", gone.at("note"))
		s.get(eventPath + "/busy").is(200)
		time.Sleep(31 * time.Minute)
		w.expect("DELETED", "busy")
		require.Empty(t, s.get(eventsPath).items())
	})
}

func TestEVT_02_ExpiryOutlastsARestart(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		short := []kinds.ControlPlaneOption{kinds.EventTTL(10 * time.Second)}
		s := startWith(t, open, short)
		s.event("a", "")
		time.Sleep(5 * time.Second)
		s.stop()
		time.Sleep(3 * time.Second)
		s = startWith(t, open, short)
		s.get(eventPath + "/a").is(200)
		time.Sleep(3 * time.Second)
		s.get(eventPath + "/a").is(404)
	})
}

func TestEVT_03_EventsAreDocumentedAsInformation(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range []string{"/openapi/v3/apis/events.k8s.io/v1", "/openapi/v3/api/v1"} {
			found := false
			for name, schema := range s.get(path).is(200).at("components", "schemas").(map[string]any) {
				if strings.HasSuffix(name, ".Event") {
					found = true
					require.Contains(t, at(schema, "description"), "information")
					require.Contains(t, at(schema, "description"), "limited time")
				}
			}
			require.True(t, found, path)
		}
	})
}

func TestEVT_04_APIVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "events.k8s.io/v1", s.event("a", "").at("apiVersion"))
		require.Equal(t, "events.k8s.io/v1", s.get(eventPath+"/a").at("apiVersion"))
		s.event("b", `{"apiVersion":"events.k8s.io/v1","kind":"Event"}`)
		s.do("POST", eventPath, eventJSON(t, "c", `{"apiVersion":"events.k8s.io/v1beta1"}`)).refused(400, "BadRequest", "events.k8s.io/v1beta1")
		s.do("POST", eventPath, eventJSON(t, "c", `{"apiVersion":"v1","kind":"Event"}`)).refused(400, "BadRequest", "takes kind Event of events.k8s.io/v1")
	})
}

func TestEVT_05_Kind(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "Event", s.event("a", "").at("kind"))
		require.Equal(t, "Event", s.get(eventPath+"/a").at("kind"))
		s.do("POST", eventPath, eventJSON(t, "c", `{"kind":"Evnt"}`)).refused(400, "BadRequest", "Evnt")
	})
}

func TestEVT_06_Metadata(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.event("x", `{"metadata":{"generateName":"web.","labels":{"a":"b"},"annotations":{"c":"d"}}}`)
		require.Regexp(t, `^web\.[a-z0-9]{5}$`, a.at("metadata", "name"))
		require.Equal(t, "default", a.at("metadata", "namespace"))
		require.NotEmpty(t, a.at("metadata", "uid"))
		require.NotEmpty(t, a.at("metadata", "creationTimestamp"))
		require.NotEmpty(t, a.version())
		require.Equal(t, map[string]any{"a": "b"}, a.at("metadata", "labels"))
		require.Equal(t, map[string]any{"c": "d"}, a.at("metadata", "annotations"))
		require.Nil(t, a.at("metadata", "generation"), "events have no desired state")
		s.refusesMetadata(`{"metadata":{"name":"a b"}}`, "metadata.name")
		s.refusesMetadata(`{"metadata":{"name":"a","labels":{"a b":"c"}}}`, "metadata.labels")
	})
}

func (s *server) refusesMetadata(changes, field string) {
	s.t.Helper()
	s.do("POST", eventPath, eventJSON(s.t, "x", changes)).refused(422, "Invalid", field).because("FieldValueInvalid", field, "")
}

func TestEVT_07_EventTimeIsRequired(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.refusesEvent(`{"eventTime":null}`, "FieldValueRequired", "eventTime")
		for sent, want := range map[string]string{
			"2024-05-01T10:00:00.000001Z":      "2024-05-01T10:00:00.000001Z",
			"2024-05-01T10:00:00.100000Z":      "2024-05-01T10:00:00.100000Z",
			"2024-05-01T10:00:00Z":             "2024-05-01T10:00:00.000000Z",
			"2024-05-01T12:00:00.000001+02:00": "2024-05-01T10:00:00.000001Z",
			"2024-05-01T10:00:00.123456789Z":   "2024-05-01T10:00:00.123456Z",
			"9999-12-31T23:59:59.999999Z":      "9999-12-31T23:59:59.999999Z",
		} {
			a := s.event("x", `{"metadata":{"generateName":"t."},"eventTime":"`+sent+`"}`)
			require.Equal(t, want, a.at("eventTime"), sent)
		}
		for _, bad := range []string{`"yesterday"`, `""`, `5`, `"2024-05-01"`, `"2024-13-01T10:00:00.000001Z"`} {
			code := s.do("POST", eventPath, eventJSON(t, "bad", `{"eventTime":`+bad+`}`)).code
			require.Contains(t, []int{400, 422}, code, bad)
		}
	})
}

// words tests a field that takes 1 to 128 characters (LIM-03, LIM-04, READ-19).
func words(t *testing.T, field string) {
	t.Helper()
	onEach(t, func(_ *testing.T, s *server) {
		for _, letter := range []string{"x", "é", "🙂"} {
			s.event("x", fmt.Sprintf(`{"metadata":{"generateName":"x."},%q:%q}`, field, strings.Repeat(letter, 128)))
			s.refusesEvent(fmt.Sprintf(`{%q:%q}`, field, strings.Repeat(letter, 129)), "FieldValueTooLong", field)
		}
		s.refusesEvent(fmt.Sprintf(`{%q:""}`, field), "FieldValueRequired", field)
		s.refusesEvent(fmt.Sprintf(`{%q:null}`, field), "FieldValueRequired", field)
		// Nor may an existing event lose it.
		s.event("good", "")
		s.do("PATCH", eventPath+"/good", fmt.Sprintf(`{%q:""}`, field), "Content-Type", "application/merge-patch+json").
			refused(422, "Invalid", field).because("FieldValueRequired", field, "")
	})
}

func TestEVT_08_LIM_03_Action(t *testing.T) { words(t, "action") }

func TestEVT_09_Reason(t *testing.T) { words(t, "reason") }

func TestEVT_10_LIM_05_Note(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.event("none", `{"note":null}`)
		s.event("most", `{"note":"`+strings.Repeat("x", 1024)+`"}`)
		s.event("most-bytes", `{"note":"`+strings.Repeat("é", 512)+`"}`)
		s.refusesEvent(`{"note":"`+strings.Repeat("x", 1025)+`"}`, "FieldValueTooLong", "note")
		s.refusesEvent(`{"note":"`+strings.Repeat("é", 512)+`x"}`, "FieldValueTooLong", "note")
		// Readers must accept long notes from elsewhere (LIM-05).
		long := strings.Repeat("x", 64<<10)
		s.create(coreEventPath, coreEventJSON(t, "long", `{"message":"`+long+`"}`))
		e, err := s.events(eventsOf).Get(t.Context(), meta.Key{Namespace: "default", Name: "long"})
		require.NoError(t, err)
		require.Equal(t, long, e.Note)
	})
}

func TestEVT_11_Type(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.event("a", `{"type":"Normal"}`)
		s.event("b", `{"type":"Warning"}`)
		s.refusesEvent(`{"type":"Foo"}`, "FieldValueNotSupported", "type")
		s.refusesEvent(`{"type":"normal"}`, "FieldValueNotSupported", "type")
		s.refusesEvent(`{"type":""}`, "FieldValueRequired", "type")
		s.refusesEvent(`{"type":null}`, "FieldValueRequired", "type")
		s.create(coreEventPath, coreEventJSON(t, "c", `{"type":"Foo"}`))
		e, err := s.events(eventsOf).Get(t.Context(), meta.Key{Namespace: "default", Name: "c"})
		require.NoError(t, err)
		require.Equal(t, "Foo", e.Type, "READ-26: clients accept unknown types")
	})
}

func TestEVT_12_Regarding(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.event("a", "")
		require.Equal(t, map[string]any{
			"kind": "Pod", "namespace": "default", "name": "web", "uid": "u1", "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec.containers{web}",
		}, s.get(eventPath+"/a").at("regarding"))
		require.Nil(t, s.event("b", `{"regarding":null}`).at("regarding"))
		s.do("POST", eventPath, eventJSON(t, "c", `{"regarding":"web"}`)).refused(422, "Invalid", "regarding")
	})
}

func TestEVT_13_Related(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Nil(t, s.event("a", "").at("related"))
		s.event("b", `{"related":{"kind":"Node","name":"n1","uid":"u2"}}`)
		require.Equal(t, map[string]any{"kind": "Node", "name": "n1", "uid": "u2"}, s.get(eventPath+"/b").at("related"))
	})
}

func TestEVT_14_ReportingController(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		s.refusesEvent(`{"reportingController":""}`, "FieldValueRequired", "reportingController")
		s.refusesEvent(`{"reportingController":null}`, "FieldValueRequired", "reportingController")
		s.event("a", `{"reportingController":"`+strings.Repeat("x", 200)+`"}`)
	})
}

func TestEVT_15_LIM_04_ReportingInstance(t *testing.T) { words(t, "reportingInstance") }

func TestEVT_16_Series(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Nil(t, s.event("single", "").at("series"))
		s.event("series", `{"series":{"count":4,"lastObservedTime":"2024-05-01T11:00:00.000002Z"}}`)
		require.Equal(t, map[string]any{"count": 4.0, "lastObservedTime": "2024-05-01T11:00:00.000002Z"}, s.get(eventPath+"/series").at("series"))
		a := s.patch(eventPath+"/single", `{"series":{"count":2}}`)
		require.InDelta(t, 2, a.at("series", "count"), 0)
	})
}

func TestEVT_17_SeriesCount(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.refusesEvent(`{"series":{}}`, "FieldValueRequired", "series.count")
		s.refusesEvent(`{"series":{"lastObservedTime":"2024-05-01T11:00:00.000002Z"}}`, "FieldValueRequired", "series.count")
		s.refusesEvent(`{"series":{"count":-1}}`, "FieldValueInvalid", "series.count")
		s.event("least", `{"series":{"count":1}}`)
		s.event("most", `{"series":{"count":2147483647}}`)
		s.do("POST", eventPath, eventJSON(t, "over", `{"series":{"count":2147483648}}`)).refused(422, "Invalid", "series.count")
	})
}

// deprecated tests a field of the older form (EVT-18 to EVT-21): it is stored, and it is the field
// of that form.
func deprecated(t *testing.T, field, core, value string) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		require.Nil(t, s.event("without", "").at(field))
		s.event("with", fmt.Sprintf(`{%q:%s}`, field, value))
		var want any
		require.NoError(t, json.Unmarshal([]byte(value), &want))
		require.Equal(t, want, s.get(eventPath+"/with").at(field))
		require.Equal(t, want, s.get(coreEventPath+"/with").at(core))
		_, err := s.events(eventsOf).Get(t.Context(), meta.Key{Namespace: "default", Name: "with"})
		require.NoError(t, err)
	})
}

func TestEVT_18_DeprecatedCount(t *testing.T) { deprecated(t, "deprecatedCount", "count", "5") }

func TestEVT_19_DeprecatedFirstTimestamp(t *testing.T) {
	deprecated(t, "deprecatedFirstTimestamp", "firstTimestamp", `"2024-05-01T09:00:00Z"`)
}

func TestEVT_20_DeprecatedLastTimestamp(t *testing.T) {
	deprecated(t, "deprecatedLastTimestamp", "lastTimestamp", `"2024-05-01T11:00:00Z"`)
}

func TestEVT_21_DeprecatedSource(t *testing.T) {
	deprecated(t, "deprecatedSource", "source", `{"component":"kubelet","host":"n1"}`)
}

func TestEVT_22_EventList(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		list := s.get(eventsPath)
		require.Empty(t, list.items(), "items must be present even if empty")
		s.event("a", "")
		s.event("b", "")
		list = s.get(eventsPath)
		require.Equal(t, []string{"a", "b"}, list.names())
		require.Equal(t, "events.k8s.io/v1", list.at("apiVersion"))
		require.Equal(t, "EventList", list.at("kind"))
		require.NotEmpty(t, list.version())
		require.Equal(t, "Event", at(list.items()[0], "kind"))
	})
}

// anonymously requires that a request without credentials is rejected.
func (s *server) anonymously(method, path, body string) {
	s.t.Helper()
	s.do(method, path, body, "X-User", "", "X-Groups", "").refused(401, "Unauthorized", "Unauthorized")
}

func TestEVT_23_Get(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.event("a", "")
		require.NotContains(t, string(s.get(eventPath+"/a").is(200).body), "\n  ")
		require.Contains(t, string(s.get(eventPath+"/a?pretty=true").is(200).body), "\n  \"")
		s.get(eventPath + "/b").is(404)
		s.anonymously("GET", eventPath+"/a", "")
	}, kindwright.Access{NoAnonymous: true})
}

// listed tests every parameter of a list of events (EVT-24, EVT-25).
func listed(t *testing.T, path string) {
	t.Helper()
	onEach(t, func(t *testing.T, s *server) {
		first := s.event("a", `{"metadata":{"name":"a","labels":{"x":"1"}}}`)
		s.event("b", `{"type":"Warning"}`)
		s.event("c", "")
		require.Equal(t, []string{"a", "b", "c"}, s.get(path).names())
		require.Equal(t, "EventList", s.get(path).at("kind"))
		require.Equal(t, []string{"a", "b", "c"}, s.get(path+"?allowWatchBookmarks=true").names(), "ignored by lists")
		page := s.get(path + "?limit=2")
		require.Equal(t, []string{"a", "b"}, page.names())
		require.Equal(t, []string{"c"}, s.get(path+"?limit=2&continue="+url.QueryEscape(page.next())).names())
		require.Equal(t, []string{"b"}, s.get(path+"?fieldSelector=type%3DWarning").names())
		require.Equal(t, []string{"a"}, s.get(path+"?labelSelector=x%3D1").names())
		require.Contains(t, string(s.get(path+"?pretty=true").is(200).body), "\n  ")
		require.Len(t, s.get(path+"?resourceVersion=0").items(), 3)
		require.Equal(t, []string{"a"}, s.get(path+"?resourceVersionMatch=Exact&resourceVersion="+first.version()).names())
		require.Len(t, s.get(path+"?resourceVersionMatch=NotOlderThan&resourceVersion="+first.version()).items(), 3)
		s.get(path+"?sendInitialEvents=true").refused(422, "Invalid", "sendInitialEvents is forbidden for list")
		require.Len(t, s.get(path+"?timeoutSeconds=10").items(), 3)
		require.Len(t, s.get(path+"?watch=false").items(), 3)
		w := s.watch(path + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=5&labelSelector=x")
		w.expect("ADDED", "a")
		require.Equal(t, "BOOKMARK", w.next().kind)
		s.anonymously("GET", path, "")
	}, kindwright.Access{NoAnonymous: true})
}

func TestEVT_24_ListInANamespace(t *testing.T) { listed(t, eventPath) }

func TestEVT_25_ListAll(t *testing.T) {
	listed(t, eventsPath)
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("team")
		s.event("a", "")
		s.create("/apis/events.k8s.io/v1/namespaces/team/events", eventJSON(t, "b", `{"regarding":null}`))
		require.Equal(t, []string{"a", "team/b"}, s.get(eventsPath).names())
		require.Equal(t, []string{"a"}, s.get(eventPath).names())
	})
}

func TestEVT_26_Create(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.do("POST", eventPath+"?dryRun=All&pretty=true", eventJSON(t, "a", "")).is(201)
		require.Contains(t, string(a.body), "\n  ")
		s.get(eventPath + "/a").is(404)
		a = s.do("POST", eventPath+"?fieldManager=me&fieldValidation=Strict", eventJSON(t, "a", "")).is(201) // READ-20
		require.Equal(t, "Event", a.at("kind"))
		s.do("POST", eventPath, eventJSON(t, "a", "")).refused(409, "AlreadyExists", `events.events.k8s.io "a" already exists`)
		s.do("POST", eventPath+"?fieldValidation=Strict", eventJSON(t, "b", `{"notes":"x"}`)).refused(400, "BadRequest", `unknown field "notes"`)
		s.do("POST", eventPath+"?dryRun=None", eventJSON(t, "b", "")).refused(422, "Invalid", "dryRun")
		s.do("POST", eventPath+"?fieldValidation=Never", eventJSON(t, "b", "")).refused(422, "Invalid", "fieldValidation")
		s.do("POST", eventPath+"?fieldManager="+strings.Repeat("x", 129), eventJSON(t, "b", "")).refused(422, "Invalid", "fieldManager")
		require.NotEmpty(t, s.do("POST", eventPath, eventJSON(t, "b", `{"notes":"x"}`)).is(201).header["Warning"])
		s.do("POST", eventsPath, eventJSON(t, "c", "")).refused(405, "MethodNotAllowed", "")
		s.anonymously("POST", eventPath, eventJSON(t, "d", ""))
	}, kindwright.Access{NoAnonymous: true})
}

func TestEVT_27_Update(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.do("PUT", eventPath+"/a?dryRun=All", eventJSON(t, "a", "")).is(201)
		s.get(eventPath + "/a").is(404)
		created := s.do("PUT", eventPath+"/a?fieldManager=me&fieldValidation=Strict&pretty=1", eventJSON(t, "a", "")).is(201)
		same := s.do("PUT", eventPath+"/a", eventJSON(t, "a", "")).is(200)
		require.Equal(t, created.version(), same.version())
		a := s.do("PUT", eventPath+"/a", eventJSON(t, "a", `{"note":"x"}`)).is(200)
		require.Equal(t, "x", a.at("note"))
		s.do("PUT", eventPath+"/a", eventJSON(t, "a", `{"metadata":{"name":"a","resourceVersion":"`+created.version()+`"}}`)).
			refused(409, "Conflict", "the object has been modified")
		s.do("PUT", eventPath+"/a", eventJSON(t, "b", "")).refused(400, "BadRequest", "name")
		s.anonymously("PUT", eventPath+"/a", eventJSON(t, "a", ""))
	}, kindwright.Access{NoAnonymous: true})
}

func TestEVT_28_Patch(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.event("a", "")
		patch := func(kind, query, body string) *answer {
			return s.do("PATCH", eventPath+"/a"+query, body, "Content-Type", kind)
		}
		const jsonPatch, mergePatch, strategic = "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"
		require.Equal(t, "1", patch(jsonPatch, "", `[{"op":"replace","path":"/note","value":"1"}]`).is(200).at("note"))
		require.Equal(t, "2", patch(mergePatch, "?fieldManager=me&fieldValidation=Strict&pretty=true", `{"note":"2"}`).is(200).at("note"))
		require.Equal(t, "3", patch(strategic, "", `{"note":"3"}`).is(200).at("note"))
		require.Equal(t, "4", patch(mergePatch, "?dryRun=All", `{"note":"4"}`).is(200).at("note"))
		require.Equal(t, "3", s.get(eventPath+"/a").at("note"))
		patch(jsonPatch, "", `[{"op":"test","path":"/note","value":"1"}]`).refused(422, "Invalid", "")
		patch(mergePatch, "", `{"note":`).refused(400, "BadRequest", "")
		patch(mergePatch, "", `{"type":"Foo"}`).refused(422, "Invalid", "type")
		patch("text/plain", "", `{"note":"x"}`).refused(415, "UnsupportedMediaType", "accepted media types include")
		patch(mergePatch, "?force=true", `{"note":"x"}`).refused(422, "Invalid", "force")
		const apply = "application/apply-patch+yaml"
		config := func(name, note string) string {
			return eventJSON(t, name, `{"apiVersion":"events.k8s.io/v1","kind":"Event","note":"`+note+`"}`)
		}
		patch(apply, "?fieldManager=mine", config("a", "5")).refused(409, "Conflict", "").because("FieldManagerConflict", ".note", "")
		require.Equal(t, "5", patch(apply, "?fieldManager=mine&force=true", config("a", "5")).is(200).at("note"))
		require.Equal(t, "6", patch(apply, "?fieldManager=mine", config("a", "6")).is(200).at("note"))
		patch(apply, "", config("a", "7")).refused(422, "Invalid", "fieldManager")
		s.do("PATCH", eventPath+"/applied?fieldManager=mine", config("applied", "1"), "Content-Type", apply).is(201)
		s.do("PATCH", eventPath+"/bad?fieldManager=mine", config("bad", strings.Repeat("x", 1025)), "Content-Type", apply).refused(422, "Invalid", "note")
		s.do("PATCH", eventPath+"/b", `{"note":"x"}`, "Content-Type", mergePatch).is(404)
		s.do("PATCH", eventPath+"/a", `{"note":"x"}`, "Content-Type", mergePatch, "X-User", "").refused(401, "Unauthorized", "")
	}, kindwright.Access{NoAnonymous: true})
}

func TestEVT_29_Delete(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		uid := s.event("a", "").at("metadata", "uid")
		s.do("DELETE", eventPath+"/a?dryRun=All", "").is(200)
		s.get(eventPath + "/a").is(200)
		s.do("DELETE", eventPath+"/a", `{"preconditions":{"uid":"other"}}`).refused(409, "Conflict", "")
		s.do("DELETE", eventPath+"/a?propagationPolicy=Never", "").refused(422, "Invalid", "propagationPolicy")
		s.anonymously("DELETE", eventPath+"/a", "")
		a := s.do("DELETE", eventPath+"/a?gracePeriodSeconds=0&pretty=true&propagationPolicy=Background", `{"kind":"DeleteOptions","apiVersion":"v1"}`).is(200)
		require.Equal(t, "Status", a.at("kind"))
		require.Equal(t, "Success", a.at("status"))
		require.Equal(t, uid, a.at("details", "uid"))
		s.do("DELETE", eventPath+"/a", "").refused(404, "NotFound", "")
		// An event with a finalizer is marked.
		s.event("held", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		require.NotEmpty(t, s.do("DELETE", eventPath+"/held", "").is(200).at("metadata", "deletionTimestamp"))
	}, kindwright.Access{NoAnonymous: true})
}

func TestEVT_30_DeleteCollection(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("team")
		s.create("/apis/events.k8s.io/v1/namespaces/team/events", eventJSON(t, "a", ""))
		for _, name := range []string{"a", "b", "c", "d"} {
			s.event(name, `{"metadata":{"name":"`+name+`","labels":{"is":"`+name+`"}}}`)
		}
		version := s.get(eventPath).version()
		s.event("late", "")
		s.do("DELETE", eventPath+"?dryRun=All", "").is(200)
		require.Len(t, s.get(eventPath).items(), 5)
		s.anonymously("DELETE", eventPath, "")
		a := s.do("DELETE", eventPath+"?labelSelector=is%3Da&pretty=true", "").is(200)
		require.Equal(t, "Status", a.at("kind")) // READ-04
		require.Equal(t, "Success", a.at("status"))
		s.delete(eventPath + "?fieldSelector=metadata.name%3Db&gracePeriodSeconds=0&propagationPolicy=Background&timeoutSeconds=5")
		require.Equal(t, []string{"c", "d", "late"}, s.get(eventPath).names())
		s.delete(eventPath + "?resourceVersion=0&resourceVersionMatch=NotOlderThan&labelSelector=is%3Dc&sendInitialEvents=true")
		s.do("DELETE", eventPath+"?resourceVersionMatch=Exact", "").refused(422, "Invalid", "resourceVersionMatch")
		s.do("DELETE", eventPath+"?continue=garbage", "").refused(400, "BadRequest", "continue")
		s.delete(eventPath + "?limit=1")
		require.Len(t, s.get(eventPath).items(), 1, "one page")
		s.delete(eventPath + "?resourceVersion=" + version)
		require.Empty(t, s.get(eventPath).items())
		require.Equal(t, []string{"team/a"}, s.get(eventsPath).names())
	}, kindwright.Access{NoAnonymous: true})
}

// Every change of an event passes admission as an ordinary operation, whether it comes from the
// server's own controllers or from the client package. Expiry is not such a change (EVT-02).
func TestEVT_31_EventsAreWrittenThroughTheOperations(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	record := admission.Plugin{Name: "record", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Resource.Resource == "events" {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(r.Operation, " ", r.Namespace, "/", r.Name))
		}
		return nil
	})}
	test := func(t *testing.T, s *server) {
		seen = nil
		s.namespace("team")
		w := s.watch(eventsPath + "?watch=1&resourceVersion=" + s.get(eventsPath).version())
		c := s.events(eventsOf)
		e := &kinds.Event{
			ObjectMeta: meta.ObjectMeta{Namespace: "team", Name: "by-client"}, EventTime: meta.NewMicroTime(time.Now()), Action: "Do", Reason: "Done",
			Type: kinds.EventTypeNormal, ReportingController: "example.dev/me", ReportingInstance: "me-1",
		}
		e, err := c.Create(t.Context(), e)
		require.NoError(t, err)
		e.Note = "changed"
		e, err = c.Update(t.Context(), e)
		require.NoError(t, err)
		_, err = c.Patch(t.Context(), meta.Key{Namespace: "team", Name: e.Name}, client.MergePatch(map[string]any{"note": "again"}))
		require.NoError(t, err)
		for _, kind := range []string{"ADDED", "MODIFIED", "MODIFIED"} {
			w.expect(kind, "by-client")
		}
		recorder := client.NewRecorder(httpClient(s), client.RecorderConfig{Controller: "example.dev/me"}, client.At("http://server"))
		for range 2 {
			recorder.Record(client.Report{Regarding: client.Reference{Kind: "Widget", Namespace: "team", Name: "x"}, Reason: "Done"})
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, recorder.Run(over), context.Canceled)
		recorded := w.next()
		require.Equal(t, "ADDED", recorded.kind)
		require.InDelta(t, 2, w.expect("MODIFIED", recorded.name()).at("series", "count"), 0)
		s.delete("/api/v1/namespaces/team")
		w.expect("DELETED", "by-client")
		w.expect("DELETED", recorded.name())
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{
			"CREATE team/by-client", "UPDATE team/by-client", "UPDATE team/by-client", "CREATE team/" + recorded.name(), "UPDATE team/" + recorded.name(),
			"DELETE team/by-client", "DELETE team/" + recorded.name(),
		}, seen)
	}
	onEach(t, test, kindwright.Admit(record))
}

var eventsOf = client.Resource[kinds.Event]{Group: "events.k8s.io", Version: "v1", Plural: "events"}

// events returns a client of the client package.
func (s *server) events(of client.Kind[kinds.Event]) *client.Client[kinds.Event] {
	return client.For(httpClient(s), of, client.At("http://server"))
}

// httpClient sends requests to a server as a member of system:masters.
func httpClient(s *server) *http.Client { return &http.Client{Transport: asAdmin{s.client}} }

type asAdmin struct{ http.RoundTripper }

func (a asAdmin) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	return a.RoundTripper.RoundTrip(r)
}

func TestEVT_32_BadCredentials(t *testing.T) {
	test := func(t *testing.T, s *server) {
		for _, path := range []string{eventPath, coreEventPath} {
			for _, r := range [][2]string{
				{"GET", path + "/x"},
				{"GET", path},
				{"GET", path + "?watch=1"},
				{"POST", path},
				{"PUT", path + "/x"},
				{"PATCH", path + "/x"},
				{"DELETE", path + "/x"},
				{"DELETE", path},
			} {
				s.do(r[0], r[1], "{}", "X-User", "", "Authorization", "Bearer wrong").refused(401, "Unauthorized", "Unauthorized")
			}
		}
		s.do("GET", eventsPath, "", "X-User", "", "Authorization", "Bearer wrong").refused(401, "Unauthorized", "Unauthorized")
	}
	onEach(t, test)
	onEach(t, test, kindwright.Access{NoAnonymous: true})
}

func TestEVT_33_LastObservedTime(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.event("a", `{"series":{"count":2,"lastObservedTime":"2024-05-01T11:00:00.000002Z"}}`)
		require.Equal(t, "2024-05-01T11:00:00.000002Z", s.get(eventPath+"/a").at("series", "lastObservedTime"))
		require.Equal(t, "2024-05-01T11:00:00.000002Z", s.get(coreEventPath+"/a").at("series", "lastObservedTime"))
		s.event("alone", `{"series":{"count":2}}`) // READ-18
	})
}

// strictly is onEach with Kubernetes' rules for events.
func strictly(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		t.Helper()
		test(t, startWith(t, open, []kinds.ControlPlaneOption{kinds.StrictEventRules()}))
	})
}

func TestEVT_34_StrictRules(t *testing.T) {
	strictly(t, func(t *testing.T, s *server) {
		s.event("good", "")
		s.event("series", `{"series":{"count":2,"lastObservedTime":"2024-05-01T11:00:00.000002Z"}}`)
		s.refusesEvent(`{"series":{"count":1,"lastObservedTime":"2024-05-01T11:00:00.000002Z"}}`, "FieldValueInvalid", "series.count")
		s.refusesEvent(`{"series":{"count":2}}`, "FieldValueRequired", "series.lastObservedTime")
		s.refusesEvent(`{"deprecatedCount":1}`, "FieldValueForbidden", "deprecatedCount")
		s.refusesEvent(`{"deprecatedSource":{"host":"n1"}}`, "FieldValueForbidden", "deprecatedSource")
		s.refusesEvent(`{"deprecatedFirstTimestamp":"2024-05-01T10:00:00Z"}`, "FieldValueForbidden", "deprecatedFirstTimestamp")
		s.refusesEvent(`{"deprecatedLastTimestamp":"2024-05-01T10:00:00Z"}`, "FieldValueForbidden", "deprecatedLastTimestamp")
		s.refusesEvent(`{"reportingController":"a b"}`, "FieldValueInvalid", "reportingController")
		for _, field := range []string{"action", "reason", "reportingInstance"} { // Kubernetes counts bytes
			s.event("x", fmt.Sprintf(`{"metadata":{"generateName":"x."},%q:%q}`, field, strings.Repeat("é", 64)))
			s.refusesEvent(fmt.Sprintf(`{%q:%q}`, field, strings.Repeat("é", 64)+"x"), "FieldValueTooLong", field)
		}
		// An event of the core group with an eventTime comes from a recorder that knows the rules.
		// Without one it does not.
		const recent = `"eventTime":"2024-05-01T10:00:00.000001Z","reportingComponent":"c","reportingInstance":"i","action":"a"`
		s.create(coreEventPath, coreEventJSON(t, "recent", `{`+recent+`}`))
		for changes, field := range map[string]string{
			`"action":null`: "action", `"reason":null`: "reason", `"reportingInstance":null`: "reportingInstance",
			`"reportingComponent":"a b"`: "reportingComponent", `"message":"` + strings.Repeat("x", 1025) + `"`: "message",
		} {
			s.do("POST", coreEventPath, coreEventJSON(t, "bad", merged(t, `{`+recent+`}`, `{`+strings.Replace(changes, "null", `""`, 1)+`}`))).refused(422, "Invalid", field)
		}
		s.create(coreEventPath, coreEventJSON(t, "bare", `{"reason":null,"source":null,"type":null}`))
		s.patch(coreEventPath+"/bare", `{"count":4}`)
		s.namespace("team")
		nowhere := eventJSON(t, "nowhere", `{"regarding":{"kind":"Node","name":"n1"}}`)
		s.create(eventPath, nowhere)
		s.create("/apis/events.k8s.io/v1/namespaces/kube-system/events", nowhere)
		s.do("POST", "/apis/events.k8s.io/v1/namespaces/team/events", nowhere).refused(422, "Invalid", "regarding.namespace").
			because("FieldValueInvalid", "regarding.namespace", "")
	})
}

func TestEVT_35_StrictUpdates(t *testing.T) {
	strictly(t, func(t *testing.T, s *server) {
		s.event("a", "")
		for field, value := range map[string]string{
			"note": `"x"`, "reason": `"x"`, "action": `"x"`, "type": `"Warning"`, "reportingInstance": `"x"`, "reportingController": `"x"`,
			"eventTime": `"2024-05-01T10:00:00.123457Z"`, "related": `{"kind":"Node"}`, "regarding": `{"kind":"Pod","namespace":"default"}`,
		} {
			s.do("PUT", eventPath+"/a", eventJSON(t, "a", fmt.Sprintf(`{%q:%s}`, field, value))).
				refused(422, "Invalid", field).because("FieldValueForbidden", field, "")
		}
		a := s.do("PUT", eventPath+"/a", eventJSON(t, "a", `{"metadata":{"name":"a","labels":{"x":"y"}},"series":{"count":2,"lastObservedTime":"2024-05-01T10:00:00.000001Z"}}`)).is(200)
		require.Equal(t, "y", a.at("metadata", "labels", "x"))
		require.InDelta(t, 2, a.at("series", "count"), 0)
	})
}

func TestEVT_36_TheCoreGroup(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		// Both views show one object with one version.
		s.event("a", "")
		modern, core := s.get(eventPath+"/a").is(200), s.get(coreEventPath+"/a").is(200)
		require.Equal(t, modern.at("metadata"), core.at("metadata"))
		require.Equal(t, "v1", core.at("apiVersion"))
		require.Equal(t, "Event", core.at("kind"))
		require.Equal(t, modern.at("regarding"), core.at("involvedObject"))
		require.Equal(t, modern.at("note"), core.at("message"))
		require.Equal(t, modern.at("reportingController"), core.at("reportingComponent"))
		for _, field := range []string{"eventTime", "reason", "type", "action", "reportingInstance"} {
			require.Equal(t, modern.at(field), core.at(field), field)
		}
		// The older rules: none of the new fields is required, and messages may be long.
		s.create(coreEventPath, coreEventJSON(t, "bare", `{"reason":null,"message":"`+strings.Repeat("x", 5000)+`","source":null,"type":null,"firstTimestamp":null,"lastTimestamp":null,"count":null}`))
		s.create(coreEventPath, coreEventJSON(t, "node", `{"involvedObject":{"kind":"Node","name":"n1"}}`))
		s.do("POST", coreEventPath, coreEventJSON(t, "astray", `{"involvedObject":{"namespace":"team"}}`)).
			refused(422, "Invalid", "involvedObject.namespace").because("FieldValueInvalid", "involvedObject.namespace", "does not match")
		// Counting through one form is visible through the other.
		s.patch(coreEventPath+"/bare", `{"count":2}`)
		require.InDelta(t, 2, s.get(eventPath+"/bare").at("deprecatedCount"), 0)
		require.Equal(t, s.get(eventPath).version(), s.get(coreEventPath).version())
		list := s.get(coreEventPath)
		require.Equal(t, "v1", list.at("apiVersion"))
		require.Equal(t, "EventList", list.at("kind"))
		require.Equal(t, []string{"a", "bare", "node"}, list.names())
		s.delete(coreEventPath + "/a")
		s.get(eventPath + "/a").is(404)
	})
}

// Every verb works through both groups on the same objects.
func TestEVT_36_EveryVerbOfTheCoreGroup(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		made := s.do("PUT", coreEventPath+"/a", coreEventJSON(t, "a", "")).is(201)
		require.Equal(t, "a container", s.do("PUT", coreEventPath+"/a", coreEventJSON(t, "a", `{"count":4}`)).is(200).at("message"))
		require.InDelta(t, 4, s.get(eventPath+"/a").at("deprecatedCount"), 0)
		require.Equal(t, "1", s.patch(coreEventPath+"/a", `{"message":"1"}`).at("message"))
		for kind, body := range map[string]string{
			"application/strategic-merge-patch+json": `{"message":"2","series":{"count":2}}`,
			"application/json-patch+json":            `[{"op":"add","path":"/message","value":"2"}]`,
			"application/apply-patch+yaml":           coreEventJSON(t, "a", `{"apiVersion":"v1","kind":"Event","message":"2"}`),
		} {
			s.do("PATCH", coreEventPath+"/a?force=true&fieldManager=mine", body, "Content-Type", kind).refusedUnless(kind == "application/apply-patch+yaml")
			s.do("PATCH", coreEventPath+"/a?fieldManager=mine", body, "Content-Type", kind).is(200)
			require.Equal(t, "2", s.get(eventPath+"/a").at("note"), kind)
			s.patch(eventPath+"/a", `{"note":"again"}`)
		}
		s.do("PUT", coreEventPath+"/a", coreEventJSON(t, "a", `{"metadata":{"name":"a","resourceVersion":"`+made.version()+`"}}`)).refused(409, "Conflict", "")
		s.event("b", `{"metadata":{"name":"b","labels":{"x":"1"}}}`)
		require.Equal(t, []string{"b"}, s.get(coreEventPath+"?labelSelector=x").names())
		page := s.get(coreEventPath + "?limit=1")
		require.Equal(t, []string{"a"}, page.names())
		require.Equal(t, []string{"b"}, s.get(coreEventPath+"?limit=1&continue="+url.QueryEscape(page.next())).names())
		s.delete(coreEventPath + "?labelSelector=x")
		require.Equal(t, []string{"a"}, s.get(eventPath).names())
		s.do("DELETE", coreEventPath+"/a", `{"preconditions":{"uid":"other"}}`).refused(409, "Conflict", "")
		s.delete(coreEventPath + "/a")
		require.Empty(t, s.get(eventsPath).items())
	})
}

// refusedUnless requires that a parameter of apply is rejected elsewhere.
func (a *answer) refusedUnless(ok bool) {
	a.t.Helper()
	if ok {
		a.is(200)
		return
	}
	a.refused(422, "Invalid", "force")
}

// LIM-13, EVT-02: by default an event is kept for an hour after its last write through either form.
// The time can be configured.
func TestEVT_02_TheTimeToLive(t *testing.T) {
	test := func(ttl time.Duration, of ...kinds.ControlPlaneOption) {
		onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
			s := startWith(t, open, of)
			s.create(coreEventPath, coreEventJSON(t, "a", ""))
			s.event("b", "")
			time.Sleep(ttl - 2*time.Second)
			require.Equal(t, []string{"a", "b"}, s.get(eventPath).names())
			s.patch(coreEventPath+"/b", `{"series":{"count":2}}`)
			time.Sleep(4 * time.Second)
			require.Equal(t, []string{"b"}, s.get(coreEventPath).names())
			time.Sleep(ttl)
			require.Empty(t, s.get(eventPath).items())
		})
	}
	test(time.Hour)
	test(90*time.Second, kinds.EventTTL(90*time.Second))
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := startWith(t, open, []kinds.ControlPlaneOption{kinds.EventTTL(0)})
		s.event("a", "")
		time.Sleep(1000 * time.Hour)
		s.get(eventPath + "/a").is(200)
	})
}

func TestEVT_36_BothFormsOnOneWatch(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		core, modern := s.watch("/api/v1/events?watch=1"), s.watch(eventsPath+"?watch=1")
		s.event("a", "")
		s.create(coreEventPath, coreEventJSON(t, "b", ""))
		for _, name := range []string{"a", "b"} {
			c, m := core.expect("ADDED", name), modern.expect("ADDED", name)
			require.Equal(t, c.version(), m.version())
			require.Equal(t, "v1", c.at("apiVersion"))
			require.Equal(t, "events.k8s.io/v1", m.at("apiVersion"))
			require.Equal(t, c.at("message"), m.at("note"))
		}
	})
}

func TestEVT_37_FieldSelectors(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.event("a", "")
		s.create(coreEventPath, coreEventJSON(t, "b", ""))
		s.event("c", `{"regarding":{},"reason":"Else","type":"Warning","reportingController":"else"}`)
		for path, names := range map[string][2]string{eventsPath: {"regarding", "reportingController"}, "/api/v1/events": {"involvedObject", "reportingComponent"}} {
			for selector, want := range map[string][]string{
				"OBJECT.kind=Pod": {"a", "b"}, "OBJECT.kind!=Pod": {"c"}, "OBJECT.namespace=default": {"a", "b"}, "OBJECT.name=web": {"a", "b"},
				"OBJECT.uid=u1": {"a"}, "OBJECT.apiVersion=v1": {"a"}, "OBJECT.resourceVersion=7": {"a"}, "OBJECT.fieldPath=spec.containers{web}": {"a"},
				"reason=Started": {"b"}, "REPORTER=else": {"c"}, "source=kubelet": {"b"}, "source=else": {"c"}, "type=Warning": {"c"},
				"type==Normal,reason!=Started": {"a"}, "OBJECT.kind=": {"c"}, "OBJECT.uid=nobody": {},
			} {
				selector = strings.NewReplacer("OBJECT", names[0], "REPORTER", names[1]).Replace(selector)
				require.Equal(t, want, s.get(path+"?fieldSelector="+url.QueryEscape(selector)).names(), path+" "+selector)
			}
			s.get(path+"?fieldSelector=note%3Dx").refused(400, "BadRequest", "note")
		}
		w := s.watch("/api/v1/events?watch=1&fieldSelector=involvedObject.uid%3Du1")
		w.expect("ADDED", "a")
		s.patch(eventPath+"/a", `{"regarding":{"uid":"u2"}}`)
		w.expect("DELETED", "a")
	})
}

// Oversized events cost no more than their size: the server rejects them at once and continues.
func TestEVT_10_HugeEvents(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		huge := strings.Repeat("x", 1<<18)
		for _, field := range []string{"note", "action", "reason", "reportingInstance"} {
			a := s.do("POST", eventPath, eventJSON(t, "huge", fmt.Sprintf(`{%q:%q}`, field, huge)))
			a.refused(422, "Invalid", field)
			require.Less(t, len(a.body), 1<<12, "the error must not repeat the input")
		}
		a := s.do("POST", eventPath, eventJSON(t, "huge", `{"note":"`+strings.Repeat(huge, 13)+`"}`))
		a.refused(413, "RequestEntityTooLarge", "limit is 3145728")
		s.event("small", "")
		time.Sleep(time.Second) // net/http lingers on a connection with an unread body
	})
}
