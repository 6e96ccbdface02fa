package program

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

// bad is a request that must be rejected with a Status.
type bad struct {
	method, path, body string
	headers            []string
	code               int
	reason             meta.Reason
	says               string
}

func badBodies() map[string]bad {
	post := func(body, says string) bad {
		return bad{"POST", widgetsPath, body, nil, http.StatusBadRequest, meta.ReasonBadRequest, says}
	}
	return map[string]bad{
		"an empty body":        post("", "empty"),
		"no JSON":              post("{", ""),
		"two documents":        post(widget("a")+widget("b"), ""),
		"a list":               post("[]", "not a JSON object"),
		"null":                 post("null", "not a JSON object"),
		"bad UTF-8":            post(strings.ReplaceAll(widget("a"), `"a"`, "\"\xff\""), ""),
		"deeply nested":        post(strings.Repeat(`{"a":`, 100000), ""),
		"another kind":         post(strings.Replace(widget("a"), "Widget", "Gadget", 1), "Gadget"),
		"another version":      post(strings.Replace(widget("a"), "example.dev/v1", "example.dev/v2", 1), "example.dev/v2"),
		"another group":        post(strings.Replace(widget("a"), "example.dev/v1", "example.com/v1", 1), "example.com/v1"),
		"another namespace":    post(strings.Replace(widget("a"), `"name":"a"`, `"name":"a","namespace":"other"`, 1), "namespace"),
		"a version on create":  post(strings.Replace(widget("a"), `"name":"a"`, `"name":"a","resourceVersion":"5"`, 1), "resourceVersion"),
		"another name":         {"PUT", widgetsPath + "/kept", widget("a"), nil, http.StatusBadRequest, meta.ReasonBadRequest, "name"},
		"an unknown field":     {"POST", widgetsPath + "?fieldValidation=Strict", strings.Replace(widget("a"), `"size":7`, `"size":7,"weight":1`, 1), nil, http.StatusBadRequest, meta.ReasonBadRequest, `unknown field "spec.weight"`},
		"a field twice":        {"POST", widgetsPath + "?fieldValidation=Strict", strings.Replace(widget("a"), `"size":7`, `"size":7,"size":8`, 1), nil, http.StatusBadRequest, meta.ReasonBadRequest, `duplicate field "spec.size"`},
		"bad YAML":             {"POST", widgetsPath, "a: [", []string{"Content-Type", "application/yaml"}, http.StatusBadRequest, meta.ReasonBadRequest, "YAML"},
		"a type nobody reads":  {"POST", widgetsPath, widget("a"), []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType, meta.ReasonUnsupportedMediaType, ""},
		"an unknown patch":     {"PATCH", widgetsPath + "/kept", "{}", []string{"Content-Type", "application/fancy-patch+json"}, http.StatusUnsupportedMediaType, meta.ReasonUnsupportedMediaType, ""},
		"a patch that is none": {"PATCH", widgetsPath + "/kept", "{}", []string{"Content-Type", "application/json-patch+json"}, http.StatusBadRequest, meta.ReasonBadRequest, ""},
		"a patch of nothing":   {"PATCH", widgetsPath + "/none", "{}", []string{"Content-Type", "application/merge-patch+json"}, http.StatusNotFound, meta.ReasonNotFound, `widgets.example.dev "none" not found`},
		"too large":            {"POST", widgetsPath, strings.Replace(widget("a"), `"size":7`, `"size":7,"owner":"`+strings.Repeat("x", 3<<20)+`"`, 1), nil, http.StatusRequestEntityTooLarge, meta.ReasonRequestEntityTooLarge, ""},
		"missing fields":       {"POST", widgetsPath, strings.Replace(widget("a"), `{"size":7}`, `{}`, 1), nil, http.StatusUnprocessableEntity, meta.ReasonInvalid, "spec.size: Required value"},
		"values out of bounds": {"POST", widgetsPath, strings.Replace(widget("a"), `"size":7`, `"size":1001,"color":"pink"`, 1), nil, http.StatusUnprocessableEntity, meta.ReasonInvalid, "spec.color: Unsupported value"},
		"a wrong type":         {"POST", widgetsPath, strings.Replace(widget("a"), `"size":7`, `"size":"7"`, 1), nil, http.StatusUnprocessableEntity, meta.ReasonInvalid, "spec.size"},
		"a name that is none":  {"POST", widgetsPath, widget("Not A Name"), nil, http.StatusUnprocessableEntity, meta.ReasonInvalid, "metadata.name"},
		"no name":              {"POST", widgetsPath, widget(""), nil, http.StatusUnprocessableEntity, meta.ReasonInvalid, "metadata.name"},
		"a name that is taken": {"POST", widgetsPath, widget("kept"), nil, http.StatusConflict, meta.ReasonAlreadyExists, `widgets.example.dev "kept" already exists`},
		"an old version":       {"PUT", widgetsPath + "/kept", strings.Replace(widget("kept"), `"name":"kept"`, `"name":"kept","resourceVersion":"1"`, 1), nil, http.StatusConflict, meta.ReasonConflict, "the object has been modified"},
		"a sealed gadget":      {"PUT", gadgetsPath + "/sealed", `{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":"sealed"},"data":{"a":"2"},"immutable":true}`, nil, http.StatusUnprocessableEntity, meta.ReasonInvalid, "data: Forbidden"},
		"a namespace that is not there": {
			"POST", strings.Replace(widgetsPath, "default", "nowhere", 1), widget("a"), nil,
			http.StatusNotFound, meta.ReasonNotFound, `namespaces "nowhere" not found`,
		},
		"a namespace that must stay": {"DELETE", "/api/v1/namespaces/kube-system", "", nil, http.StatusForbidden, meta.ReasonForbidden, "may not be deleted"},
	}
}

