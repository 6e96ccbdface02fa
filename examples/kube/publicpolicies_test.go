package kube

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/kinds/crd"
	"github.com/kindwright/kindwright/storage/memory"
)

var policies = flag.String("policies", "", "directory of policies to compare with the peer; see make policies")

// TestPublicPoliciesJudgeAlike puts the policies that others published in force on our server and on a
// kube-apiserver. It asks both about the creation, the change and the deletion of the samples beside each policy,
// and of samples of other policies of the same kinds. Codes, messages, warnings and changed objects must be
// the same.
func TestPublicPoliciesJudgeAlike(t *testing.T) {
	if *policies == "" || *peer == "" {
		return // there is nothing to compare; make policies gives both
	}
	like := kindwright.Kubernetes{WrongTypeIsBadRequest: true, ExpressionPrices: true, ResetByEmptyList: true}
	ours := serveOn(t, memory.New(), Options{}, like, kindwright.Serve(crd.Kinds(crd.AgeColumn(), crd.ClosedVersions())),
		kindwright.Admit(RuntimeClassPlugin())) // a policy may name a class that does not exist
	c := &comparison{t: t, sides: []*target{ours, thePeer()}, seen: map[string]bool{}}
	defer c.clear() // not in a clean-up: the context of the test ends before
	c.prepare(readCorpus(t, *policies, c.served()))
	for first := 0; first < len(c.all); first += inForce {
		c.judgeSome(first, min(first+inForce, len(c.all)))
	}
	verdicts := 0
	for _, n := range c.verdicts {
		verdicts += n
	}
	t.Logf("%d policies, of which both refuse %d; %d verdicts, by code: %v; %d warnings that the peer loses; %d differences",
		len(c.all), c.refused, verdicts, c.verdicts, c.lost, c.differences)
	require.Zero(t, c.differences)
}

// comparison is a run against both servers.
type comparison struct {
	t           *testing.T
	sides       []*target // ours, the peer
	all         []publicPolicy
	places      map[string]place        // of each apiVersion and kind
	plain       map[string][2]judgement // the answers without a policy
	samples     map[string][]map[string]any
	seen        map[string]bool // what was created before
	verdicts    map[int]int
	refused     int
	lost        int // warnings
	differences int
}

// place says where objects of a kind are.
type place struct {
	root, plural string
	namespaced   bool
}

// judgement is an answer without what differs each time.
type judgement struct {
	code     int
	text     string
	warnings []string
}

// both sends a request to the two servers at the same time.
func (c *comparison) both(method, path string, object any) [2]judgement {
	var out [2]judgement
	var wait sync.WaitGroup
	for i, s := range c.sides {
		body := ""
		if object != nil {
			text, err := json.Marshal(object)
			require.NoError(c.t, err)
			body = string(text)
		}
		wait.Go(func() {
			answer, got := s.answer(c.t, method, path, body, "Content-Type", contentType(method))
			out[i] = judgement{answer.StatusCode, textOf(answer.StatusCode, got), answer.Header.Values("Warning")}
		})
	}
	wait.Wait()
	return out
}

// contentType is what the body of a request is.
func contentType(method string) string {
	if method == http.MethodPatch {
		return "application/merge-patch+json"
	}
	return "application/json"
}

