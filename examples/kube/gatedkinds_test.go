package kube

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/storage/memory"
)

// A gatedKind is a kind that kube-apiserver serves where --runtime-config asks for it, and for most a gate.
type gatedKind struct {
	root, plural string
	steps        []gatedStep
}

// A gatedStep is a request for objects of a kind.
type gatedStep struct{ method, path, body string }

// gatedKinds are those that are compared with kube-apiserver.
func gatedKinds() []gatedKind {
	return []gatedKind{storageVersionSteps(), trustBundleSteps("v1beta1"), trustBundleSteps("v1alpha1"), podCertificateSteps(), leaseCandidateSteps("v1beta1"), leaseCandidateSteps("v1alpha2"), leaseSteps(), taintRuleSteps("v1beta2"), taintRuleSteps("v1alpha3")}
}

// everyGate turns all kinds on.
func everyGate() (Options, kindwright.Option) {
	return Options{TrustBundles: true, StorageMigrations: true, Features: func(string) bool { return true }},
		kindwright.Kubernetes{RuntimeConfig: "api/all=true"}
}

// play describes the kind as discovery does, and the answer to each step, in order.
func (k gatedKind) play(t *testing.T, s *target) map[string][]string {
	group, version, _ := strings.Cut(strings.TrimPrefix(k.root, "/apis/"), "/")
	if i := strings.Index(version, "/"); i >= 0 {
		version = version[:i]
	}
	of := "/apis/" + group + "/" + version
	out := map[string][]string{}
	doc := s.must(t, 200, "GET", "/apis", "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	for _, g := range list(doc["items"]) {
		for _, v := range list(at(g, "versions")) {
			for _, r := range list(at(v, "resources")) {
				if word(at(g, "metadata", "name")) == group && word(at(v, "version")) == version && word(at(r, "resource")) == k.plural {
					out["discovery"] = describe(t, s, of, group+"/"+version, r)
				}
			}
		}
	}
	for _, step := range k.steps {
		kind := "application/json"
		if step.method == "PATCH" {
			kind = merged
		}
		path := k.root + step.path
		code, got := s.do(t, step.method, path, step.body, "Content-Type", kind)
		answer := refusal(code, got)
		for i := range answer {
			answer[i] = strings.ReplaceAll(answer[i], ".[", "[") // paths that kube-apiserver joins wrongly
		}
		if code < 300 && step.method != "DELETE" && got["items"] == nil {
			answer = []string{answer[0], lasting(t, got)}
		}
		if len(list(got["items"])) > 0 {
			answer = append(answer[:1], words(got["items"], "metadata", "name")...)
		}
		what := step.method + " " + path + " " + step.body
		for out[what] != nil { // the same once more
			what += " "
		}
		out[what] = answer
	}
	return out
}

// lasting is an object without what differs from server to server, and without nulls, which mean absent.
func lasting(t *testing.T, object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		delete(metadata, field)
	}
	text, err := json.Marshal(withoutNulls(object))
	require.NoError(t, err)
	return string(text)
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if member == nil {
				delete(v, name)
				continue
			}
			v[name] = withoutNulls(member)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}

