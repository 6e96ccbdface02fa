package kinds_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kindwright/kindwright/internal/engine"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	eventsPath     = "/apis/events.k8s.io/v1/namespaces/default/events"
	coreEventsPath = "/api/v1/namespaces/default/events"
)

// newEvent follows all rules for new events.
const newEvent = `{
	"metadata": {"name": "web.1a"}, "eventTime": "2024-05-01T10:00:00.123456Z", "action": "Pulling", "reason": "Pulled",
	"reportingController": "example.dev/kubelet", "reportingInstance": "kubelet-1", "type": "Normal", "note": "an image",
	"regarding": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "u1", "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec.containers{web}"},
	"related": {"kind": "Node", "name": "n1"}
}`

// coreEvent has the form that older recorders send.
const coreEvent = `{
	"metadata": {"name": "web.2b"}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "u1"},
	"reason": "Started", "message": "a container", "source": {"component": "kubelet", "host": "n1"}, "type": "Normal",
	"firstTimestamp": "2024-05-01T10:00:00Z", "lastTimestamp": "2024-05-01T10:05:00Z", "count": 3
}`

var strict = []kinds.ControlPlaneOption{kinds.StrictEventRules()}

// renamed returns an event with another name.
func renamed(t *testing.T, event, name string) string {
	t.Helper()
	return merged(t, event, fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
}

func TestEVT_01_ServedInBothGroups(t *testing.T) {
	h := serve(t, memory.New(), nil)
	for _, list := range []string{"/apis/events.k8s.io/v1", "/api/v1"} {
		out := h.must(200, "GET", list, "")
		found := false
		for _, r := range out["resources"].([]any) {
			if at(r, "name") == "events" {
				found = true
				require.Equal(t, "Event", at(r, "kind"))
				require.Equal(t, true, at(r, "namespaced"))
				require.Equal(t, []any{"ev"}, at(r, "shortNames"))
				require.Equal(t, []any{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}, at(r, "verbs"))
			}
		}
		require.True(t, found, list)
	}
	require.Equal(t, "events.example.dev/v1", serve(t, memory.New(), nil, kindwright.Kubernetes{GroupDomain: "example.dev"}).
		must(200, "GET", "/apis/events.example.dev/v1/events", "")["apiVersion"])
}

func TestEVT_04_05_06_07_12_13_22_EventsReadAsWritten(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		out := h.must(201, "POST", eventsPath, newEvent)
		require.Equal(t, out, h.must(200, "GET", eventsPath+"/web.1a", ""))
		require.Equal(t, "events.k8s.io/v1", out["apiVersion"])
		require.Equal(t, "Event", out["kind"])
		require.NotEmpty(t, at(out, "metadata", "uid"))
		require.Nil(t, at(out, "metadata", "generation"))
		require.Equal(t, "2024-05-01T10:00:00.123456Z", out["eventTime"], "six digits")
		var sent map[string]any
		require.NoError(t, json.Unmarshal([]byte(newEvent), &sent))
		for name, v := range sent {
			if name != "metadata" {
				require.Equal(t, v, out[name], name)
			}
		}
		list := h.must(200, "GET", eventsPath, "")
		require.Equal(t, "EventList", list["kind"])
		require.Equal(t, "events.k8s.io/v1", list["apiVersion"])
		require.NotEmpty(t, at(list, "metadata", "resourceVersion"))
		require.Len(t, list["items"], 1)
		list = h.must(200, "GET", coreEventsPath, "")
		require.Equal(t, "EventList", list["kind"])
		require.Equal(t, "v1", list["apiVersion"])
	})
}

