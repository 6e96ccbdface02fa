package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

func TestPATH_01_TheCoreGroup(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "NamespaceList", s.get("/api/v1/namespaces").is(200).at("kind"))
		s.get("/api/v2/namespaces").is(404)
		s.get("/apis/v1/namespaces").is(404)
		s.get("/api/v1/widgets").is(404)
	})
}

func TestPATH_02_NamedGroups(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "EventList", s.get("/apis/events.k8s.io/v1/events").is(200).at("kind"))
		s.get("/apis/events.k8s.io/v2/events").is(404)
		s.get("/apis/other.k8s.io/v1/events").is(404)
	})
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "events.example.dev/v1", s.get("/apis/events.example.dev/v1/events").is(200).at("apiVersion"))
	}, kindwright.Kubernetes{GroupDomain: "example.dev"})
}

func TestPATH_03_ClusterScopedList(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		list := s.get(zonePath)
		require.Equal(t, "ZoneList", list.at("kind"))
		require.Equal(t, []string{"z"}, list.names())
		s.get("/apis/shop.example.com/v1/namespaces/default/zones").is(404)
	})
}

func TestPATH_04_ClusterScopedGet(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		made := s.create(zonePath, `{"metadata":{"name":"z"}}`)
		require.Equal(t, made.doc, s.get(zonePath+"/z").is(200).doc)
		s.get("/apis/shop.example.com/v1/namespaces/default/zones/z").
			refused(404, "NotFound", "the server could not find the requested resource: the kind Zone is not namespaced: its paths have /v1/zones")
		s.get(zonePath+"/y").refused(404, "NotFound", `zones.shop.example.com "y" not found`)
	})
}

func TestPATH_05_ListAcrossNamespaces(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("team")
		s.widget("a", "")
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", widgetJSON("b", "", "red", 1))
		require.Equal(t, []string{"a", "team/b"}, s.get(widgetsPath).names())
		const meant = ": the kind Widget is namespaced: its paths have /namespaces/{namespace}/widgets"
		s.get(widgetsPath+"/a").refused(404, "NotFound", meant)
		s.do("DELETE", widgetsPath+"/a", "").refused(404, "NotFound", meant)
		s.do("POST", widgetsPath, widgetJSON("c", "", "red", 1)).refused(405, "MethodNotAllowed", meant)
		gone := s.do("DELETE", widgetsPath, "").refused(405, "MethodNotAllowed", meant)
		require.Equal(t, "GET, HEAD", gone.header.Get("Allow"), "all namespaces can only be read")
	})
}

func TestPATH_06_ListInANamespace(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.namespace("team")
		s.namespace("team-a")
		for _, ns := range []string{"team", "team-a"} {
			s.create("/apis/shop.example.com/v1/namespaces/"+ns+"/widgets", widgetJSON("x", "", "red", 1))
		}
		require.Equal(t, []string{"team/x"}, s.get("/apis/shop.example.com/v1/namespaces/team/widgets").names())
		require.Empty(t, s.get("/apis/shop.example.com/v1/namespaces/none/widgets").names())
	})
}

func TestPATH_07_NamespacedGet(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		made := s.widget("a", "")
		require.Equal(t, made.doc, s.get(widgetPath+"/a").is(200).doc)
		s.get("/apis/shop.example.com/v1/namespaces/other/widgets/a").is(404)
		s.get(widgetPath + "/a/").is(404)
		for _, path := range []string{widgetPath + "/a%2Fb", widgetPath + "/..", widgetPath + "/%2e%2e", widgetPath + "/a%00"} {
			s.get(path).refused(400, "BadRequest", "")
		}
		s.get("/apis/shop.example.com/v1/namespaces//widgets/a").is(404)
	})
}

func TestPATH_08_ClusterSubresource(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "Namespace", s.get("/api/v1/namespaces/default/status").is(200).at("kind"))
		s.get("/api/v1/namespaces/default/finalize").refused(405, "MethodNotAllowed", "")
		s.get(zonePath + "/z/status").is(404)
		s.get("/api/v1/namespaces/nowhere/status").refused(404, "NotFound", `namespaces "nowhere" not found`)
	})
}