// Kinds behind gates are described, stored and refused as by kube-apiserver 1.36.3 with all these gates.
func TestDISC_KindsBehindGatesAreThoseOfKubernetes(t *testing.T) {
	const file = "testdata/gatedkinds.json"
	want := map[string]map[string][]string{}
	if *updateStored {
		p := thePeer()
		require.NotNil(t, p, "-peer says which server to ask")
		for _, k := range gatedKinds() {
			want[k.root+"/"+k.plural] = k.play(t, p)
		}
		require.NoError(t, os.WriteFile(file, []byte(pretty(t, want)), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	options, config := everyGate()
	s := serveOn(t, memory.New(), options, config)
	for _, k := range gatedKinds() {
		t.Run(k.plural, func(t *testing.T) {
			of := want[k.root+"/"+k.plural]
			got := k.play(t, s)
			require.Equal(t, sortedNames(of), sortedNames(got))
			for _, what := range sortedNames(of) {
				if !slices.Equal(of[what], got[what]) {
					t.Errorf("%s\n  is answered %v\n  and not     %v", what, got[what], of[what])
				}
			}
		})
	}
}

func storageVersionSteps() gatedKind {
	named := func(name string) gatedStep {
		return gatedStep{"POST", "/storageversions", `{"metadata":{"name":"` + name + `"}}`}
	}
	state := func(status string) gatedStep {
		return gatedStep{"PATCH", "/storageversions/example.com.widgets/status", `{"metadata":{"labels":{"a":"b"}},"status":` + status + `}`}
	}
	server := func(id, rest string) string { return `{"apiServerID":"` + id + `",` + rest + `}` }
	condition := func(kind, rest string) string {
		return `{"conditions":[{"type":"` + kind + `",` + rest + `}]}`
	}
	return gatedKind{"/apis/internal.apiserver.k8s.io/v1alpha1", "storageversions", []gatedStep{
		{"POST", "/storageversions", `{"metadata":{"name":"example.com.widgets"},"status":{"commonEncodingVersion":"v1"}}`},
		named("pods"), named("Apps.pods"), named("apps.Pods"), named("apps."), named(".pods"),
		{"PATCH", "/storageversions/example.com.widgets", `{"metadata":{"labels":{"x":"y"}},"status":{"commonEncodingVersion":"v1"}}`},
		{"PUT", "/storageversions/example.com.widgets", `{"metadata":{"name":"example.com.widgets"}}`},
		{"PUT", "/storageversions/example.com.gadgets", `{"metadata":{"name":"example.com.gadgets"}}`},
		state(`{"commonEncodingVersion":"v1"}`),
		state(`{"storageVersions":[` + server("a", `"encodingVersion":"apps/v1"`) + `]}`),
		state(`{"commonEncodingVersion":"apps/v1","storageVersions":[` + server("a", `"encodingVersion":"apps/v1","decodableVersions":["apps/v1"],"servedVersions":["apps/v2"]`) + `]}`),
		state(`{"storageVersions":[` + server("A_b", `"encodingVersion":"/v1","decodableVersions":["/v1","a/b/c","","x/"]`) + `]}`),
		state(`{"commonEncodingVersion":"v2","storageVersions":[` + server("a", `"encodingVersion":"v1","decodableVersions":["v1"]`) + `]}`),
		state(`{"commonEncodingVersion":"v1","storageVersions":[` + server("a", `"encodingVersion":"v1","decodableVersions":["v1"]`) + "," + server("b", `"encodingVersion":"v2","decodableVersions":["v2"]`) + `]}`),
		state(condition("", `"status":""`)),
		state(condition("A b", `"status":"True","reason":"R"`)),
		state(`{"conditions":[{"type":"A","status":"True","reason":"R","message":"m"},{"type":"A","status":"True","reason":"R","message":"m"}]}`),
		state(`{"commonEncodingVersion":"v1","storageVersions":[` + server("a", `"encodingVersion":"v1","decodableVersions":["v1"],"servedVersions":["v1"]`) + `],
			"conditions":[{"type":"AllEncodingVersionsEqual","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}]}`),
		{"GET", "/storageversions/example.com.widgets", ""},
		{"DELETE", "/storageversions/example.com.widgets", ""},
	}}
}

func trustBundleSteps(version string) gatedKind {
	return gatedKind{"/apis/certificates.k8s.io/" + version, "clustertrustbundles", []gatedStep{
		{"POST", "/clustertrustbundles", `{"metadata":{"name":"a:b"},"spec":{"trustBundle":"x"}}`},
		{"POST", "/clustertrustbundles", `{"metadata":{"name":"a"},"spec":{"signerName":"foo/bar","trustBundle":""}}`},
		{"GET", "/clustertrustbundles?fieldSelector=spec.signerName%3Dfoo.com/bar", ""},
		{"GET", "/clustertrustbundles?fieldSelector=spec.trustBundle%3Dfoo.com/bar", ""},
	}}
}

// provenKey is a public key in base 64, with the signature of a text.
func provenKey(text string) (key, proof string) {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(der), base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(text)))
}

func podCertificateSteps() gatedKind {
	key, proof := provenKey("u1")
	stub, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{}, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	if err != nil {
		panic(err)
	}
	proven := `"pkixPublicKey":"` + key + `","proofOfPossession":"` + proof + `"`
	ask := func(name, signer, uid, more string) gatedStep {
		return gatedStep{"POST", "/podcertificaterequests", `{"metadata":{"name":"` + name + `"},"spec":{"signerName":"` + signer + `","podName":"p","podUID":"` + uid +
			`","serviceAccountName":"a","serviceAccountUID":"u2","nodeName":"n","nodeUID":"u3",` + more + `}}`}
	}
	state := func(status string) gatedStep {
		return gatedStep{"PATCH", "/podcertificaterequests/a/status", `{"metadata":{"labels":{"a":"b"}},"status":` + status + `}`}
	}
	condition := func(kind, is string) string {
		return `{"type":"` + kind + `","status":"` + is + `","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	}
	return gatedKind{"/apis/certificates.k8s.io/v1beta1/namespaces/default", "podcertificaterequests", []gatedStep{
		ask("a", "foo.com/bar", "u1", proven),
		ask("b", "foo.com/bar", "u1", `"maxExpirationSeconds":7862400,"stubPKCS10Request":"`+base64.StdEncoding.EncodeToString(stub)+`"`),
		ask("c", "foo.com/bar", "u1", `"maxExpirationSeconds":7862401,`+proven),
		ask("c", "kubernetes.io/bar", "u1", `"maxExpirationSeconds":86401,`+proven),
		ask("c", "foo.kubernetes.io/bar", "u1", `"maxExpirationSeconds":86401,`+proven),
		ask("c", "foo.com/bar", "u1", `"maxExpirationSeconds":3599,`+proven),
		ask("c", "foo", "u1", proven),
		ask("c", "foo.com/bar", "u2", proven),
		ask("c", "foo.com/bar", "", proven),
		ask("c", "foo.com/bar", strings.Repeat("u", 129), proven),
		ask("c", "foo.com/bar", "u1", `"pkixPublicKey":"`+key+`"`),
		ask("c", "foo.com/bar", "u1", `"pkixPublicKey":"aaaa","proofOfPossession":"aaaa"`),
		ask("c", "foo.com/bar", "u1", `"stubPKCS10Request":"aaaa"`),
		ask("c", "foo.com/bar", "u1", proven+`,"stubPKCS10Request":"aaaa"`),
		ask("c", "foo.com/bar", "u1", proven+`,"unverifiedUserAnnotations":{"a":"b"}`),
		ask("c", "foo.com/bar", "u1", proven+`,"unverifiedUserAnnotations":{"A.io/B":"b","x/y":"","a.b/":"","a.b/c/d":""}`),
		{"POST", "/podcertificaterequests", `{"metadata":{"name":"d"},"spec":{}}`},
		{"GET", "/podcertificaterequests?fieldSelector=spec.nodeName%3Dn,spec.podName%3Dp,spec.signerName%3Dnone", ""},
		{"PATCH", "/podcertificaterequests/a", `{"metadata":{"labels":{"x":"y"}},"status":{"certificateChain":"x"}}`},
		{"PATCH", "/podcertificaterequests/a", `{"spec":{"podName":"q"}}`},
		state(`{"certificateChain":"x"}`),
		state(`{"conditions":[` + condition("Denied", "False") + `]}`),
		state(`{"conditions":[` + condition("Ready", "True") + `]}`),
		state(`{"conditions":[` + condition("Denied", "True") + "," + condition("Failed", "True") + `]}`),
		state(`{"conditions":[{"type":"Denied","status":"True"}]}`),
		state(`{"conditions":[` + condition("Denied", "True") + `],"certificateChain":"x"}`),
		state(`{"conditions":[` + condition("Issued", "True") + `],"certificateChain":"x"}`),
		state(`{"conditions":[` + condition("Denied", "True") + `]}`),
		state(`{"conditions":[` + condition("Failed", "True") + `]}`),
		{"DELETE", "/podcertificaterequests/a", ""},
		{"DELETE", "/podcertificaterequests/b", ""},
		{"DELETE", "/podcertificaterequests/c", ""},
	}}
}

func leaseCandidateSteps(version string) gatedKind {
	candidate := func(name, spec string) gatedStep {
		return gatedStep{"POST", "/leasecandidates", `{"metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`}
	}
	spec := func(lease, binary, emulated, strategy string) string {
		return `"leaseName":"` + lease + `","binaryVersion":"` + binary + `","emulationVersion":"` + emulated + `","strategy":"` + strategy + `"`
	}
	const oldest = "OldestEmulationVersion"
	good := spec("l", "1.36.0", "1.35.0", oldest)
	return gatedKind{"/apis/coordination.k8s.io/" + version + "/namespaces/default", "leasecandidates", []gatedStep{
		candidate("A_b.c", good), candidate("a b", good), candidate("..", good), candidate("b", ""),
		candidate("c", spec("l", "1.35.0", "1.36.0", oldest)), candidate("c", spec("l", "1.36.0-alpha.1", "1.36.0", oldest)),
		candidate("c", spec("l", "1.36", "v1.35.0", oldest)), candidate("c", spec("l", "1.36.0", "", oldest)),
		candidate("c", spec("l", "1.36.0", "0.0.0", oldest)), candidate("c", spec("l", "01.36.0", "1.0.0+b", oldest)),
		candidate("d", spec("l", "1.36.0", "", "example.com/a")), candidate("e", spec("l", "1.36.0", "", "Newest")),
		candidate("e", spec("l", "1.36.0", "", "a/b/c")), candidate("e", spec("l", "1.36.0", "", "/b")),
		{"PUT", "/leasecandidates/f", `{"metadata":{"name":"f"},"spec":{` + good + `,"renewTime":"2026-01-01T00:00:00.500000Z","pingTime":"2026-01-01T00:00:00.000001Z"}}`},
		{"PUT", "/leasecandidates/f", `{"metadata":{"name":"f"},"spec":{` + good + `}}`},
		{"PATCH", "/leasecandidates/f", `{"spec":{"leaseName":"m"}}`},
		{"GET", "/leasecandidates?fieldSelector=spec.leaseName%3Dl", ""},
		{"GET", "/leasecandidates?fieldSelector=spec.strategy%3Dl", ""},
		{"DELETE", "/leasecandidates/A_b.c", ""},
		{"DELETE", "/leasecandidates/d", ""},
		{"DELETE", "/leasecandidates/f", ""},
	}}
}

func taintRuleSteps(version string) gatedKind {
	const added = `"timeAdded":"2026-01-01T00:00:00Z"`
	rule := func(name, selector, taint string) gatedStep {
		return gatedStep{"POST", "/devicetaintrules", `{"metadata":{"name":"` + name + `"},"spec":{"deviceSelector":{` + selector + `},"taint":{` + taint + `,` + added + `}}}`}
	}
	const good = `"key":"a.b/c","value":"d","effect":"NoExecute"`
	condition := func(kind string) string {
		return `{"type":"` + kind + `","status":"True","reason":"R","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	}
	state := func(status string) gatedStep {
		return gatedStep{"PATCH", "/devicetaintrules/a/status", `{"metadata":{"labels":{"a":"b"}},"status":` + status + `}`}
	}
	nine := make([]string, 9)
	for i := range nine {
		nine[i] = condition("C" + string(rune('a'+i)))
	}
	return gatedKind{"/apis/resource.k8s.io/" + version, "devicetaintrules", []gatedStep{
		rule("a", `"driver":"D.example.com","pool":"a/b.c","device":"e"`, good), rule("b", ``, good),
		rule("c", `"driver":"","pool":"","device":""`, good), rule("c", `"driver":"_","pool":"a//_","device":"a.b"`, good),
		rule("c", `"driver":"`+strings.Repeat("d", 64)+`"`, good), rule("c", ``, `"key":"","value":"d","effect":""`),
		rule("c", ``, `"key":"a b","value":"-","effect":"All"`),
		{"POST", "/devicetaintrules", `{"metadata":{"name":"c"},"spec":{}}`},
		{"PATCH", "/devicetaintrules/a", `{"metadata":{"labels":{"x":"y"}},"spec":{"taint":{"value":"e"}},"status":{"conditions":[]}}`},
		{"PATCH", "/devicetaintrules/a", `{"spec":{"taint":{"effect":"None","timeAdded":"2026-02-01T00:00:00Z"}}}`},
		{"PATCH", "/devicetaintrules/a", `{"spec":{"taint":{"effect":"Some","timeAdded":"2026-03-01T00:00:00Z"}}}`},
		state(`{"conditions":[` + condition("A") + `]}`), state(`{"conditions":[{"type":"A b","status":"Yes"}]}`),
		state(`{"conditions":[` + strings.Join(nine, ",") + `]}`),
		{"PUT", "/devicetaintrules/b", `{"metadata":{"name":"b"},"spec":{"taint":{` + good + `,` + added + `}}}`},
		{"DELETE", "/devicetaintrules/a", ""},
		{"DELETE", "/devicetaintrules/b", ""},
		{"DELETE", "/devicetaintrules/c", ""},
	}}
}

// The time of a taint is that of its effect, unless a client says another.
func TestCREATE_TaintRulesSaySinceWhen(t *testing.T) {
	options, config := everyGate()
	s := serveOn(t, memory.New(), options, config)
	const path, at0 = "/apis/resource.k8s.io/v1beta2/devicetaintrules", "2026-01-01T00:00:00Z"
	made := s.must(t, 201, "POST", path, `{"metadata":{"name":"new"},"spec":{"taint":{"key":"k","effect":"None"}}}`)
	require.NotEmpty(t, at(made, "spec", "taint", "timeAdded"))
	s.must(t, 201, "POST", path, `{"metadata":{"name":"old"},"spec":{"taint":{"key":"k","effect":"None","timeAdded":"`+at0+`"}}}`)
	same := s.must(t, 200, "PATCH", path+"/old", `{"spec":{"taint":{"value":"v"}}}`, "Content-Type", merged)
	require.Equal(t, at0, at(same, "spec", "taint", "timeAdded"))
	other := s.must(t, 200, "PATCH", path+"/old", `{"spec":{"taint":{"effect":"NoExecute"}}}`, "Content-Type", merged)
	require.NotEqual(t, at0, at(other, "spec", "taint", "timeAdded"))
}

func leaseSteps() gatedKind {
	return gatedKind{"/apis/coordination.k8s.io/v1/namespaces/default", "leases", []gatedStep{
		{"POST", "/leases", `{"metadata":{"name":"a"}}`},
		{"PATCH", "/leases/a", `{"spec":{"strategy":"OldestEmulationVersion","preferredHolder":"b"}}`},
		{"PATCH", "/leases/a", `{"spec":{"strategy":null}}`},
		{"PATCH", "/leases/a", `{"spec":null}`},
		{"DELETE", "/leases/a", ""},
	}}
}

// Without the feature new leases lose what a coordinator would read, and a lease that has it keeps it.
func TestLEASE_FieldsOfTheCoordinator(t *testing.T) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
	const spec = `{"holderIdentity":"x","strategy":"OldestEmulationVersion","preferredHolder":"b"}`
	var on atomic.Bool
	s := serve(t, Options{Features: func(gate string) bool { return gate == gateCoordination && on.Load() }})
	on.Store(true)
	s.must(t, 201, "POST", path, `{"metadata":{"name":"old"},"spec":`+spec+`}`)
	on.Store(false)
	made := s.must(t, 201, "POST", path, `{"metadata":{"name":"new"},"spec":`+spec+`}`)
	require.Equal(t, map[string]any{"holderIdentity": "x"}, made["spec"])
	kept := s.must(t, 200, "PATCH", path+"/old", `{"spec":{"preferredHolder":"c"}}`, "Content-Type", merged)
	require.Equal(t, map[string]any{"holderIdentity": "x", "strategy": "OldestEmulationVersion", "preferredHolder": "c"}, kept["spec"])
}

// AUTHZ: a gate adds roles, and rules to roles that are there anyway, as kube-apiserver does.
func TestAUTHZ_RolesOfGates(t *testing.T) {
	const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles/"
	options, config := everyGate()
	with, without := serveOn(t, memory.New(), options, config), serve(t, Options{})
	without.must(t, 404, "GET", roles+"system:controller:storage-version-garbage-collector", "")
	collector := with.must(t, 200, "GET", roles+"system:controller:storage-version-garbage-collector", "")
	require.Len(t, list(collector["rules"]), 3)
	with.must(t, 200, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:controller:storage-version-garbage-collector", "")
	node := func(s *target) []any { return list(s.must(t, 200, "GET", roles+"system:node", "")["rules"]) }
	all := node(with)
	require.Equal(t, node(without), all[:len(node(without))])
	require.Contains(t, all, map[string]any{"apiGroups": []any{"certificates.k8s.io"}, "resources": []any{"clustertrustbundles"}, "verbs": []any{"get", "list", "watch"}})
}