func TestEVT_07_To_17_NewEvents(t *testing.T) {
	long := func(n int) string { return strings.Repeat("é", n) }
	h := serve(t, memory.New(), nil)
	for i, c := range []struct {
		changes string
		fields  []string // the invalid fields; nil if the event is accepted
	}{
		{`{}`, nil},
		{`{"eventTime":null}`, []string{"eventTime"}},
		{`{"eventTime":"yesterday"}`, []string{"eventTime"}},
		{`{"action":""}`, []string{"action"}},
		{`{"action":null}`, []string{"action"}},
		{`{"action":"` + long(128) + `"}`, nil}, // characters, not bytes (READ-19)
		{`{"action":"` + long(129) + `"}`, []string{"action"}},
		{`{"reason":""}`, []string{"reason"}},
		{`{"reason":"` + long(128) + `"}`, nil},
		{`{"reason":"` + long(129) + `"}`, []string{"reason"}},
		{`{"note":null}`, nil},
		{`{"note":"` + long(512) + `"}`, nil}, // 1024 bytes
		{`{"note":"` + long(512) + `x"}`, []string{"note"}},
		{`{"type":""}`, []string{"type"}},
		{`{"type":"Foo"}`, []string{"type"}}, // READ-26
		{`{"type":"Warning"}`, nil},
		{`{"regarding":null,"related":null}`, nil},
		{`{"reportingController":""}`, []string{"reportingController"}},
		{`{"reportingInstance":""}`, []string{"reportingInstance"}},
		{`{"reportingInstance":"` + long(128) + `"}`, nil},
		{`{"reportingInstance":"` + long(129) + `"}`, []string{"reportingInstance"}},
		{`{"series":{}}`, []string{"series.count"}},
		{`{"series":{"lastObservedTime":"2024-05-01T10:00:00.000001Z"}}`, []string{"series.count"}},
		{`{"series":{"count":0}}`, []string{"series.count"}},
		{`{"series":{"count":-1}}`, []string{"series.count"}},
		{`{"series":{"count":2147483648}}`, []string{"series.count"}},
		{`{"series":{"count":"2"}}`, []string{"series.count"}},
		{`{"series":{"count":1}}`, nil}, // READ-18
		{`{"deprecatedCount":2147483648}`, []string{"deprecatedCount"}},
		{`{"deprecatedFirstTimestamp":"x"}`, []string{"deprecatedFirstTimestamp"}},
		{`{"metadata":{"name":"a b"}}`, []string{"metadata.name"}},
		{
			`{"eventTime":null,"action":null,"reason":null,"type":null,"reportingController":null,"reportingInstance":null}`,
			[]string{"eventTime", "action", "reason", "type", "reportingController", "reportingInstance"},
		},
	} {
		body := merged(t, merged(t, newEvent, fmt.Sprintf(`{"metadata":{"name":"e%d"}}`, i)), c.changes)
		if len(c.fields) > 0 {
			h.refused("POST", eventsPath, body, c.fields...)
			if c.fields[0] != "metadata.name" {
				h.refused("PUT", fmt.Sprint(eventsPath, "/e", i), body, c.fields...)
			}
		} else {
			h.must(201, "POST", eventsPath, body)
		}
	}
}

func TestEVT_16_18_19_20_21_33_SeriesAndDeprecatedFields(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		require.Nil(t, h.must(201, "POST", eventsPath, renamed(t, newEvent, "single"))["series"], "EVT-16")
		h.must(201, "POST", eventsPath, merged(t, newEvent, `{
			"series": {"count": 4, "lastObservedTime": "2024-05-01T11:00:00.000002Z"}, "deprecatedCount": 5,
			"deprecatedFirstTimestamp": "2024-05-01T09:00:00Z", "deprecatedLastTimestamp": "2024-05-01T11:00:00Z",
			"deprecatedSource": {"component": "kubelet", "host": "n1"}}`))
		out := h.must(200, "GET", eventsPath+"/web.1a", "")
		require.Equal(t, map[string]any{"count": 4.0, "lastObservedTime": "2024-05-01T11:00:00.000002Z"}, out["series"])
		require.InDelta(t, 5, out["deprecatedCount"], 0)
		require.Equal(t, "2024-05-01T09:00:00Z", out["deprecatedFirstTimestamp"])
		require.Equal(t, "2024-05-01T11:00:00Z", out["deprecatedLastTimestamp"])
		require.Equal(t, map[string]any{"component": "kubelet", "host": "n1"}, out["deprecatedSource"])
		out = h.must(200, "GET", coreEventsPath+"/web.1a", "")
		require.Equal(t, map[string]any{"count": 4.0, "lastObservedTime": "2024-05-01T11:00:00.000002Z"}, out["series"])
		require.InDelta(t, 5, out["count"], 0)
		require.Equal(t, map[string]any{"component": "kubelet", "host": "n1"}, out["source"])
	})
}

