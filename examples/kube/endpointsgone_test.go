package kube

import "testing"

// What is left of a service's endpoints must not serve the next service of the name.
func TestServicesTakeTheirEndpointsAlong(t *testing.T) {
	s := serve(t, Options{})
	const endpoints = "/api/v1/namespaces/default/endpoints"
	service := `{"metadata":{"name":"web"},"spec":{"ports":[{"port":80}]}}`
	s.must(t, 201, "POST", servicesPath, service)
	s.must(t, 201, "POST", endpoints, `{"metadata":{"name":"web"},"subsets":[{"addresses":[{"ip":"10.1.1.1"}],"ports":[{"port":80}]}]}`)
	s.must(t, 201, "POST", endpoints, `{"metadata":{"name":"other"}}`)
	s.must(t, 200, "DELETE", servicesPath+"/web?dryRun=All", "")
	s.must(t, 200, "GET", endpoints+"/web", "")
	s.must(t, 200, "DELETE", servicesPath+"/web", "")
	s.must(t, 404, "GET", endpoints+"/web", "")
	s.must(t, 200, "GET", endpoints+"/other", "")
	s.must(t, 201, "POST", servicesPath, service)
	s.must(t, 200, "DELETE", servicesPath+"/web", "") // without endpoints
}
