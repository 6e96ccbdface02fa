package kinds_test

import (
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// TestPOL_03_ParametersChangeUnderLoad changes a parameter between two values, and deletes and creates it, among
// writers whose objects neither value allows. Each write sees a value, or that there is none, which denies
// too. Whoever changed the value sees it.
func TestPOL_03_ParametersChangeUnderLoad(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		h.must(201, "POST", policiesPath, aboutConfigMaps("names",
			"object == null || object.metadata.name == 'names' || object.metadata.name.startsWith(params.data.prefix)",
			`,"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}`))
		h.must(201, "POST", configMapsPath, configMap("names", `"prefix":"red"`))
		h.must(201, "POST", policyBindingsPath, inForce("names", `["Deny"]`, `,"paramRef":{"name":"names","parameterNotFoundAction":"Deny"}`))

		var writers sync.WaitGroup
		var wrong atomic.Pointer[string]
		for i := range 4 {
			writers.Go(func() {
				for k := range 50 {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, newRequest(t.Context(), "POST", configMapsPath, configMap(fmt.Sprintf("green-%d-%d", i, k), "")))
					if w.Code != 422 {
						text := w.Body.String()
						wrong.Store(&text)
					}
				}
			})
		}
		for k := range 20 {
			mine, other := "red", "blue"
			if k%2 == 0 {
				mine, other = other, mine
			}
			h.must(200, "PUT", configMapsPath+"/names", configMap("names", fmt.Sprintf(`"prefix":%q`, mine)))
			h.must(201, "POST", configMapsPath+"?dryRun=All", configMap(mine, ""))
			h.must(422, "POST", configMapsPath+"?dryRun=All", configMap(other, ""))
			if k%5 == 4 {
				// Without a parameter the policy denies its creation as well, unless the binding leaves it out.
				h.must(200, "PUT", policyBindingsPath+"/names", withVersion(h, policyBindingsPath+"/names",
					inForce("names", `["Deny"]`, `,"matchResources":{"excludeResourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],
						"resources":["configmaps"],"resourceNames":["names"]}]},"paramRef":{"name":"names","parameterNotFoundAction":"Deny"}`)))
				h.must(200, "DELETE", configMapsPath+"/names", "")
				h.must(422, "POST", configMapsPath+"?dryRun=All", configMap(mine, ""))
				h.must(201, "POST", configMapsPath, configMap("names", fmt.Sprintf(`"prefix":%q`, mine)))
			}
		}
		writers.Wait()
		if text := wrong.Load(); text != nil {
			require.Fail(t, "a write that no parameter allows was answered", "%s", *text)
		}
	})
}

// TestPOL_01_WritesThatChangeNothing are judged like all others.
func TestPOL_01_WritesThatChangeNothing(t *testing.T) {
	h := servePolicies(t, memory.New())
	made := h.must(201, "POST", configMapsPath, configMap("x", `"a":"b"`))
	h.deny("frozen", "request.operation == 'DELETE'", "")
	h.must(422, "PUT", configMapsPath+"/x", configMap("x", `"a":"b"`))
	h.must(422, "PATCH", configMapsPath+"/x", `{}`, "Content-Type", "application/merge-patch+json")
	h.must(200, "DELETE", policyBindingsPath+"/frozen", "")
	same := h.must(200, "PUT", configMapsPath+"/x", configMap("x", `"a":"b"`))
	require.Equal(t, at(made, "metadata", "resourceVersion"), at(same, "metadata", "resourceVersion"))
}