func TestEVT_23_To_30_TheOperations(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		one := eventsPath + "/web.1a"

		h.must(201, "POST", eventsPath+"?dryRun=All&fieldManager=me&fieldValidation=Strict&pretty=true", newEvent)
		h.must(404, "GET", one, "")
		require.Contains(t, h.must(400, "POST", eventsPath+"?fieldValidation=Strict", merged(t, newEvent, `{"notes":"x"}`))["message"], `unknown field "notes"`)
		created := h.must(201, "POST", eventsPath, newEvent)
		h.must(409, "POST", eventsPath, newEvent)
		require.Equal(t, created, h.must(200, "GET", one+"?pretty=true", ""))

		require.Equal(t, created, h.must(200, "PUT", one, newEvent), "a PUT that changes nothing, READ-28")
		out := h.must(200, "PUT", one, merged(t, newEvent, `{"note":"another"}`))
		require.Equal(t, "another", out["note"])
		h.must(409, "PUT", one, merged(t, newEvent, fmt.Sprintf(`{"metadata":{"name":"web.1a","resourceVersion":%q}}`, at(created, "metadata", "resourceVersion"))))
		h.must(201, "PUT", eventsPath+"/fresh?dryRun=All", renamed(t, newEvent, "fresh"))
		h.must(404, "GET", eventsPath+"/fresh", "")
		h.must(201, "PUT", eventsPath+"/fresh?fieldManager=me&fieldValidation=Warn&pretty=1", renamed(t, newEvent, "fresh"))

		out = h.must(200, "PATCH", one, `{"note":"merged"}`, "Content-Type", "application/merge-patch+json")
		require.Equal(t, "merged", out["note"])
		out = h.must(200, "PATCH", one+"?fieldManager=me", `[{"op":"replace","path":"/note","value":"patched"}]`, "Content-Type", "application/json-patch+json")
		require.Equal(t, "patched", out["note"])
		h.must(404, "PATCH", eventsPath+"/absent", `{"note":"merged"}`, "Content-Type", "application/merge-patch+json")

		for _, query := range []string{
			"allowWatchBookmarks=true", "fieldSelector=type%3DNormal", "labelSelector=!a", "limit=10", "pretty=true", "resourceVersion=0",
			"resourceVersionMatch=NotOlderThan&resourceVersion=1", "timeoutSeconds=10", "watch=false", "continue=",
		} {
			for _, path := range []string{eventsPath, "/apis/events.k8s.io/v1/events", coreEventsPath, "/api/v1/events"} {
				require.Len(t, h.must(200, "GET", path+"?"+query, "")["items"], 2, path+" "+query)
			}
		}
		next := h.watch(eventsPath + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=5")
		for _, kind := range []string{"ADDED", "ADDED", "BOOKMARK"} {
			require.Equal(t, kind, next()["type"])
		}
		page := h.must(200, "GET", "/apis/events.k8s.io/v1/events?limit=1", "")
		token := url.QueryEscape(at(page, "metadata", "continue").(string))
		require.Len(t, h.must(200, "GET", "/apis/events.k8s.io/v1/events?limit=1&continue="+token, "")["items"], 1)

		h.must(200, "DELETE", one+"?dryRun=All", "")
		h.must(409, "DELETE", one, `{"preconditions":{"uid":"other"}}`)
		out = h.must(200, "DELETE", one+"?gracePeriodSeconds=0&propagationPolicy=Background&pretty=true", `{"kind":"DeleteOptions","apiVersion":"v1"}`)
		require.Equal(t, "Status", out["kind"])
		require.Equal(t, "Success", out["status"])
		h.must(404, "DELETE", one, "")

		for i := range 3 {
			h.must(201, "POST", eventsPath, renamed(t, newEvent, fmt.Sprint("more", i)))
		}
		h.must(200, "DELETE", eventsPath+"?fieldSelector=metadata.name%3Dmore0&labelSelector=!x&gracePeriodSeconds=0&pretty=true&propagationPolicy=Background&timeoutSeconds=5&resourceVersion=0", "")
		require.Len(t, h.must(200, "GET", eventsPath, "")["items"], 3)
		h.must(200, "DELETE", coreEventsPath+"?dryRun=All", "")
		require.Equal(t, "Status", h.must(200, "DELETE", coreEventsPath, "")["kind"])
		require.Empty(t, h.must(200, "GET", eventsPath, "")["items"])
	})
}

func TestEVT_32_BadCredentials(t *testing.T) {
	h := serve(t, memory.New(), nil)
	strictly := serve(t, memory.New(), nil, kindwright.Access{NoAnonymous: true})
	for _, path := range []string{eventsPath, coreEventsPath} {
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
			out := h.must(401, r[0], r[1], `{}`, "X-User", "", "Authorization", "Bearer wrong")
			require.Equal(t, string(meta.ReasonUnauthorized), out["reason"])
			strictly.must(401, r[0], r[1], `{}`, "X-User", "")
		}
	}
}

