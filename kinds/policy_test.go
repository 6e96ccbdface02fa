package kinds_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/storage"
)

const (
	policiesPath       = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	policyBindingsPath = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
)

// servePolicies serves config maps and secrets with admission policies.
func servePolicies(t *testing.T, b storage.Backend, opts ...kindwright.Option) *host {
	t.Helper()
	return serve(t, b, nil, append(opts, kindwright.Serve(kinds.Policies(), kinds.ConfigMaps(), kinds.Secrets()))...)
}

// aboutConfigMaps is a policy about config maps. more are further fields of its spec, with a comma before
// them.
func aboutConfigMaps(name, expression, more string) string {
	text, _ := json.Marshal(expression)
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE","DELETE"],"resources":["configmaps"]}]},
		"validations":[{"expression":%s}]%s}}`, name, text, more)
}

// inForce is a binding of a policy of the same name. more are further fields of its spec.
func inForce(name, actions, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":%s%s}}`, name, name, actions, more)
}

func configMap(name, data string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"data":{%s}}`, name, data)
}

// TestPOL_01_03_APolicyIsInForceWhenItsWriteIsAnswered creates a policy and its binding, and takes them away
// again.
func TestPOL_01_03_APolicyIsInForceWhenItsWriteIsAnswered(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := servePolicies(t, b)
		p := h.must(201, "POST", policiesPath, aboutConfigMaps("sizes", "object == null || size(object.data) < 2", ""))
		require.Equal(t, "Fail", at(p, "spec", "failurePolicy"))
		require.Equal(t, "Equivalent", at(p, "spec", "matchConstraints", "matchPolicy"))
		h.must(201, "POST", configMapsPath, configMap("free", `"a":"1","b":"2"`))
		h.must(201, "POST", policyBindingsPath, inForce("sizes", `["Deny"]`, ""))
		refused := h.must(422, "POST", configMapsPath, configMap("big", `"a":"1","b":"2"`))
		const text = `ValidatingAdmissionPolicy 'sizes' with binding 'sizes' denied request: failed expression: object == null || size(object.data) < 2`
		require.Equal(t, `configmaps "big" is forbidden: `+text, refused["message"])
		require.Equal(t, "Invalid", refused["reason"])
		require.Equal(t, []any{map[string]any{"message": text}}, at(refused, "details", "causes"))
		h.must(201, "POST", configMapsPath, configMap("small", `"a":"1"`))
		h.must(422, "PUT", configMapsPath+"/small", configMap("small", `"a":"1","b":"2"`))
		h.must(200, "DELETE", policyBindingsPath+"/sizes", "")
		h.must(200, "PUT", configMapsPath+"/small", configMap("small", `"a":"1","b":"2"`))
	})
}
