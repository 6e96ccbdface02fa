package ownerref_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/ownerref"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// GC-05: a writer who may update the finalizers of everything was refused an owner whose kind the server does not serve,
// as after its definition was deleted. kube-apiserver asks about everything first.
func TestGC_05_WhoMayBlockEverythingMayBlockWhatIsNotServed(t *testing.T) {
	var asked []authz.Attributes
	judge := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		asked = append(asked, a)
		if a.User.Name == "admin" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	p := ownerref.Plugin(judge, func(meta.GroupVersionKind) (meta.GroupVersionResource, bool, bool) {
		return meta.GroupVersionResource{}, false, false
	})
	write := func(user string) error {
		asked = nil
		return p.Validator.Validate(t.Context(), &admission.Request{
			Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Name: "a", Namespace: "default",
			User: authn.User{Name: user},
			Object: map[string]any{"metadata": map[string]any{"name": "a", "ownerReferences": []any{
				map[string]any{"apiVersion": "gone.example.dev/v1", "kind": "Gone", "name": "b", "uid": "1", "blockOwnerDeletion": true},
				map[string]any{"apiVersion": "gone.example.dev/v1", "kind": "Gone", "name": "c", "uid": "2", "blockOwnerDeletion": true},
			}}},
		})
	}
	require.NoError(t, write("admin"))
	require.Equal(t, []authz.Attributes{{
		User: authn.User{Name: "admin"}, ResourceRequest: true, Verb: "update", Group: "*", Version: "*", Resource: "*", Subresource: "finalizers", Name: "*",
	}}, asked)
	err := write("bob")
	require.True(t, status.IsForbidden(err), "%v", err)
	require.Len(t, asked, 1, "everything is asked about once")
}