func TestEVT_34_StrictRules(t *testing.T) {
	h := serve(t, memory.New(), strict)
	h.must(201, "POST", eventsPath, newEvent)
	const team = "/apis/events.k8s.io/v1/namespaces/team/events"
	h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
	nowhere := `{"regarding":{"kind":"Node","name":"n1"}}`
	for i, c := range []struct {
		path, changes string
		fields        []string
	}{
		{eventsPath, `{"series":{"count":2,"lastObservedTime":"2024-05-01T10:00:00.000001Z"}}`, nil},
		{eventsPath, `{"series":{"count":1,"lastObservedTime":"2024-05-01T10:00:00.000001Z"}}`, []string{"series.count"}},
		{eventsPath, `{"series":{"count":2}}`, []string{"series.lastObservedTime"}},
		{eventsPath, `{"series":{}}`, []string{"series.count", "series.lastObservedTime"}},
		{eventsPath, `{"deprecatedCount":1}`, []string{"deprecatedCount"}},
		{eventsPath, `{"deprecatedSource":{"host":"n1"}}`, []string{"deprecatedSource"}},
		{eventsPath, `{"deprecatedFirstTimestamp":"2024-05-01T10:00:00Z","deprecatedLastTimestamp":"2024-05-01T10:00:00Z"}`, []string{"deprecatedFirstTimestamp", "deprecatedLastTimestamp"}},
		{eventsPath, `{"deprecatedFirstTimestamp":null,"deprecatedSource":{},"deprecatedCount":0}`, nil}, // sent by clients with Go types
		{eventsPath, `{"reportingController":"a b"}`, []string{"reportingController"}},
		{eventsPath, `{"reportingController":""}`, []string{"reportingController"}},
		{eventsPath, nowhere, nil},
		{"/apis/events.k8s.io/v1/namespaces/kube-system/events", nowhere, nil},
		{team, nowhere, []string{"regarding.namespace"}},
		{team, `{}`, nil},
	} {
		body := merged(t, renamed(t, newEvent, fmt.Sprint("e", i)), c.changes)
		if len(c.fields) > 0 {
			h.refused("POST", c.path, body, c.fields...)
		} else {
			h.must(201, "POST", c.path, body)
		}
	}
}

func TestEVT_35_StrictUpdates(t *testing.T) {
	h := serve(t, memory.New(), strict)
	one := eventsPath + "/web.1a"
	h.must(201, "POST", eventsPath, newEvent)
	for changes, field := range map[string]string{
		`{"note":"x"}`: "note", `{"reason":"x"}`: "reason", `{"action":"x"}`: "action", `{"type":"Warning"}`: "type", `{"reportingInstance":"x"}`: "reportingInstance",
		`{"reportingController":"x"}`: "reportingController", `{"eventTime":"2024-05-01T10:00:00.123457Z"}`: "eventTime", `{"related":null}`: "related",
		`{"regarding":{"kind":"Pod","namespace":"default"}}`: "regarding",
	} {
		h.refused("PUT", one, merged(t, newEvent, changes), field)
	}
	h.refused("PUT", one, merged(t, newEvent, `{"deprecatedCount":1}`), "deprecatedCount", "deprecatedCount")
	h.refused("PUT", one, merged(t, newEvent, `{"series":{"count":1}}`), "series.count", "series.lastObservedTime")
	out := h.must(200, "PUT", one, merged(t, newEvent, `{"metadata":{"name":"web.1a","labels":{"a":"b"}},"series":{"count":2,"lastObservedTime":"2024-05-01T10:00:00.000001Z"}}`))
	require.InDelta(t, 2, at(out, "series", "count"), 0)
	require.Equal(t, "b", at(out, "metadata", "labels", "a"))
}

func TestEVT_36_TheCoreGroupAcceptsOldRecorders(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		for _, rules := range [][]kinds.ControlPlaneOption{nil, strict} {
			h := serve(t, b, rules)
			h.must(201, "POST", coreEventsPath, merged(t, coreEvent, `{"message":"`+strings.Repeat("x", 64<<10)+`"}`))
			out := h.must(200, "GET", eventsPath+"/web.2b", "")
			require.Equal(t, "events.k8s.io/v1", out["apiVersion"])
			require.Len(t, out["note"], 64<<10, "READ-19")
			require.Nil(t, out["eventTime"])
			require.Nil(t, out["action"])
			require.Equal(t, "web", at(out, "regarding", "name"))
			require.Equal(t, "kubelet", at(out, "deprecatedSource", "component"))
			require.InDelta(t, 3, out["deprecatedCount"], 0)
			require.Equal(t, "2024-05-01T10:05:00Z", out["deprecatedLastTimestamp"])

			// An older recorder increments the count.
			out = h.must(200, "PATCH", coreEventsPath+"/web.2b", `{"count":4,"lastTimestamp":"2024-05-01T10:06:00Z"}`, "Content-Type", "application/merge-patch+json")
			require.InDelta(t, 4, out["count"], 0)
			require.Equal(t, "v1", out["apiVersion"])

			// An event that breaks the rules for new events can still be labelled.
			out = h.must(200, "PATCH", eventsPath+"/web.2b", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", "application/merge-patch+json")
			require.Equal(t, "b", at(out, "metadata", "labels", "a"))
			h.must(200, "DELETE", coreEventsPath+"/web.2b", "")
		}
	})
}

