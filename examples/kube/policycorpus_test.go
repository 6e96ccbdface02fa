package kube

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/yaml"
)

// A publicPolicy is an admission policy that somebody published, with what it needs and what it judges.
type publicPolicy struct {
	name     string // the file below the directory that was searched
	mutating bool
	spec     map[string]any
	param    map[string]any   // the object that a binding names, or nil
	before   []map[string]any // what is created first, such as the definition of the parameters
	objects  []map[string]any // the samples beside the policy
}

// A corpus collects policies from files in the forms of Kubernetes, Kyverno and Gatekeeper.
type corpus struct {
	policies []publicPolicy
	kinds    map[string][]kindOfSample // by kind, lower case and without group, as Kyverno names them
}

// A kindOfSample is a kind that a sample or a server has.
type kindOfSample struct{ group, version, kind, plural string }

// A sample is a document of a file.
type sample struct {
	file   string
	object map[string]any
}

// readCorpus reads all manifests below a directory. Samples of a policy are the objects in its directory
// and below. Files that are no manifests, such as templates, are left out.
func readCorpus(t *testing.T, root string, served []kindOfSample) *corpus {
	var all []sample
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err != nil || d.IsDir() || ext != ".yaml" && ext != ".yml" {
			return err
		}
		data, err := os.ReadFile(path) //nolint:gosec // below a directory that the command names
		name, _ := filepath.Rel(root, path)
		for _, document := range yaml.Documents(data) {
			all = append(all, samplesOf(name, document)...)
		}
		return err
	}))
	c := &corpus{kinds: map[string][]kindOfSample{}}
	for _, k := range served {
		c.kinds[strings.ToLower(k.kind)] = append(c.kinds[strings.ToLower(k.kind)], k)
	}
	for _, s := range all {
		c.learn(s.object)
	}
	for _, s := range all {
		for _, p := range c.policiesOf(s, all) {
			p.name = s.file + p.name
			c.policies = append(c.policies, p)
		}
	}
	return c
}

// samplesOf returns the objects of a document. A list is its items.
func samplesOf(file string, document []byte) []sample {
	text, err := yaml.ToJSON(document, 4<<20)
	var object map[string]any
	if err != nil || json.Unmarshal(text, &object) != nil || word(object["kind"]) == "" || word(object["apiVersion"]) == "" {
		return nil
	}
	if items, ok := object["items"].([]any); ok && strings.HasSuffix(word(object["kind"]), "List") {
		var out []sample
		for _, item := range items {
			if one, ok := item.(map[string]any); ok {
				out = append(out, sample{file, one})
			}
		}
		return out
	}
	return []sample{{file, object}}
}

// learn remembers a kind that no server has, so that a definition can be made of it.
func (c *corpus) learn(object map[string]any) {
	group, version, found := strings.Cut(word(object["apiVersion"]), "/")
	kind := word(object["kind"])
	if !found || machinery(group) || !strings.Contains(group, ".") {
		return
	}
	key := strings.ToLower(kind)
	if slices.ContainsFunc(c.kinds[key], func(k kindOfSample) bool { return k.group == group && k.version == version }) {
		return
	}
	plural := key + "s"
	switch {
	case strings.HasSuffix(key, "y") && !strings.HasSuffix(key, "ay"):
		plural = strings.TrimSuffix(key, "y") + "ies"
	case strings.HasSuffix(key, "s"):
		plural = key + "es"
	}
	c.kinds[key] = append(c.kinds[key], kindOfSample{group, version, kind, plural})
}

// machinery reports whether a group has the objects of policy engines and of tests.
func machinery(group string) bool {
	for _, part := range []string{"kyverno.io", "gatekeeper.sh", "k8s.io", "openreports.io", "kustomize.config"} {
		if strings.HasSuffix(group, part) {
			return true
		}
	}
	return false
}

