package cel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/typed"
	"github.com/kindwright/kindwright/openapi"
)

// Expression is a compiled expression about a Go struct. Each field of T is a variable, under its name
// in JSON, with the type that the field has in the schema of a kind. Fields of the types any and
// map[string]any have values of any type, such as claims, parameters and objects of unknown kinds.
//
//	type input struct {
//		User   string         `json:"user"`
//		Widget Widget         `json:"widget"`
//		Claims map[string]any `json:"claims,omitempty"`
//	}
//	allowed, err := cel.NewExpression[input]("user == widget.spec.owner || claims.?admin.orValue(false)", cel.Bool())
//
// An expression sees what encoding/json writes, under the same names: a field without a tag has its Go name, so that of
// an authn.User is user.Name. A struct whose fields are left out is absent: has(widget.metadata) or widget.?metadata tells.
// Types that cannot be written as JSON, such as authz.Attributes, cannot be inputs: copy what expressions may see of a
// request into fields of a struct.
//
// Expressions have the libraries of rules in schemas. It is safe for concurrent use.
type Expression[T any] struct {
	code   *expression
	fields map[string]field
}

// field is a variable of an expression about a Go struct.
type field struct {
	schema  *openapi.Schema
	dynamic bool
}

// NewExpression compiles an expression whose result has one of the types; any if none is given. It fails
// if T is no struct, or if a schema cannot describe it. Other errors are a [*CompileError].
func NewExpression[T any](text string, results ...Type) (*Expression[T], error) {
	schema, err := openapi.FromType(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	if schema.Type != openapi.Object || len(schema.Properties) == 0 {
		return nil, fmt.Errorf("expressions about %s: it is not a struct with fields", reflect.TypeFor[T]())
	}
	_, err = typed.Encode(new(T))
	if _, bad := errors.AsType[*json.TypeError](err); bad { // otherwise each evaluation would say so
		return nil, fmt.Errorf("expressions about %s: %w", reflect.TypeFor[T](), err)
	}
	base, err := bases.of(all)
	if err != nil {
		return nil, err
	}
	sh := newShapes(base.CELTypeProvider())
	out := &Expression[T]{fields: map[string]field{}}
	options := []celgo.EnvOption{celgo.CustomTypeProvider(sh)}
	for _, p := range schema.Properties {
		f := field{schema: p.Schema, dynamic: !sh.isReachable(p.Schema) || formOf(p.Schema) == formObject && len(p.Schema.Properties) == 0}
		is := celgo.DynType
		if !f.dynamic {
			is = sh.typeOf(p.Schema, "@"+p.Name)
		}
		name, ok := escape(p.Name)
		if !ok {
			return nil, fmt.Errorf("expressions about %s: the field %q cannot be a variable", reflect.TypeFor[T](), p.Name)
		}
		out.fields[name] = f
		options = append(options, celgo.Variable(name, is))
	}
	env, err := base.Extend(options...)
	if err != nil {
		return nil, fmt.Errorf("environment of expressions: %w", err)
	}
	ast, issues := compile(env, text)
	switch {
	case isBad(issues):
		return nil, whole("compilation failed: " + described(issues, text))
	case len(results) > 0 && !anyAccepts(results, ast.OutputType()):
		return nil, whole("must evaluate to " + oneOf(results) + " but got " + ast.OutputType().String())
	}
	out.code = &expression{text: text, env: env, ast: ast, costs: &costs{}, most: math.MaxUint64}
	return out, out.code.plan()
}

// errNotMade is about a mistake of the program, which would be a panic below.
var errNotMade = errors.New("the expression was not made by NewExpression")

// String returns the expression.
func (x *Expression[T]) String() string {
	if x == nil || x.code == nil {
		return ""
	}
	return x.code.text
}

// Evaluate returns the value of the expression for an input, as decoded JSON. It stops with the cause of
// the context when that ends, and with [ErrBudget] when the expression costs more than [RuleCostLimit].
func (x *Expression[T]) Evaluate(ctx context.Context, input T) (any, error) {
	v, err := x.run(ctx, input)
	if err != nil {
		return nil, err
	}
	return (&decoder{parts: RuleCostLimit, rich: true}).decode(v)
}

// Holds returns the value of an expression that was compiled with the result [Bool].
func (x *Expression[T]) Holds(ctx context.Context, input T) (bool, error) {
	v, err := x.run(ctx, input)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the result is no bool but %s", v.Type().TypeName())
	}
	return bool(b), nil
}

func (x *Expression[T]) run(ctx context.Context, input T) (ref.Val, error) {
	if x == nil || x.code == nil {
		return nil, errNotMade
	}
	if err := ended(ctx); err != nil {
		return nil, err
	}
	object, err := typed.Encode(&input)
	if err != nil {
		return nil, err
	}
	in := &goInput{fields: x.fields, object: object, work: newWork(ctx, workLimit)}
	v, _, err := x.code.run(ctx, in, true)
	in.work = load{} // the result is read afterwards, which has limits of its own
	switch {
	case err == nil:
		return v, nil
	case isOverrun(err):
		return nil, ErrBudget
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// goInput are the variables of one evaluation.
type goInput struct {
	fields map[string]field
	object map[string]any
	work   load
}

// ResolveName returns the value of a variable. A field that is left out is null.
func (in *goInput) ResolveName(name string) (any, bool) {
	if name == workName {
		return &in.work, true
	}
	f, ok := in.fields[name]
	if !ok {
		return nil, false
	}
	original, _ := unescape(name)
	v := in.object[original]
	switch {
	case v == nil:
		return types.NullValue, true
	case f.dynamic:
		return v, true
	}
	return view(v, f.schema, &in.work), true
}

// Parent returns nil: there are no other variables.
func (in *goInput) Parent() interpreter.Activation { return nil }