func TestEVT_36_UpdatesMayNotAddProblems(t *testing.T) {
	h := serve(t, memory.New(), nil)
	h.must(201, "POST", coreEventsPath, coreEvent)
	merge := func(body string, fields ...string) {
		code, out := h.do("PATCH", eventsPath+"/web.2b", body, "Content-Type", "application/merge-patch+json")
		require.Equal(t, 422, code, "%v", out)
		for _, f := range fields {
			require.Contains(t, out["message"], f)
		}
	}
	merge(`{"type":"Foo"}`, `type: Unsupported value: "Foo"`)
	merge(`{"reason":null}`, "reason: Required value")
	merge(`{"action":"`+strings.Repeat("x", 129)+`"}`, "action: Too long")
	merge(`{"note":"`+strings.Repeat("x", 1025)+`"}`, "note: Too long")
	merge(`{"series":{"count":0}}`, "series.count: Required value")
	h.must(200, "PATCH", eventsPath+"/web.2b", `{"action":"Starting","series":{"count":1}}`, "Content-Type", "application/merge-patch+json")
	merge(`{"action":null}`, "action: Required value")
}

func TestEVT_36_TheObjectIsInTheNamespaceOfTheEvent(t *testing.T) {
	for name, rules := range map[string][]kinds.ControlPlaneOption{"usual": nil, "strict": strict} {
		h := serve(t, memory.New(), rules)
		h.must(201, "POST", "/api/v1/namespaces", `{"metadata":{"name":"team"}}`)
		for i, c := range []struct {
			namespace, changes string
			fields             []string
		}{
			{"default", `{}`, nil},
			{"default", `{"involvedObject":{"kind":"Node","name":"n1"}}`, nil},
			{"default", `{"involvedObject":null}`, nil},
			{"default", `{"involvedObject":{"namespace":"team"}}`, []string{"involvedObject.namespace"}},
			{"team", `{"involvedObject":{"namespace":"team"}}`, nil},
			{"team", `{}`, []string{"involvedObject.namespace"}},
			{"team", `{"involvedObject":{"kind":"Node","name":"n1"}}`, []string{"involvedObject.namespace"}},
			{"team", `{"type":"Foo","involvedObject":{"namespace":"team"}}`, nil}, // older recorders may use other types
			{"team", `{"count":"3"}`, []string{"count"}},
		} {
			body := merged(t, renamed(t, coreEvent, fmt.Sprint("e", i)), c.changes)
			if len(c.fields) > 0 {
				h.refused("POST", "/api/v1/namespaces/"+c.namespace+"/events", body, c.fields...)
			} else {
				h.must(201, "POST", "/api/v1/namespaces/"+c.namespace+"/events", body)
			}
		}
		// An event with an eventTime comes from a recorder that knows the rules.
		body := merged(t, coreEvent, `{"eventTime":"2024-05-01T10:00:00.123456Z","message":"`+strings.Repeat("x", 1025)+`"}`)
		if name == "strict" {
			h.refused("POST", coreEventsPath, body, "action", "message", "reportingComponent", "reportingInstance")
		} else {
			h.must(201, "POST", coreEventsPath, body)
		}
	}
}

// Both forms show the same event. A client that reads one form and sends it back changes nothing,
// even with the empty fields that Go types add (UPDATE-09).
func TestEVT_36_OneObjectTwoForms(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		a := h.must(201, "POST", eventsPath, newEvent)
		c := h.must(201, "POST", coreEventsPath, coreEvent)
		version := map[string]any{"web.1a": at(a, "metadata", "resourceVersion"), "web.2b": at(c, "metadata", "resourceVersion")}
		empties := map[string]string{
			eventsPath:     `{"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null,"eventTime":null}`,
			coreEventsPath: `{"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}`,
		}
		for name, want := range version {
			for path, empty := range empties {
				out := h.must(200, "GET", path+"/"+name, "")
				require.Equal(t, want, at(out, "metadata", "resourceVersion"))
				text, err := json.Marshal(out)
				require.NoError(t, err)
				body := merged(t, empty, string(text))
				if name == "web.2b" && path == eventsPath {
					require.Contains(t, body, `"eventTime":null`)
				}
				out = h.must(200, "PUT", path+"/"+name, body)
				require.Equal(t, want, at(out, "metadata", "resourceVersion"), "%s %s: %v", path, name, out)
			}
		}
		core := h.must(200, "GET", coreEventsPath+"/web.1a", "")
		require.Equal(t, "an image", core["message"])
		require.Equal(t, "example.dev/kubelet", core["reportingComponent"])
		require.Equal(t, "2024-05-01T10:00:00.123456Z", core["eventTime"])
		require.Equal(t, at(a, "metadata"), at(core, "metadata"))
	})
}

