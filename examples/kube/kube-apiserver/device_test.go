package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	slicesPath = "/apis/resource.k8s.io/v1/resourceslices"
	claimsPath = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
)

// A node could hand its slices to other nodes, and so offer devices in their name.
func TestNODEAZ_02_ASliceStaysWithItsNode(t *testing.T) {
	for _, plugins := range []string{"NodeRestriction", ""} {
		s := runNodes(t, "--enable-admission-plugins="+plugins)
		body := func(spec string) string {
			return `{"metadata":{"name":"s"},"spec":{"driver":"d.example.com","pool":{"name":"p","generation":1,"resourceSliceCount":1}` + spec + `}}`
		}
		code, out := s.do(t, "n1", "POST", slicesPath, body(`,"nodeName":"n1"`))
		require.Equal(t, 201, code, "%v", out)
		for _, spec := range []string{`,"nodeName":"n2"`, `,"allNodes":true`, `,"nodeName":"n1","allNodes":true`, ""} {
			code, out = s.do(t, "n1", "PUT", slicesPath+"/s", body(spec))
			require.Contains(t, []int{403, 422}, code, "%s: %v", spec, out)
			code, out = s.do(t, "master", "POST", slicesPath, body(spec+`,"perDeviceNodeSelection":false`))
			require.Equal(t, 422, code, "%v", out)
		}
		code, _ = s.do(t, "n2", "GET", slicesPath+"/s", "")
		require.Equal(t, 403, code)
		code, out = s.do(t, "n1", "PUT", slicesPath+"/s", body(`,"nodeName":"n1","devices":[{"name":"gpu"}]`))
		require.Equal(t, 200, code, "%v", out)
	}
}

// Access to devices that others use needs a label of the namespace, which who writes claims cannot set.
func TestAUTHZ_DevicesOfOthersNeedALabelOfTheNamespace(t *testing.T) {
	s := runNodes(t)
	const asks = `{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"x","allocationMode":"All","adminAccess":true}}]}}`
	claim, template := `{"metadata":{"name":"all"},"spec":`+asks+`}`, `{"metadata":{"name":"all"},"spec":{"spec":`+asks+`}}`
	for path, body := range map[string]string{claimsPath: claim, claimsPath[:len(claimsPath)-1] + "templates": template} {
		code, out := s.do(t, "master", "POST", path, body)
		require.Equal(t, 422, code, "%v", out)
		require.Contains(t, out["message"], "admin access to devices requires")
	}
	code, _ := s.do(t, "master", "POST", claimsPath, `{"metadata":{"name":"one"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"x"}}]}}}`)
	require.Equal(t, 201, code)
	code, out := s.do(t, "master", "PUT", claimsPath+"/one", `{"metadata":{"name":"one"},"spec":`+asks+`}`)
	require.Equal(t, 422, code, "%v", out)
	allocated := `{"metadata":{"name":"one"},"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"d","pool":"p","device":"x","adminAccess":true}]}}}}`
	code, out = s.do(t, "master", "PUT", claimsPath+"/one/status", allocated)
	require.Equal(t, 422, code, "%v", out)
	code, _ = s.do(t, "master", "PUT", "/api/v1/namespaces/default", `{"metadata":{"name":"default","labels":{"resource.kubernetes.io/admin-access":"true"}}}`)
	require.Equal(t, 200, code)
	code, out = s.do(t, "master", "POST", claimsPath, claim)
	require.Equal(t, 201, code, "%v", out)
}

// The right to write the status of claims is not the right to allocate devices, nor to speak for each driver.
func TestAUTHZ_TheStateOfDevicesNeedsRightsOfItsOwn(t *testing.T) {
	s := runNodes(t)
	code, _ := s.do(t, "master", "POST", claimsPath, `{"metadata":{"name":"one"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"x"}}]}}}`)
	require.Equal(t, 201, code)
	grant := func(name, rules string) {
		const rbac = "/apis/rbac.authorization.k8s.io/v1/"
		code, out := s.do(t, "master", "POST", rbac+"clusterroles", `{"metadata":{"name":"`+name+`"},"rules":[`+rules+`]}`)
		require.Equal(t, 201, code, "%v", out)
		code, out = s.do(t, "master", "POST", rbac+"clusterrolebindings", `{"metadata":{"name":"`+name+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"`+
			name+`"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"system:node:n2"}]}`)
		require.Equal(t, 201, code, "%v", out)
	}
	update := func(who string, want int, state string) {
		t.Helper()
		code, out := s.do(t, who, "PUT", claimsPath+"/one/status", `{"metadata":{"name":"one"},"status":`+state+`}`)
		require.Equal(t, want, code, "%v", out)
	}
	const allocation = `"allocation":{"devices":{"results":[{"request":"r","driver":"d.example.com","pool":"p","device":"x"}]}}`
	device := func(driver string) string {
		text, err := json.Marshal(map[string]any{"driver": driver, "pool": "p", "device": "x", "conditions": []any{}})
		require.NoError(t, err)
		return `"devices":[` + string(text) + `]`
	}
	grant("state", `{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/status"],"verbs":["update"]}`)
	update("n2", 422, `{`+allocation+`}`)
	update("n2", 422, `{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}`)
	update("n2", 200, `{}`)
	update("master", 200, `{`+allocation+`}`)
	update("n2", 422, `{`+allocation+`,`+device("d.example.com")+`}`)
	grant("driver", `{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/driver"],"resourceNames":["d.example.com"],"verbs":["arbitrary-node:update"]}`)
	update("n2", 200, `{`+allocation+`,`+device("d.example.com")+`}`)
	update("n2", 422, `{`+allocation+`,`+device("other.example.com")+`}`)
	update("n2", 422, `{}`)
	grant("binding", `{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/binding"],"verbs":["update"]}`)
	update("n2", 200, `{}`)
}

// Without the gate, as before Kubernetes 1.36, the right to write the status is enough.
func TestAUTHZ_TheStateOfDevicesWithoutTheGate(t *testing.T) {
	s := runNodes(t, "--feature-gates=DRAResourceClaimGranularStatusAuthorization=false")
	code, _ := s.do(t, "master", "POST", claimsPath, `{"metadata":{"name":"one"},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"x"}}]}}}`)
	require.Equal(t, 201, code)
	const rbac = "/apis/rbac.authorization.k8s.io/v1/"
	code, out := s.do(t, "master", "POST", rbac+"clusterroles", `{"metadata":{"name":"state"},"rules":[{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims/status"],"verbs":["update"]}]}`)
	require.Equal(t, 201, code, "%v", out)
	code, out = s.do(t, "master", "POST", rbac+"clusterrolebindings", `{"metadata":{"name":"state"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"state"},
		"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"system:node:n2"}]}`)
	require.Equal(t, 201, code, "%v", out)
	code, out = s.do(t, "n2", "PUT", claimsPath+"/one/status", `{"metadata":{"name":"one"},"status":{"allocation":{"devices":{"results":[{"request":"r","driver":"d.example.com","pool":"p","device":"x"}]}}}}`)
	require.Equal(t, 200, code, "%v", out)
}
