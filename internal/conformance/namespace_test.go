package conformance

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
)

const namespacePath = "/api/v1/namespaces"

// Late is a kind that is installed some time after the server has started.
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
		require.Nil(s.t, s.do("POST", namespacePath, `{"metadata":{"name":"z","namespace":"b"}}`).is(201).at("metadata", "namespace"), "it is dropped as by kube-apiserver")
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

// Whoever forces the end of a namespace sends it to finalize without any finalizers, those of its
// metadata included.
func TestNS_06_FinalizeTakesMetadata(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(namespacePath, `{"metadata":{"name":"stuck","finalizers":["example.dev/a"],"annotations":{"a":"b"}},"spec":{"finalizers":["example.dev/b"]}}`)
		s.delete(namespacePath + "/stuck")
		synctest.Wait()
		a := s.get(namespacePath + "/stuck").is(200)
		require.Equal(t, []any{"example.dev/a"}, a.at("metadata", "finalizers"))
		require.Equal(t, []any{"example.dev/b"}, a.at("spec", "finalizers"))
		s.do("PUT", namespacePath+"/stuck/finalize", `{"metadata":{"name":"stuck","finalizers":["example.dev/a","example.dev/c"]}}`).is(422)
		s.do("PUT", namespacePath+"/stuck/finalize", `{"metadata":{"name":"stuck"},"spec":{}}`).is(200)
		s.get(namespacePath + "/stuck").is(404)
	})
}

func TestNS_06_TheLifeOfANamespace(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.create(namespacePath, `{"metadata":{"name":"team"},"spec":{"finalizers":[]},"status":{"phase":"Terminating"}}`)
		require.Equal(t, "Active", a.at("status", "phase"), "the creator cannot set the phase")
		require.Equal(t, []any{"kubernetes"}, a.at("spec", "finalizers"))
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		// The main path and the status subresource do not change spec.finalizers; finalize changes
		// them and metadata, as in kube-apiserver, and nothing else.
		a = s.do("PUT", namespacePath+"/team", `{"metadata":{"name":"team"},"spec":{"finalizers":[]}}`).is(200)
		require.Equal(t, []any{"kubernetes"}, a.at("spec", "finalizers"))
		a = s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team","labels":{"a":"b"}},"spec":{"finalizers":["kubernetes","example.dev/own"]},"status":{"phase":"Terminating"}}`).is(200)
		require.Equal(t, []any{"kubernetes", "example.dev/own"}, a.at("spec", "finalizers"))
		require.Equal(t, "b", a.at("metadata", "labels", "a"))
		require.Equal(t, "Active", a.at("status", "phase"))

		a = s.delete(namespacePath + "/team")
		require.Equal(t, "Namespace", a.at("kind"), "a remaining namespace is returned")
		require.Equal(t, "Terminating", a.at("status", "phase"))
		require.NotEmpty(t, a.at("metadata", "deletionTimestamp"))
		synctest.Wait()
		require.Equal(t, "Terminating", s.get(namespacePath+"/team").at("status", "phase"))
		s.patch("/apis/shop.example.com/v1/namespaces/team/widgets/held", `{"metadata":{"finalizers":null}}`)
		synctest.Wait()
		a = s.get(namespacePath + "/team").is(200)
		require.Equal(t, []any{"example.dev/own"}, a.at("spec", "finalizers"), "empty, but held by another finalizer")
		s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team"},"spec":{}}`).is(200)
		s.get(namespacePath + "/team").is(404)
		s.namespace("team")
	})
}

