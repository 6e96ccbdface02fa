package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// admissionDocument is what expressions about a write see.
const admissionDocument = `{"object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"k8s.io/a~b":"x"}},
"spec":{"replicas":2,"on":true,"weight":1.5,"containers":[{"name":"c","image":"i"},{"name":"d"}],"nothing":null}},
"oldObject":null,"params":{"max":3,"names":["p","q"]},
"request":{"operation":"CREATE","name":"p","namespace":"ns","kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},
"userInfo":{"username":"alice","groups":["g","h"],"extra":{"k":["v"]}},"dryRun":false,"options":{"kind":"CreateOptions"}},
"namespaceObject":{"metadata":{"name":"ns","labels":{"env":"prod"},"creationTimestamp":"2020-01-02T03:04:05Z"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}},
"variables":{"n":"object.spec.replicas","twice":"variables.n * 2","names":"object.spec.containers.map(c, c.name)","broken":"variables.n / 0","wrong":"nope","label":"'a' + string(1)"}}`

// admissionOperands are the expressions that stand for a letter in a pattern.
var admissionOperands = map[string][]string{
	"N": {"object.spec.replicas", "params.max", "variables.n", "variables.twice", "2", "size(variables.names)", "variables.broken"},
	"S": {"object.metadata.name", "request.operation", "request.userInfo.username", "namespaceObject.metadata.labels['env']", "variables.label", "'k8s.io/a~b'", "''", "' '", "params.names[0]"},
	"R": {"authorizer.group('').resource('pods')", "authorizer.group('apps').resource('deployments').subresource('scale')", "authorizer.requestResource", "authorizer.serviceAccount('ns', 'sa').group('').resource('pods')"},
	"V": {"'get'", "'list'", "'fail'", "'deny'", "''"},
	"A": {"object", "oldObject", "request", "namespaceObject", "params", "variables", "authorizer", "object.spec.nothing", "object.spec.containers"},
	"O": {"Object{}", "Object{a: 1}", "Object{spec: Object.spec{replicas: {N}}}", "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"},
}

// admissionPatterns are expressions in which a capital letter in braces stands for each of its operands.
var admissionPatterns = []string{
	"authorizer.path('/a').check('get').allowed() && authorizer.path('/b').check('get').allowed() && authorizer.path('/c').check('get').allowed()", "{N}", "{S}", "{N} == {N}", "{N} + {N}", "{S} == {S}", "{S} + {S}", "{A} == null", "type({A}) == type({A})", "{N} > 1 || {S} == 'p'",
	"has(object.metadata.labels)", "has(object.spec.nope)", "has(request.dryRun)", "has(request.nope)", "has(request.subResource)", "request.subResource", "request.dryRun", "request.kind.kind", "request.resource.resource",
	"request.options.kind", "request.userInfo.groups", "'g' in request.userInfo.groups", "request.userInfo.extra['k']", "request.userInfo.extra['none']", "namespaceObject.metadata.creationTimestamp", "namespaceObject.metadata.UID",
	"namespaceObject.spec.finalizers", "namespaceObject.status.phase", "namespaceObject.nope", "object.nope", "object.?spec.?nope.orValue(1)", "object.spec.containers.all(c, has(c.image))", "object.spec.containers.filter(c, c.name == {S}).size()",
	"object.metadata.labels.all(k, k.startsWith('k8s'))", "object.spec.weight < {N}", "object.spec.on", "!object.spec.on", "object.spec.containers[5].name", "params.names.exists(n, n == {S})", "params.nope", "oldObject.spec", "variables.later", "variables.wrong",
	"variables.names == ['c', 'd']", "variables.names.join({S})", "has(variables.n)", "has(variables.nope)", "variables.broken == 1 || true", "self", "unknown.x", "1 +", "object.spec.replicas.nope()", "object.spec.replicas > 'a'",
	// authorizer
	"{R}.check({V}).allowed()", "{R}.check({V}).reason()", "{R}.check({V}).error()", "{R}.check({V}).errored()", "{R}.namespace({S}).check({V}).allowed()", "{R}.name({S}).check({V}).reason()", "{R}.subresource({S}).check('get').reason()",
	"{R}.fieldSelector({S}).check('list').reason()", "{R}.labelSelector({S}).check('list').reason()", "{R}.labelSelector('a in (b, c),!d').fieldSelector('metadata.name=x').check('list').reason()", "authorizer.path({S}).check({V}).reason()", "authorizer.path({S}).check({V}).allowed()",
	"authorizer.group({S}).resource({S}).check('get').reason()", "authorizer.serviceAccount({S}, {S}).path('/x').check('get').reason()", "authorizer.check('get')", "authorizer.group('a').check('get')", "authorizer == authorizer", "{R} == {R}", "{R}.check('get') == {R}.check('get')",
	"[1, 2].map(i, authorizer.path('/').check('get').allowed())", "[1, 2, 3].map(i, authorizer.path('/').check('get').allowed())", "{R}.check('get')", "{R}", "authorizer.path('/').check('get').nope()", "authorizer.resource('pods')",
	// mutations
	"{O}", "{O} == {O}", "{O} == Object.spec{}", "[{O}]", "{'a': {O}}", "{O}.a", "{O}.?a.orValue(5)", "has({O}.a)", "Object{a: {A}}", "Object{a: [{N}, {N}]}", "Object{a: {S}}", "Object{spec: Object.specx{a: 1}}", "Object{spec: Object.spec{b: Object.spec.b{}}}",
	"Object{?a: optional.none()}", "Object{?a: optional.of({N})}", "Object{?spec: optional.ofNonZeroValue(Object.spec{?replicas: Object{}.?replicas})}", "Object{list: [1, 2, 3]}.list.sum()", "Object.spec{}", "Objects{}", "Invalid{}", "Object{1: 2}",
	"JSONPatch{op: 'add', path: '/a', value: {N}}.path", "JSONPatch{op: 'add', path: {S}}.path", "JSONPatch{op: 'add'} == JSONPatch{op: 'add'}", "JSONPatch{op: 1}", "JSONPatch{op: dyn(1)}.op", "has(JSONPatch{op: 'x'}.value)", "has(JSONPatch{op: 'x'}.from)", "JSONPatch{op: 'x', value: {S}}.value",
	"[JSONPatch{op: 'add', path: '/a', value: {A}}].size()", "[JSONPatch{op: 'add', path: '/a'}, {O}].size()", "[JSONPatch{op: 'remove', path: '/a'}].all(p, p.op == 'remove')", "jsonpatch.escapeKey({S})", "jsonpatch.escapeKey('~/~1') + jsonpatch.escapeKey({S})", "jsonpatch.escapeKey(1)", "jsonpatch.nope('a')",
}