// random are the values in answers that each server chooses.
var random = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b10\.\d+\.\d+\.\d+\b|\b20\d\d-\d\d-\d\dT[0-9:.]+Z|"(nodePort|healthCheckNodePort|resourceVersion|generation)":"?\d+"?|kube-api-access-\w+`)

// textOf is an answer as text. Of what is refused otherwise than by a policy, only the fields count: sentences
// about values are not compared here.
func textOf(code int, got map[string]any) string {
	if code >= 400 && !strings.Contains(word(got["message"]), "denied request") {
		text, _ := json.Marshal(slices.Compact(words(at(got, "details", "causes"), "field")))
		return string(text)
	}
	if code >= 400 {
		text, _ := json.Marshal(map[string]any{"message": got["message"], "reason": got["reason"], "causes": at(got, "details", "causes")})
		return random.ReplaceAllString(string(text), "…")
	}
	if word(got["kind"]) != "Status" {
		got = still(got)
	} else {
		delete(got, "details") // of a deletion: the uid
	}
	text, _ := json.Marshal(got)
	return random.ReplaceAllString(string(text), "…")
}

// served are the kinds of both servers, with their paths.
func (c *comparison) served() (out []kindOfSample) {
	c.places, c.plain, c.samples, c.verdicts = map[string]place{}, map[string][2]judgement{}, map[string][]map[string]any{}, map[int]int{}
	ours := c.sides[0] // without definitions that an earlier run has left
	read := func(root, group, version string) {
		for _, r := range list(ours.must(c.t, 200, "GET", root, "")["resources"]) {
			if name := word(at(r, "name")); !strings.Contains(name, "/") {
				c.places[strings.TrimPrefix(group+"/"+version, "/")+" "+word(at(r, "kind"))] = place{root, name, at(r, "namespaced") == true}
				out = append(out, kindOfSample{group, version, word(at(r, "kind")), name})
			}
		}
	}
	read("/api/v1", "", "v1")
	for _, g := range list(ours.must(c.t, 200, "GET", "/apis", "")["groups"]) {
		for _, v := range list(at(g, "versions")) {
			read("/apis/"+word(at(v, "groupVersion")), word(at(g, "name")), word(at(v, "version")))
		}
	}
	return out
}

// inForce is how many policies are in force at once. The peer evaluates a condition of each for every request.
const inForce = 25

// judgeSome puts some policies in force, waits until the peer has them, and asks about samples.
func (c *comparison) judgeSome(first, end int) {
	c.clear()
	numbers := make([]int, end)
	for i := first; i < end; i++ {
		numbers[i] = c.enforce(&c.all[i], i)
	}
	time.Sleep(5 * time.Second)
	for i := first; i < end; i++ {
		c.judge(&c.all[i], numbers[i])
	}
}

// prepare creates what policies need.
func (c *comparison) prepare(from *corpus) {
	c.all = from.policies
	require.NotEmpty(c.t, c.all, "there are no policies in %s", *policies)
	for i := range c.all {
		for _, object := range c.all[i].before {
			c.define(object)
		}
		for _, object := range c.all[i].objects {
			c.defineKindOf(from, object)
		}
		if p := c.all[i].param; p != nil {
			c.defineKindOf(from, p)
		}
	}
	time.Sleep(3 * time.Second) // until the peer's discovery has the kinds
	for i := range c.all {
		if p := c.all[i].param; p != nil { // under a name of its own: parameters of one kind often share theirs
			p = maps.Clone(p)
			p["metadata"] = map[string]any{"name": fmt.Sprintf("public-%d", i)}
			c.all[i].param = p
			c.need(p)
		}
		for _, object := range c.all[i].objects {
			key := word(object["apiVersion"]) + " " + word(object["kind"])
			c.samples[key] = append(c.samples[key], object)
		}
	}
}

func (c *comparison) define(object map[string]any) {
	name, spec := word(at(object, "metadata", "name")), at(object, "spec")
	if c.seen[name] {
		return
	}
	c.seen[name] = true
	for _, v := range c.both("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object) {
		require.Contains(c.t, []int{201, 409}, v.code, "%s: %s", name, v.text)
	}
	group, kind := word(at(spec, "group")), word(at(spec, "names", "kind"))
	for _, v := range list(at(spec, "versions")) {
		gv := group + "/" + word(at(v, "name"))
		c.places[gv+" "+kind] = place{"/apis/" + gv, word(at(spec, "names", "plural")), word(at(spec, "scope")) == "Namespaced"}
	}
}

// defineKindOf defines the kind of a sample if neither server has it.
func (c *comparison) defineKindOf(from *corpus, object map[string]any) {
	gv, kind := word(object["apiVersion"]), word(object["kind"])
	if _, ok := c.places[gv+" "+kind]; ok {
		return
	}
	for _, k := range from.kinds[strings.ToLower(kind)] {
		if k.group+"/"+k.version == gv {
			c.define(defined(k, true, map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
		}
	}
}

// need creates an object that a policy refers to.
func (c *comparison) need(object map[string]any) {
	at, ok := c.pathOf(object)
	require.True(c.t, ok, "%v", object)
	c.both("DELETE", at+"/"+word(object["metadata"].(map[string]any)["name"]), nil) // of an earlier run
	require.EventuallyWithT(c.t, func(t *assert.CollectT) {                         // the peer serves a kind some time after its definition
		for i, v := range c.both("POST", at, object) {
			assert.Contains(t, []int{201, 409}, v.code, "%d: %v: %s", i, object, v.text)
		}
	}, time.Minute, time.Second)
}

// pathOf is the path of the collection of an object, whose namespace it creates.
func (c *comparison) pathOf(object map[string]any) (string, bool) {
	p, ok := c.places[word(object["apiVersion"])+" "+word(object["kind"])]
	if !ok {
		return "", false
	}
	if !p.namespaced {
		return p.root + "/" + p.plural, true
	}
	namespace := word(at(object, "metadata", "namespace"))
	if namespace == "" {
		namespace = "default"
	}
	if !c.seen["namespace "+namespace] {
		c.seen["namespace "+namespace] = true
		c.both("POST", "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": namespace}})
	}
	return p.root + "/namespaces/" + namespace + "/" + p.plural, true
}

// enforce creates a policy and its binding. Only requests with the policy's own mark are about it, so that all
// can be in force at once. It returns the number of the mark, or -1 if both servers refuse the policy.
func (c *comparison) enforce(p *publicPolicy, n int) int {
	kind, plural := "ValidatingAdmissionPolicy", "validatingadmissionpolicies"
	if p.mutating {
		kind, plural = "MutatingAdmissionPolicy", "mutatingadmissionpolicies"
	}
	name := fmt.Sprintf("public-%d", n)
	spec := maps.Clone(p.spec)
	mark := map[string]any{"name": "is-asked", "expression": fmt.Sprintf("request.operation == 'DELETE' ? has(request.options.gracePeriodSeconds) && request.options.gracePeriodSeconds == %d "+
		": has(request.options.fieldManager) && request.options.fieldManager == '%s'", 1_000_000+n, name)}
	spec["matchConditions"] = slices.Concat([]any{mark}, list(spec["matchConditions"]))
	if p.mutating && spec["reinvocationPolicy"] == nil {
		spec["reinvocationPolicy"] = "Never" // Kyverno's has none
	}
	got := c.both("POST", policyGroup+plural, map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": marked(name), "spec": spec,
	})
	c.count(p, "the policy itself", got)
	if got[0].code != 201 || got[1].code != 201 {
		c.refused++
		return -1
	}
	binding := map[string]any{"policyName": name}
	if !p.mutating {
		binding["validationActions"] = []any{"Deny", "Audit"}
		if n%5 == 0 {
			binding["validationActions"] = []any{"Warn", "Audit"}
		}
	}
	if p.param != nil {
		of := map[string]any{"name": at(p.param, "metadata", "name"), "parameterNotFoundAction": "Deny"}
		if at := c.places[word(p.param["apiVersion"])+" "+word(p.param["kind"])]; at.namespaced {
			of["namespace"] = namespaceOf(p.param)
		}
		binding["paramRef"] = of
	}
	got = c.both("POST", policyGroup+strings.TrimSuffix(plural, "ies")+"ybindings", map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "Binding", "metadata": marked(name), "spec": binding,
	})
	c.count(p, "the binding", got)
	return n
}

// policyGroup is where policies are.
const policyGroup = "/apis/admissionregistration.k8s.io/v1/"

// marked is the metadata of what a run puts in force, and takes away at its end.
func marked(name string) map[string]any {
	return map[string]any{"name": name, "labels": map[string]any{"kindwright-policies": "run"}}
}

// clear removes the policies of this run, or of one that did not end.
func (c *comparison) clear() {
	for _, s := range c.sides {
		for _, plural := range []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingadmissionpolicies"} {
			code, got := s.do(c.t, "DELETE", policyGroup+plural+"?labelSelector=kindwright-policies", "")
			require.Equal(c.t, 200, code, got)
		}
	}
}

// namespaceOf is the namespace of an object.
func namespaceOf(object map[string]any) string {
	if namespace := word(at(object, "metadata", "namespace")); namespace != "" {
		return namespace
	}
	return "default"
}

// maxForeign bounds how many samples of other policies each policy judges.
const maxForeign = 4

// judge asks both servers about samples while one policy counts.
func (c *comparison) judge(p *publicPolicy, n int) {
	if n < 0 {
		return
	}
	for _, object := range p.objects {
		c.sample(p, n, object, true)
	}
	keys := slices.Sorted(maps.Keys(c.samples))
	foreign := 0
	for i := 0; foreign < maxForeign && i < maxForeign; i++ {
		for _, key := range keys {
			if at, ok := c.places[key]; ok && names(p.spec, at) && foreign < maxForeign {
				all := c.samples[key]
				c.sample(p, n, all[(n*31+i*17)%len(all)], false)
				foreign++
			}
		}
	}
}

// names reports whether the rules of a policy name a kind.
func names(spec map[string]any, in place) bool {
	for _, r := range list(at(spec, "matchConstraints", "resourceRules")) {
		if slices.ContainsFunc(words(at(r, "resources")), func(w string) bool { return w == in.plural || w == "*" }) {
			return true
		}
	}
	return false
}

// sample asks about the creation of one object. With all set, it then creates the object, unseen by the policy,
// and asks about its change and its deletion. Where the servers answer alike without the policy, they must do so
// with it.
func (c *comparison) sample(p *publicPolicy, n int, object map[string]any, all bool) {
	collection, ok := c.pathOf(object)
	if !ok {
		return
	}
	name, kind := word(at(object, "metadata", "name")), word(object["kind"])
	manager := fmt.Sprintf("fieldManager=public-%d", n)
	create := ask{"POST", collection + "?dryRun=All", "&" + manager, object}
	plain := c.same(p, "create "+kind+" "+name, create)
	if !all || plain[0].code != 201 || plain[1].code != 201 || kind == "Namespace" || at(object, "metadata", "finalizers") != nil {
		return
	}
	c.both("POST", collection, object)
	path := collection + "/" + name
	c.same(p, "change "+kind+" "+name, ask{"PATCH", path + "?dryRun=All", "&" + manager, map[string]any{"metadata": map[string]any{"labels": map[string]any{"changed": "yes"}}}})
	grace := fmt.Sprintf("&gracePeriodSeconds=%d", 1_000_000+n)
	c.same(p, "delete "+kind+" "+name, ask{"DELETE", path + "?dryRun=All", grace, nil})
	c.both("DELETE", path, map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"})
}

// ask is a request, which mark puts before one policy.
type ask struct {
	method, path, mark string
	object             map[string]any
}

// same asks with and without the policy. It returns the answers without it.
func (c *comparison) same(p *publicPolicy, what string, a ask) (plain [2]judgement) {
	key := fmt.Sprint(a)
	plain, known := c.plain[key]
	if !known || a.method != "POST" {
		plain = c.both(a.method, a.path, a.object)
		c.plain[key] = plain
	}
	if plain[0].code != plain[1].code {
		return plain // the servers differ without the policy: the sample is in use, or collected
	}
	got := c.both(a.method, a.path+a.mark, a.object)
	for i := range got {
		if got[i].code < 300 && (a.method == "DELETE" || plain[0].text != plain[1].text) {
			got[i].text = "" // the objects differ without the policy
		}
		if got[i].code == plain[i].code && got[i].text == plain[i].text {
			got[i].text = "as without the policy"
		}
		got[i].warnings = slices.DeleteFunc(got[i].warnings, func(w string) bool { return !strings.Contains(w, "AdmissionPolicy") })
	}
	c.count(p, what, got)
	return plain
}

// count counts a verdict, and reports it if it differs.
func (c *comparison) count(p *publicPolicy, what string, got [2]judgement) {
	c.verdicts[got[1].code]++
	if got[0].code == got[1].code && got[0].text == got[1].text && slices.Equal(got[0].warnings, got[1].warnings) {
		return
	}
	if got[0].code == got[1].code && got[0].text == got[1].text && len(got[1].warnings) == 0 && mayBreakLines(p.spec) {
		c.lost++
		return
	}
	c.differences++
	c.t.Logf("%s: %s\n    ours %d %.1200s %.600q\n    peer %d %.1200s %.600q", p.name, what,
		got[0].code, got[0].text, got[0].warnings, got[1].code, got[1].text, got[1].warnings)
}

// mayBreakLines reports whether what a policy says to a client may have line breaks: the expression that fails stands in
// it where there is no message. kube-apiserver does not send such a warning; ours has spaces in the place of the breaks.
func mayBreakLines(spec map[string]any) bool {
	for _, v := range list(spec["validations"]) {
		for _, field := range []string{"expression", "message", "messageExpression"} {
			if strings.Contains(strings.TrimSpace(word(at(v, field))), "\n") {
				return true
			}
		}
	}
	return false
}