func TestPATH_09_NamespacedSubresource(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		a := s.get(widgetPath + "/a/status").is(200)
		require.Equal(t, "Widget", a.at("kind"))
		s.get(widgetPath + "/a/scale").is(404)
		s.get(widgetPath + "/a/status/phase").is(404)
	})
}

func TestPATH_10_Create(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.do("POST", widgetPath, widgetJSON("a", "", "red", 1)).is(201)
		require.Equal(t, a.doc, s.get(widgetPath+"/a").doc)
		s.do("POST", widgetPath+"/b", widgetJSON("b", "", "red", 1)).refused(405, "MethodNotAllowed", "POST creates an object in the path of its collection")
	})
}

func TestPATH_11_Update(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		require.Equal(t, "blue", s.do("PUT", widgetPath+"/a", widgetJSON("a", "", "blue", 1)).is(200).at("spec", "color"))
		s.do("PUT", widgetPath, widgetJSON("a", "", "red", 1)).refused(405, "MethodNotAllowed", "PUT needs the name of an object in its path")
	})
}

func TestPATH_12_Patch(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		require.InDelta(t, 5, s.patch(widgetPath+"/a", `{"spec":{"size":5}}`).at("spec", "size"), 0)
		s.do("PATCH", widgetPath, `{}`, "Content-Type", "application/merge-patch+json").refused(405, "MethodNotAllowed", "")
	})
}