func TestEVT_37_FieldSelectors(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		h.must(201, "POST", eventsPath, newEvent)
		h.must(201, "POST", coreEventsPath, coreEvent)
		h.must(201, "POST", eventsPath, merged(t, renamed(t, newEvent, "other"), `{"regarding":{},"reason":"Else","type":"Warning","reportingController":"else"}`))
		for group, names := range map[string][2]string{"/apis/events.k8s.io/v1": {"regarding", "reportingController"}, "/api/v1": {"involvedObject", "reportingComponent"}} {
			for selector, want := range map[string][]any{
				"OBJECT.kind=Pod":          {"web.1a", "web.2b"},
				"OBJECT.kind!=Pod":         {"other"},
				"OBJECT.namespace=default": {"web.1a", "web.2b"},
				"OBJECT.name=web,OBJECT.uid=u1,metadata.name=web.1a": {"web.1a"},
				"OBJECT.uid=u2":                         {},
				"OBJECT.apiVersion=v1":                  {"web.1a"},
				"OBJECT.resourceVersion=7":              {"web.1a"},
				"OBJECT.fieldPath=spec.containers{web}": {"web.1a"},
				"reason=Started":                        {"web.2b"},
				"type=Warning":                          {"other"},
				"REPORTER=example.dev/kubelet":          {"web.1a"},
				"REPORTER=":                             {"web.2b"},
				"source=kubelet":                        {"web.2b"},
				"source=else":                           {"other"}, // new events name their source as the reporter
				"type=Normal,reason!=Pulled,metadata.namespace=default": {"web.2b"},
			} {
				selector = strings.NewReplacer("OBJECT", names[0], "REPORTER", names[1]).Replace(selector)
				var got []any
				for _, item := range h.must(200, "GET", group+"/events?fieldSelector="+url.QueryEscape(selector), "")["items"].([]any) {
					got = append(got, at(item, "metadata", "name"))
				}
				require.ElementsMatch(t, want, got, group+" "+selector)
			}
		}
		h.must(400, "GET", "/api/v1/events?fieldSelector=regarding.name%3Dx", "")
		h.must(400, "GET", "/apis/events.k8s.io/v1/events?fieldSelector=note%3Dx", "")
		h.must(400, "GET", "/apis/events.k8s.io/v1/events?fieldSelector=related.kind%3Dx", "")
		h.must(200, "DELETE", coreEventsPath+"?fieldSelector=involvedObject.name%3Dweb", "")
		require.Len(t, h.must(200, "GET", eventsPath, "")["items"], 1)
	})
}

func TestEVT_36_37_WatchesShowTheirForm(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		core := h.watch("/api/v1/events?watch=1&fieldSelector=involvedObject.name%3Dweb,type%3DNormal")
		modern := h.watch("/apis/events.k8s.io/v1/events?watch=1")
		expect := func(next func() map[string]any, kind, version, field, want string) any {
			t.Helper()
			event := next()
			require.Equal(t, kind, event["type"])
			require.Equal(t, version, at(event, "object", "apiVersion"))
			require.Equal(t, "Event", at(event, "object", "kind"))
			require.Equal(t, want, at(event, "object", field))
			return at(event, "object", "metadata", "resourceVersion")
		}
		h.must(201, "POST", eventsPath, newEvent)
		require.Equal(t, expect(core, "ADDED", "v1", "message", "an image"), expect(modern, "ADDED", "events.k8s.io/v1", "note", "an image"))
		h.must(200, "PATCH", coreEventsPath+"/web.1a", `{"message":"two"}`, "Content-Type", "application/merge-patch+json")
		require.Equal(t, expect(core, "MODIFIED", "v1", "message", "two"), expect(modern, "MODIFIED", "events.k8s.io/v1", "note", "two"))
		h.must(200, "PATCH", eventsPath+"/web.1a", `{"type":"Warning","note":"three"}`, "Content-Type", "application/merge-patch+json")
		require.Equal(t, expect(core, "DELETED", "v1", "message", "two"), expect(modern, "MODIFIED", "events.k8s.io/v1", "note", "three"))
		h.must(200, "PATCH", eventsPath+"/web.1a", `{"type":"Normal"}`, "Content-Type", "application/merge-patch+json")
		expect(core, "ADDED", "v1", "message", "three")
		expect(modern, "MODIFIED", "events.k8s.io/v1", "note", "three")
		h.must(200, "DELETE", eventsPath+"/web.1a", "")
		require.Equal(t, expect(core, "DELETED", "v1", "message", "three"), expect(modern, "DELETED", "events.k8s.io/v1", "note", "three"))
	})
}