// policiesOf returns the policies that a document stands for.
func (c *corpus) policiesOf(s sample, all []sample) []publicPolicy {
	group, _, _ := strings.Cut(word(s.object["apiVersion"]), "/")
	dir := filepath.Dir(s.file)
	kind := word(s.object["kind"])
	if strings.HasPrefix(filepath.Base(dir), ".") || at(s.object, "spec") == nil {
		return nil // a part of a test
	}
	var out []publicPolicy
	switch {
	case group == "admissionregistration.k8s.io" && strings.HasSuffix(kind, "AdmissionPolicy"):
		out = []publicPolicy{{mutating: strings.HasPrefix(kind, "Mutating"), spec: fields(s.object["spec"]), param: paramBeside(s, dir, all)}}
	case group == "policies.kyverno.io" && (kind == "ValidatingPolicy" || kind == "MutatingPolicy"):
		out = []publicPolicy{{mutating: kind == "MutatingPolicy", spec: fields(s.object["spec"])}}
	case group == "kyverno.io" && kind == "ClusterPolicy":
		out = c.fromRules(s, dir, all)
	case group == "templates.gatekeeper.sh" && kind == "ConstraintTemplate":
		out = c.fromTemplate(s, dir, all)
	}
	for i := range out {
		for _, one := range all {
			if out[i].objects = slices.Clip(out[i].objects); isBelow(one.file, dir) && c.isSample(one.object) {
				out[i].objects = append(out[i].objects, one.object)
			}
		}
	}
	return out
}

func isBelow(file, dir string) bool { return strings.HasPrefix(file, dir+string(filepath.Separator)) }

// isSample reports whether an object is one that policies judge.
func (c *corpus) isSample(object map[string]any) bool {
	group, _, found := strings.Cut(word(object["apiVersion"]), "/")
	kind := word(object["kind"])
	known := slices.ContainsFunc(c.kinds[strings.ToLower(kind)], func(k kindOfSample) bool { return !found || k.group == group })
	return known && word(at(object, "metadata", "name")) != "" && kind != "CustomResourceDefinition" && group != "admissionregistration.k8s.io"
}

// fields are the parts of a policy that Kubernetes has, too.
func fields(spec any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"failurePolicy", "matchConstraints", "matchConditions", "variables", "validations", "auditAnnotations", "mutations", "reinvocationPolicy", "paramKind"} {
		if v := at(spec, name); v != nil {
			out[name] = v
		}
	}
	return out
}

// paramBeside is an object of the kind that a policy asks for, in the same directory.
func paramBeside(s sample, dir string, all []sample) map[string]any {
	for _, one := range all {
		if of := at(s.object, "spec", "paramKind"); of != nil && filepath.Dir(one.file) == dir &&
			one.object["kind"] == at(of, "kind") && one.object["apiVersion"] == at(of, "apiVersion") {
			return one.object
		}
	}
	return nil
}

// fromRules returns a policy for each rule of a ClusterPolicy of Kyverno that has expressions.
func (c *corpus) fromRules(s sample, dir string, all []sample) (out []publicPolicy) {
	for _, r := range list(at(s.object, "spec", "rules")) {
		from := at(r, "validate", "cel")
		if from == nil {
			continue
		}
		spec := map[string]any{"validations": at(from, "expressions")}
		var rules []any
		for _, one := range slices.Concat(list(at(r, "match", "any")), list(at(r, "match", "all"))) {
			operations := list(at(one, "resources", "operations"))
			if operations == nil {
				operations = []any{"CREATE", "UPDATE"}
			}
			for _, kind := range list(at(one, "resources", "kinds")) {
				rules = append(rules, c.rulesFor(word(kind), operations)...)
			}
		}
		spec["matchConstraints"] = map[string]any{"resourceRules": rules}
		for to, name := range map[string]string{"variables": "variables", "auditAnnotations": "auditAnnotations", "paramKind": "paramKind"} {
			if v := at(from, name); v != nil {
				spec[to] = v
			}
		}
		if v := at(r, "celPreconditions"); v != nil {
			spec["matchConditions"] = v
		}
		p := publicPolicy{name: " " + word(at(r, "name")), spec: spec}
		p.param = paramBeside(sample{object: map[string]any{"spec": spec}}, filepath.Join(dir, ".chainsaw-test"), all)
		out = append(out, p)
	}
	return out
}

