package crd_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/meta"
)

const registrations = "/apis/admissionregistration.k8s.io/v1/"

// patchedBy returns a server with lamps, and functions that make a policy or a webhook apply a JSON patch to each.
func patchedBy(t *testing.T) (*apitest.Server, map[string]func(operations string)) {
	t.Helper()
	srv := start(t, crd.Kinds(), kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}))
	establish(t, srv, lamps)
	const rules = `[{"operations":["CREATE","UPDATE"],"apiGroups":["shop.example.com"],"apiVersions":["v1"],"resources":["lamps"]}]`
	policy := func(operations string) {
		var list []map[string]any
		require.NoError(t, json.Unmarshal([]byte(operations), &list))
		var made []string
		for _, op := range list {
			var fields []string
			for name, v := range op {
				fields = append(fields, name+": "+literal(t, v))
			}
			made = append(made, "JSONPatch{"+strings.Join(fields, ", ")+"}")
		}
		expression, err := json.Marshal("[" + strings.Join(made, ", ") + "]")
		require.NoError(t, err)
		require.Equal(t, 201, status(call(t, srv, "POST", registrations+"mutatingadmissionpolicies", fmt.Sprintf(
			`{"metadata":{"name":"p"},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":%s},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":%s}}]}}`,
			rules, expression))))
		call(t, srv, "POST", registrations+"mutatingadmissionpolicybindings", `{"metadata":{"name":"p"},"spec":{"policyName":"p"}}`)
	}
	webhook := func(operations string) {
		url, bundle := judge(t, func(map[string]any) map[string]any {
			return map[string]any{"patchType": "JSONPatch", "patch": base64.StdEncoding.EncodeToString([]byte(operations))}
		})
		require.Equal(t, 201, status(call(t, srv, "POST", registrations+"mutatingwebhookconfigurations", fmt.Sprintf(
			`{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":%q,"caBundle":%q},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":%s}]}`,
			url, bundle, rules))))
	}
	return srv, map[string]func(string){"policy": policy, "webhook": webhook}
}

// judge starts a webhook that allows everything, with more members of its answers. It returns its URL and certificate.
func judge(t *testing.T, more func(asked map[string]any) map[string]any) (url, bundle string) {
	t.Helper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		_ = json.NewDecoder(r.Body).Decode(&review)
		asked := review["request"].(map[string]any)
		response := map[string]any{"uid": asked["uid"], "allowed": true}
		maps.Copy(response, more(asked))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
	}))
	t.Cleanup(hook.Close)
	return hook.URL, base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}))
}

func status(code int, _ map[string]any) int { return code }

// literal writes a value as an expression.
func literal(t *testing.T, v any) string {
	t.Helper()
	if members, ok := v.(map[string]any); ok { // of one type, unless it is said that they are not
		var fields []string
		for name, member := range members {
			fields = append(fields, literal(t, name)+": dyn("+literal(t, member)+")")
		}
		return "{" + strings.Join(fields, ", ") + "}"
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// A client that sends null leaves a field out. A policy or a webhook that sets null has made an object that its
// schema does not allow. The answers are those of kube-apiserver 1.36, but for the words about the integer that a
// Scale shows.
func TestPOL_05_WHK_14_CRD_09_NullThatAPatchSets(t *testing.T) {
	for operation, want := range map[string]string{
		`"path":"/spec/note","value":null`:                                            "spec.note: Invalid value: \"null\": spec.note in body must be of type string: \"null\"",
		`"path":"/spec/port","value":null`:                                            "spec.port: Invalid value: \"null\": spec.port in body must be of type integer,string: \"null\"",
		`"path":"/spec/tags","value":null`:                                            "spec.tags: Invalid value: \"null\": spec.tags in body must be of type array: \"null\"",
		`"path":"/spec/parts","value":[{"name":null}]`:                                "spec.parts[0].name: Invalid value: \"null\": spec.parts[0].name in body must be of type string: \"null\"",
		`"path":"/spec","value":null`:                                                 "spec: Invalid value: \"null\": spec in body must be of type object: \"null\"",
		`"path":"/spec/color","value":null`:                                           "", // it has a default
		`"path":"/spec/raw","value":{"a":null}`:                                       "", // and this no schema
		`"path":"/metadata/annotations","value":{"a":null}`:                           "", // which is the empty text
		`"path":"/spec/count"`:                                                        "[spec.count: Invalid value: \"null\": spec.count in body must be of type integer: \"null\", .spec.count: Invalid value: 0: must be an integer]",
		`"path":"/spec/inner","value":{"apiVersion":"v1","kind":"K","metadata":null}`: "",
	} {
		for _, by := range []string{"policy", "webhook"} {
			srv, patch := patchedBy(t)
			patch[by](`[{"op":"add",` + operation + `}]`)
			code, answer := call(t, srv, "POST", lampsPath, `{"metadata":{"name":"a"},"spec":{"count":1,"note":"n"}}`)
			if want == "" {
				require.Equal(t, 201, code, "%s, %s: %v", by, operation, answer)
				continue
			}
			require.Equal(t, 422, code, "%s, %s: %v", by, operation, answer)
			require.Equal(t, `Lamp.shop.example.com "a" is invalid: `+want, answer["message"], by)
		}
	}
}

// WHK-05, ADM-12: what a webhook is told of the subresources of an object. A change of the status has the version of the
// object, whatever becomes of it; a Scale has no owners.
func TestADM_05_12_ReviewsOfSubresources(t *testing.T) {
	srv := start(t, crd.Kinds(), kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}))
	establish(t, srv, lamps)
	create(t, srv, "a", `{"count":1}`)
	var told atomic.Pointer[map[string]any]
	url, bundle := judge(t, func(asked map[string]any) map[string]any {
		told.Store(&asked)
		return nil
	})
	require.Equal(t, 201, status(call(t, srv, "POST", registrations+"validatingwebhookconfigurations", fmt.Sprintf(
		`{"metadata":{"name":"v"},"webhooks":[{"name":"v.example.com","clientConfig":{"url":%q,"caBundle":%q},"sideEffects":"None","admissionReviewVersions":["v1"],
		"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["lamps/*"]}]}]}`, url, bundle))))
	for path, body := range map[string]string{"/status": `{"status":{"count":2}}`, "/scale": `{"spec":{"replicas":3}}`} {
		_, before := call(t, srv, "GET", lampsPath+"/a", "")
		code, answer := sendPatch(t, srv, lampsPath+"/a"+path, meta.MergePatch, body)
		require.Equal(t, 200, code, "%v", answer)
		for _, which := range []string{"object", "oldObject"} {
			metadata := (*told.Load())[which].(map[string]any)["metadata"].(map[string]any)
			require.Equal(t, before["metadata"].(map[string]any)["resourceVersion"], metadata["resourceVersion"], "%s of %s", which, path)
			require.Equal(t, path == "/status", metadata["managedFields"] != nil, "%s of %s: %v", which, path, metadata)
		}
	}
}

