package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

const namespacePath = "/api/v1/namespaces"

// Late is a kind that is served only after the server has started.
type Late struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

var lates = registry.Kind[Late]{Group: group, Version: "v1", Plural: "lates"}

func TestNS_01_NamespacesAreClusterScoped(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.namespace("team")
		require.Equal(t, "v1", a.at("apiVersion"))
		require.Equal(t, "Namespace", a.at("kind"))
		a = s.get(namespacePath + "/team").is(200)
		require.Nil(t, a.at("metadata", "namespace"))
		require.Equal(t, "team", a.at("metadata", "labels", "kubernetes.io/metadata.name"))
		require.Contains(t, s.get(namespacePath).names(), "team")
		for _, r := range s.get("/api/v1").at("resources").([]any) {
			if at(r, "name") == "namespaces" {
				require.Equal(t, false, at(r, "namespaced"))
			}
		}
	})
}

func TestNS_02_TheContentGoesWithTheNamespace(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.NoError(t, s.api.Install(context.Background(), lates))
		s.namespace("team")
		s.namespace("team-a")
		var watches []*stream
		for path, body := range map[string]string{
			"/apis/shop.example.com/v1/namespaces/%s/widgets":   widgetJSON("x", "", "red", 1),
			"/apis/shop.example.com/v1/namespaces/%s/lates":     `{"metadata":{"name":"x"}}`,
			"/apis/shop.example.com/v2/namespaces/%s/gauges":    `{"metadata":{"name":"x"},"depth":"1"}`,
			"/apis/coordination.k8s.io/v1/namespaces/%s/leases": `{"metadata":{"name":"x"}}`,
			"/apis/events.k8s.io/v1/namespaces/%s/events":       eventJSON(t, "x", ""),
			"/apis/shop.example.com/v1/namespaces/%s/slates":    `{"metadata":{"name":"x"}}`,
		} {
			s.create(fmt.Sprintf(path, "team"), body)
			s.create(fmt.Sprintf(path, "team-a"), body)
			all := strings.Replace(path, "/namespaces/%s", "", 1)
			watches = append(watches, s.watch(all+"?watch=1&resourceVersion="+s.get(all).version()))
		}
		ns := s.watch(namespacePath + "?watch=1&fieldSelector=metadata.name%3Dteam&resourceVersion=" + s.get(namespacePath).version())
		s.delete(namespacePath + "/team")
		require.Equal(t, "Terminating", ns.expect("MODIFIED", "team").at("status", "phase"))
		for _, w := range watches {
			require.Equal(t, "team", w.expect("DELETED", "x").at("metadata", "namespace"))
			w.quiet(time.Second)
		}
		for {
			if e := ns.next(); e.kind == "DELETED" {
				break
			}
		}
		s.get(namespacePath+"/team").refused(404, "NotFound", `namespaces "team" not found`)
		require.Equal(t, []string{"team-a/x"}, s.get("/apis/shop.example.com/v1/lates").names())
	})
}

func TestNS_03_TheNamespaceIsFilledIn(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "default", s.widget("a", "").at("metadata", "namespace"))
		require.Equal(t, "default", s.create(widgetPath, `{"metadata":{"name":"b","namespace":"default"}}`).at("metadata", "namespace"))
		require.Equal(t, "default", s.create(widgetPath, `{"metadata":{"name":"c","namespace":""}}`).at("metadata", "namespace"))
		require.Equal(t, "default", s.do("PUT", widgetPath+"/a", `{"metadata":{"name":"a"}}`).is(200).at("metadata", "namespace"))
		require.Nil(t, s.create(zonePath, `{"metadata":{"name":"z"}}`).at("metadata", "namespace"))
	})
}

func TestNS_04_AnotherNamespaceInTheBody(t *testing.T) {
	const text = "the namespace of the provided object does not match the namespace sent on the request"
	onEach(t, func(_ *testing.T, s *server) {
		s.namespace("b")
		s.widget("x", "")
		s.do("POST", widgetPath, `{"metadata":{"name":"a","namespace":"b"}}`).refused(400, "BadRequest", text)
		s.do("PUT", widgetPath+"/x", `{"metadata":{"name":"x","namespace":"b"}}`).refused(400, "BadRequest", text)
		code := s.do("PATCH", widgetPath+"/x", `{"metadata":{"namespace":"b"}}`, "Content-Type", "application/merge-patch+json").code
		require.Contains(s.t, []int{400, 422}, code)
		s.do("POST", zonePath, `{"metadata":{"name":"z","namespace":"b"}}`).refused(400, "BadRequest", "")
		s.do("POST", namespacePath, `{"metadata":{"name":"z","namespace":"b"}}`).refused(400, "BadRequest", "")
	})
}

