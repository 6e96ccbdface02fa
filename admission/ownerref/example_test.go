package ownerref_test

import (
	"context"
	"fmt"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/ownerref"
	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
)

// Ann may do everything with widgets, and nothing with zones.
func Example() {
	widgets := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Resource == "widgets" {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	resources := func(kind meta.GroupVersionKind) (meta.GroupVersionResource, bool, bool) {
		return meta.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "zones"}, false, kind.Kind == "Zone"
	}
	chain, err := admission.NewChain(ownerref.Plugin(widgets, resources))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, blocks := range []bool{false, true} {
		zone := map[string]any{"apiVersion": "shop.example.com/v1", "kind": "Zone", "name": "north", "uid": "u-1", "blockOwnerDeletion": blocks}
		err := chain.Validate(context.Background(), &admission.Request{
			Operation: admission.Create,
			Resource:  meta.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "widgets"},
			Namespace: "default", Name: "chair",
			Object: map[string]any{"metadata": map[string]any{"ownerReferences": []any{zone}}},
			User:   authn.User{Name: "ann"},
		})
		fmt.Println(blocks, err)
	}
	// Output:
	// false <nil>
	// true widgets.shop.example.com "chair" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on
}
