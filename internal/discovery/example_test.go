package discovery_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/kindwright/kindwright/internal/discovery"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
)

// A server with one kind, asked for its resources and for everything at once.
func Example() {
	groups := []discovery.Group{{Name: "example.dev", Versions: []discovery.Version{{Name: "v1", Resources: func() []discovery.Resource {
		return []discovery.Resource{{
			GVK: meta.GroupVersionKind{Group: "example.dev", Version: "v1", Kind: "Widget"}, Plural: "widgets", Singular: "widget", Namespaced: true, Verbs: []string{"get", "list"},
		}}
	}}}}}
	h := &discovery.Handler{
		Generation: func() uint64 { return 1 },
		Content:    func() discovery.Content { return discovery.Content{Generation: 1, Groups: groups} },
	}
	ask := func(path, accept string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", accept)
		info, err := request.Parse(r, "")
		if err != nil {
			fmt.Println(err)
			return
		}
		w := httptest.NewRecorder()
		x := new(request.Exchange).Begin(r, "", time.Now())
		x.Info.Store(info)
		h.ServeHTTP(w, r.WithContext(x))
		fmt.Println(w.Header().Get("Content-Type"))
		fmt.Println(w.Body)
	}
	ask("/apis/example.dev/v1", "application/json")
	ask("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
	// Output:
	// application/json
	// {"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.dev/v1","resources":[{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["get","list"]}]}
	// application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList
	// {"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{"name":"example.dev"},"versions":[{"version":"v1","resources":[{"resource":"widgets","responseKind":{"group":"example.dev","version":"v1","kind":"Widget"},"scope":"Namespaced","singularResource":"widget","verbs":["get","list"]}],"freshness":"Current"}]}]}
}
