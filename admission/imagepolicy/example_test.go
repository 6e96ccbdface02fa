package imagepolicy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/admission/imagepolicy"
	"github.com/kindwright/kindwright/meta"
)

// A back end that allows images of one registry.
func Example() {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review imagepolicy.ImageReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		review.Status.Allowed = true
		for _, c := range review.Spec.Containers {
			if !strings.HasPrefix(c.Image, "images.example.com/") {
				review.Status = imagepolicy.ImageReviewStatus{Reason: c.Image + " is not ours"}
			}
		}
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer backend.Close()

	plugin, err := imagepolicy.Plugin(imagepolicy.Options{To: imagepolicy.Connection{URL: backend.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain, err := admission.NewChain(plugin)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, image := range []string{"images.example.com/web:1", "nginx"} {
		fmt.Println(chain.Validate(context.Background(), &admission.Request{
			Operation: admission.Create, Resource: meta.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace: "shop", Name: "web",
			Object: map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": image}}}},
		}))
	}
	// Output:
	// <nil>
	// pods "web" is forbidden: image policy webhook backend denied one or more images: nginx is not ours
}