// The columns are those of kube-apiserver. Every cell has a value, whichever recorder wrote the
// event.
func TestEventsAsTables(t *testing.T) {
	now := time.Date(2024, 5, 1, 11, 0, 0, 0, time.UTC)
	h := serve(t, memory.New(), nil, kindwright.Sources{Now: func() time.Time { return now }})
	h.must(201, "POST", eventsPath, renamed(t, newEvent, "a-single"))
	h.must(201, "POST", eventsPath, merged(t, renamed(t, newEvent, "b-series"), `{
		"series":{"count":7,"lastObservedTime":"2024-05-01T10:58:30.000001Z"},"deprecatedCount":2,"deprecatedLastTimestamp":"2024-05-01T10:30:00Z","note":" two\n"}`))
	h.must(201, "POST", eventsPath, merged(t, renamed(t, newEvent, "c-bare-series"), `{"series":{"count":3},"regarding":{"kind":"Node"},"reportingInstance":"x"}`))
	h.must(201, "POST", coreEventsPath, renamed(t, coreEvent, "d-old"))
	h.must(201, "POST", coreEventsPath, merged(t, renamed(t, coreEvent, "e-older"), `{"lastTimestamp":null,"count":null,"source":{"component":"kubelet"}}`))
	h.must(201, "POST", coreEventsPath, merged(t, renamed(t, coreEvent, "f-nothing"), `{"firstTimestamp":null,"lastTimestamp":null,"count":null,"source":null,"involvedObject":null,"message":null}`))
	for _, path := range []string{eventsPath, coreEventsPath} {
		out := h.must(200, "GET", path, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		var usual, wide []any
		for _, c := range out["columnDefinitions"].([]any) {
			if at(c, "priority") == 0.0 {
				usual = append(usual, at(c, "name"))
			}
			wide = append(wide, at(c, "name"))
		}
		require.Equal(t, []any{"Last Seen", "Type", "Reason", "Object", "Message"}, usual)
		require.Equal(t, []any{"Last Seen", "Type", "Reason", "Object", "Subobject", "Source", "Message", "First Seen", "Count", "Name"}, wide)
		var rows [][]any
		for _, r := range out["rows"].([]any) {
			rows = append(rows, at(r, "cells").([]any))
		}
		require.Equal(t, [][]any{
			{"59m", "Normal", "Pulled", "pod/web", "spec.containers{web}", "example.dev/kubelet, kubelet-1", "an image", "59m", 1.0, "a-single"},
			{"89s", "Normal", "Pulled", "pod/web", "spec.containers{web}", "example.dev/kubelet, kubelet-1", "two", "59m", 7.0, "b-series"},
			{"59m", "Normal", "Pulled", "node", nil, "example.dev/kubelet, x", "an image", "59m", 3.0, "c-bare-series"},
			{"55m", "Normal", "Started", "pod/web", nil, "kubelet, n1", "a container", "60m", 3.0, "d-old"},
			{"60m", "Normal", "Started", "pod/web", nil, "kubelet", "a container", "60m", 1.0, "e-older"},
			{"<unknown>", "Normal", "Started", "", nil, "", "", "<unknown>", 1.0, "f-nothing"},
		}, rows, path)
	}
}

// Events expire an hour after their last write through either form.
func TestEVT_02_LIM_13_EventsExpire(t *testing.T) {
	for name, c := range map[string]struct {
		options []kinds.ControlPlaneOption
		ttl     time.Duration
	}{
		"an hour by default": {nil, time.Hour},
		"EventTTL":           {[]kinds.ControlPlaneOption{kinds.EventTTL(10 * time.Second)}, 10 * time.Second},
	} {
		t.Run(name+", memory", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { expire(t, memory.New(), c.ttl, c.options) })
		})
		t.Run(name+", bbolt", func(t *testing.T) {
			path := t.TempDir() + "/db"
			synctest.Test(t, func(t *testing.T) {
				b, err := bbolt.Open(path)
				require.NoError(t, err)
				expire(t, b, c.ttl, c.options)
			})
		})
	}
}

func expire(t *testing.T, b storage.Backend, ttl time.Duration, options []kinds.ControlPlaneOption) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, b.Close()) }) // runs after the server's own cleanup
	h := serve(t, b, options)
	h.must(201, "POST", eventsPath, renamed(t, newEvent, "idle"))
	h.must(201, "POST", coreEventsPath, renamed(t, coreEvent, "busy"))
	events := registry.Target{Resource: meta.GroupVersionResource{Version: "v1", Resource: "events"}}
	served, _ := h.Engine().(*engine.Engine).Set().Lookup(events.Resource)
	c, err := h.Engine().(*engine.Engine).Follow(t.Context(), events, registry.WatchRequest{SkipInitial: true})
	require.NoError(t, err)
	defer c.Close()
	expect := func(kind meta.EventType, name string) {
		t.Helper()
		events, err := c.Next(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, events, 1)
		shown, err := served.Show(t.Context(), events[0].Entry)
		require.NoError(t, err)
		require.Equal(t, kind, events[0].Type)
		require.Equal(t, name, shown.Name())
		require.Contains(t, string(shown.AppendJSON(nil)), `"apiVersion":"v1"`)
	}
	time.Sleep(ttl / 2)
	h.must(200, "PATCH", eventsPath+"/busy", `{"deprecatedCount":4}`, "Content-Type", "application/merge-patch+json")
	expect(meta.Modified, "busy")
	time.Sleep(ttl/2 + time.Second)
	synctest.Wait()
	h.must(404, "GET", eventsPath+"/idle", "")
	h.must(200, "GET", coreEventsPath+"/busy", "")
	expect(meta.Deleted, "idle") // WATCH-15
	time.Sleep(ttl / 2)
	synctest.Wait()
	expect(meta.Deleted, "busy")
	require.Empty(t, h.must(200, "GET", eventsPath, "")["items"])
}

