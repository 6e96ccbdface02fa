package kube

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/memory"
)

const (
	cidrsPath     = "/apis/networking.k8s.io/v1/servicecidrs"
	addressesPath = "/apis/networking.k8s.io/v1/ipaddresses"
	strategic     = "application/strategic-merge-patch+json"
)

func serviceAt(name, ip string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"clusterIP":%q,"ports":[{"port":80}]}}`, name, ip)
}

func cidrOf(name, ranges string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"cidrs":[%s]}}`, name, ranges)
}

func readiness(status string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"x","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`, status)
}

// addresses returns what the IPAddresses belong to.
func (s *target) addresses(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, a := range list(s.must(t, 200, "GET", addressesPath, "")["items"]) {
		out[word(at(a, "metadata", "name"))] = word(at(a, "spec", "parentRef", "namespace")) + "/" + word(at(a, "spec", "parentRef", "name"))
	}
	return out
}

func TestTheDefaultServiceCIDR(t *testing.T) {
	s := serve(t, Options{ServiceRange: netip.MustParsePrefix("10.3.0.0/24"), SecondServiceRange: netip.MustParsePrefix("fd00::/112")})
	made := s.must(t, 200, "GET", cidrsPath+"/kubernetes", "")
	require.Equal(t, []any{"10.3.0.0/24", "fd00::/112"}, at(made, "spec", "cidrs"))
	ready := condition(at(made, "status", "conditions"), "Ready")
	require.Equal(t, "True", at(ready, "status"))
	require.Equal(t, "Kubernetes default Service CIDR is ready", at(ready, "message"))
	require.Nil(t, at(made, "metadata", "finalizers"), "kube-controller-manager adds the finalizer")
	require.Contains(t, fmt.Sprint(at(made, "metadata", "managedFields")), "kubernetes-service-cidr-controller")

	own := s.must(t, 200, "GET", addressesPath+"/10.3.0.1", "")
	require.Equal(t, map[string]any{"resource": "services", "namespace": "default", "name": "kubernetes"}, at(own, "spec", "parentRef"))
	require.Equal(t, map[string]any{
		"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
	}, at(own, "metadata", "labels"))
	require.Equal(t, "SingleStack", at(s.must(t, 200, "GET", servicesPath+"/kubernetes", ""), "spec", "ipFamilyPolicy"))
}

