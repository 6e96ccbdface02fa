package kube

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Services of each type, with each policy, list of families and list of addresses, and the changes
// between them, are answered as by kube-apiserver 1.36.3 with the same ranges. To ask one again:
//
//	go test -run FamiliesAsInKubernetes -peer https://… -peer-token … -update-stored
//
// Its flag --service-cluster-ip-range has to be 10.99.0.0/24, or 10.99.0.0/24,fd00:99::/112.
func TestServicesHaveFamiliesAsInKubernetes(t *testing.T) {
	file := func(ranges int) string { return fmt.Sprintf("testdata/families%d.txt", ranges) }
	if p := thePeer(); *updateStored && p != nil {
		cidr := p.must(t, 200, "GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "")
		text := strings.Join(familyAnswers(t, p), "\n") + "\n"
		require.NoError(t, os.WriteFile(file(len(list(at(cidr, "spec", "cidrs")))), []byte(text), 0o644))
		return
	}
	for ranges := 1; ranges <= 2; ranges++ {
		t.Run(file(ranges), func(t *testing.T) {
			text, err := os.ReadFile(file(ranges))
			require.NoError(t, err)
			o := Options{ServiceRange: netip.MustParsePrefix("10.99.0.0/24")}
			if ranges == 2 {
				o.SecondServiceRange = netip.MustParsePrefix("fd00:99::/112")
			}
			want, got := strings.Split(strings.TrimSpace(string(text)), "\n"), familyAnswers(t, serve(t, o))
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, want[i], got[i])
			}
		})
	}
}

// familyAnswers asks all questions, and returns a line for each.
func familyAnswers(t *testing.T, s *target) (out []string) {
	const name = "families"
	note := func(what string, spec any, code int, answer map[string]any) {
		asked, err := json.Marshal(spec)
		require.NoError(t, err)
		out = append(out, fmt.Sprintf("%s %s => %d %s", what, asked, code, familyAnswer(answer)))
	}
	first := func(spec map[string]any) {
		s.do(t, "DELETE", servicesPath+"/"+name, "")
		code, made := s.do(t, "POST", servicesPath, pretty(t, map[string]any{"metadata": map[string]any{"name": name}, "spec": spec}))
		note("create", spec, code, made)
	}
	for spec := range familySpecs() {
		first(spec)
	}
	for _, begin := range []map[string]any{
		{},
		{"ipFamilyPolicy": "PreferDualStack"},
		{"ipFamilyPolicy": "RequireDualStack"},
		{"ipFamilies": only("IPv6")},
		{"clusterIP": "None"},
		{"clusterIP": "None", "selector": map[string]any{"a": "b"}},
		{"type": "ExternalName", "externalName": "example.dev"},
		{"clusterIP": "None", "selector": map[string]any{"a": "b"}, "ipFamilyPolicy": "PreferDualStack"},
		{"ipFamilyPolicy": "PreferDualStack", "ipFamilies": both("IPv6", "IPv4")},
	} {
		begin["ports"] = []any{map[string]any{"port": 80}}
		for _, patch := range familyPatches() {
			if patch["clusterIP"] == "None" && begin["clusterIP"] == nil && begin["type"] == nil {
				continue // kube-apiserver panics over some of these
			}
			first(begin)
			code, answer := s.do(t, "PATCH", servicesPath+"/"+name, pretty(t, map[string]any{"spec": patch}), "Content-Type", merge)
			note("patch", patch, code, answer)
		}
	}
	s.do(t, "DELETE", servicesPath+"/"+name, "")
	return out
}

func only(s string) []any { return []any{s} }

func both(a, b string) []any { return []any{a, b} }

// familySpecs yields the services to create.
func familySpecs() func(func(map[string]any) bool) {
	return func(yield func(map[string]any) bool) {
		for _, kind := range []string{"", "ExternalName"} {
			for _, policy := range []string{"", "SingleStack", "PreferDualStack", "RequireDualStack"} {
				for _, families := range [][]any{nil, only("IPv4"), only("IPv6"), both("IPv4", "IPv6"), both("IPv6", "IPv4"), both("IPv4", "IPv4")} {
					for _, ips := range [][]any{
						nil, only("None"), only("10.99.0.9"), only("fd00:99::9"), both("10.99.0.9", "fd00:99::9"), both("fd00:99::9", "10.99.0.9"),
						both("10.99.0.9", "10.99.0.10"), both("None", "10.99.0.9"), only("bad"),
					} {
						spec := map[string]any{"ports": []any{map[string]any{"port": 80}}}
						for field, value := range map[string]string{"type": kind, "ipFamilyPolicy": policy} {
							if value != "" {
								spec[field] = value
							}
						}
						if families != nil {
							spec["ipFamilies"] = families
						}
						if kind != "" {
							spec["externalName"] = "example.dev"
						}
						if ips != nil {
							spec["clusterIP"], spec["clusterIPs"] = ips[0], ips
						}
						if kind != "" && (len(families) == 2 || len(ips) == 2) {
							continue
						}
						if !yield(spec) {
							return
						}
					}
				}
			}
		}
	}
}

// familyPatches are the changes of a service.
func familyPatches() []map[string]any {
	return []map[string]any{
		{"ipFamilyPolicy": "PreferDualStack"},
		{"ipFamilyPolicy": "RequireDualStack"},
		{"ipFamilyPolicy": "SingleStack"},
		{"ipFamilyPolicy": nil},
		{"ipFamilies": both("IPv4", "IPv6")},
		{"ipFamilies": both("IPv6", "IPv4")},
		{"ipFamilies": only("IPv4")},
		{"ipFamilies": only("IPv6")},
		{"ipFamilies": nil},
		{"ipFamilyPolicy": "RequireDualStack", "ipFamilies": both("IPv4", "IPv6")},
		{"ipFamilyPolicy": "SingleStack", "ipFamilies": only("IPv4")},
		{"ipFamilyPolicy": "SingleStack", "ipFamilies": only("IPv6")},
		{"clusterIP": "None"},
		{"clusterIP": nil},
		{"clusterIP": nil, "clusterIPs": nil},
		{"clusterIPs": nil},
		{"clusterIP": "10.99.0.10"},
		{"clusterIP": "10.99.0.10", "clusterIPs": only("10.99.0.10")},
		{"clusterIP": "", "clusterIPs": []any{}},
		{"clusterIP": ""},
		{"type": "ExternalName", "externalName": "example.dev"},
		{"type": "ClusterIP"},
		{"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"},
		{"type": "NodePort"},
		{"type": "ClusterIP", "clusterIP": "10.99.0.11"},
		{"type": "ClusterIP", "clusterIP": "None"},
	}
}

var given = regexp.MustCompile(`10\.99\.0\.\d+|fd00:99::[0-9a-f]+`)

// familyAnswer is what an answer says about families. Addresses that the server chooses are not the same each time.
func familyAnswer(answer map[string]any) string {
	text := word(answer["message"])
	if spec, ok := answer["spec"].(map[string]any); ok {
		text = fmt.Sprintf("%v %v %v %v", spec["clusterIP"], spec["clusterIPs"], spec["ipFamilies"], spec["ipFamilyPolicy"])
	}
	return given.ReplaceAllStringFunc(text, func(ip string) string {
		switch {
		case strings.Contains(" 10.99.0.9 10.99.0.10 10.99.0.11 fd00:99::9 ", " "+ip+" "):
			return ip
		case strings.Contains(ip, ":"):
			return "IPv6"
		}
		return "IPv4"
	})
}