func TestNS_05_ThePathsOfNamespaces(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		list := s.get(namespacePath)
		require.Equal(t, []string{"default", "kube-node-lease", "kube-public", "kube-system"}, list.names())
		require.Equal(t, "NamespaceList", list.at("kind"))
		require.Equal(t, "v1", list.at("apiVersion"))
		require.Equal(t, "Namespace", s.get(namespacePath+"/default").is(200).at("kind"))
	})
}

func TestNS_06_TheLifeOfANamespace(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.create(namespacePath, `{"metadata":{"name":"team"},"spec":{"finalizers":[]},"status":{"phase":"Terminating"}}`)
		require.Equal(t, "Active", a.at("status", "phase"), "who creates it does not decide that")
		require.Equal(t, []any{"kubernetes"}, a.at("spec", "finalizers"))
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		// The main path and status do not touch spec.finalizers; finalize touches nothing else.
		a = s.do("PUT", namespacePath+"/team", `{"metadata":{"name":"team"},"spec":{"finalizers":[]}}`).is(200)
		require.Equal(t, []any{"kubernetes"}, a.at("spec", "finalizers"))
		a = s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team","labels":{"a":"b"}},"spec":{"finalizers":["kubernetes","example.dev/own"]},"status":{"phase":"Terminating"}}`).is(200)
		require.Equal(t, []any{"kubernetes", "example.dev/own"}, a.at("spec", "finalizers"))
		require.Nil(t, a.at("metadata", "labels", "a"))
		require.Equal(t, "Active", a.at("status", "phase"))

		a = s.delete(namespacePath + "/team")
		require.Equal(t, "Namespace", a.at("kind"), "what still is there is shown")
		require.Equal(t, "Terminating", a.at("status", "phase"))
		require.NotEmpty(t, a.at("metadata", "deletionTimestamp"))
		synctest.Wait()
		require.Equal(t, "Terminating", s.get(namespacePath+"/team").at("status", "phase"))
		s.patch("/apis/shop.example.com/v1/namespaces/team/widgets/held", `{"metadata":{"finalizers":null}}`)
		synctest.Wait()
		a = s.get(namespacePath + "/team").is(200)
		require.Equal(t, []any{"example.dev/own"}, a.at("spec", "finalizers"), "empty, and held by somebody else's finalizer")
		s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team"},"spec":{}}`).is(200)
		s.get(namespacePath + "/team").is(404)
		s.namespace("team")
	})
}

