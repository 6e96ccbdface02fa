package cel

import (
	"regexp"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// regexLibrary has find and findAll.
// Source: CEL-07.
func regexLibrary() []celgo.EnvOption {
	text := celgo.StringType
	return []celgo.EnvOption{
		celgo.Function("find", celgo.MemberOverload("string_find_string", signature(text, text), text, celgo.FunctionBinding(findFirst))),
		celgo.Function("findAll",
			celgo.MemberOverload("string_find_all_string", signature(text, text), celgo.ListType(text), celgo.FunctionBinding(findAll)),
			celgo.MemberOverload("string_find_all_string_int", signature(text, text, celgo.IntType), celgo.ListType(text), celgo.FunctionBinding(findAll)),
		),
	}
}

// constantPatterns compiles patterns that are written in the expression once.
func constantPatterns() celgo.ProgramOption {
	optimize := func(function, overload string, run func(*regexp.Regexp, []ref.Val) ref.Val) *interpreter.RegexOptimization {
		return &interpreter.RegexOptimization{
			Function: function, OverloadID: overload, RegexIndex: 1,
			Factory: func(call interpreter.InterpretableCall, pattern string) (interpreter.InterpretableCall, error) {
				return newMatch(call, pattern, run)
			},
		}
	}
	return celgo.OptimizeRegex(optimize("find", "", firstOf), optimize("findAll", "", allOf),
		optimize("matches", overloads.Matches, isMatch), optimize("matches", overloads.MatchesString, isMatch))
}

func isMatch(pattern *regexp.Regexp, args []ref.Val) ref.Val {
	text, ok := args[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	return types.Bool(pattern.MatchString(string(text)))
}

func findFirst(args ...ref.Val) ref.Val { return compiledPattern(args, firstOf) }
func findAll(args ...ref.Val) ref.Val   { return compiledPattern(args, allOf) }

func compiledPattern(args []ref.Val, run func(*regexp.Regexp, []ref.Val) ref.Val) ref.Val {
	pattern, ok := args[1].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[1])
	}
	compiled, err := regexp.Compile(string(pattern))
	if err != nil {
		return types.NewErr("Illegal regex: %v", err.Error())
	}
	return run(compiled, args)
}

func firstOf(pattern *regexp.Regexp, args []ref.Val) ref.Val {
	text, ok := args[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	return types.String(pattern.FindString(string(text)))
}

func allOf(pattern *regexp.Regexp, args []ref.Val) ref.Val { return newSought(pattern).all(nil, args) }
