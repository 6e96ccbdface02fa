package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	parsed "github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// seeing is a plugin that keeps the last request of user ann for motors or namespaces, for each of
// its sides.
func seeing(mutated, validated **admission.Request) admission.Plugin {
	return admission.Plugin{
		Name:  "see",
		Rules: []admission.Rule{{Groups: []string{"drive.example.com"}}, {Groups: []string{""}, Resources: []string{"namespaces", "namespaces/*"}}},
		Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			if r.User.Name == "ann" {
				*mutated = r
			}
			return admission.Allowed(r)
		}),
		Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
			if r.User.Name == "ann" {
				*validated = r
			}
			return nil
		}),
	}
}

func TestADM_04_05_07_10_15_TheAdmissionRequest(t *testing.T) {
	var mutated, validated *admission.Request
	motorised(t, func(t *testing.T, s *server) {
		const path, old = "/apis/drive.example.com/v1/namespaces/default/motors", "/apis/drive.example.com/v1beta1/namespaces/default/motors"
		see := func(op admission.Operation, version, namespace, name string, options any) {
			t.Helper()
			for _, r := range []*admission.Request{mutated, validated} {
				require.NotNil(t, r)
				require.Equal(t, op, r.Operation)
				require.Equal(t, version, r.Resource.Version)
				require.Equal(t, r.Resource, r.RequestResource)
				require.Equal(t, r.Kind, r.RequestKind)
				require.Equal(t, r.Subresource, r.RequestSubresource)
				require.Equal(t, namespace, r.Namespace)
				require.Equal(t, name, r.Name)
				require.Equal(t, "ann", r.User.Name)
				require.Equal(t, options, r.Options)
			}
			mutated, validated = nil, nil
		}
		kind := func(name string) meta.TypeMeta { return meta.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: name} }
		as := []string{"X-User", "ann", "X-Groups", "system:masters"}
		s.do("POST", path+"?fieldManager=m&fieldValidation=Strict", motor("a", `{"power":2}`), as...).is(201)
		see("CREATE", "v1", "default", "a", meta.CreateOptions{TypeMeta: kind("CreateOptions"), FieldManager: "m", FieldValidation: "Strict"})
		s.do("PATCH", old+"/a?fieldManager=m&dryRun=All", `{"watts":3000}`, append(as, "Content-Type", mergeType)...).is(200)
		require.True(t, validated.DryRun)
		see("UPDATE", "v1beta1", "default", "a", meta.UpdateOptions{TypeMeta: kind("UpdateOptions"), FieldManager: "m", DryRun: []string{"All"}})
		s.do("DELETE", path+"/a?gracePeriodSeconds=3", "", as...).is(200)
		require.Nil(t, mutated.Object)
		require.Equal(t, "a", at(mutated.OldObject, "metadata", "name"), "mutators see deletions, as in Kubernetes")
		three := int64(3)
		see("DELETE", "v1", "default", "a", meta.DeleteOptions{TypeMeta: kind("DeleteOptions"), GracePeriodSeconds: &three})

		// A request about a collection names none of its objects.
		s.do("POST", path+"?fieldManager=m", motor("b", `{"power":2}`), as...).is(201)
		mutated, validated = nil, nil
		s.do("DELETE", path, "", as...).is(200)
		require.Equal(t, "b", at(validated.OldObject, "metadata", "name"))
		see("DELETE", "v1", "default", "", meta.DeleteOptions{TypeMeta: kind("DeleteOptions")})

		// The namespace of a Namespace is its own name.
		s.do("POST", "/api/v1/namespaces?fieldManager=m", `{"metadata":{"name":"team"}}`, as...).is(201)
		see("CREATE", "v1", "team", "team", meta.CreateOptions{TypeMeta: kind("CreateOptions"), FieldManager: "m"})
		s.do("DELETE", "/api/v1/namespaces/team", "", as...).is(200)
		see("DELETE", "v1", "team", "team", meta.DeleteOptions{TypeMeta: kind("DeleteOptions")})
	}, kindwright.Admit(seeing(&mutated, &validated)))
}