func TestNS_07_CreatesNeedAnExistingNamespace(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const nowhere, team = "/apis/shop.example.com/v1/namespaces/nowhere/widgets", "/apis/shop.example.com/v1/namespaces/team/widgets"
		a := s.do("POST", nowhere, widgetJSON("a", "", "red", 1)).refused(404, "NotFound", `namespaces "nowhere" not found`)
		require.Equal(t, "namespaces", a.at("details", "kind"))
		require.Empty(t, s.get(nowhere).items(), "reads do not require the namespace")
		s.get(nowhere+"/a").refused(404, "NotFound", `widgets.shop.example.com "a" not found`)
		s.do("PUT", "/apis/coordination.k8s.io/v1/namespaces/nowhere/leases/x", `{"metadata":{"name":"x"}}`).refused(404, "NotFound", `namespaces "nowhere" not found`)

		s.namespace("team")
		s.create(team, `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.delete(namespacePath + "/team")
		for _, a := range []*answer{
			s.do("POST", team, widgetJSON("a", "", "red", 1)),
			s.do("POST", team+"?dryRun=All", widgetJSON("a", "", "red", 1)),
			s.do("PUT", "/apis/coordination.k8s.io/v1/namespaces/team/leases/a", `{"metadata":{"name":"a"}}`),
			s.do("PATCH", team+"/a?fieldManager=me", `{"apiVersion":"shop.example.com/v1","kind":"Widget","metadata":{"name":"a"}}`, "Content-Type", "application/apply-patch+yaml"),
			s.do("POST", "/api/v1/namespaces/team/events", coreEventJSON(t, "a", `{"involvedObject":{"namespace":"team"}}`)),
			s.do("POST", "/apis/shop.example.com/v2/namespaces/team/gauges", `{"metadata":{"name":"a"}}`),
		} {
			a.refused(403, "Forbidden", `"a" is forbidden: unable to create new content in namespace team because it is being terminated`)
			a.because("NamespaceTerminating", "metadata.namespace", "namespace team is being terminated")
		}
		s.do("POST", team, `{"metadata":{"generateName":"gen-"}}`).refused(403, "Forbidden", `"gen-" is forbidden: unable to create new content`)
		s.patch(team+"/held", `{"metadata":{"labels":{"a":"b"}}}`) // existing objects can still be changed
	})
}

// A server without the kind Namespace does not check namespaces.
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

// conditions returns the conditions of the namespace team, "reason: message" by "type status". Each
// must occur once and have a time.
func (s *server) conditions() map[string]string {
	s.t.Helper()
	synctest.Wait()
	out := map[string]string{}
	list, _ := s.get(namespacePath+"/team").is(200).at("status", "conditions").([]any)
	for _, c := range list {
		require.NotEmpty(s.t, at(c, "lastTransitionTime"))
		out[fmt.Sprint(at(c, "type"), " ", at(c, "status"))] = fmt.Sprint(at(c, "reason"), ": ", at(c, "message"))
	}
	require.Len(s.t, list, 5)
	require.Len(s.t, out, 5)
	return out
}

func TestNS_09_ConditionsExplainTheDelay(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const team = "/apis/shop.example.com/v1/namespaces/team/widgets"
		s.create(namespacePath, `{"metadata":{"name":"team","finalizers":["example.dev/mine"]}}`)
		require.Nil(t, s.get(namespacePath+"/team").at("status", "conditions"))
		s.create(team, `{"metadata":{"name":"a","finalizers":["example.dev/hold"]}}`)
		s.create(team, `{"metadata":{"name":"b","finalizers":["example.dev/hold","example.dev/other"]}}`)
		s.create("/api/v1/namespaces/team/events", coreEventJSON(t, "e", `{"metadata":{"name":"e","finalizers":["example.dev/other"]},"involvedObject":{"namespace":"team"}}`))
		s.delete(namespacePath + "/team")
		now := s.conditions()
		require.Equal(t, "ResourcesDiscovered: All resources successfully discovered", now["NamespaceDeletionDiscoveryFailure False"])
		require.Equal(t, "ParsedGroupVersions: All legacy kube types successfully parsed", now["NamespaceDeletionGroupVersionParsingFailure False"])
		require.Equal(t, "ContentDeleted: All content successfully deleted, may be waiting on finalization", now["NamespaceDeletionContentFailure False"])
		require.Equal(t, "SomeResourcesRemain: Some resources are remaining: events.events.k8s.io has 1 resource instances, widgets.shop.example.com has 2 resource instances", now["NamespaceContentRemaining True"])
		require.Equal(t, "SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.dev/hold in 2 resource instances, example.dev/other in 2 resource instances", now["NamespaceFinalizersRemaining True"])
		since := s.transition("NamespaceContentRemaining")

		time.Sleep(time.Minute)
		s.patch(team+"/b", `{"metadata":{"finalizers":null}}`)
		now = s.conditions()
		require.Contains(t, now["NamespaceContentRemaining True"], "widgets.shop.example.com has 1 resource instances")
		require.NotContains(t, now["NamespaceContentRemaining True"], "has 2 resource instances")
		require.Equal(t, since, s.transition("NamespaceContentRemaining"), "the status is unchanged")

		// With only its own finalizer left, the namespace reports that nothing remains in it.
		s.patch(team+"/a", `{"metadata":{"finalizers":null}}`)
		s.patch("/api/v1/namespaces/team/events/e", `{"metadata":{"finalizers":null}}`)
		now = s.conditions()
		require.Equal(t, "ContentRemoved: All content successfully removed", now["NamespaceContentRemaining False"])
		require.Equal(t, "ContentHasNoFinalizers: All content-preserving finalizers finished", now["NamespaceFinalizersRemaining False"])
		require.NotEqual(t, since, s.transition("NamespaceContentRemaining"))
		require.Nil(t, s.get(namespacePath+"/team").at("spec", "finalizers"))
		s.patch(namespacePath+"/team", `{"metadata":{"finalizers":null}}`)
		s.get(namespacePath + "/team").is(404)
	})
}

// transition returns when a condition of the namespace team last changed.
func (s *server) transition(kind string) any {
	s.t.Helper()
	list, _ := s.get(namespacePath+"/team").at("status", "conditions").([]any)
	for _, c := range list {
		if at(c, "type") == kind {
			return at(c, "lastTransitionTime")
		}
	}
	return nil
}

// Failing deletions are reported, do not block others, and are retried.
func TestNS_09_FailingDeletions(t *testing.T) {
	var stubborn atomic.Bool
	stubborn.Store(true)
	refuse := admission.Plugin{Name: "refuse", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Operation == admission.Delete && strings.HasPrefix(r.Name, "stubborn") && stubborn.Load() {
			return status.Forbidden(r.Resource.GroupResource(), r.Name, "it may not be deleted")
		}
		return nil
	})}
	onEach(t, func(t *testing.T, s *server) {
		stubborn.Store(true)
		const team = "/apis/shop.example.com/v1/namespaces/team/"
		s.namespace("team")
		for _, path := range []string{team + "slates", team + "widgets"} {
			for _, name := range []string{"a", "stubborn", "z"} {
				s.create(path, `{"metadata":{"name":"`+name+`"}}`)
			}
		}
		s.delete(namespacePath + "/team")
		now := s.conditions()
		require.Equal(t, []string{"team/stubborn"}, s.get("/apis/shop.example.com/v1/widgets").names())
		require.Equal(t, []string{"team/stubborn"}, s.get("/apis/shop.example.com/v1/slates").names())
		require.Equal(t, `ContentDeletionFailed: Failed to delete all resource types, 2 remaining: slates.shop.example.com: slates.shop.example.com "stubborn" is forbidden: it may not be deleted, `+
			`widgets.shop.example.com: widgets.shop.example.com "stubborn" is forbidden: it may not be deleted`, now["NamespaceDeletionContentFailure True"])
		time.Sleep(time.Hour)
		require.Contains(t, s.conditions(), "NamespaceDeletionContentFailure True")
		stubborn.Store(false)
		time.Sleep(time.Minute)
		s.get(namespacePath + "/team").is(404)
	}, kindwright.Admit(refuse))
}

// Workload is the Go type of kinds that only matter for their deletion order.
type Workload struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
}

// Workloads go before the objects that they depend on (KEP-5080). Kinds that declare themselves
// last go last.
func TestNS_02_KindsGoInTurn(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		workloads := registry.Kind[Workload]{Group: group, Version: "v1", Plural: "workloads", Deletion: registry.Deletion{Turn: -1}}
		policies := registry.Kind[Workload]{Group: group, Version: "v1", Plural: "policies", Names: registry.Names{Kind: "Policy"}, Deletion: registry.Deletion{Turn: 1}}
		require.NoError(t, s.api.Install(context.Background(), workloads, policies))
		const all, team = "/apis/shop.example.com/v1/", "/apis/shop.example.com/v1/namespaces/team/"
		s.namespace("team")
		s.create(team+"widgets", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.create(team+"slates", `{"metadata":{"name":"free"}}`)
		s.create(team+"workloads", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.create(team+"policies", `{"metadata":{"name":"free"}}`)
		s.delete(namespacePath + "/team")
		time.Sleep(time.Hour)
		require.NotNil(t, s.get(team+"workloads/held").at("metadata", "deletionTimestamp"))
		require.Nil(t, s.get(team+"widgets/held").is(200).at("metadata", "deletionTimestamp"), "its turn has not come")
		s.get(team + "slates/free").is(200)
		require.Equal(t, "SomeResourcesRemain: Some resources are remaining: workloads.shop.example.com has 1 resource instances", s.conditions()["NamespaceContentRemaining True"])
		s.patch(team+"workloads/held", `{"metadata":{"finalizers":null}}`)
		synctest.Wait()
		require.NotNil(t, s.get(team+"widgets/held").at("metadata", "deletionTimestamp"))
		require.Empty(t, s.get(all+"slates").items())
		s.get(team + "policies/free").is(200)
		s.patch(team+"widgets/held", `{"metadata":{"finalizers":null}}`)
		synctest.Wait()
		require.Empty(t, s.get(all+"policies").items())
		s.get(namespacePath + "/team").is(404)
	})
}

// Graceful deletion also applies when the namespace is deleted. The client that stops the object
// reports when it is done (DEL-08).
func TestNS_02_ContentsWithAGracePeriod(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		half := registry.Rules[Workload]{Grace: registry.GraceSeconds[*Workload](30)}
		slow := registry.Kind[Workload]{Group: group, Version: "v1", Plural: "workloads", Rules: half, Deletion: registry.Deletion{Turn: -1, Expire: true}}
		stopped := registry.Kind[Workload]{Group: group, Version: "v1", Plural: "machines", Names: registry.Names{Kind: "Machine"}, Rules: half, Deletion: registry.Deletion{Turn: -1}}
		require.NoError(t, s.api.Install(context.Background(), slow, stopped))
		const team = "/apis/shop.example.com/v1/namespaces/team/"
		s.namespace("team")
		s.create(team+"workloads", `{"metadata":{"name":"a"}}`)
		s.create(team+"machines", `{"metadata":{"name":"a"}}`)
		s.create(team+"widgets", `{"metadata":{"name":"a"}}`)
		s.delete(namespacePath + "/team")
		now := s.conditions()
		require.Contains(t, now["NamespaceContentRemaining True"], "machines.shop.example.com has 1 resource instances, workloads.shop.example.com has 1 resource instances")
		require.Contains(t, now, "NamespaceFinalizersRemaining False")
		require.Contains(t, now, "NamespaceDeletionContentFailure False", "waiting is not a failure")
		time.Sleep(29 * time.Second)
		s.get(team + "workloads/a").is(200)
		time.Sleep(time.Hour)
		s.get(team + "workloads/a").is(404)
		require.NotNil(t, s.get(team+"machines/a").is(200).at("metadata", "deletionTimestamp"), "somebody has to stop it")
		require.Nil(t, s.get(team+"widgets/a").is(200).at("metadata", "deletionTimestamp"))
		s.delete(team + "machines/a?gracePeriodSeconds=0")
		synctest.Wait()
		s.get(namespacePath + "/team").is(404)
		require.Empty(t, s.get(widgetsPath).items())
	})
}

// Propagation policies do not apply when a namespace is deleted: an object that waits for its
// dependents goes with them.
func TestNS_02_NothingWaitsForOwners(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		const team = "/apis/shop.example.com/v1/namespaces/team/widgets"
		s.namespace("team")
		for _, f := range []string{"orphan", "foregroundDeletion"} {
			a := s.create(team, fmt.Sprintf(`{"metadata":{"name":"by-%s","finalizers":[%q]}}`, strings.ToLower(f), f))
			s.create(team, fmt.Sprintf(`{"metadata":{"name":"of-%s","ownerReferences":[{"apiVersion":"shop.example.com/v1","kind":"Widget","name":"x","uid":%q,"blockOwnerDeletion":true}]}}`,
				strings.ToLower(f), a.text("metadata", "uid")))
		}
		s.delete(namespacePath + "/team?propagationPolicy=Background")
		synctest.Wait()
		s.get(namespacePath + "/team").is(404)
		require.Empty(s.t, s.get("/apis/shop.example.com/v1/widgets").items())
	})
}

// If a kind is not served when its namespace goes, its objects stay in the store. They are deleted
// when the kind is installed, even if a new namespace has the name. Objects in other namespaces
// stay.
func TestNS_02_KindsNotServedWhenANamespaceGoes(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open)
		ctx := context.Background()
		const all, team = "/apis/shop.example.com/v1/lates", "/apis/shop.example.com/v1/namespaces/team/lates"
		require.NoError(t, s.api.Install(ctx, lates))
		for _, ns := range []string{"team", "gone", "other"} {
			s.namespace(ns)
			path := "/apis/shop.example.com/v1/namespaces/" + ns + "/lates"
			s.create(path, `{"metadata":{"name":"free"}}`)
			s.create(path, `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		}
		s.api.Remove(meta.GroupResource{Group: group, Resource: "lates"})
		s.delete(namespacePath + "/team")
		s.delete(namespacePath + "/gone")
		synctest.Wait()
		s.get(namespacePath + "/team").is(404)
		s.namespace("team")
		s.stop()
		s = start(t, open) // the tombstone survives a restart
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", `{"metadata":{"name":"new"}}`)
		require.NoError(t, s.api.Install(ctx, lates))
		require.ElementsMatch(t, []string{"gone/held", "other/free", "other/held", "team/held"}, s.get(all).names(), "at once")
		for _, item := range s.get(all).items() {
			require.Equal(t, at(item, "metadata", "namespace") != "other", at(item, "metadata", "deletionTimestamp") != nil, "%v", item)
		}
		s.create(team, `{"metadata":{"name":"free"}}`) // the name is free
		s.patch(team+"/held", `{"metadata":{"finalizers":null}}`)
		s.patch("/apis/shop.example.com/v1/namespaces/gone/lates/held", `{"metadata":{"finalizers":null}}`)
		s.api.Remove(meta.GroupResource{Group: group, Resource: "lates"})
		require.NoError(t, s.api.Install(ctx, lates))
		synctest.Wait()
		require.ElementsMatch(t, []string{"other/free", "other/held", "team/free"}, s.get(all).names())
		require.Equal(t, []string{"team/new"}, s.get("/apis/shop.example.com/v1/widgets").names())
		// A kind installed while a namespace is terminating takes part in its deletion.
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.api.Remove(meta.GroupResource{Group: group, Resource: "lates"})
		s.delete(namespacePath + "/team")
		synctest.Wait()
		require.NoError(t, s.api.Install(ctx, lates))
		synctest.Wait()
		require.ElementsMatch(t, []string{"other/free", "other/held"}, s.get(all).names())
		s.get(namespacePath + "/team").is(200)
	})
}