// admissionExpressions returns all expressions, each once.
func admissionExpressions() []string {
	var out []string
	for _, p := range admissionPatterns {
		all := expand(p, admissionOperands)
		step := max(1, len(all)/maxPerPattern)
		for i := 0; i < len(all); i += step {
			out = append(out, all[i])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// anything is an expression with any result.
type anything struct{ name, text string }

func (a anything) GetName() string            { return a.name }
func (a anything) GetExpression() string      { return a.text }
func (a anything) ReturnTypes() []*celgo.Type { return []*celgo.Type{celgo.AnyType} }

// decide is an authorizer whose answers say what it was asked.
func decide(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	reason := strings.Join([]string{a.GetUser().GetName(), a.GetPath(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName(), a.GetVerb()}, "|")
	switch a.GetVerb() {
	case "get", "list":
		return authorizer.DecisionAllow, reason, nil
	case "fail":
		return authorizer.DecisionNoOpinion, reason, errors.New("out of order")
	case "deny":
		return authorizer.DecisionDeny, reason, nil
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// requested is what authorizer.requestResource is about.
type requested struct{}

func (requested) GetName() string        { return "p" }
func (requested) GetNamespace() string   { return "ns" }
func (requested) GetSubresource() string { return "" }
func (requested) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

// admissionScope compiles and evaluates expressions about one write.
type admissionScope struct {
	compiler *plugincel.CompositedCompiler
	document map[string]any
}

var admissionDeclarations = plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}

func newAdmissionScope() (*admissionScope, error) {
	var document map[string]any
	if err := json.Unmarshal([]byte(admissionDocument), &document); err != nil {
		return nil, err
	}
	document = integers(document).(map[string]any)
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, 35)))
	if err != nil {
		return nil, err
	}
	variables := document["variables"].(map[string]any)
	for _, name := range []string{"n", "twice", "names", "broken", "wrong", "label"} {
		compiler.CompileAndStoreVariable(anything{name, variables[name].(string)}, admissionDeclarations, environment.StoredExpressions)
	}
	return &admissionScope{compiler, document}, nil
}

// ask compiles and evaluates one expression.
func (s *admissionScope) ask(text string) Answer {
	out := Answer{Rule: text}
	declarations := admissionDeclarations
	declarations.HasPatchTypes = true
	compiled := s.compiler.CompileCELExpression(anything{"", text}, declarations, environment.StoredExpressions)
	if compiled.Error != nil {
		out.Problem = compiled.Error.Detail
		return out
	}
	alice := &user.DefaultInfo{Name: "alice"}
	values := map[string]any{
		"authorizer":                 library.NewAuthorizerVal(alice, authorizer.AuthorizerFunc(decide)),
		"authorizer.requestResource": library.NewResourceAuthorizerVal(alice, authorizer.AuthorizerFunc(decide), requested{}),
	}
	for _, name := range []string{"object", "oldObject", "params", "request", "namespaceObject"} {
		values[name] = s.document[name]
	}
	ctx := s.compiler.CreateContext(context.Background())
	values["variables"] = ctx.Variables(values)
	value, details, err := compiled.Program.ContextEval(ctx, values)
	out.Result = form(value, err)
	if details != nil && details.ActualCost() != nil {
		out.Cost = *details.ActualCost() + uint64(ctx.GetAndResetCost())
	}
	return out
}

// form returns a result as JSON, with its type.
func form(value ref.Val, err error) string {
	if err != nil {
		return "failed: " + err.Error()
	}
	text, err := json.Marshal(value.Value())
	if err != nil {
		return value.Type().TypeName()
	}
	return value.Type().TypeName() + " " + string(text)
}

// recordAdmission writes all answers about a write.
func recordAdmission(to io.Writer) error {
	out := bufio.NewWriter(to)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if _, err := fmt.Fprintln(out, strings.ReplaceAll(admissionDocument, "\n", "")); err != nil {
		return err
	}
	scope, err := newAdmissionScope()
	if err != nil {
		return err
	}
	for _, text := range admissionExpressions() {
		if err := encoder.Encode(scope.ask(text)); err != nil {
			return err
		}
	}
	return out.Flush()
}