func TestNS_07_CreatingWhereNoNamespaceIs(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const nowhere, team = "/apis/shop.example.com/v1/namespaces/nowhere/widgets", "/apis/shop.example.com/v1/namespaces/team/widgets"
		a := s.do("POST", nowhere, widgetJSON("a", "", "red", 1)).refused(404, "NotFound", `namespaces "nowhere" not found`)
		require.Equal(t, "namespaces", a.at("details", "kind"))
		require.Empty(t, s.get(nowhere).items(), "reading is no question of the namespace")
		s.get(nowhere+"/a").refused(404, "NotFound", `widgets.shop.example.com "a" not found`)
		s.do("PUT", "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/x", `{"metadata":{"name":"x"}}`).refused(404, "NotFound", `namespaces "nowhere" not found`)

		s.namespace("team")
		s.create(team, `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.delete(namespacePath + "/team")
		for _, a := range []*answer{
			s.do("POST", team, widgetJSON("a", "", "red", 1)),
			s.do("POST", team+"?dryRun=All", widgetJSON("a", "", "red", 1)),
			s.do("PUT", "/apis/coordination.k8s.io/v1/namespaces/team/leases/a", `{"metadata":{"name":"a"}}`),
		} {
			a.refused(403, "Forbidden", `"a" is forbidden: unable to create new content in namespace team because it is being terminated`)
			a.because("NamespaceTerminating", "metadata.namespace", "namespace team is being terminated")
		}
		s.patch(team+"/held", `{"metadata":{"labels":{"a":"b"}}}`) // what is there can still be changed
	})
}

// A server without the kind Namespace has no such checks.
func TestNS_07_ServersWithoutNamespaces(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		b := open()
		e, err := kindwright.New(b, kindwright.Serve(widgets(), kinds.Leases()))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, e.Start(ctx))
		defer func() { cancel(); e.Wait(); require.NoError(t, b.Close()) }()
		target := registry.Target{Resource: meta.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, Namespace: "anywhere"}
		_, err = e.Engine().Create(t.Context(), target, []byte(`{"metadata":{"name":"x"}}`), registry.WriteOptions{})
		require.NoError(t, err)
	})
}

func TestNS_08_NamesAndProtectedNamespaces(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		for _, name := range []string{"a.b", "A", "-a", "a-", strings.Repeat("x", 64)} {
			s.do("POST", namespacePath, `{"metadata":{"name":"`+name+`"}}`).refused(422, "Invalid", "metadata.name").because("FieldValueInvalid", "metadata.name", "")
		}
		s.namespace(strings.Repeat("x", 63))
		for _, name := range []string{"default", "kube-system", "kube-public"} {
			s.do("DELETE", namespacePath+"/"+name, "").refused(403, "Forbidden", `namespaces "`+name+`" is forbidden: this namespace may not be deleted`)
			s.get(namespacePath + "/" + name).is(200)
		}
		s.delete(namespacePath + "/kube-node-lease")
	})
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := startWith(t, open, []kinds.ControlPlaneOption{kinds.InitialNamespaces("home", "other"), kinds.ProtectedNamespaces("home")})
		require.Equal(t, []string{"home", "other"}, s.get(namespacePath).names())
		s.do("DELETE", namespacePath+"/home", "").refused(403, "Forbidden", "")
		s.delete(namespacePath + "/other")
	})
}

func TestNS_09_ConditionsSayWhatIsInTheWay(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const team = "/apis/shop.example.com/v1/namespaces/team/widgets"
		s.namespace("team")
		s.create(team, `{"metadata":{"name":"a","finalizers":["example.dev/hold"]}}`)
		s.create(team, `{"metadata":{"name":"b","finalizers":["example.dev/hold","example.dev/other"]}}`)
		s.delete(namespacePath + "/team")
		conditions := func() map[string]any {
			synctest.Wait()
			out := map[string]any{}
			list, _ := s.get(namespacePath+"/team").is(200).at("status", "conditions").([]any)
			for _, c := range list {
				out[fmt.Sprint(at(c, "type"), " ", at(c, "status"))] = at(c, "message")
				require.NotEmpty(t, at(c, "lastTransitionTime"))
				require.NotEmpty(t, at(c, "reason"))
			}
			return out
		}
		now := conditions()
		require.Len(t, now, 5)
		for _, name := range []string{"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure", "NamespaceDeletionContentFailure"} {
			require.Contains(t, now, name+" False")
		}
		require.Contains(t, now["NamespaceContentRemaining True"], "2 widgets.shop.example.com")
		require.Contains(t, now["NamespaceFinalizersRemaining True"], "example.dev/hold in widgets.shop.example.com")
		require.Contains(t, now["NamespaceFinalizersRemaining True"], "example.dev/other in widgets.shop.example.com")
		s.patch(team+"/b", `{"metadata":{"finalizers":null}}`)
		now = conditions()
		require.Contains(t, now["NamespaceContentRemaining True"], "1 widgets.shop.example.com")
		require.NotContains(t, now["NamespaceFinalizersRemaining True"], "example.dev/other")
	})
}

// Rights in a namespace cover its own object, and those who may not see that it is missing do not learn it.
func TestNS_07_AuthorizationComesFirst(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		s.do("POST", "/apis/shop.example.com/v1/namespaces/nowhere/widgets", widgetJSON("a", "", "red", 1), "X-User", "bob", "X-Groups", "").
			refused(403, "Forbidden", "")
	}, kindwright.Authorize(authz.AlwaysDeny()))
}