// A client that removes the built-in finalizer lets the namespace go before it is empty. The
// contents are deleted afterwards, but not the objects of a new namespace of that name.
func TestNS_06_ForcedEnds(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const team = "/apis/shop.example.com/v1/namespaces/team/widgets"
		s.namespace("team")
		s.create(team, `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.create(team, `{"metadata":{"name":"free"}}`)
		s.delete(namespacePath + "/team")
		synctest.Wait()
		s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team"}}`).is(200)
		s.get(namespacePath + "/team").is(404)
		s.namespace("team")
		s.create(team, `{"metadata":{"name":"new"}}`)
		s.do("POST", team, `{"metadata":{"name":"held"}}`).refused(409, "AlreadyExists", "object is being deleted")
		synctest.Wait()
		require.Equal(t, []string{"team/held", "team/new"}, s.get("/apis/shop.example.com/v1/widgets").names())
		s.patch(team+"/held", `{"metadata":{"finalizers":null}}`)
		require.Equal(t, []string{"team/new"}, s.get("/apis/shop.example.com/v1/widgets").names())
		// The same holds for a namespace that lost its finalizer before its deletion.
		s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team"}}`).is(200)
		s.delete(namespacePath + "/team")
		synctest.Wait()
		s.get(namespacePath + "/team").is(404)
		require.Empty(t, s.get("/apis/shop.example.com/v1/widgets").items())
	})
}