// A webhook that matches equivalents is shown objects in the version that it knows, by way of the conversion webhook, and
// its patch is made in that version. Without a conversion nothing is written.
func TestWHK_05_CRD_19_EquivalentsByAConversionWebhook(t *testing.T) {
	srv := start(t, crd.Kinds(), kinds.Policies(), kinds.Webhooks(kinds.WebhookOptions{}))
	conversions := newHook(t)
	define(t, srv, conversions, "v1")
	var told atomic.Pointer[map[string]any]
	url, bundle := judge(t, func(asked map[string]any) map[string]any {
		told.Store(&asked)
		return map[string]any{"patchType": "JSONPatch", "patch": base64.StdEncoding.EncodeToString([]byte(`[{"op":"replace","path":"/content/key","value":"changed"}]`))}
	})
	require.Equal(t, 201, status(call(t, srv, "POST", registrations+"mutatingwebhookconfigurations", fmt.Sprintf(
		`{"metadata":{"name":"w"},"webhooks":[{"name":"w.example.com","clientConfig":{"url":%q,"caBundle":%q},"sideEffects":"None","admissionReviewVersions":["v1"],"matchPolicy":"Equivalent",
		"rules":[{"operations":["CREATE"],"apiGroups":["stable.example.com"],"apiVersions":["v1alpha1"],"resources":["multiversion"]}]}]}`, url, bundle))))
	code, made := call(t, srv, "POST", objects("v1beta2"), text(t, fixture("a", "v1beta2")))
	require.Equal(t, 201, code, "%v", made)
	require.Equal(t, tree{"key": "changed"}, made["contentv2"])
	require.Nil(t, made["content"])
	asked := *told.Load()
	require.Equal(t, "stable.example.com/v1alpha1", asked["object"].(tree)["apiVersion"])
	require.Equal(t, tree{"key": "value"}, asked["object"].(tree)["content"])
	require.Equal(t, "v1alpha1", asked["kind"].(tree)["version"])
	require.Equal(t, "v1alpha1", asked["resource"].(tree)["version"])
	require.Equal(t, "v1beta2", asked["requestKind"].(tree)["version"])
	require.Equal(t, "v1beta2", asked["requestResource"].(tree)["version"])

	conversions.convert(func(to string, o tree) (tree, error) {
		if strings.HasSuffix(to, "v1alpha1") {
			return nil, errors.New("no way back")
		}
		return convertedTo(to, o)
	})
	code, refused := call(t, srv, "POST", objects("v1beta2"), text(t, fixture("b", "v1beta2")))
	require.Equal(t, 500, code, "%v", refused)
	require.Equal(t, 404, status(call(t, srv, "GET", objects("v1beta2")+"/b", "")))
}

// A policy that names a version holds when clients cannot ask for that version any more. It sees
// the objects in it.
func TestPOL_01_WHK_02_VersionsThatAreNotServed(t *testing.T) {
	srv := start(t, crd.Kinds(), kinds.Policies())
	document, err := json.Marshal(multiVersion())
	require.NoError(t, err)
	establish(t, srv, string(document))
	for matchPolicy, want := range map[string]int{"Equivalent": 422, "Exact": 201} {
		require.Equal(t, 201, status(call(t, srv, "POST", registrations+"validatingadmissionpolicies", fmt.Sprintf(`{"metadata":{"name":"p"},"spec":{"matchConstraints":{"matchPolicy":%q,
			"resourceRules":[{"operations":["*"],"apiGroups":["stable.example.com"],"apiVersions":["v1alpha2"],"resources":["multiversion"]}]},
			"validations":[{"expression":"false","messageExpression":"object.apiVersion + ' of ' + request.requestKind.version"}]}}`, matchPolicy))))
		require.Equal(t, 201, status(call(t, srv, "POST", registrations+"validatingadmissionpolicybindings", `{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"]}}`)))
		body, err := json.Marshal(fixture("a", "v1beta1"))
		require.NoError(t, err)
		code, answer := call(t, srv, "POST", objects("v1beta1")+"?dryRun=All", string(body))
		require.Equal(t, want, code, "%s: %v", matchPolicy, answer)
		if want == 422 {
			require.Contains(t, answer["message"], "denied request: stable.example.com/v1alpha2 of v1beta1")
		}
		call(t, srv, "DELETE", registrations+"validatingadmissionpolicybindings/p", "")
		call(t, srv, "DELETE", registrations+"validatingadmissionpolicies/p", "")
	}
}
