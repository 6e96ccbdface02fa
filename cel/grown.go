package cel

import (
	"reflect"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Limits of the values that expressions make. The language counts what it costs to look at the items of a
// list, but not at the items of these, and it counts after a function has looked. A few steps can nest a
// list in itself, or add it to itself, until no comparison ends.
const (
	maxMadeItems = 100_000 // of a list that was added up
	maxMadeParts = 400_000 // of a value that is compared; no request has more
)

// boundedComparisons is an option of programs: values that expressions made are compared only if their parts
// can be counted.
// Source: security vectors, C2.
func boundedComparisons() celgo.ProgramOption {
	return celgo.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok || len(call.Args()) != 2 {
			return i, nil
		}
		switch call.Function() {
		case operators.Equals, operators.NotEquals, operators.In:
			return &comparison{InterpretableCall: call, left: call.Args()[0], right: call.Args()[1], kind: call.Function()}, nil
		case operators.Add:
			return &addition{call}, nil
		}
		return i, nil
	})
}

// addition is the operator +. A program that counts nothing stops here as well.
type addition struct{ interpreter.InterpretableCall }

// Exec adds.
func (a *addition) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := a.InterpretableCall.Exec(frame)
	if units := weighList(v); units > 0 {
		workOf(frame).spend(units)
	}
	if isOvergrown(operators.Add, v) {
		return overrunError()
	}
	return v
}

// Eval adds.
func (a *addition) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}

// comparison is one of the operators ==, != and in.
type comparison struct {
	interpreter.InterpretableCall

	left, right interpreter.InterpretableV2
	kind        string
}

// Exec compares.
func (c *comparison) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	left := c.left.Exec(frame)
	if types.IsUnknownOrError(left) {
		return left
	}
	right := c.right.Exec(frame)
	if types.IsUnknownOrError(right) {
		return right
	}
	if isMade(left) || isMade(right) {
		rest := maxMadeParts
		few := counts(left, &rest) && counts(right, &rest)
		if units := ofLarge(maxMadeParts-rest, itemsOfWork); units > 0 {
			workOf(frame).spend(units)
		}
		if !few {
			return overrunError()
		}
	}
	if units := weighComparison(c.kind, left, right); units > 0 {
		workOf(frame).spend(units)
	}
	switch c.kind {
	case operators.Equals:
		return types.LabelErrNode(c.ID(), types.Equal(left, right))
	case operators.NotEquals:
		return types.LabelErrNode(c.ID(), types.Bool(types.Equal(left, right) != types.True))
	}
	if !right.Type().HasTrait(traits.ContainerType) {
		return types.LabelErrNode(c.ID(), types.ValOrErr(right, "no such overload"))
	}
	return types.LabelErrNode(c.ID(), right.(traits.Container).Contains(left))
}

// Eval compares.
func (c *comparison) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// overrun is what the language says about an evaluation that costs too much.
const overrun = "operation cancelled: actual cost limit exceeded"

// isMade reports whether an expression made a list or a map. Others are parts of objects, which have been
// bounded before.
func isMade(v ref.Val) bool {
	switch v := v.(type) {
	case *listView:
		return false
	case *types.Optional, *built:
		return true
	case traits.Lister:
		if reflect.TypeOf(v).String() == "*types.concatList" {
			return true
		}
		_, data := v.Value().([]any)
		return !data
	case traits.Mapper:
		switch v.Value().(type) {
		case map[string]any, map[any]any:
			return false
		}
		return true
	}
	return false
}

// counts takes the parts of a value off the rest, and reports whether there is enough.
func counts(v ref.Val, rest *int) bool {
	if *rest--; *rest < 0 {
		return false
	}
	enough := true
	eachPart(v, func(part ref.Val) bool {
		enough = counts(part, rest)
		return enough
	})
	return enough
}

// isOvergrown reports whether two lists or texts were added to one that is too long.
func isOvergrown(function string, result ref.Val) bool {
	if function != operators.Add {
		return false
	}
	switch v := result.(type) {
	case types.String:
		return len(v) > maxMadeText
	case types.Bytes:
		return len(v) > maxMadeText
	case traits.Lister:
		return sizeOf(v) > maxMadeItems
	}
	return false
}