func TestNS_06_FinalizersOfUsers(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.create(namespacePath, `{"metadata":{"name":"team"},"spec":{"finalizers":["example.dev/own"]}}`)
		require.Equal(t, []any{"example.dev/own", "kubernetes"}, a.at("spec", "finalizers"))
		for _, bad := range []string{"a b", "", "mine", "a/b/c"} {
			body := fmt.Sprintf(`{"metadata":{"name":"bad"},"spec":{"finalizers":[%q]}}`, bad)
			s.do("POST", namespacePath, body).refused(422, "Invalid", "spec.finalizers[0]").because("FieldValueInvalid", "spec.finalizers[0]", "")
			s.do("PUT", namespacePath+"/team/finalize", strings.Replace(body, `"bad"`, `"team"`, 1)).refused(422, "Invalid", "spec.finalizers[0]")
		}
		// finalize only accepts PUT; status accepts PATCH too.
		s.do("PATCH", namespacePath+"/team/finalize", `{}`, "Content-Type", "application/merge-patch+json").refused(405, "MethodNotAllowed", "")
		s.get(namespacePath+"/team/finalize").refused(405, "MethodNotAllowed", "")
		for _, r := range s.get("/api/v1").at("resources").([]any) {
			switch at(r, "name") {
			case "namespaces/finalize":
				require.Equal(t, []any{"update"}, at(r, "verbs"))
			case "namespaces/status":
				require.Equal(t, []any{"get", "patch", "update"}, at(r, "verbs"))
			}
		}
		s.patch(namespacePath+"/team/status", `{"status":{"conditions":[{"type":"example.dev/Seen","status":"True"}]}}`)
		s.delete(namespacePath + "/team")
		synctest.Wait()
		a = s.get(namespacePath + "/team").is(200)
		require.Equal(t, []any{"example.dev/own"}, a.at("spec", "finalizers"))
		require.Len(t, a.at("status", "conditions"), 6, "conditions of other controllers stay")
		again := s.delete(namespacePath + "/team")
		require.Equal(t, a.version(), again.version(), "a second request has no effect")
		s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team"}}`).is(200)
		s.get(namespacePath + "/team").is(404)
	})
}