// Events of a server that kept them for ever are not older than the server that gives them a time to live.
func TestEVT_02_ATimeToLiveThatComesLater(t *testing.T) {
	path := t.TempDir() + "/db"
	inLife := func(options []kinds.ControlPlaneOption, live func(h *host)) {
		synctest.Test(t, func(t *testing.T) {
			b, err := bbolt.Open(path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			live(serve(t, b, options))
		})
	}
	inLife([]kinds.ControlPlaneOption{kinds.EventTTL(0)}, func(h *host) {
		h.must(201, "POST", eventsPath, renamed(t, newEvent, "old"))
		h.must(201, "POST", coreEventsPath, renamed(t, coreEvent, "older"))
		time.Sleep(100 * time.Hour)
		require.Len(t, h.must(200, "GET", eventsPath, "")["items"], 2)
	})
	inLife(nil, func(h *host) {
		time.Sleep(59 * time.Minute)
		require.Len(t, h.must(200, "GET", eventsPath, "")["items"], 2)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Empty(t, h.must(200, "GET", eventsPath, "")["items"])
	})
}

func TestEventTTL_Invalid(t *testing.T) {
	for _, d := range []time.Duration{-1, time.Millisecond, -time.Hour} {
		_, err := kinds.Events(kinds.EventTTL(d)).Define(registry.Env{GroupDomain: "k8s.io"})
		require.ErrorContains(t, err, "time to live")
	}
	b, err := kinds.Events(kinds.EventTTL(0)).Define(registry.Env{GroupDomain: "k8s.io"})
	require.NoError(t, err)
	require.Zero(t, b.Resources[0].Writes.TTL)
}

func TestSSA_31_EmptyFieldsOfEventsAreNotOwned(t *testing.T) {
	h := serve(t, memory.New(), nil)
	for path, body := range map[string]string{
		coreEventsPath + "/web.2b": merged(t, coreEvent, `{"apiVersion":"v1","kind":"Event","reportingComponent":"","reportingInstance":"","eventTime":null,"related":null}`),
		eventsPath + "/web.1a":     merged(t, newEvent, `{"apiVersion":"events.k8s.io/v1","kind":"Event","deprecatedSource":{},"deprecatedCount":0}`),
	} {
		made := h.must(201, "PATCH", path+"?fieldManager=one", body, "Content-Type", "application/apply-patch+yaml")
		patched := h.must(200, "PATCH", path, `{}`, "Content-Type", "application/merge-patch+json")
		again := h.must(200, "PATCH", path+"?fieldManager=one", body, "Content-Type", "application/apply-patch+yaml")
		for _, o := range []map[string]any{patched, again} {
			require.Equal(t, at(made, "metadata", "resourceVersion"), at(o, "metadata", "resourceVersion"), path)
			require.Equal(t, at(made, "metadata", "managedFields"), at(o, "metadata", "managedFields"), path)
		}
	}
}

// A reference has one manager, and the structs that every Go value of an event has have none (SSA-12).
func TestSSA_12_WhoManagesAnEvent(t *testing.T) {
	h := serve(t, memory.New(), nil)
	for path, fields := range map[string][2]string{coreEventsPath: {"involvedObject", "source"}, eventsPath: {"regarding", "deprecatedSource"}} {
		body := map[string]string{coreEventsPath: coreEvent, eventsPath: newEvent}[path]
		made := h.must(201, "POST", path, merged(t, body, `{"`+fields[1]+`":{"component":"c"}}`))
		entries, _ := at(made, "metadata", "managedFields").([]any)
		require.Len(t, entries, 1)
		owned, _ := at(entries[0].(map[string]any), "fieldsV1").(map[string]any)
		require.Equal(t, map[string]any{}, owned["f:"+fields[0]], "%v", owned)
		require.Equal(t, map[string]any{"f:component": map[string]any{}}, owned["f:"+fields[1]], "%v", owned)
		name, _ := at(made, "metadata", "name").(string)
		patch := `{"` + fields[0] + `":{"fieldPath":"spec"}}`
		patched := h.must(200, "PATCH", path+"/"+name, patch, "Content-Type", "application/strategic-merge-patch+json")
		require.NotEmpty(t, at(patched, fields[0], "kind"), "a strategic merge patch merges it")
	}
	lease := h.must(201, "POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"x"}}`)
	entries, _ := at(lease, "metadata", "managedFields").([]any)
	require.Equal(t, map[string]any{"f:spec": map[string]any{"f:holderIdentity": map[string]any{}}}, at(entries[0].(map[string]any), "fieldsV1"))
}