func badPaths() map[string]bad {
	get := func(path string) bad { return bad{"GET", path, "", nil, http.StatusNotFound, meta.ReasonNotFound, ""} }
	not := func(method, path string) bad {
		return bad{method, path, "", nil, http.StatusMethodNotAllowed, meta.ReasonMethodNotAllowed, ""}
	}
	return map[string]bad{
		"an unknown object":             {"GET", widgetsPath + "/none", "", nil, http.StatusNotFound, meta.ReasonNotFound, `widgets.example.dev "none" not found`},
		"an unknown resource":           get("/apis/example.dev/v1/namespaces/default/wodgets"),
		"an unknown version":            get("/apis/example.dev/v9/widgets"),
		"an unknown group":              get("/apis/example.com/v1/widgets"),
		"an unknown subresource":        get(widgetsPath + "/kept/nonsense"),
		"no resource":                   get("/nonsense"),
		"a zone in a namespace":         get("/apis/example.dev/v1/namespaces/default/zones"),
		"a widget outside of namespace": get("/apis/example.dev/v1/widgets/kept"),
		"DELETE of all namespaces":      not("DELETE", "/apis/example.dev/v1/widgets"),
		"POST to an object":             not("POST", widgetsPath+"/kept"),
		"PUT to a collection":           not("PUT", widgetsPath),
		"an unknown method":             not("BREW", widgetsPath),
		"a deletion of the status":      not("DELETE", widgetsPath+"/kept/status"),
	}
}

