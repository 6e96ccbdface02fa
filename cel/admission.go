package cel

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/kindwright/kindwright/openapi"
)

// AdmissionOptions say what the expressions of one admission policy or webhook can use.
type AdmissionOptions struct {
	// Release is the release of Kubernetes that the server emulates, as in [RuleOptions].
	Release string

	// Known reports the expressions that were accepted before, as in [RuleOptions].
	Known func(expression string) bool

	// Stored is for expressions that are in use already. They may use every library.
	Stored bool

	// Params declares the variable params.
	Params bool

	// Prices are the prices of the parts of expressions.
	Prices Prices

	// Object and ParamsType are the schemas of object and oldObject, and of params, for checks of types.
	// Without them nothing is known about the values before they are read. Expressions that are checked
	// are not evaluated.
	Object, ParamsType *openapi.Schema
}

// Admission compiles the expressions of one policy. They judge a request by the variables object,
// oldObject, request, namespaceObject and params, and by those that the policy defines, which are
// fields of variables.
//
// Compile all expressions before the first evaluation. Evaluations may run concurrently.
// Source: POL-04.
type Admission struct {
	options AdmissionOptions
	minor   int
	made    map[admissionKey]*celgo.Env
	fields  map[string]Type // of variables
	defined map[string]*AdmissionExpression
	parts   int // of all expressions so far

	defines bool // variables, of which the first is compiled when there is none yet
}

// admissionKey tells the environments of one policy apart.
type admissionKey struct {
	minor              int
	params, authorizer bool
	mutates            bool // expressions may make what mutations consist of
	variables          bool // the policy has some, or is one that mutates: those have none if there are none
}

// requestResource is the variable that asks about the object of the request.
const requestResource = "authorizer.requestResource"

// variablesType is the type of the variables that a policy defines.
const variablesType = "kubernetes.variables"

// NewAdmission returns the scope of a policy.
func NewAdmission(o AdmissionOptions) (*Admission, error) {
	minor, err := minorOf(o.Release)
	if err != nil {
		return nil, err
	}
	return &Admission{
		options: o, minor: minor, made: map[admissionKey]*celgo.Env{}, fields: map[string]Type{}, defined: map[string]*AdmissionExpression{},
	}, nil
}

// key returns the key of the environment of an expression.
func (a *Admission) key(text string, authorizer bool, results []Type) admissionKey {
	mutates := slices.ContainsFunc(results, Type.isMade)
	key := admissionKey{a.minor, a.options.Params, authorizer, mutates, mutates || a.defines}
	if a.options.Stored || a.options.Known != nil && a.options.Known(text) {
		key.minor = all
	}
	return key
}

// checker returns the environment that checks an expression. It differs from the one that all
// policies share by the types of variables, which are only needed until the policy is compiled.
func (a *Admission) checker(key admissionKey, shared *celgo.Env) (*celgo.Env, error) {
	typed := a.options.Object != nil || a.options.ParamsType != nil
	if len(a.fields) == 0 && !typed {
		return shared, nil
	}
	if env, ok := a.made[key]; ok {
		return env, nil
	}
	if typed {
		var err error
		if shared, err = a.typed(key); err != nil {
			return nil, err
		}
	}
	env, err := shared.Extend(celgo.CustomTypeProvider(&provider{
		Provider: shared.CELTypeProvider(), objects: map[string]map[string]Type{variablesType: a.fields},
	}))
	if err == nil {
		a.made[key] = env
	}
	return env, err
}

// Define compiles a variable. Expressions that are compiled later can use it. A variable that does not
// compile is an error, and so is every evaluation that uses it.
func (a *Admission) Define(name, text string) error {
	a.defines = true
	x, err := a.Compile(text, true)
	if err != nil {
		x = &AdmissionExpression{text: text, failed: err}
		a.fields[name] = Dyn()
	} else {
		a.fields[name] = declared(x.code.ast.OutputType())
	}
	a.defined[name] = x
	return err
}

