package cel

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

const (
	// CostLimit is the budget of one evaluation, in the units of the language: about one for each
	// step, and one for ten characters or items that a function reads.
	CostLimit = 1_000_000

	// interruptFrequency is after how many rounds of a loop the context is looked at.
	interruptFrequency = 1
)

// ErrBudget is wrapped by the error of an evaluation that costs more than [CostLimit], or whose
// result has more parts than that.
var ErrBudget = errors.New("the expression exceeds its budget")

// Program is an expression that was compiled. It is safe for concurrent use.
type Program struct {
	expression string
	ast        *celgo.Ast
	program    celgo.Program
	limit      uint64
}

// String returns the expression.
func (p *Program) String() string { return p.expression }

// Values are the values of the variables of an environment, by name. The evaluation does not modify
// them.
type Values map[string]any

// Evaluate returns the value of the expression as decoded JSON. It fails if the expression does,
// as it does when it reads a claim that is missing. It stops with the cause of the context when
// that ends, and with [ErrBudget].
//
// Errors can repeat parts of the expression and the names of keys, but no other part of a value.
func (p *Program) Evaluate(ctx context.Context, values Values) (any, error) {
	result, err := p.run(ctx, values)
	if err != nil {
		return nil, err
	}
	return plain(result, int(p.limit)) //nolint:gosec // at most CostLimit
}

// Holds returns the value of an expression that was compiled with the result [Bool].
func (p *Program) Holds(ctx context.Context, values Values) (bool, error) {
	result, err := p.run(ctx, values)
	if err != nil {
		return false, err
	}
	b, ok := result.(types.Bool)
	if !ok {
		return false, fmt.Errorf("the result is no bool but %s", result.Type().TypeName())
	}
	return bool(b), nil
}

func (p *Program) run(ctx context.Context, values Values) (ref.Val, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	work := newWork(ctx, workLimit)
	in := make(map[string]any, len(values)+1)
	maps.Copy(in, values)
	in[workName] = &work
	result, _, err := p.program.ContextEval(ctx, in)
	var cancelled interpreter.EvalCancelledError
	switch {
	case err == nil:
		return result, nil
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return nil, ErrBudget
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// Selects reports whether the expression reads a field of a variable: claims.email, claims.?email,
// claims["email"] and has(claims.email) all read the field email of claims.
// Source: AUTHNCFG-34.
func (p *Program) Selects(variable, field string) (found bool) {
	isVariable := func(e celast.Expr) bool { return e.Kind() == celast.IdentKind && e.AsIdent() == variable }
	isField := func(e celast.Expr) bool {
		return e.Kind() == celast.LiteralKind && e.AsLiteral() == types.String(field)
	}
	celast.PreOrderVisit(p.ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		switch e.Kind() {
		case celast.SelectKind:
			found = found || e.AsSelect().FieldName() == field && isVariable(e.AsSelect().Operand())
		case celast.CallKind:
			switch call := e.AsCall(); call.FunctionName() {
			case operators.Index, operators.OptIndex, operators.OptSelect:
				found = found || isVariable(call.Args()[0]) && isField(call.Args()[1])
			}
		}
	}))
	return found
}

// plain returns a value as decoded JSON, which has at most some parts.
func plain(v ref.Val, parts int) (any, error) { return (&decoder{parts: parts}).decode(v) }

// maxResultText is how many bytes the texts of a result may have together. No object has more.
const maxResultText = 16 << 20

// decoder turns values into decoded JSON. It counts the parts, because a few steps can nest a list
// in itself until it has billions.
type decoder struct {
	parts int
	texts int  // bytes of the texts so far: a text that stands in many places is written in each
	rich  bool // accepts values of other types, in the form that they have in JSON
}

func (d *decoder) decode(v ref.Val) (any, error) {
	if d.parts--; d.parts < 0 {
		return nil, ErrBudget
	}
	switch v := v.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Double:
		if number := float64(v); math.IsNaN(number) || math.IsInf(number, 0) {
			return nil, fmt.Errorf("the result has a number that JSON does not have: %v", number)
		}
		return float64(v), nil
	case types.String:
		if d.texts += len(v); d.texts > maxResultText {
			return nil, ErrBudget
		}
		return string(v), nil
	case types.Null:
		return nil, nil //nolint:nilnil // null is a value
	case *types.Optional:
		switch {
		case !v.HasValue() && d.rich:
			return nil, errors.New("optional.none() dereference") // a mutation would write an empty value
		case !v.HasValue():
			return nil, nil //nolint:nilnil // nothing reads as null
		}
		return d.decode(v.GetValue())
	case traits.Lister:
		return d.list(v)
	case traits.Mapper:
		return d.object(v)
	}
	if d.rich {
		return d.other(v)
	}
	return nil, fmt.Errorf("the result has a part of the type %s", v.Type().TypeName())
}

// other returns a value of a type that JSON does not have.
func (d *decoder) other(v ref.Val) (any, error) {
	switch v := v.(type) {
	case *built:
		object := map[string]any{}
		for name, field := range v.fields {
			value, err := d.decode(field)
			if err != nil {
				return nil, err
			}
			object[name] = value
		}
		return object, nil
	case types.Uint:
		if v <= math.MaxInt64 {
			return int64(v), nil
		}
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return strconv.FormatFloat(v.Seconds(), 'f', -1, 64) + "s", nil
	}
	return nil, fmt.Errorf("the result has a part of the type %s", v.Type().TypeName())
}

func (d *decoder) list(v traits.Lister) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := d.decode(it.Next())
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (d *decoder) object(v traits.Mapper) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the result has a key of the type %s", key.Type().TypeName())
		}
		value, err := d.decode(v.Get(key))
		if err != nil {
			return nil, err
		}
		object[string(name)] = value
	}
	return object, nil
}

// estimator counts what the functions for strings read and write. The fixed version of their
// library does not.
type estimator struct{}

// CallCost returns the cost of one call, or nil to leave it to the language.
func (estimator) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	if isOvergrown(function, result) {
		cost := uint64(CostLimit + 1)
		return &cost
	}
	switch function {
	case "charAt", "indexOf", "lastIndexOf", "lowerAscii", "upperAscii", "replace", "split", "substring", "trim", "join", "format", "quote":
	default:
		return nil
	}
	size := textSize(result)
	for _, a := range args {
		size += textSize(a)
	}
	cost := 1 + size/10
	return &cost
}

// textSize returns the length of a text or of a list.
func textSize(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok && n > 0 {
			return uint64(n)
		}
	}
	return 0
}

// errNoContext is about a mistake of the program, which would be a panic far below.
var errNoContext = errors.New("the context is nil: pass the one of the request, or context.Background()")

// ended returns why an evaluation must not begin.
func ended(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNoContext
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}