func TestNS_01_TheNameIsALabel(t *testing.T) {
	const label = "kubernetes.io/metadata.name"
	onEach(t, func(t *testing.T, s *server) {
		a := s.create(namespacePath, `{"metadata":{"generateName":"team-","labels":{"kubernetes.io/metadata.name":"other"}}}`)
		name := a.text("metadata", "name")
		require.Equal(t, name, a.at("metadata", "labels", label))
		require.Equal(t, []string{name}, s.get(namespacePath+"?labelSelector="+label+"%3D"+name).names())
		for _, labels := range []string{`null`, `{"kubernetes.io/metadata.name":null}`, `{"kubernetes.io/metadata.name":"default"}`} {
			require.Equal(t, name, s.patch(namespacePath+"/"+name, `{"metadata":{"labels":`+labels+`}}`).at("metadata", "labels", label))
		}
		s.create("/apis/shop.example.com/v1/namespaces/"+name+"/widgets", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.delete(namespacePath + "/" + name)
		require.Equal(t, []string{name}, s.get(namespacePath+"?fieldSelector=status.phase%3DTerminating").names())
		ending := s.get(namespacePath + "/" + name).is(200)
		require.NotNil(t, ending.at("metadata", "deletionTimestamp"))
		require.Nil(t, ending.at("metadata", "deletionGracePeriodSeconds"), "a namespace takes its own time")
		require.NotContains(t, s.get(namespacePath+"?fieldSelector=status.phase%3DActive").names(), name)
		require.Equal(t, []string{name}, s.get(namespacePath+"?fieldSelector=name%3D"+name).names())
	})
}

// Like kube-apiserver without its admission plugin NamespaceLifecycle.
func TestNS_07_ChecksSwitchedOff(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := startWith(t, open, []kinds.ControlPlaneOption{kinds.NoNamespaceChecks()})
		const nowhere = "/apis/shop.example.com/v1/namespaces/nowhere/widgets"
		s.create(nowhere, `{"metadata":{"name":"a"}}`)
		s.namespace("team")
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", `{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`)
		s.delete(namespacePath + "/team")
		synctest.Wait()
		s.create("/apis/shop.example.com/v1/namespaces/team/widgets", `{"metadata":{"name":"late"}}`)
		s.patch("/apis/shop.example.com/v1/namespaces/team/widgets/held", `{"metadata":{"finalizers":null}}`)
		synctest.Wait()
		s.get(namespacePath + "/team").is(404)
		s.delete(namespacePath + "/default")
		synctest.Wait()
		s.stop()
		s = startWith(t, open, []kinds.ControlPlaneOption{kinds.NoNamespaceChecks()})
		require.Equal(t, []string{"nowhere/a"}, s.get("/apis/shop.example.com/v1/widgets").names(), "objects that never had a namespace stay")
	})
}