// declared returns the type that other expressions see of a variable: what an object has is known when it
// is read.
func declared(t *celgo.Type) Type {
	switch t.Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind, types.StringKind,
		types.TimestampKind, types.UintKind:
		return Type{is: t}
	case types.ListKind:
		return Type{is: celgo.ListType(declared(t.Parameters()[0]).is)}
	case types.MapKind:
		return Type{is: celgo.MapType(declared(t.Parameters()[0]).is, declared(t.Parameters()[1]).is)}
	}
	return Dyn()
}

// Compile parses an expression, checks its types, and checks that its result has one of the types; any
// if none is given. authorizer declares the variables authorizer and authorizer.requestResource. Only
// expressions that make a [Configuration] or [Patches] can use Object{}, JSONPatch{} and
// jsonpatch.escapeKey. An error is a [*CompileError].
func (a *Admission) Compile(text string, authorizer bool, results ...Type) (*AdmissionExpression, error) {
	key := a.key(text, authorizer, results)
	shared, err := bases.admission(key)
	if err != nil {
		return nil, whole("unexpected error loading CEL environment: " + err.Error())
	}
	env, err := a.checker(key, shared)
	if err != nil {
		return nil, whole("unexpected error loading CEL environment: " + err.Error())
	}
	if err := a.countParts(text); err != nil {
		return nil, err
	}
	ast, issues := parse(env, text)
	if !isBad(issues) {
		calls := callsIn(ast)
		if calls > maxCalls {
			return nil, whole(tooManyCalls)
		}
		if typeDepth(ast) > maxTypeDepth {
			return nil, whole(tooDeep)
		}
		ast, issues = check(env, text, ast, calls, func(ast *celgo.Ast) {
			a.options.Prices.mark(ast)
			markRounds(ast)
		})
	}
	if isBad(issues) {
		return nil, whole("compilation failed: " + described(issues, text))
	}
	if len(results) > 0 && !slices.ContainsFunc(results, func(t Type) bool { return t.is == celgo.DynType || t.is.IsExactType(ast.OutputType()) }) {
		return nil, whole("must evaluate to " + oneOf(results) + " but got " + ast.OutputType().String())
	}
	if a.options.Object != nil || a.options.ParamsType != nil {
		return &AdmissionExpression{text: text, code: &expression{text: text, env: env, ast: ast}}, nil
	}
	counted := &costs{prices: a.options.Prices}
	code := &expression{text: text, env: shared, ast: ast, costs: counted, most: math.MaxUint64}
	if bound, err := env.EstimateCost(ast, counted); err == nil {
		code.most = bound.Max
	}
	if err := code.plan(); err != nil {
		return nil, whole("program instantiation failed: " + err.Error())
	}
	return &AdmissionExpression{text: text, code: code}, nil
}

// countParts counts the parts of an expression, and fails if there are too many. Expressions that are stored already
// are not counted.
func (a *Admission) countParts(text string) error {
	if a.options.Stored {
		return nil
	}
	n := partsIn(text)
	if n > maxParts {
		return whole("compilation failed: " + tooManyParts)
	}
	if a.parts += n + partsOfAny; a.parts > maxScopeParts {
		return whole(tooManyOfPolicy)
	}
	return nil
}

// AdmissionExpression is a compiled expression of a policy.
type AdmissionExpression struct {
	text   string
	code   *expression
	failed error // why it does not compile; nil if it does
}

// String returns the text of the expression.
func (x *AdmissionExpression) String() string { return x.text }

// Uses reports whether the expression refers to a variable itself, such as "namespaceObject".
func (x *AdmissionExpression) Uses(variable string) bool {
	for _, r := range x.code.ast.NativeRep().ReferenceMap() {
		if r.Name == variable || strings.HasPrefix(r.Name, variable+".") {
			return true
		}
	}
	return false
}

