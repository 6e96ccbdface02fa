package crd_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/kinds/crd"
)

const (
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	label       = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an " +
		"alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)

// changed returns a definition with some values replaced. Keys are paths such as "spec/versions/0/name";
// a nil value removes a field.
func changed(t *testing.T, document string, changes map[string]any) string {
	t.Helper()
	var tree any
	require.NoError(t, json.Unmarshal([]byte(document), &tree))
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		tree = with(tree, strings.Split(path, "/"), changes[path])
	}
	out, err := json.Marshal(tree)
	require.NoError(t, err)
	return string(out)
}

func with(tree any, path []string, value any) any {
	if len(path) == 0 {
		return value
	}
	if list, ok := tree.([]any); ok {
		i := int(path[0][0] - '0')
		for len(list) <= i {
			list = append(list, nil)
		}
		list[i] = with(list[i], path[1:], value)
		return list
	}
	object, _ := tree.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	if len(path) == 1 && value == nil {
		delete(object, path[0])
		return object
	}
	object[path[0]] = with(object[path[0]], path[1:], value)
	return object
}

// causes returns the causes of a refusal as "field: message".
func causes(answer map[string]any) (out []string) {
	details, _ := answer["details"].(map[string]any)
	list, _ := details["causes"].([]any)
	for _, v := range list {
		c := v.(map[string]any)
		out = append(out, c["field"].(string)+": "+c["message"].(string))
	}
	return out
}

func version(name string, storage bool, schema any) map[string]any {
	return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{"openAPIV3Schema": schema}}
}

func object(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties}
}

var (
	plain = object(map[string]any{"spec": object(map[string]any{"color": map[string]any{"type": "string"}})})
	other = object(map[string]any{"spec": object(map[string]any{"size": map[string]any{"type": "integer"}})})
)