func TestPATH_13_Delete(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		require.Equal(t, "Success", s.delete(widgetPath+"/a").at("status"))
		s.get(widgetPath + "/a").is(404)
		s.create(widgetPath, `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		require.Equal(t, "Widget", s.do("DELETE", widgetPath+"/held?orphanDependents=false", "").is(202).at("kind"))
	})
}

func TestPATH_14_DeleteCollection(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "x=1")
		s.widget("b", "x=2")
		s.widget("c", "x=1")
		s.delete(widgetPath + "?labelSelector=x%3D1")
		require.Equal(t, []string{"b"}, s.get(widgetPath).names())
		s.create(zonePath, `{"metadata":{"name":"z"}}`)
		s.delete(zonePath)
		require.Empty(t, s.get(zonePath).items())
	})
}

func TestPATH_15_TheVerbsOfASubresource(t *testing.T) {
	kind := widgets()
	kind.Plural, kind.Names.Kind, kind.Names.ShortNames = "peeks", "Peek", nil
	kind.Subresources = []registry.Endpoint{registry.Subresource{Name: "look", Verbs: []string{"get"}}}
	onEach(t, func(t *testing.T, s *server) {
		const path = "/apis/shop.example.com/v1/namespaces/default/peeks"
		s.create(path, `{"metadata":{"name":"a"}}`)
		s.get(path + "/a/look").is(200)
		for _, method := range []string{"PUT", "PATCH", "POST", "DELETE"} {
			a := s.do(method, path+"/a/look", `{"metadata":{"name":"a"}}`, "Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == "PATCH"])
			a.refused(405, "MethodNotAllowed", "")
		}
		s.do("DELETE", path+"/a/status", "").refused(405, "MethodNotAllowed", "")
		s.do("POST", path+"/a/status", "{}").refused(405, "MethodNotAllowed", "")
		var verbs any
		for _, r := range s.get("/apis/shop.example.com/v1").at("resources").([]any) {
			if at(r, "name") == "peeks/look" {
				verbs = at(r, "verbs")
			}
		}
		require.Equal(t, []any{"get"}, verbs)
		require.Equal(t, "a", s.get(path+"/a").at("metadata", "name"), "the object is unchanged")
	}, kindwright.Serve(kind))
}

// calls records the requests to the authorizer.
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, text)
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.list
	c.list = nil
	return list
}

// observed runs a test on servers that record the requests of the user bob to authorization and
// admission.
func observed(t *testing.T, test func(t *testing.T, bob func(method, path, body string, headers ...string) *answer, asked, admitted *calls)) {
	t.Helper()
	var asked, admitted calls
	authorizer := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		asked.add(strings.TrimSpace(fmt.Sprint(a.Verb, " ", a.Resource, " ", a.Name)))
		return authz.Allow, "", nil
	})
	plugin := admission.Plugin{Name: "observe", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.User.Name == "bob" {
			admitted.add(fmt.Sprint(r.Operation, " ", r.Name))
		}
		return nil
	})}
	onEach(t, func(t *testing.T, s *server) {
		asked.take()
		admitted.take()
		test(t, func(method, path, body string, headers ...string) *answer {
			return s.do(method, path, body, append([]string{"X-User", "bob", "X-Groups", ""}, headers...)...)
		}, &asked, &admitted)
	}, kindwright.Authorize(authorizer), kindwright.Admit(plugin))
}

func TestPATH_16_VerbsOfRequests(t *testing.T) {
	observed(t, func(t *testing.T, bob func(string, string, string, ...string) *answer, asked, admitted *calls) {
		for _, c := range []struct {
			method, path, body string
			code               int
			verbs, operations  []string
		}{
			{"GET", widgetPath, "", 200, []string{"list widgets"}, nil},
			{"GET", widgetPath + "?watch=0", "", 200, []string{"list widgets"}, nil},
			{"GET", widgetPath + "?watch=1&timeoutSeconds=1", "", 200, []string{"watch widgets"}, nil},
			{"GET", widgetPath + "?fieldSelector=metadata.name%3Da", "", 200, []string{"list widgets a"}, nil},
			{"POST", widgetPath, widgetJSON("a", "", "red", 1), 201, []string{"create widgets"}, []string{"CREATE a"}},
			{"GET", widgetPath + "/a", "", 200, []string{"get widgets a"}, nil},
			{"GET", widgetPath + "/a?watch=1", "", 200, []string{"get widgets a"}, nil},
			{"PUT", widgetPath + "/a", widgetJSON("a", "", "red", 2), 200, []string{"update widgets a"}, []string{"UPDATE a"}},
			{"PATCH", widgetPath + "/a", `{"spec":{"size":3}}`, 200, []string{"patch widgets a"}, []string{"UPDATE a"}},
			{"PUT", leasePath + "/l", `{"metadata":{"name":"l"}}`, 201, []string{"update leases l", "create leases l"}, []string{"CREATE l"}}, // READ-12
			{"PUT", leasePath + "/l", `{"metadata":{"name":"l"},"spec":{"holderIdentity":"x"}}`, 200, []string{"update leases l"}, []string{"UPDATE l"}},
		} {
			headers := []string{}
			if c.method == "PATCH" {
				headers = []string{"Content-Type", "application/merge-patch+json"}
			}
			bob(c.method, c.path, c.body, headers...).is(c.code)
			require.Equal(t, c.verbs, asked.take(), c.method+" "+c.path)
			require.Equal(t, c.operations, admitted.take(), c.method+" "+c.path)
		}
	})
}

func TestPATH_17_VerbsOfDeletions(t *testing.T) {
	observed(t, func(t *testing.T, bob func(string, string, string, ...string) *answer, asked, admitted *calls) {
		for _, name := range []string{"a", "b", "c"} {
			bob("POST", widgetPath, widgetJSON(name, "", "red", 1)).is(201)
		}
		asked.take()
		admitted.take()
		bob("DELETE", widgetPath+"/a", "").is(200)
		require.Equal(t, []string{"delete widgets a"}, asked.take())
		require.Equal(t, []string{"DELETE a"}, admitted.take())
		bob("DELETE", widgetPath, "").is(200)
		require.Equal(t, []string{"deletecollection widgets"}, asked.take(), "one authorization for all")
		require.Equal(t, []string{"DELETE ", "DELETE "}, admitted.take(), "admitted one by one, without a name (as in Kubernetes)")
	})
}

func TestPATH_18_JSON(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.do("POST", widgetPath, widgetJSON("a", "", "red", 1), "Content-Type", "application/json; charset=utf-8").is(201)
		for _, a := range []*answer{a, s.get(widgetPath), s.get(widgetPath + "/a"), s.get(widgetPath + "/b"), s.get("/apis"), s.get("/version"), s.delete(widgetPath + "/a")} {
			require.Equal(t, "application/json", a.header.Get("Content-Type"), "%s", a)
			require.NotNil(t, a.doc)
		}
		s.do("POST", widgetPath, widgetJSON("b", "", "red", 1), "Content-Type", "").is(201) // kube-apiserver accepts it too
		for _, bad := range []string{"text/plain", "application/xml", "application/json; charset=utf-16", "application/x-www-form-urlencoded", "nonsense"} {
			s.do("POST", widgetPath, widgetJSON("c", "", "red", 1), "Content-Type", bad).refused(415, "UnsupportedMediaType", "accepted media types include: application/json, application/yaml")
		}
		s.get(widgetPath, "Accept", "text/html").refused(406, "NotAcceptable", "only the following media types are accepted: application/json")
	})
}

func TestPATH_20_SubjectAccessReviews(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
		ask := func(group string) any {
			return s.do("POST", path, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"groups":["`+group+`"],"resourceAttributes":{"verb":"get","resource":"pods"}}}`).
				is(201).at("status", "allowed")
		}
		require.Equal(t, true, ask("system:masters"))
		require.Equal(t, false, ask("nobody"))
		for _, method := range []string{"GET", "DELETE"} {
			s.do(method, path, "").refused(405, "MethodNotAllowed", "")
		}
		for _, r := range s.get("/apis/authorization.k8s.io/v1").at("resources").([]any) {
			require.Equal(t, []any{"create"}, at(r, "verbs"))
		}
	})
}