// admission returns the environment that policies without variables share.
func (e *environments) admission(key admissionKey) (*celgo.Env, error) {
	base, err := e.of(key.minor)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if env, ok := e.policies[key]; ok {
		return env, nil
	}
	env, err := base.Extend(admissionVariables(key, celgo.DynType, celgo.DynType)...)
	if err != nil {
		return nil, fmt.Errorf("environment of policies: %w", err)
	}
	if e.policies == nil {
		e.policies = map[admissionKey]*celgo.Env{}
	}
	e.policies[key] = env
	return env, nil
}

// typed returns the environment of expressions whose objects have a schema.
func (a *Admission) typed(key admissionKey) (*celgo.Env, error) {
	base, err := bases.of(key.minor)
	if err != nil {
		return nil, err
	}
	sh := newShapes(base.CELTypeProvider())
	typeOf := func(s *openapi.Schema, name string) *types.Type {
		if s == nil {
			return celgo.DynType
		}
		return sh.typeOf(s, name)
	}
	object, params := typeOf(a.options.Object, "Object"), typeOf(a.options.ParamsType, "Params")
	if base, err = base.Extend(celgo.CustomTypeProvider(sh)); err != nil {
		return nil, err
	}
	return base.Extend(admissionVariables(key, object, params)...)
}

// admissionVariables declares the variables of policies.
func admissionVariables(key admissionKey, object, params *types.Type) []celgo.EnvOption {
	request, namespace := requestType(), namespaceType()
	objects := map[string]map[string]Type{}
	if key.variables {
		objects[variablesType] = map[string]Type{}
	}
	maps.Copy(objects, request.objects)
	maps.Copy(objects, namespace.objects)
	options := []celgo.EnvOption{
		celgo.Variable("object", object),
		celgo.Variable("oldObject", object),
		celgo.Variable("request", request.is),
		celgo.Variable("namespaceObject", namespace.is),
		withObjects(objects),
	}
	if key.variables {
		options = append(options, celgo.Variable("variables", celgo.ObjectType(variablesType)))
	}
	if key.params {
		options = append(options, celgo.Variable("params", params))
	}
	if key.authorizer {
		options = append(options, celgo.Variable("authorizer", authorizerType), celgo.Variable(requestResource, resourceCheckType))
	}
	if key.mutates {
		options = append(options, patchLibrary()...)
	}
	return options
}

// requestType is the type of the variable request.
func requestType() Type {
	kind := Object("kubernetes.GroupVersionKind", map[string]Type{"group": String(), "version": String(), "kind": String()})
	resource := Object("kubernetes.GroupVersionResource", map[string]Type{"group": String(), "version": String(), "resource": String()})
	return Object("kubernetes.AdmissionRequest", map[string]Type{
		"kind": kind, "resource": resource, "subResource": String(),
		"requestKind": kind, "requestResource": resource, "requestSubResource": String(),
		"name": String(), "namespace": String(), "operation": String(), "userInfo": User().Type, "dryRun": Bool(), "options": Dyn(),
	})
}

// namespaceType is the type of the variable namespaceObject.
func namespaceType() Type {
	moment, number := Type{is: celgo.TimestampType}, Type{is: celgo.IntType}
	condition := Object("kubernetes.NamespaceCondition", map[string]Type{
		"status": String(), "type": String(), "lastTransitionTime": moment, "message": String(), "reason": String(),
	})
	return Object("kubernetes.Namespace", map[string]Type{
		"metadata": Object("kubernetes.NamespaceMetadata", map[string]Type{
			"name": String(), "generateName": String(), "namespace": String(), "labels": Map(String()), "annotations": Map(String()),
			"UID": String(), "creationTimestamp": moment, "deletionGracePeriodSeconds": number, "deletionTimestamp": moment,
			"generation": number, "resourceVersion": String(), "finalizers": List(String()),
		}),
		"spec":   Object("kubernetes.NamespaceSpec", map[string]Type{"finalizers": List(String())}),
		"status": Object("kubernetes.NamespaceStatus", map[string]Type{"conditions": List(condition), "phase": String()}),
	})
}