func badQueries() map[string]bad {
	out := map[string]bad{}
	for _, c := range []struct{ method, path, body, query string }{
		{"GET", widgetsPath, "", "resourceVersion=new"},
		{"GET", widgetsPath, "", "resourceVersion=-1"},
		{"GET", widgetsPath, "", "resourceVersion=007"},
		{"GET", widgetsPath, "", "limit=ten"},
		{"GET", widgetsPath, "", "limit=5&limit=6"},
		{"GET", widgetsPath, "", "continue=forged"},
		{"GET", widgetsPath, "", "labelSelector=a in"},
		{"GET", widgetsPath, "", "labelSelector=a in (b"},
		{"GET", widgetsPath, "", "labelSelector=%zz"},
		{"GET", widgetsPath, "", "fieldSelector=metadata.name"},
		{"GET", widgetsPath, "", "fieldSelector=spec.size=7"},
		{"GET", widgetsPath, "", "resourceVersionMatch=Roughly&resourceVersion=1"},
		{"GET", widgetsPath, "", "watch=1&resourceVersion=yesterday"},
		{"GET", widgetsPath, "", "watch=1&timeoutSeconds=soon"},
		{"GET", widgetsPath, "", "watch=1&labelSelector=)"},
		{"GET", widgetsPath + "/kept", "", "resourceVersion=x"},
		{"GET", widgetsPath + "/kept", "", "timeout=never"},
		{"GET", widgetsPath + "/kept", "", "pretty=%"},
		{"POST", widgetsPath, widget("a"), "dryRun=Some"},
		{"POST", widgetsPath, widget("a"), "fieldValidation=Lax"},
		{"POST", widgetsPath, widget("a"), "fieldManager=%00"},
		{"PUT", widgetsPath + "/kept", widget("kept"), "dryRun=Some"},
		{"PUT", widgetsPath + "/kept", widget("kept"), "timeout=5"},
		{"PATCH", widgetsPath + "/kept", `{"spec":{"size":8}}`, "force=perhaps"},
		{"PATCH", widgetsPath + "/kept", `{"spec":{"size":8}}`, "dryRun=all"},
		{"DELETE", widgetsPath + "/kept", "", "gracePeriodSeconds=short"},
		{"DELETE", widgetsPath + "/kept", "", "propagationPolicy=Upwards"},
		{"DELETE", widgetsPath + "/kept", "", "dryRun=Some"},
		{"DELETE", widgetsPath, "", "labelSelector=a in"},
		{"DELETE", widgetsPath, "", "fieldSelector=nonsense"},
		{"DELETE", widgetsPath, "", "orphanDependents=1&propagationPolicy=Orphan"},
		{"DELETE", widgetsPath, "", "limit=few"},
	} {
		b := bad{method: c.method, path: c.path + "?" + strings.ReplaceAll(c.query, " ", "+"), body: c.body}
		if c.method == "PATCH" {
			b.headers = []string{"Content-Type", "application/merge-patch+json"}
		}
		out[c.method+" with "+c.query] = b // 400, or 422 for values of an enumeration
	}
	return out
}

func TestBadRequestsGetAStatusAndChangeNothing(t *testing.T) {
	s := serveIn(t, t.TempDir())
	kube := admin(t, s.kubeconfig)
	kube.create(t, widgetsPath, widget("kept"))
	kube.create(t, gadgetsPath, `{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{"name":"sealed"},"data":{"a":"1"},"immutable":true}`)
	state := func() string {
		var all strings.Builder
		for _, path := range []string{widgetsPath, gadgetsPath, zonesPath, "/api/v1/namespaces"} {
			var l struct{ Items json.RawMessage }
			kube.get(t, path, &l)
			all.Write(l.Items)
		}
		return all.String()
	}
	before := state()
	for _, group := range []map[string]bad{badBodies(), badPaths(), badQueries()} {
		for name, b := range group {
			t.Run(name, func(t *testing.T) {
				a := kube.do(t, b.method, b.path, b.body, b.headers...)
				st := a.status(t)
				if b.code == 0 {
					require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.code, "%s", a.body)
				} else {
					assert.Equal(t, b.code, a.code, "%s", a.body)
					assert.Equal(t, b.reason, st.Reason, "%s", a.body)
				}
				assert.Equal(t, a.code, int(st.Code))
				assert.Equal(t, meta.StatusFailure, st.Status)
				assert.Contains(t, st.Message, b.says)
				assert.NotEmpty(t, st.Message)
				assert.NotEmpty(t, a.header.Get("Audit-Id"))
			})
		}
	}
	assert.Equal(t, before, state())
	assert.Empty(t, s.errOut.String(), "none of it is the server's fault")
}
