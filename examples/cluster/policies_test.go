package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/etcd/etcdtest"
)

const (
	policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
	bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
	zones    = "/apis/example.dev/v1/zones"
)

// policy returns a policy that refuses every gadget, and says the region of the zone that is its parameter.
func policy(name string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{
		"paramKind":{"apiVersion":"example.dev/v1","kind":"Zone"},
		"matchConstraints":{"resourceRules":[{"apiGroups":["example.dev"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["gadgets"]}]},
		"validations":[{"expression":"false","messageExpression":"'region ' + params.spec.region"}]}}`, name)
}

// binding binds a policy to the zone of its name.
func binding(name string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},"spec":{
		"policyName":%[1]q,"validationActions":["Deny"],"paramRef":{"name":%[1]q,"parameterNotFoundAction":"Deny"}}}`, name)
}

func zone(name string, region int) string {
	return fmt.Sprintf(`{"apiVersion":"example.dev/v1","kind":"Zone","metadata":{"name":%q},"spec":{"region":"%d"}}`, name, region)
}

// beside starts servers on one store.
func beside(t *testing.T, count int) []*running {
	t.Helper()
	etcds := etcdtest.Start(t, 1, etcdtest.Options{})
	servers := make([]*running, count)
	for i := range servers {
		servers[i] = serve(t, "--etcd-servers="+strings.Join(etcds.Endpoints(), ","))
	}
	return servers
}

// TestPOL_03_PoliciesOfAnotherServer writes policies, bindings and parameters through one server. The others
// soon judge by them, and by a new parameter in the very next write: parameters are read for each write.
func TestPOL_03_PoliciesOfAnotherServer(t *testing.T) {
	servers := beside(t, 3)
	must := func(s *running, code int, method, path, body string) map[string]any {
		t.Helper()
		got, answer := s.do(method, path, body)
		require.Equal(t, code, got, "%s %s: %v", method, path, answer)
		return answer
	}
	soon := func(s *running, code int, says string) {
		t.Helper()
		began := time.Now()
		defer func() { t.Logf("in force on another server within %v", time.Since(began)) }() // for those who measure
		require.Eventually(t, func() bool {
			got, answer := s.do("POST", gadgets+"?dryRun=All", gadget("g", ""))
			return got == code && strings.Contains(fmt.Sprint(answer["message"]), says)
		}, time.Minute, time.Millisecond)
	}
	for round := range 6 {
		writer, other := servers[round%3], servers[(round+1)%3]
		name := fmt.Sprintf("p%d", round)
		must(writer, 201, "POST", policies, policy(name))
		must(writer, 201, "POST", zones, zone(name, 1))
		must(writer, 201, "POST", bindings, binding(name))
		soon(other, 422, name+"' denied request: region 1")
		for region := 2; region < 5; region++ {
			must(writer, 200, "PATCH", zones+"/"+name, fmt.Sprintf(`{"spec":{"region":"%d"}}`, region))
			refused := must(other, 422, "POST", gadgets+"?dryRun=All", gadget("g", ""))
			require.Contains(t, refused["message"], fmt.Sprintf("region %d", region))
		}
		must(writer, 200, "DELETE", zones+"/"+name, "")
		refused := must(other, 422, "POST", gadgets+"?dryRun=All", gadget("g", ""))
		require.Contains(t, refused["message"], "no params found")
		must(writer, 200, "PATCH", policies+"/"+name, `{"spec":{"validations":[{"expression":"true"}]}}`)
		must(other, 201, "POST", zones, zone(name, 5))
		soon(other, 201, "")
		must(writer, 200, "DELETE", bindings+"/"+name, "")
		must(writer, 200, "DELETE", policies+"/"+name, "")
	}
}

// region finds the value of the parameter in a refusal.
var region = regexp.MustCompile(`region ([0-9]+)`)

// TestPOL_03_ParametersOfAnotherServerUnderLoad changes, deletes and creates the parameter of a policy through one
// server, while writes through another are judged by it. The states are numbered. Each write sees one that
// was there between its begin and its end.
func TestPOL_03_ParametersOfAnotherServerUnderLoad(t *testing.T) {
	servers := beside(t, 2)
	for path, body := range map[string]string{policies: policy("p"), zones: zone("p", 0), bindings: binding("p")} {
		code, answer := servers[0].do("POST", path, body)
		require.Equal(t, 201, code, "%v", answer)
	}
	require.Eventually(t, func() bool {
		code, _ := servers[1].do("POST", gadgets+"?dryRun=All", gadget("g", ""))
		return code == 422
	}, time.Minute, time.Millisecond)

	const last = 120 // a state that three divides with a rest of two has no parameter
	var begun, ended atomic.Int64
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for ended.Load() < last {
				from := ended.Load()
				code, answer := servers[1].do("POST", gadgets, gadget("g", ""))
				to := begun.Load()
				says := fmt.Sprint(answer["message"])
				if !assert.Equal(t, 422, code, says) {
					return
				}
				if m := region.FindStringSubmatch(says); m != nil {
					seen, err := strconv.ParseInt(m[1], 10, 64)
					assert.NoError(t, err)
					assert.LessOrEqual(t, from, seen)
					assert.LessOrEqual(t, seen, to)
					continue
				}
				assert.Contains(t, says, "no params found")
				assert.GreaterOrEqual(t, to-(to+1)%3, from, "a parameter was there from %d to %d", from, to)
			}
		})
	}
	defer writers.Wait()
	defer ended.Store(last)
	for state := 1; state <= last; state++ {
		method, path, body, want := "PATCH", zones+"/p", fmt.Sprintf(`{"spec":{"region":"%d"}}`, state), 200
		switch state % 3 {
		case 0:
			method, path, body, want = "POST", zones, zone("p", state), 201
		case 2:
			method, body = "DELETE", ""
		}
		begun.Store(int64(state))
		code, answer := servers[0].do(method, path, body)
		require.Equal(t, want, code, "%v", answer)
		ended.Store(int64(state))
	}
}