// A server with a second range adds it to the ServiceCIDR of one with the first. A server with another first
// range leaves it alone, and services get addresses of the ranges that are there.
func TestTheDefaultServiceCIDRAfterAnotherStart(t *testing.T) {
	db := kept{memory.New()}
	first := netip.MustParsePrefix("10.3.0.0/24")
	require.Equal(t, []any{"10.3.0.0/24"}, at(serveOn(t, db, Options{ServiceRange: first}).must(t, 200, "GET", cidrsPath+"/kubernetes", ""), "spec", "cidrs"))
	s := serveOn(t, db, Options{ServiceRange: first, SecondServiceRange: netip.MustParsePrefix("fd00::/112")})
	require.Equal(t, []any{"10.3.0.0/24", "fd00::/112"}, at(s.must(t, 200, "GET", cidrsPath+"/kubernetes", ""), "spec", "cidrs"))
	s = serveOn(t, db, Options{ServiceRange: netip.MustParsePrefix("10.4.0.0/24"), Endpoint: netip.MustParseAddrPort("192.0.2.7:6443")})
	require.Equal(t, []any{"10.3.0.0/24", "fd00::/112"}, at(s.must(t, 200, "GET", cidrsPath+"/kubernetes", ""), "spec", "cidrs"))
	require.Equal(t, "10.3.0.1", at(s.must(t, 200, "GET", servicesPath+"/kubernetes", ""), "spec", "clusterIP"))
	made := s.must(t, 201, "POST", servicesPath, `{"metadata":{"name":"a"},"spec":{"ports":[{"port":80}]}}`)
	require.True(t, strings.HasPrefix(word(at(made, "spec", "clusterIP")), "10.3.0."), made)
	s = serveOn(t, db, Options{ServiceRange: netip.MustParsePrefix("fd00::/112"), Endpoint: netip.MustParseAddrPort("[fd01::7]:6443")})
	require.Equal(t, "IPv6", s.must(t, 200, "GET", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", "")["addressType"])
	require.Equal(t, "10.3.0.1", at(s.must(t, 200, "GET", servicesPath+"/kubernetes", ""), "spec", "clusterIP"))
}

// Another ServiceCIDR gives addresses while it is ready and stays.
func TestAddressesOfServiceCIDRsThatAreReady(t *testing.T) {
	s := serve(t, Options{ServiceRange: netip.MustParsePrefix("10.3.0.0/24")})
	const elsewhere = "the provided network does not match the current range"
	s.must(t, 201, "POST", cidrsPath, cidrOf("more", `"10.5.0.0/28"`))
	s.must(t, 201, "POST", servicesPath, serviceAt("a", "10.5.0.3"))
	require.Contains(t, s.must(t, 422, "POST", servicesPath, serviceAt("b", "10.5.0.3"))["message"], "failed to allocate IP 10.5.0.3: provided IP is already allocated")
	for _, ip := range []string{"10.5.0.0", "10.5.0.15", "10.3.0.0", "10.3.0.255", "192.0.2.1"} {
		require.Contains(t, s.must(t, 422, "POST", servicesPath, serviceAt("b", ip))["message"], elsewhere, ip)
	}
	more := cidrsPath + "/more"
	s.must(t, 200, "PATCH", more+"/status", readiness("False"), "Content-Type", merge)
	require.Contains(t, s.must(t, 422, "POST", servicesPath, serviceAt("b", "10.5.0.4"))["message"], elsewhere)
	s.must(t, 200, "PATCH", more+"/status", readiness("True"), "Content-Type", merge)
	s.must(t, 200, "PATCH", more, `{"metadata":{"finalizers":["networking.k8s.io/service-cidr-finalizer"]}}`, "Content-Type", merge)
	s.must(t, 201, "POST", servicesPath, serviceAt("b", "10.5.0.4"))
	s.must(t, 200, "DELETE", more, "")
	require.Contains(t, s.must(t, 422, "POST", servicesPath, serviceAt("c", "10.5.0.5"))["message"], elsewhere)
	require.Equal(t, "default/b", s.addresses(t)["10.5.0.4"], "what is in use stays")
	s.must(t, 200, "DELETE", servicesPath+"/b", "")
	s.must(t, 200, "DELETE", servicesPath+"/a", "")
	require.Equal(t, map[string]string{"10.3.0.1": "default/kubernetes"}, s.addresses(t))
}

// When the first range is full, services get addresses of the next.
func TestAddressesOfTheNextServiceCIDR(t *testing.T) {
	s := serve(t, Options{ServiceRange: netip.MustParsePrefix("10.3.0.0/29")})
	s.must(t, 201, "POST", cidrsPath, cidrOf("more", `"10.5.0.0/29","fd00::/64"`))
	last := ""
	for i := range 8 { // of the first range 5
		last = word(at(s.must(t, 201, "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"s%d"},"spec":{"ports":[{"port":80}]}}`, i)), "spec", "clusterIP"))
	}
	require.True(t, strings.HasPrefix(last, "10.5.0."), last)
	require.Len(t, s.addresses(t), 9)
}

// An IPAddress comes with the address of a service and goes with it.
func TestIPAddressesOfServices(t *testing.T) {
	s := serve(t, Options{ServiceRange: netip.MustParsePrefix("10.3.0.0/24"), SecondServiceRange: netip.MustParsePrefix("fd00::/112")})
	web, own := servicesPath+"/web", map[string]string{"10.3.0.1": "default/kubernetes"}
	s.must(t, 201, "POST", servicesPath+"?dryRun=All", serviceAt("web", "10.3.0.7"))
	require.Equal(t, own, s.addresses(t), "a dry run takes nothing")
	s.must(t, 201, "POST", servicesPath, serviceAt("web", "10.3.0.7"))
	require.Equal(t, map[string]string{"10.3.0.1": "default/kubernetes", "10.3.0.7": "default/web"}, s.addresses(t))
	two := s.must(t, 200, "PATCH", web, `{"spec":{"ipFamilyPolicy":"RequireDualStack"}}`, "Content-Type", strategic)
	second := word(list(at(two, "spec", "clusterIPs"))[1])
	require.Equal(t, "default/web", s.addresses(t)[second])
	require.Equal(t, "IPv6", at(s.must(t, 200, "GET", addressesPath+"/"+second, ""), "metadata", "labels", "ipaddress.kubernetes.io/ip-family"))
	s.must(t, 200, "PATCH", web, `{"spec":{"ipFamilyPolicy":"SingleStack"}}`, "Content-Type", strategic)
	require.Equal(t, map[string]string{"10.3.0.1": "default/kubernetes", "10.3.0.7": "default/web"}, s.addresses(t))
	s.must(t, 200, "PATCH", web, `{"spec":{"type":"ExternalName","externalName":"example.dev"}}`, "Content-Type", merge)
	require.Equal(t, own, s.addresses(t))
	s.must(t, 200, "PATCH", web, `{"spec":{"type":"ClusterIP","clusterIP":"10.3.0.8"}}`, "Content-Type", merge)
	require.Equal(t, "default/web", s.addresses(t)["10.3.0.8"])
	s.must(t, 200, "DELETE", web, "")
	require.Equal(t, own, s.addresses(t))
}

// An IPAddress that somebody else has made takes its address from services. One that somebody else removes does not
// give the address of a service away, and is made anew.
func TestIPAddressesOfOthers(t *testing.T) {
	db := kept{memory.New()}
	o := Options{ServiceRange: netip.MustParsePrefix("10.3.0.0/29")}
	s := serveOn(t, db, o)
	gateway := `{"metadata":{"name":"10.3.0.2"},"spec":{"parentRef":{"group":"gateway.networking.k8s.io","resource":"gateways","namespace":"a","name":"b"}}}`
	s.must(t, 201, "POST", addressesPath, gateway)
	require.Contains(t, s.must(t, 422, "POST", servicesPath, serviceAt("a", "10.3.0.2"))["message"], "provided IP is already allocated")
	var group sync.WaitGroup
	for i := range 4 { // 3 to 6
		group.Go(func() {
			code, made := s.do(t, "POST", servicesPath, fmt.Sprintf(`{"metadata":{"name":"s%d"},"spec":{"ports":[{"port":80}]}}`, i))
			if code != 201 {
				t.Errorf("%d %v", code, made)
			}
		})
	}
	group.Wait()
	_, full := s.do(t, "POST", servicesPath, `{"metadata":{"name":"more"},"spec":{"ports":[{"port":80}]}}`)
	require.Contains(t, full["message"], "range is full")

	whose := s.addresses(t)["10.3.0.5"]
	s.must(t, 200, "DELETE", addressesPath+"/10.3.0.5", "")
	require.Contains(t, s.must(t, 422, "POST", servicesPath, serviceAt("a", "10.3.0.5"))["message"], "provided IP is already allocated")
	s.must(t, 201, "POST", addressesPath, strings.Replace(gateway, "10.3.0.2", "10.3.0.5", 1))
	require.NotEmpty(t, whose)
	s = serveOn(t, db, o) // it compares at the start, as every few minutes
	require.Eventually(t, func() bool { return s.addresses(t)["10.3.0.5"] == whose }, time.Minute, time.Millisecond)
}

// Services of an earlier version of this program have a record for each address, and no IPAddress.
func TestServicesOfEarlierVersionsGetIPAddresses(t *testing.T) {
	db := kept{memory.New()}
	s := serveOn(t, db, Options{})
	s.must(t, 201, "POST", servicesPath, serviceAt("old", "10.0.0.77"))
	s.must(t, 200, "DELETE", addressesPath+"/10.0.0.77", "")
	s.must(t, 200, "DELETE", addressesPath+"/10.0.0.1", "")
	s = serveOn(t, db, Options{})
	require.Eventually(t, func() bool {
		have := s.addresses(t)
		return have["10.0.0.77"] == "default/old" && have["10.0.0.1"] == "default/kubernetes"
	}, time.Minute, time.Millisecond)
	s.must(t, 200, "DELETE", addressesPath+"/10.0.0.77", "")
	s.must(t, 200, "DELETE", servicesPath+"/old", "")
	s.must(t, 201, "POST", servicesPath, serviceAt("heir", "10.0.0.77"))
	require.Equal(t, "default/heir", s.addresses(t)["10.0.0.77"])
}