// Eviction is the body of a request to break a vase.
type Eviction struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Refuse bool   `json:"refuse,omitempty"`
	Why    string `json:"why,omitempty" default:"no reason" maxLength:"20"`
}

// A POST to a subresource breaks a widget, much like an eviction: it asks a rule, deletes the
// object, and has its own response.
func TestPATH_21_ActionsOnASubresource(t *testing.T) {
	kind := widgets()
	kind.Plural, kind.Names.Kind, kind.Names.ShortNames = "vases", "Vase", nil
	kind.Subresources = []registry.Endpoint{registry.Action[Widget, Eviction, meta.Status]{
		Name: "eviction", Kind: meta.GroupVersionKind{Group: "policy", Version: "v1"},
		Run: func(ctx context.Context, call *registry.Call[Widget], _ *Eviction) (*meta.Status, error) {
			if call.Object.Spec.Color == "blue" {
				return nil, status.TooManyRequests("blue ones are too few", 10)
			}
			of := call.Target
			of.Subresource = ""
			_, err := call.Objects.Delete(ctx, of, registry.DeleteOptions{DryRun: call.DryRun})
			return nil, err
		},
	}}
	var admitted calls
	refusal := admission.Plugin{Name: "no", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Subresource == "eviction" {
			admitted.add(fmt.Sprint(r.Operation, " ", r.Resource.Resource, "/", r.Subresource, " ", r.Name, " ", at(r.Object, "why")))
			if at(r.Object, "refuse") == true {
				return status.Forbidden(r.GroupResource(), r.Name, "refused")
			}
		}
		return nil
	})}
	onEach(t, func(t *testing.T, s *server) {
		const path = "/apis/shop.example.com/v1/namespaces/default/vases"
		s.create(path, `{"metadata":{"name":"a"},"spec":{"color":"red"}}`)
		s.create(path, `{"metadata":{"name":"b"},"spec":{"color":"blue"}}`)
		admitted.take()
		const body = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a","namespace":"default"}}`
		s.do("POST", path+"/none/eviction", "").refused(404, "NotFound", `vases.shop.example.com "none" not found`)
		s.do("POST", path+"/b/eviction", body).refused(400, "BadRequest", "does not match the name on the URL")
		s.do("POST", path+"/a/eviction", `{"metadata":{"namespace":"other"}}`).refused(400, "BadRequest", "namespace")
		s.do("POST", path+"/a/eviction", `[]`).refused(400, "BadRequest", "not a JSON object")
		s.do("POST", path+"/a/eviction?fieldValidation=Strict", `{"why":"a","why":"b"}`).refused(400, "BadRequest", `duplicate field "why"`)
		s.do("POST", path+"/a/eviction?fieldValidation=Strict", `{"what":1}`).refused(400, "BadRequest", `unknown field "what"`)
		s.do("POST", path+"/a/eviction", `{"kind":"Widget"}`).refused(400, "BadRequest", "vases.shop.example.com/eviction takes kind Eviction of policy/v1")
		s.do("POST", path+"/a/eviction", `{"why":1}`).refused(422, "Invalid", "why")
		s.do("POST", path+"/a/eviction", `{"why":"a very long story, which nobody reads"}`).refused(422, "Invalid", "Eviction.policy")
		s.do("POST", path+"/a/eviction", "x", "Content-Type", asProtobuf).refused(415, "UnsupportedMediaType", "")
		s.do("POST", path+"/a/eviction?dryRun=x", "").refused(422, "Invalid", "dryRun")
		require.Empty(t, admitted.take())
		s.do("POST", path+"/a/eviction", `{"refuse":true}`).refused(403, "Forbidden", "refused")
		require.Equal(t, "10", s.do("POST", path+"/b/eviction", "").refused(429, "TooManyRequests", "too few").header.Get("Retry-After"))
		require.Equal(t, []string{"CREATE vases/eviction a no reason", "CREATE vases/eviction b no reason"}, admitted.take())
		s.do("POST", path+"/a/eviction", body, "X-User", "bob", "X-Groups", "").refused(403, "Forbidden", `cannot create resource "vases/eviction"`)
		s.do("POST", path+"/a/eviction?dryRun=All", body).is(201)
		s.get(path + "/a").is(200)
		a := s.do("POST", path+"/a/eviction", body).is(201)
		require.Equal(t, "Status", a.at("kind"))
		require.Equal(t, "Success", a.at("status"))
		require.EqualValues(t, 201, a.at("code"))
		s.get(path + "/a").is(404)
		s.get(path+"/b/eviction").refused(405, "MethodNotAllowed", "")
		s.do("PUT", path+"/b/eviction", "{}").refused(405, "MethodNotAllowed", "")
		for _, r := range s.get("/apis/shop.example.com/v1").at("resources").([]any) {
			if at(r, "name") == "vases/eviction" {
				require.Equal(t, []any{"create"}, at(r, "verbs"))
			}
		}
		require.NotNil(t, s.get("/openapi/v3/apis/shop.example.com/v1").is(200).at("paths", "/apis/shop.example.com/v1/namespaces/{namespace}/vases/{name}/eviction", "post"))
	}, kindwright.Serve(kind), kindwright.Admit(refusal))
}