// A plugin may ask the server questions in the middle of a write.
func TestPluginsAskTheServer(t *testing.T) {
	var ask func(ctx context.Context, r *admission.Request) error
	asked, annotated := false, map[string]string(nil)
	audit := kindwright.Before("parse", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			annotated = parsed.ExchangeFrom(r.Context()).Annotations()
		})
	})
	plugin := admission.Plugin{
		Name: "ask", Rules: []admission.Rule{{Resources: []string{"motors"}}},
		Validator: admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error { return ask(ctx, r) }),
	}
	motorised(t, func(t *testing.T, s *server) {
		const path = "/apis/drive.example.com/v1/namespaces/default/motors"
		resource := meta.GroupVersionResource{Group: "drive.example.com", Version: "v1", Resource: "motors"}
		beta := meta.GroupVersionKind{Group: "drive.example.com", Version: "v1beta1", Kind: "Motor"}
		ask = func(context.Context, *admission.Request) error { return nil }
		s.create(path, strings.Replace(motor("first", `{"power":1,"fuel":"coal"}`), `"name"`, `"labels":{"size":"big"},"name"`, 1))
		s.change("/api/v1/namespaces/default", mergeType, `{"metadata":{"labels":{"open":"yes"}}}`).is(200)
		ask = func(ctx context.Context, r *admission.Request) error {
			asked = true
			r.Warn(ctx, "mind the motor")
			require.NoError(t, r.Annotate(ctx, "policy.example.com/decision", "let it run"))
			require.ErrorContains(t, r.Annotate(ctx, "not a key", ""), "not a key")
			set, err := r.NamespaceLabels(ctx)
			require.NoError(t, err)
			open, _ := set.Get("open")
			require.Equal(t, "yes", open, "must see the last acknowledged write")
			now, _ := r.Labels()
			require.Empty(t, now)

			other, err := r.Server.Get(ctx, resource, "default", "first")
			require.NoError(t, err)
			require.Equal(t, "coal", at(other, "spec", "fuel"))
			set, err = r.Server.Labels(ctx, resource, "default", "first")
			require.NoError(t, err)
			require.Equal(t, meta.LabelSet{{Key: "size", Value: "big"}}, set)
			_, err = r.Server.Get(ctx, resource, "default", "nobody")
			require.Equal(t, meta.ReasonNotFound, status.ReasonOf(err))
			_, err = r.Server.Get(ctx, meta.GroupVersionResource{Group: "nowhere", Version: "v1", Resource: "motors"}, "", "x")
			require.Equal(t, meta.ReasonNotFound, status.ReasonOf(err))
			for object, err := range r.Server.List(ctx, resource, "") {
				require.NoError(t, err)
				require.Equal(t, "first", at(object, "metadata", "name"))
			}
			for _, err := range r.Server.List(ctx, meta.GroupVersionResource{Group: "nowhere", Version: "v1", Resource: "motors"}, "") {
				require.Equal(t, meta.ReasonNotFound, status.ReasonOf(err))
			}

			converted, err := r.Convert(ctx, r.Object, beta)
			require.NoError(t, err)
			require.Equal(t, int64(2000), at(converted, "watts"))
			back, err := r.Convert(ctx, converted, r.Kind)
			require.NoError(t, err)
			require.Equal(t, at(r.Object, "spec", "power"), at(back, "spec", "power"))
			_, err = r.Convert(ctx, r.Object, meta.GroupVersionKind{Group: "drive.example.com", Version: "v9", Kind: "Motor"})
			require.Error(t, err)

			decision, _, err := r.Server.Authorizer().Authorize(ctx, authz.Attributes{User: authn.User{Name: "bob"}, Verb: "get", ResourceRequest: true, Resource: "motors"})
			require.NoError(t, err)
			require.NotEqual(t, authz.Allow, decision)
			return nil
		}
		got := s.create(path, motor("second", `{"power":2}`))
		require.True(t, asked)
		require.Equal(t, map[string]string{"policy.example.com/decision": "let it run"}, annotated)
		require.Contains(t, fmt.Sprint(got.header["Warning"]), "mind the motor")
	}, kindwright.Admit(plugin), kindwright.Authorize(allowing()), audit)
}

// A plugin gets no more time than the request, and a write that it delayed beyond that is not made.
func TestX12_APluginThatBlocksEndsWithTheRequest(t *testing.T) {
	plugin := admission.Plugin{
		Name: "wait", Rules: []admission.Rule{{Groups: []string{group}}},
		Mutator: admission.MutatorFunc(func(ctx context.Context, r *admission.Request) (map[string]any, error) {
			if r.Name == "slow" {
				<-ctx.Done()
			}
			return admission.Allowed(r)
		}),
	}
	onCrates(t, func(t *testing.T, s *server) {
		began := time.Now()
		s.do("POST", cratePath+"?timeout=7s", crateJSON("slow", "")).refused(504, "Timeout", "")
		require.Equal(t, 7*time.Second, time.Since(began))
		s.get(cratePath+"/slow").refused(404, "NotFound", "")
		s.crate("quick", "")
	}, kindwright.Admit(plugin))
}

// A plugin that panics fails only its own request.
func TestX12_APanickingPluginFailsOnlyItsRequest(t *testing.T) {
	plugin := admission.Plugin{
		Name: "panic", Rules: []admission.Rule{{Groups: []string{group}, Operations: []admission.Operation{admission.Create, admission.Delete}}},
		Mutator: admission.MutatorFunc(func(_ context.Context, r *admission.Request) (map[string]any, error) {
			if r.Name == "bad" || r.Operation == admission.Delete {
				panic("boom")
			}
			return admission.Allowed(r)
		}),
	}
	onCrates(t, func(t *testing.T, s *server) {
		s.crate("a", "")
		s.do("POST", cratePath, crateJSON("bad", "")).refused(500, "InternalError", "")
		s.get(cratePath+"/bad").refused(404, "NotFound", "")
		s.do("DELETE", cratePath+"/a", "").refused(500, "InternalError", "")
		s.change(cratePath+"/a", mergeType, `{"spec":{"size":2}}`).is(200)
	}, kindwright.Admit(plugin))
}
