package kube

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

func specOf(object map[string]any) map[string]any {
	spec, _ := object["spec"].(map[string]any)
	return spec
}

func nodePort(spec map[string]any, i int) any { return at(list(spec["ports"])[i], "nodePort") }

func TestServicesChangeTheirType(t *testing.T) {
	s := serve(t, Options{NodePorts: [2]int32{31000, 31002}})
	const web = servicesPath + "/web"
	change := func(code int, spec string) map[string]any {
		return specOf(s.must(t, code, "PATCH", web, `{"spec":`+spec+`}`, "Content-Type", merge))
	}
	made := specOf(s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"web"},"spec":{"type":"LoadBalancer","loadBalancerClass":"example.dev/lb",
		"externalTrafficPolicy":"Local","ports":[{"name":"a","port":80}]}}`))
	require.NotZero(t, made["healthCheckNodePort"], "load balancers ask nodes for the health of a service with the policy Local")
	require.NotEqual(t, nodePort(made, 0), made["healthCheckNodePort"])
	s.must(t, 200, "PATCH", web+"/status", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`, "Content-Type", merge)

	require.Equal(t, made["healthCheckNodePort"], change(200, `{"healthCheckNodePort":null}`)["healthCheckNodePort"], "it is kept")
	other := s.must(t, 422, "PATCH", web, `{"spec":{"healthCheckNodePort":31999}}`, "Content-Type", merge)
	require.Contains(t, other["message"], "spec.healthCheckNodePort")

	port := change(200, `{"type":"NodePort"}`)
	require.Nil(t, port["healthCheckNodePort"])
	require.Nil(t, port["loadBalancerClass"])
	require.Nil(t, port["allocateLoadBalancerNodePorts"])
	require.Equal(t, nodePort(made, 0), nodePort(port, 0))
	require.Empty(t, at(s.must(t, 200, "GET", web, ""), "status", "loadBalancer"))

	inside := change(200, `{"type":"ClusterIP"}`)
	require.Nil(t, nodePort(inside, 0))
	require.Nil(t, inside["externalTrafficPolicy"])
	require.Equal(t, made["clusterIP"], inside["clusterIP"])

	// The ports are free again: there are three, and others get all of them.
	for i := range 3 {
		s.must(t, 201, "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"p%d"},"spec":{"type":"NodePort","ports":[{"port":80}]}}`, i))
	}
	for i := range 3 {
		s.must(t, 200, "DELETE", servicesPath+fmt.Sprintf("/p%d", i), "")
	}

	kept := change(200, `{"type":"NodePort"}`)
	require.NotNil(t, nodePort(kept, 0))
	name := change(200, `{"type":"ExternalName","externalName":"example.dev","clusterIP":null}`)
	for _, field := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "externalTrafficPolicy"} {
		require.Nil(t, name[field], field)
	}
	require.Nil(t, nodePort(name, 0))
	s.must(t, 201, "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"heir"},"spec":{"type":"NodePort","clusterIP":%q,"ports":[{"port":80,"nodePort":%v}]}}`,
		made["clusterIP"], nodePort(kept, 0)))

	back := change(200, `{"type":"ClusterIP"}`)
	require.NotEmpty(t, back["clusterIP"])
	require.Equal(t, []any{back["clusterIP"]}, back["clusterIPs"])
}