// Without the controller a deleted namespace stays until a client finalizes it, and its contents
// stay too. A server with the controller on the same store deletes them, but not newer objects.
func TestNS_06_WithoutTheController(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		const team = "/apis/shop.example.com/v1/namespaces/team/widgets"
		s := startWith(t, open, []kinds.ControlPlaneOption{kinds.NoNamespaceController()})
		s.namespace("team")
		s.create(team, `{"metadata":{"name":"old"}}`)
		s.delete(namespacePath + "/team")
		time.Sleep(time.Hour)
		ns := s.get(namespacePath + "/team").is(200)
		require.Equal(t, "Terminating", ns.at("status", "phase"))
		require.Equal(t, []any{"kubernetes"}, ns.at("spec", "finalizers"))
		require.Nil(t, ns.at("status", "conditions"))
		s.get(team + "/old").is(200)
		s.do("POST", team, `{"metadata":{"name":"late"}}`).refused(403, "Forbidden", "is being terminated")

		s.do("PUT", namespacePath+"/team/finalize", `{"metadata":{"name":"team"}}`).is(200)
		s.get(namespacePath + "/team").is(404)
		s.get(team + "/old").is(200)
		s.do("POST", team, `{"metadata":{"name":"late"}}`).is(404)
		s.namespace("team")
		s.create(team, `{"metadata":{"name":"new"}}`)
		time.Sleep(time.Hour)
		require.Equal(t, []string{"team/new", "team/old"}, s.get("/apis/shop.example.com/v1/widgets").names())

		s.stop()
		s = start(t, open)
		synctest.Wait()
		require.Equal(t, []string{"team/new"}, s.get("/apis/shop.example.com/v1/widgets").names())
	})
}

// Rights in a namespace include its own object. A user without rights does not learn that a
// namespace is missing.
func TestNS_07_AuthorizationComesFirst(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		s.do("POST", "/apis/shop.example.com/v1/namespaces/nowhere/widgets", widgetJSON("a", "", "red", 1), "X-User", "bob", "X-Groups", "").
			refused(403, "Forbidden", "")
	}, kindwright.Authorize(authz.AlwaysDeny()))
}
