package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
)

// Whoever asks needs the code alone: the text is for people.
func TestHEALTH_19_TheCodeSaysItAll(t *testing.T) {
	var failing error
	onEach(t, func(t *testing.T, s *server) {
		for _, query := range []string{"", "?verbose", "?exclude=ping", "?verbose&exclude=nothing"} {
			failing = nil
			require.Equal(t, 200, s.do("GET", "/readyz"+query, "").code)
			failing = errors.New("broken")
			require.Equal(t, 500, s.do("GET", "/readyz"+query, "").code)
			require.Equal(t, 200, s.do("GET", "/livez"+query, "").code, "another endpoint")
		}
	}, kindwright.CheckHealth(health.Ready, health.Check{Name: "part", Check: func(context.Context) error { return failing }}))
}

// A record has one version of its kind, whatever version the object was written and is read in.
func TestSTORE_01_OneVersionIsStored(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		s.create(motorBeta, `{"metadata":{"name":"beta"},"watts":4000}`)
		s.create(motorPath, `{"metadata":{"name":"now"},"spec":{"power":4}}`)
		list, err := s.backend.List(t.Context(), storage.ListRequest{Prefix: storage.ResourcePrefix("drive.example.com/motors"), Limit: 10})
		require.NoError(t, err)
		require.Len(t, list.Records, 2)
		for _, r := range list.Records {
			require.Contains(t, string(r.Value), `"power":4`)
			require.Contains(t, string(r.Value), `"apiVersion":"drive.example.com/v1","kind":"Motor"`)
			require.NotContains(t, string(r.Value), `"watts"`)
		}
		for _, name := range []string{"beta", "now"} {
			require.Equal(t, 4.0, s.get(motorPath+"/"+name).at("spec", "power"))
			require.Equal(t, 4000.0, s.get(motorBeta+"/"+name).at("watts"))
		}
	}, kindwright.Serve(motors()))
}

// Bare has nothing but what every object has. It describes no status, so there is none.
type Bare struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Anything map[string]any `json:"anything,omitempty"`
}

// The program defines its kinds; the library adds no fields and no states.
func TestLIFE_01_LIFE_02_KindsAreWhatTheProgramSays(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const path = "/apis/shop.example.com/v1/namespaces/default/bares"
		s.create(path, `{"metadata":{"name":"a"},"anything":{"phase":"odd","deep":[{"x":1}]}}`)
		got := s.get(path + "/a")
		var keys []string
		for key := range got.doc {
			keys = append(keys, key)
		}
		require.ElementsMatch(t, []string{"apiVersion", "kind", "metadata", "anything"}, keys, "no status, no phase")
		require.Equal(t, "odd", got.at("anything", "phase"))
		s.delete(path + "/a")
		require.Equal(t, 404, s.do("GET", path+"/a", "").code, "an object without finalizers is gone at once")

		s.create(path, `{"metadata":{"name":"b","finalizers":["example.com/hold"]}}`)
		s.delete(path + "/b")
		require.NotEmpty(t, s.get(path+"/b").at("metadata", "deletionTimestamp"), "deletion is marked")
		s.patch(path+"/b", `{"metadata":{"finalizers":null}}`)
		require.Equal(t, 404, s.do("GET", path+"/b", "").code)
	}, kindwright.Serve(registry.Kind[Bare]{Group: group, Version: "v1", Plural: "bares"}))
}

// Full lists at once cost no memory in proportion to their number: each is sent from what is shared.
func TestLIM_15_ManyFullLists(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		objects, lists := 1000, effort.Of(50)
		text := strings.Repeat("x", 2<<10)
		for i := range objects {
			s.create(widgetPath, fmt.Sprintf(`{"metadata":{"name":"w%04d","annotations":{"text":%q}}}`, i, text))
		}
		request := func() *http.Request {
			r, err := http.NewRequestWithContext(t.Context(), "GET", widgetPath, nil)
			require.NoError(t, err)
			r.Header.Set("X-User", "admin")
			r.Header.Set("X-Groups", "system:masters")
			return r
		}
		whole := &counter{header: http.Header{}}
		s.api.ServeHTTP(whole, request())
		require.Equal(t, 200, whole.code)
		require.Greater(t, whole.bytes, objects*len(text))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range lists {
			w := &counter{header: http.Header{}}
			s.api.ServeHTTP(w, request())
			require.Equal(t, whole.bytes, w.bytes)
		}
		runtime.ReadMemStats(&after)
		require.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(lists), uint64(whole.bytes/4), "bytes allocated for a list of %d bytes", whole.bytes)
	})
}

// counter is a client that reads an answer and keeps nothing of it.
type counter struct {
	header http.Header
	code   int
	bytes  int
}

func (c *counter) Header() http.Header         { return c.header }
func (c *counter) WriteHeader(code int)        { c.code = code }
func (c *counter) Write(b []byte) (int, error) { c.bytes += len(b); return len(b), nil }
func (c *counter) Flush()                      {}

// The documents of both forms name the same resources with the same verbs.
func TestDISC_04_BothFormsOfDiscoveryAgree(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		list := s.get("/apis/shop.example.com/v1")
		require.Equal(t, "APIResourceList", list.at("kind"))
		require.Equal(t, "shop.example.com/v1", list.at("groupVersion"))
		plain := map[string][]any{}
		for _, r := range list.at("resources").([]any) {
			plain[at(r, "name").(string)] = at(r, "verbs").([]any)
		}
		require.Contains(t, plain, "widgets")
		require.Contains(t, plain, "widgets/status")

		whole := s.do("GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").is(200)
		aggregated := map[string][]any{}
		for _, g := range whole.at("items").([]any) {
			if at(g, "metadata", "name") != "shop.example.com" {
				continue
			}
			for _, v := range at(g, "versions").([]any) {
				if at(v, "version") == "v1" {
					verbsIn(v, aggregated)
				}
			}
		}
		require.Equal(t, plain, aggregated)
	})
}

// verbsIn notes the verbs of the resources and subresources in a version of aggregated discovery.
func verbsIn(version any, into map[string][]any) {
	for _, r := range at(version, "resources").([]any) {
		name := at(r, "resource").(string)
		into[name] = at(r, "verbs").([]any)
		subs, _ := at(r, "subresources").([]any)
		for _, sub := range subs {
			into[name+"/"+at(sub, "subresource").(string)] = at(sub, "verbs").([]any)
		}
	}
}