func TestPATH_22_TheProgramRegistersKindsAndSubresources(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		var names []any
		for _, r := range s.get("/apis/shop.example.com/v1").at("resources").([]any) {
			names = append(names, at(r, "name"))
		}
		require.ElementsMatch(t, []any{"gauges", "slates", "widgets", "widgets/status", "zones"}, names)
		require.NoError(t, s.api.Install(context.Background(), lates))
		s.create("/apis/shop.example.com/v1/namespaces/default/lates", `{"metadata":{"name":"a"}}`)
	})
}

func TestPATH_23_UnknownPaths(t *testing.T) {
	unknown := []string{
		"/apis/none.example.com/v1/widgets", "/apis/shop.example.com/v9/widgets", "/apis/shop.example.com/v1/nones", "/apis/shop.example.com/v1/namespaces/default/nones/a",
		"/api/v1/pods", "/apis/none.example.com", "/apis/shop.example.com/v9", "/api/v9", widgetPath + "/a/none",
	}
	onEach(t, func(t *testing.T, s *server) {
		s.widget("a", "")
		for _, path := range unknown {
			a := s.get(path).is(404)
			require.Equal(t, "Status", a.at("kind"), "%s", a)
			require.Equal(t, "NotFound", a.at("reason"), "%s", a)
		}
		s.get("/nothing/here").is(404)
		// A user without rights does not learn which paths exist.
		for _, path := range append(unknown, "/nothing/here") {
			s.get(path, "X-User", "bob", "X-Groups", "").refused(403, "Forbidden", "")
		}
	}, kindwright.Authorize(authz.AlwaysDeny()))
}