// rulesFor returns what a kind in one of Kyverno's spellings means: Pod, apps/v1/Deployment, Pod/exec.
func (c *corpus) rulesFor(kind string, operations []any) (out []any) {
	parts := strings.Split(kind, "/")
	name, sub := parts[len(parts)-1], ""
	if name == strings.ToLower(name) && len(parts) > 1 {
		name, sub = parts[len(parts)-2], "/"+name
	}
	name, more, _ := strings.Cut(name, ".")
	if more != "" {
		sub = "/" + more
	}
	for _, k := range c.kinds[strings.ToLower(name)] {
		out = append(out, map[string]any{
			"apiGroups": []any{k.group}, "apiVersions": []any{k.version}, "resources": []any{k.plural + sub}, "operations": operations,
		})
	}
	return out
}

// fromTemplate returns a policy for each constraint beside a template of Gatekeeper that has expressions. The
// variables that Gatekeeper adds come first. The definition of the constraints, and the constraint, are what the
// policy needs.
func (c *corpus) fromTemplate(s sample, dir string, all []sample) (out []publicPolicy) {
	var source any
	for _, target := range list(at(s.object, "spec", "targets")) {
		for _, code := range list(at(target, "code")) {
			if word(at(code, "engine")) == "K8sNativeValidation" {
				source = at(code, "source")
			}
		}
	}
	kind := word(at(s.object, "spec", "crd", "spec", "names", "kind"))
	for _, one := range all {
		if source == nil || !isBelow(one.file, dir) || word(one.object["kind"]) != kind {
			continue
		}
		variables := []any{
			map[string]any{"name": "anyObject", "expression": `has(request.operation) && request.operation == "DELETE" ? oldObject : object`},
			map[string]any{"name": "params", "expression": `!has(params.spec) ? null : !has(params.spec.parameters) ? null: params.spec.parameters`},
		}
		var rules []any
		for _, m := range list(at(one.object, "spec", "match", "kinds")) {
			for _, k := range list(at(m, "kinds")) {
				rules = append(rules, c.rulesFor(word(k), []any{"CREATE", "UPDATE", "DELETE"})...)
			}
		}
		constraint := maps.Clone(one.object)
		constraint["apiVersion"] = "constraints.gatekeeper.sh/v1beta1"
		spec := map[string]any{
			"paramKind": map[string]any{"apiVersion": constraint["apiVersion"], "kind": kind}, "variables": append(variables, list(at(source, "variables"))...),
			"validations": at(source, "validations"), "matchConstraints": map[string]any{"resourceRules": rules},
		}
		for _, name := range []string{"failurePolicy", "matchConditions"} {
			if v := at(source, name); v != nil {
				spec[name] = v
			}
		}
		out = append(out, publicPolicy{
			name: " " + word(at(constraint, "metadata", "name")), spec: spec, param: constraint,
			before: []map[string]any{constraintDefinition(kind, at(s.object, "spec", "crd", "spec", "validation", "openAPIV3Schema"))},
		})
	}
	return out
}

// constraintDefinition is the definition that Gatekeeper makes of the constraints of a template.
func constraintDefinition(kind string, parameters any) map[string]any {
	free := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if parameters == nil {
		parameters = free
	}
	properties := map[string]any{"match": free, "parameters": parameters, "enforcementAction": map[string]any{"type": "string"}}
	schema := map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{"type": "object", "properties": properties}, "status": free,
	}}
	return defined(kindOfSample{"constraints.gatekeeper.sh", "v1beta1", kind, strings.ToLower(kind)}, false, schema)
}

// defined is a definition with one version.
func defined(k kindOfSample, namespaced bool, schema map[string]any) map[string]any {
	scope := "Cluster"
	if namespaced {
		scope = "Namespaced"
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        fmt.Sprintf("%s.%s", k.plural, k.group),
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		"spec": map[string]any{
			"group": k.group, "scope": scope,
			"names":    map[string]any{"plural": k.plural, "singular": strings.ToLower(k.kind), "kind": k.kind, "listKind": k.kind + "List"},
			"versions": []any{map[string]any{"name": k.version, "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": schema}}},
		},
	}
}