func TestServicesKeepTheirNodePortsByName(t *testing.T) {
	s := serve(t, Options{})
	made := specOf(s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"web"},"spec":{"type":"NodePort","ports":[{"name":"a","port":80},{"name":"b","port":81}]}}`))
	put := specOf(s.must(t, 200, "PUT", servicesPath+"/web", `{"metadata":{"name":"web"},"spec":{"type":"NodePort","ports":[{"name":"b","port":82},{"name":"a","port":81},{"name":"c","port":83}]}}`))
	require.Equal(t, []any{nodePort(made, 1), nodePort(made, 0)}, []any{nodePort(put, 0), nodePort(put, 1)})
	require.NotContains(t, []any{nodePort(made, 0), nodePort(made, 1), nil}, nodePort(put, 2))
}

func TestFieldsThatATypeCannotHave(t *testing.T) {
	s := serve(t, Options{})
	for field, spec := range map[string]string{
		"spec.externalTrafficPolicy":         `{"externalTrafficPolicy":"Local"}`,
		"spec.healthCheckNodePort":           `{"type":"LoadBalancer","healthCheckNodePort":31000}`,
		"spec.loadBalancerClass":             `{"loadBalancerClass":"example.dev/lb"}`,
		"spec.allocateLoadBalancerNodePorts": `{"type":"NodePort","allocateLoadBalancerNodePorts":true}`,
		"spec.ports[0].nodePort":             `{"type":"ClusterIP","ports":[{"port":80,"nodePort":31000}]}`,
	} {
		if !strings.Contains(spec, "ports") {
			spec = strings.Replace(spec, "{", `{"ports":[{"port":80}],`, 1)
		}
		no := s.must(t, 422, "POST", servicesPath, `{"metadata":{"name":"web"},"spec":`+spec+`}`)
		require.Contains(t, no["message"], field)
	}
}

func manyPorts(n int) string {
	ports := make([]string, n)
	for i := range ports {
		ports[i] = fmt.Sprintf(`{"name":"p%d","port":%d}`, i, i+1)
	}
	return `{"metadata":{"name":"wide"},"spec":{"type":"NodePort","ports":[` + strings.Join(ports, ",") + `]}}`
}

func TestServicesWithManyNodePorts(t *testing.T) {
	s := serve(t, Options{}) // its store takes 128 operations in one commit
	s.must(t, 201, "POST", servicesPath, manyPorts(100))
	s.must(t, 200, "DELETE", servicesPath+"/wide", "")
	no := s.must(t, 422, "POST", servicesPath, manyPorts(126))
	require.Contains(t, no["message"], "spec.ports: Too many")

	roomy := serveOn(t, memory.New(memory.WithLimits(storage.Limits{MaxValueBytes: 4 << 20, MaxOps: 4096})), Options{})
	made := specOf(roomy.must(t, 201, "POST", servicesPath, manyPorts(1000)))
	seen := map[any]bool{}
	for i := range 1000 {
		seen[nodePort(made, i)] = true
	}
	require.Len(t, seen, 1000)
	require.False(t, seen[nil])
	roomy.must(t, 200, "PATCH", servicesPath+"/wide", `{"spec":{"type":"ClusterIP"}}`, "Content-Type", merge)
	roomy.must(t, 200, "PATCH", servicesPath+"/wide", `{"spec":{"type":"NodePort"}}`, "Content-Type", merge)
}

// Codes and fields are those of kube-apiserver 1.36.3.
func TestWhatServicesKeepAndDrop(t *testing.T) {
	s := serve(t, Options{})
	spec := func(code int, method, path, body string) map[string]any {
		return specOf(s.must(t, code, method, path, body, "Content-Type", "application/json"))
	}
	outside := spec(201, "POST", servicesPath, `{"metadata":{"name":"outside"},"spec":{"type":"ExternalName","externalName":"example.dev","internalTrafficPolicy":"Cluster"}}`)
	require.NotContains(t, outside, "internalTrafficPolicy")

	none := `{"metadata":{"name":"none"},"spec":{"clusterIP":"None","type":"%s","ports":[{"port":80}]%s}}`
	require.Equal(t, "Cluster", spec(201, "POST", servicesPath, fmt.Sprintf(none, "ClusterIP", ""))["internalTrafficPolicy"])
	gone := spec(200, "PUT", servicesPath+"/none", fmt.Sprintf(none, "ExternalName", `,"externalName":"example.dev"`))
	for _, field := range []string{"internalTrafficPolicy", "clusterIP", "clusterIPs"} {
		require.NotContains(t, gone, field)
	}

	const balanced = `{"metadata":{"name":"lb"},"spec":{"type":"LoadBalancer","loadBalancerClass":%s,"allocateLoadBalancerNodePorts":%t,"ports":[{"name":"a","port":80,"nodePort":%v},{"name":"b","port":81,"nodePort":%v}]}}`
	made := spec(201, "POST", servicesPath, fmt.Sprintf(balanced, `"example.dev/a"`, true, 0, 0))
	for _, class := range []string{`"example.dev/b"`, `null`} {
		code, got := s.do(t, "PUT", servicesPath+"/lb", fmt.Sprintf(balanced, class, true, 0, 0))
		require.Equal(t, []string{"422 Invalid", "spec.loadBalancerClass FieldValueInvalid"}, refusal(code, got))
	}
	kept := spec(200, "PUT", servicesPath+"/lb", fmt.Sprintf(balanced, `"example.dev/a"`, false, 0, nodePort(made, 1)))
	require.Nil(t, nodePort(kept, 0))
	require.Equal(t, nodePort(made, 1), nodePort(kept, 1))
	code, got := s.do(t, "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"other"},"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":%v}]}}`, nodePort(made, 1)))
	require.Equal(t, 422, code, "%v", got)
}

// What Kubernetes tests in test/integration/service (Test_ServiceValidation_FeatureGateEnableDisable): names may begin
// with a digit since 1.36, and keep doing so on a server where new ones may not.
func TestServicesWhoseNamesBeginWithADigit(t *testing.T) {
	const path, body = "/api/v1/namespaces/default/services", `{"metadata":{"name":"9-lives"},"spec":{"ports":[{"port":443}]}}`
	db := memory.New()
	loose := serveOn(t, kept{db}, Options{})
	loose.must(t, 201, "POST", path, body)
	strict := serveOn(t, kept{db}, Options{StrictServiceNames: true})
	strict.must(t, 200, "PATCH", path+"/9-lives", `{"spec":{"selector":{"a":"b"}}}`, "Content-Type", merged)
	other := strings.Replace(body, "9-lives", "8-lives", 1)
	require.Contains(t, strict.must(t, 422, "POST", path, other)["message"], `metadata.name: Invalid value: "8-lives"`)
	strict.must(t, 201, "POST", path, `{"metadata":{"name":"nine-lives"},"spec":{"ports":[{"port":443}]}}`)
}

// kept is a store that outlives its server.
type kept struct{ storage.Backend }

// Close implements storage.Backend.
func (kept) Close() error { return nil }