// The old watch prefix is not served: clients use the query parameter (docs/design/0004).
func TestPATH_24_TheOldWatchPrefix(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		for _, path := range []string{"/api/v1/watch/namespaces", "/apis/shop.example.com/v1/watch/widgets", "/apis/shop.example.com/v1/watch/namespaces/default/widgets/a"} {
			s.get(path).refused(404, "NotFound", "")
			s.get(path+"?watch=1").refused(404, "NotFound", "")
			s.get(path, "X-User", "bob", "X-Groups", "").is(404)
		}
	})
}

func TestPATH_25_HEADAndOPTIONS(t *testing.T) {
	observed(t, func(t *testing.T, bob func(string, string, string, ...string) *answer, asked, _ *calls) {
		bob("POST", widgetPath, widgetJSON("a", "", "red", 1)).is(201)
		asked.take()
		for _, path := range []string{widgetPath, widgetPath + "/a", "/apis", "/version"} {
			want := bob("GET", path, "").is(200)
			before := asked.take()
			got := bob("HEAD", path, "").is(200)
			require.Equal(t, before, asked.take(), "HEAD is authorized like GET")
			require.Empty(t, got.body)
			require.Equal(t, want.header.Get("Content-Type"), got.header.Get("Content-Type"))
		}
		require.Empty(t, bob("HEAD", widgetPath+"/none", "").is(404).body)
		asked.take()
		for _, path := range []string{widgetPath, widgetPath + "/a", "/apis", "/"} {
			for _, method := range []string{"OPTIONS", "TRACE", "CONNECTED", "get"} {
				a := bob(method, path, "").refused(405, "MethodNotAllowed", "")
				require.Equal(t, "GET, HEAD, POST, PUT, PATCH, DELETE", a.header.Get("Allow"))
				require.NotEmpty(t, asked.take(), "the sender is authorized before they are told")
			}
		}
		bob("HEAD", widgetPath+"?watch=1", "").is(405)
		require.NotEmpty(t, asked.take())
		bob("GET", widgetPath+"?limit=x", "").is(400)
		require.Empty(t, asked.take(), "an unparsable request is not authorized")
	})
}

func TestPATH_26_YAML(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.do("POST", widgetPath, "metadata:\n  name: a\n  labels: {x: 'y'}\nspec:\n  color: red\n  size: 0x10\n", "Content-Type", "application/yaml").is(201)
		require.InDelta(t, 16, a.at("spec", "size"), 0)
		for _, path := range []string{widgetPath, widgetPath + "/a", "/apis"} {
			a := s.get(path, "Accept", "application/yaml").is(200)
			require.Equal(t, "application/yaml", a.header.Get("Content-Type"))
			require.Contains(t, string(a.body), "kind: ")
		}
		body := string(s.get(widgetPath+"/a", "Accept", "application/yaml").body)
		body = strings.Replace(body, "color: red", "color: blue", 1)
		require.Equal(t, "blue", s.do("PUT", widgetPath+"/a", body, "Content-Type", "application/yaml").is(200).at("spec", "color"))
		require.Contains(t, string(s.get(widgetPath+"/none", "Accept", "application/yaml").is(404).body), "reason: NotFound\n")
		for _, bad := range []string{"a: [", "--- \na: 1\n---\nb: 2\n", "&a [*a]", "- 1"} {
			s.do("POST", widgetPath, bad, "Content-Type", "application/yaml").is(400)
		}
	})
}

func TestPATH_27_TheRoot(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.get("/").is(200)
		require.Len(t, a.doc, 1)
		paths := a.at("paths").([]any)
		for _, path := range []string{"/api", "/api/v1", "/apis", "/apis/shop.example.com", "/apis/shop.example.com/v1", "/apis/shop.example.com/v2", "/healthz", "/livez", "/readyz", "/openapi/v3", "/version"} {
			require.Contains(t, paths, path)
		}
		for _, path := range paths {
			require.Equal(t, http.StatusOK, s.get(path.(string)).code, path)
		}
	})
}
