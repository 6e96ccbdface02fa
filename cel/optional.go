package cel

import (
	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// lenientOptionals lets x.or(y) and x.orValue(y) be x where x turns out to be no optional value. The
// language says that this is an error, as the newer versions of its library do, but Kubernetes has an older
// one, and public policies rely on it. It comes before the library of optional types, whose own
// functions it replaces.
// Source: CEL-11.
func lenientOptionals() celgo.EnvOption { return celgo.Lib(lenientLibrary{}) }

type lenientLibrary struct{}

// CompileOptions implements celgo.Library.
func (lenientLibrary) CompileOptions() []celgo.EnvOption { return nil }

// ProgramOptions implements celgo.Library.
func (lenientLibrary) ProgramOptions() []celgo.ProgramOption {
	return []celgo.ProgramOption{celgo.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok || len(call.Args()) != 2 {
			return i, nil
		}
		overload := call.OverloadID()
		switch call.Function() {
		case "or":
			if overload == "" || overload == "optional_or_optional" {
				return &alternative{id: i.ID(), first: call.Args()[0], second: call.Args()[1]}, nil
			}
		case "orValue":
			if overload == "" || overload == "optional_orValue_value" {
				return &alternative{id: i.ID(), first: call.Args()[0], second: call.Args()[1], unwraps: true}, nil
			}
		}
		return i, nil
	})}
}

// alternative evaluates its second part only if the first is an optional value that is absent.
type alternative struct {
	id            int64
	first, second interpreter.InterpretableV2
	unwraps       bool // the result is what the optional value holds
}

// ID implements interpreter.Interpretable.
func (a *alternative) ID() int64 { return a.id }

// Exec implements interpreter.InterpretableV2.
func (a *alternative) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	first := a.first.Exec(frame)
	optional, ok := first.(*types.Optional)
	switch {
	case !ok:
		return first
	case !optional.HasValue():
		return a.second.Exec(frame)
	case a.unwraps:
		return optional.GetValue()
	}
	return first
}

// Eval implements interpreter.Interpretable.
func (a *alternative) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}
