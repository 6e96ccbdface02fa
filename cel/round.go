package cel

import (
	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// Whoever counts what an evaluation costs keeps the values of steps on a stack, to know the arguments of
// calls. A loop leaves some values of each round there until it ends, and a step whose value is not on the
// stack searches all of it. So the time of a loop grows with the square of its rounds: a million units take
// seconds.
//
// The function that [round] names stands around the condition of each loop. It takes what the round before has
// left off the stack, and costs nothing. Expressions cannot call it.
const round = "@round"

func roundFunction() celgo.EnvOption {
	a := celgo.TypeParamType("A")
	return celgo.Function(round, celgo.Overload(round, signature(a), a, celgo.UnaryBinding(func(v ref.Val) ref.Val { return v })))
}

// markRounds puts the function around the conditions of the loops of a parsed expression.
func markRounds(parsed *celgo.Ast) {
	native := parsed.NativeRep()
	factory := celast.NewExprFactory()
	next := celast.MaxID(native)
	celast.PreOrderVisit(native.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.ComprehensionKind {
			return
		}
		next++
		loop := e.AsComprehension()
		condition := factory.NewCall(next, round, loop.LoopCondition())
		e.SetKindCase(factory.NewComprehensionTwoVar(e.ID(), loop.IterRange(), loop.IterVar(), loop.IterVar2(), loop.AccuVar(),
			loop.AccuInit(), condition, loop.LoopStep(), loop.Result()))
	}))
}

// trim is the call of the function. For whoever counts, its argument is its own value of the round before.
type trim struct {
	interpreter.InterpretableCall

	condition interpreter.InterpretableV2
	itself    []interpreter.InterpretableV2
}

func newTrim(call interpreter.InterpretableCall) *trim {
	t := &trim{InterpretableCall: call, condition: call.Args()[0]}
	t.itself = []interpreter.InterpretableV2{t}
	return t
}

// Exec evaluates the condition. It has been wrapped already by whoever counts.
func (t *trim) Exec(frame *interpreter.ExecutionFrame) ref.Val { return t.condition.Exec(frame) }

// Eval evaluates the condition.
func (t *trim) Eval(vars interpreter.Activation) ref.Val { return t.Exec(interpreter.AsFrame(vars)) }

// Args returns what is taken off the stack.
func (t *trim) Args() []interpreter.InterpretableV2 { return t.itself }

// trims is an option of programs that count.
func trims() celgo.ProgramOption {
	return celgo.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() == round {
			return newTrim(call), nil
		}
		return i, nil
	})
}

// untrimmed is an option of programs that do not count: they evaluate the condition alone.
func untrimmed() celgo.ProgramOption {
	return celgo.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		if call, ok := i.(interpreter.InterpretableCall); ok && call.Function() == round {
			return call.Args()[0], nil
		}
		return i, nil
	})
}