func TestCRD_04_DefinitionsAreJudgedInKubernetesWords(t *testing.T) {
	webhook := func(client map[string]any) map[string]any {
		return map[string]any{"strategy": "Webhook", "webhook": map[string]any{"clientConfig": client, "conversionReviewVersions": []any{"v1"}}}
	}
	column := func(c map[string]any) []any { return []any{c} }
	srv := start(t, crd.Kinds())
	for name, c := range map[string]struct {
		change map[string]any
		want   []string
	}{
		"name of the object": {map[string]any{"metadata/name": "shirt.shop.example.com"}, []string{
			`metadata.name: Invalid value: "shirt.shop.example.com": must be spec.names.plural+"."+spec.group`,
		}},
		"group without a dot": {map[string]any{"metadata/name": "shirts.shop", "spec/group": "shop"}, []string{
			`spec.group: Invalid value: "shop": should be a domain with at least one dot`,
		}},
		"scope":    {map[string]any{"spec/scope": "Galaxy"}, []string{`spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"`}},
		"no scope": {map[string]any{"spec/scope": nil}, []string{`spec.scope: Required value`}},
		"kind and listKind": {map[string]any{"spec/names/listKind": "Shirt"}, []string{
			`spec.names.listKind: Invalid value: "Shirt": kind and listKind may not be the same`,
		}},
		"names": {map[string]any{"spec/names/kind": "Sh!rt", "spec/names/shortNames": []any{"S"}, "spec/names/categories": []any{"a b"}, "spec/names/singular": "s.s"}, []string{
			`spec.names.singular: Invalid value: "s.s": ` + label,
			`spec.names.kind: Invalid value: "Sh!rt": may have mixed case, but should otherwise match: ` + label,
			`spec.names.listKind: Invalid value: "Sh!rtList": may have mixed case, but should otherwise match: ` + label,
			`spec.names.shortNames[0]: Invalid value: "S": ` + label,
			`spec.names.categories[0]: Invalid value: "a b": ` + label,
		}},
		"no kind": {map[string]any{"spec/names/kind": nil}, []string{
			`spec.names.singular: Required value`, `spec.names.kind: Required value`, `spec.names.listKind: Required value`,
		}},
		"version": {map[string]any{"spec/versions/0/name": "1"}, []string{
			`spec.versions[0].name: Invalid value: "1": ` + label, `spec.version: Invalid value: "1": ` + label,
		}},
		"no schema": {map[string]any{"spec/versions/0/schema": nil}, []string{`spec.versions[0].schema.openAPIV3Schema: Required value`}},
		"schema": {map[string]any{"spec/versions/0/subresources": nil, "spec/versions/0/schema/openAPIV3Schema/type": "array"}, []string{
			`spec.validation.openAPIV3Schema.items`, `spec.validation.openAPIV3Schema.type`,
		}},
		"schema of the second version": {map[string]any{"spec/versions": []any{version("v1", true, plain), version("v2", false, map[string]any{"type": "string"})}}, []string{
			`spec.versions[1].schema.openAPIV3Schema.type`,
		}},
		"root beside status": {map[string]any{"spec/versions/0/schema/openAPIV3Schema/minProperties": 1}, []string{
			`spec.validation.openAPIV3Schema: Invalid value`,
		}},
		"deprecation": {map[string]any{"spec/versions/0/deprecationWarning": "old"}, []string{
			`spec.versions[0].deprecationWarning: Invalid value: "old": can only be set for deprecated versions`,
		}},
		"empty deprecation": {map[string]any{"spec/versions/0/deprecated": true, "spec/versions/0/deprecationWarning": ""}, []string{
			`spec.versions[0].deprecationWarning: Invalid value: "": must not be an empty string`,
		}},
		"unprintable deprecation": {map[string]any{"spec/versions/0/deprecated": true, "spec/versions/0/deprecationWarning": "a\nb"}, []string{
			`spec.versions[0].deprecationWarning: Invalid value: "a\nb": must only contain printable UTF-8 characters; non-printable character found at index 1`,
		}},
		"scale": {map[string]any{"spec/versions/0/subresources/scale": map[string]any{"specReplicasPath": "spec", "statusReplicasPath": ".spec.n", "labelSelectorPath": ".x"}}, []string{
			`spec.subresources.scale.specReplicasPath: Invalid value: "spec": must be a simple json path starting with .`,
			`spec.subresources.scale.statusReplicasPath: Invalid value: ".spec.n": should be a json path under .status`,
			`spec.subresources.scale.labelSelectorPath: Invalid value: ".x": should be a json path under either .spec or .status`,
		}},
		"no scale paths": {map[string]any{"spec/versions/0/subresources/scale": map[string]any{}}, []string{
			`spec.subresources.scale.specReplicasPath: Required value`, `spec.subresources.scale.statusReplicasPath: Required value`,
		}},
		"column": {map[string]any{"spec/versions/0/additionalPrinterColumns": column(map[string]any{"type": "text", "format": "bold", "jsonPath": "spec"})}, []string{
			`spec.additionalPrinterColumns[0].name: Required value`,
			`spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string`,
			`spec.additionalPrinterColumns[0].format: Invalid value: "bold": must be one of byte,date,date-time,double,float,int32,int64,password`,
			`spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with .`,
		}},
		"selectable": {map[string]any{"spec/versions/0/selectableFields": []any{
			map[string]any{"jsonPath": ".spec"},
			map[string]any{"jsonPath": ".spec.none"},
			map[string]any{"jsonPath": ".spec.color[0]"},
			map[string]any{"jsonPath": ".spec.color"},
			map[string]any{"jsonPath": ".spec.color"},
			map[string]any{},
		}}, []string{
			`spec.selectableFields[0].jsonPath: Invalid value: ".spec": must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.`,
			`spec.selectableFields[1].jsonPath: Invalid value: ".spec.none": is an invalid path: does not refer to a valid field`,
			`spec.selectableFields[2].jsonPath: Invalid value: ".spec.color[0]": is an invalid path: array notation is not allowed`,
			`spec.selectableFields[4].jsonPath: Duplicate value: ".spec.color"`,
			`spec.selectableFields[5].jsonPath: Required value`,
		}},
		"strategy": {map[string]any{"spec/conversion": map[string]any{"strategy": "Magic"}}, []string{
			`spec.conversion.strategy: Unsupported value: "Magic": supported values: "None", "Webhook"`,
		}},
		"webhook without one": {map[string]any{"spec/conversion": map[string]any{"strategy": "Webhook"}}, []string{
			`spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook`,
			`spec.conversion.conversionReviewVersions: Required value`,
		}},
		"webhook at nowhere": {map[string]any{"spec/conversion": webhook(map[string]any{})}, []string{
			`spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required`,
		}},
		"webhook at http": {map[string]any{"spec/conversion": webhook(map[string]any{"url": "http://a:1/?b#c"})}, []string{
			`spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`,
			`spec.conversion.webhookClientConfig.url: Invalid value: "c": fragments are not permitted in the URL`,
			`spec.conversion.webhookClientConfig.url: Invalid value: "b": query parameters are not permitted in the URL`,
		}},
		"webhook at a service": {map[string]any{"spec/conversion": webhook(map[string]any{"service": map[string]any{"name": "s", "namespace": "n", "port": 70000, "path": "/a//b"}})}, []string{
			`spec.conversion.webhookClientConfig.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive`,
			`spec.conversion.webhookClientConfig.service.path: Invalid value: "/a//b": segment[1] may not be empty`,
		}},
		"misplaced webhook": {map[string]any{"spec/conversion": map[string]any{"strategy": "None", "webhook": map[string]any{"conversionReviewVersions": []any{"v1"}}}}, []string{
			`spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook`,
		}},
		"preserveUnknownFields": {map[string]any{"spec/preserveUnknownFields": true}, []string{
			`spec.preserveUnknownFields: Invalid value: true: must be false in order to use defaults in the schema`,
			`spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			code, answer := call(t, srv, "POST", definitions, changed(t, shirts, c.change))
			require.Equal(t, 422, code, "%v", answer)
			got := causes(answer)
			require.Len(t, got, len(c.want), "%q", got)
			for i, want := range c.want {
				require.True(t, strings.HasPrefix(got[i], want), "%q\n%q", got[i], want)
			}
		})
	}
	for name, versions := range map[string][]any{
		"must contain unique version names":                       {version("v1", true, plain), version("v1", false, plain)},
		"must have exactly one version marked as storage version": {version("v1", false, plain), version("v2", false, other)},
	} {
		code, answer := call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{"spec/versions": versions}))
		require.Equal(t, 422, code)
		require.Contains(t, strings.Join(causes(answer), "\n"), name)
	}
}

func TestCRD_03_ScopeAndNamesCannotChange(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, shirts)
	_, now := call(t, srv, "GET", definitions+"/shirts.shop.example.com", "")
	body, err := json.Marshal(now)
	require.NoError(t, err)
	code, answer := call(t, srv, "PUT", definitions+"/shirts.shop.example.com", changed(t, string(body), map[string]any{
		"spec/scope": "Cluster", "spec/names/kind": "Blouse", "spec/names/listKind": "BlouseList", "spec/names/singular": "blouse", "spec/group": "store.example.com",
	}))
	require.Equal(t, 422, code)
	require.Equal(t, []string{
		`spec.scope: Invalid value: "Cluster": field is immutable`,
		`spec.names.kind: Invalid value: "Blouse": field is immutable`,
		`spec.group: Invalid value: "store.example.com": field is immutable`,
	}, causes(answer))
	code, answer = call(t, srv, "PUT", definitions+"/shirts.shop.example.com", changed(t, string(body), map[string]any{"metadata/resourceVersion": nil}))
	require.Equal(t, 422, code, "%v", answer)
}

func TestCRD_23_AVersionStaysWhileObjectsMayBeStoredInIt(t *testing.T) {
	srv := start(t, crd.Kinds())
	establish(t, srv, changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, plain), version("v2", false, other)}}))
	const path = definitions + "/shirts.shop.example.com"
	put := func(path string, changes map[string]any) (int, map[string]any) {
		for {
			_, now := call(t, srv, "GET", path, "")
			body, err := json.Marshal(now)
			require.NoError(t, err)
			if code, answer := call(t, srv, "PUT", path, changed(t, string(body), changes)); code != 409 {
				return code, answer
			}
		}
	}
	code, answer := put(path, map[string]any{"spec/versions/0/storage": false, "spec/versions/1/storage": true})
	require.Equal(t, 200, code, "%v", answer)
	require.Equal(t, []any{"v1", "v2"}, answer["status"].(map[string]any)["storedVersions"])
	code, answer = put(path, map[string]any{"spec/versions": []any{version("v2", true, other)}})
	require.Equal(t, 422, code)
	require.Equal(t, []string{`status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions ` +
		`until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions`}, causes(answer))
	code, answer = put(path+"/status", map[string]any{"status/storedVersions": []any{"v2"}})
	require.Equal(t, 200, code, "%v", answer)
	code, answer = put(path, map[string]any{"spec/versions": []any{version("v2", true, other)}})
	require.Equal(t, 200, code, "%v", answer)
}

// The second of two versions of one name is another version to Kubernetes, in which nothing can be stored.
func TestCRD_23_TwoVersionsOfOneName(t *testing.T) {
	srv := start(t, crd.Kinds())
	code, answer := call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{"spec/versions": []any{version("v1", true, plain), version("v1", true, plain)}}))
	require.Equal(t, 422, code, "%v", answer)
	require.Contains(t, causes(answer), `status.storedVersions: Invalid value: ["v1"]: must have the storage version v1`)
}

func TestCRD_06_GroupsOfKubernetesNeedAnApproval(t *testing.T) {
	srv := start(t, crd.Kinds())
	protected := changed(t, shirts, map[string]any{"metadata/name": "shirts.shop.k8s.io", "spec/group": "shop.k8s.io"})
	const field = "metadata.annotations[api-approved.kubernetes.io]: "
	for annotation, want := range map[string]string{
		"":      field + `Required value: protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111`,
		"maybe": field + `Invalid value: "maybe": protected groups must have approval annotation "api-approved.kubernetes.io" with either a URL or a reason starting with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111`,
		"https://github.com/kubernetes/kubernetes/pull/1": "",
		"unapproved, for tests":                           "",
	} {
		document := protected
		if annotation != "" {
			document = changed(t, protected, map[string]any{"metadata/annotations": map[string]any{"api-approved.kubernetes.io": annotation}})
		}
		code, answer := call(t, srv, "POST", definitions+"?dryRun=All", document)
		if want == "" {
			require.Equal(t, 201, code, "%v", answer)
			continue
		}
		require.Equal(t, 422, code)
		require.Equal(t, []string{want}, causes(answer))
	}
}

// Unknown keywords are dropped wherever a schema is, as when Kubernetes decodes it.
func TestCRD_04_UnknownKeywordsAreDropped(t *testing.T) {
	srv := start(t, crd.Kinds())
	code, answer := call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{
		"spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/tags": map[string]any{"type": "array", "items": map[string]any{
			"type": "object", "odd": 1, "nullable": nil, "maxProperties": 3.0, "additionalProperties": map[string]any{"type": "string", "odd": true},
		}},
	}))
	require.Equal(t, 201, code, "%v", answer)
	schema := answer["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	spec := schema["properties"].(map[string]any)["spec"].(map[string]any)
	require.Equal(t, map[string]any{"type": "array", "items": map[string]any{
		"type": "object", "maxProperties": 3.0, "additionalProperties": map[string]any{"type": "string"},
	}}, spec["properties"].(map[string]any)["tags"])
	code, answer = call(t, srv, "POST", definitions, changed(t, shirts, map[string]any{
		"spec/versions/0/schema/openAPIV3Schema/properties/spec/additionalProperties": 5,
	}))
	require.Equal(t, 400, code, "%v", answer)
	require.Contains(t, answer["message"], "boolean or JSON schema expected")
}
