package cel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// Versions of the extension libraries. Without them, a new release of cel-go would add functions,
// and a configuration that one server accepts would be rejected by the other.
const (
	optionalVersion = 2
	stringsVersion  = 2
	listsVersion    = 3
	setsVersion     = 0
	twoVarVersion   = 0
)

// Limits of every expression.
const (
	// MaxExpressionLength is how many characters an expression may have.
	MaxExpressionLength = 100_000

	// maxExpressionDepth is how deep the calls of an expression may nest.
	maxExpressionDepth = 100
)

// variableName is what the language takes for a name.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// reservedNames are words of the language, and those that it keeps for itself.
var reservedNames = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
	"namespace", "return", "var", "void", "while",
}

// Variable is a name that expressions can use.
type Variable struct {
	Name string
	Type Type

	with celgo.EnvOption // what comes with it; nil: nothing
}

// Claims is the variable "claims": the claims of a token, a map from names to values of any type.
// Source: AUTHNCFG-44.
func Claims() Variable { return Variable{Name: "claims", Type: Map(Dyn())} }

// User is the variable "user": username and uid are text, groups is a list of text, and extra a map
// from text to lists of text.
// Source: AUTHNCFG-44, AUTHNCFG-47.
func User() Variable {
	return Variable{Name: "user", Type: Object("kubernetes.UserInfo", map[string]Type{
		"username": String(),
		"uid":      String(),
		"groups":   List(String()),
		"extra":    Map(List(String())),
	})}
}

// AccessReview is the variable "request": the spec of a SubjectAccessReview. A value has all fields
// but one: resourceAttributes or nonResourceAttributes is left out, so that has() tells which kind
// of request it is.
func AccessReview() Variable {
	selector := func(name string) Type {
		return Object(name, map[string]Type{
			"rawSelector": String(),
			"requirements": List(Object("kubernetes.SelectorRequirement", map[string]Type{
				"key":      String(),
				"operator": String(),
				"values":   List(String()),
			})),
		})
	}
	return Variable{Name: "request", Type: Object("kubernetes.SubjectAccessReviewSpec", map[string]Type{
		"resourceAttributes": Object("kubernetes.ResourceAttributes", map[string]Type{
			"namespace":     String(),
			"verb":          String(),
			"group":         String(),
			"version":       String(),
			"resource":      String(),
			"subresource":   String(),
			"name":          String(),
			"fieldSelector": selector("kubernetes.FieldSelectorAttributes"),
			"labelSelector": selector("kubernetes.LabelSelectorAttributes"),
		}),
		"nonResourceAttributes": Object("kubernetes.NonResourceAttributes", map[string]Type{
			"path": String(),
			"verb": String(),
		}),
		"user":   String(),
		"groups": List(String()),
		"uid":    String(),
		"extra":  Map(List(String())),
	})}
}

// Environment is what expressions may use: the functions of the language and some variables. It is
// safe for concurrent use.
type Environment struct {
	env   *celgo.Env
	limit uint64 // of the cost of one evaluation
}

// NewEnvironment returns an environment with variables. It fails if two of them have one name or
// contradict each other in the fields of an object.
func NewEnvironment(variables ...Variable) (*Environment, error) {
	objects := map[string]map[string]Type{}
	options := []celgo.EnvOption{
		celgo.HomogeneousAggregateLiterals(),
		celgo.EagerlyValidateDeclarations(true),
		celgo.DefaultUTCTimeZone(true),
		celgo.CrossTypeNumericComparisons(true),
		celgo.ParserExpressionSizeLimit(MaxExpressionLength),
		celgo.ParserRecursionLimit(maxExpressionDepth),
		lenientOptionals(),
		celgo.OptionalTypes(celgo.OptionalTypesVersion(optionalVersion)),
		ext.Strings(ext.StringsVersion(stringsVersion)),
		ext.Lists(ext.ListsVersion(listsVersion)),
		ext.Sets(ext.SetsVersion(setsVersion)),
		ext.TwoVarComprehensions(ext.TwoVarComprehensionsVersion(twoVarVersion)),
		celgo.ASTValidators(
			celgo.ValidateDurationLiterals(),
			celgo.ValidateTimestampLiterals(),
			validatePatterns(),
			celgo.ValidateHomogeneousAggregateLiterals(),
		),
	}
	seen := map[string]bool{}
	for _, v := range variables {
		if seen[v.Name] {
			return nil, fmt.Errorf("two variables of the name %s", v.Name)
		}
		seen[v.Name] = true
		switch {
		case !variableName.MatchString(v.Name):
			return nil, fmt.Errorf("variable %q: the name must be a letter or _, followed by letters, digits and _", v.Name)
		case slices.Contains(reservedNames, v.Name):
			return nil, fmt.Errorf("variable %q: the name is a word of the language", v.Name)
		case v.Type.is == nil:
			return nil, fmt.Errorf("variable %q: the type is missing", v.Name)
		}
		if err := merge(objects, v.Type.objects); err != nil {
			return nil, err
		}
		options = append(options, celgo.Variable(v.Name, v.Type.is))
		if v.with != nil {
			options = append(options, v.with)
		}
	}
	for _, library := range configurationLibraries() {
		options = append(options, library...)
	}
	env, err := celgo.NewEnv(append(options, withObjects(objects))...)
	if err != nil {
		return nil, fmt.Errorf("environment of expressions: %w", err)
	}
	return &Environment{env: env, limit: CostLimit}, nil
}

// configurationLibraries returns the functions of rules and policies that documents of
// configuration have too: a document that kube-apiserver reads must not stop the start here.
func configurationLibraries() [][]celgo.EnvOption {
	return [][]celgo.EnvOption{
		urlLibrary(), regexLibrary(), listsLibrary(), quantityLibrary(), networkLibrary(), formatLibrary(), semverLibrary(),
	}
}

// CompileError says why an expression does not compile.
type CompileError struct {
	Problems []Problem

	text string
}

// Problem is one error in an expression.
type Problem struct {
	Line, Column int // of the first character concerned, from 1; both are 0 for the whole expression
	Message      string
}

// Error returns all problems with their positions, and the lines that they are in.
func (e *CompileError) Error() string { return e.text }

// Compile parses an expression, checks its types, and checks that its result has one of the types.
// [Dyn] stands for results whose type is not known before evaluation; the caller checks the value.
// An error is a [*CompileError].
func (e *Environment) Compile(expression string, results ...Type) (*Program, error) {
	ast, issues := compile(e.env, expression)
	if isBad(issues) {
		failed := &CompileError{text: "compilation failed: " + described(issues, expression)}
		for _, i := range issues.Errors() {
			failed.Problems = append(failed.Problems, Problem{Line: i.Location.Line(), Column: i.Location.Column() + 1, Message: i.Message})
		}
		return nil, failed
	}
	if !anyAccepts(results, ast.OutputType()) {
		return nil, whole("must evaluate to " + oneOf(results) + " but got " + ast.OutputType().String())
	}
	program, err := e.env.Program(
		ast,
		boundedComparisons(),
		guards(e.env),
		celgo.EvalOptions(celgo.OptOptimize, celgo.OptTrackCost),
		celgo.InterruptCheckFrequency(interruptFrequency),
		celgo.CostLimit(e.limit),
		celgo.CostTracking(estimator{}),
	)
	if err != nil {
		return nil, whole("program instantiation failed: " + err.Error())
	}
	return &Program{expression: expression, ast: ast, program: program, limit: e.limit}, nil
}

func whole(text string) error {
	return &CompileError{Problems: []Problem{{Message: text}}, text: text}
}

func anyAccepts(results []Type, got *celgo.Type) bool {
	for _, t := range results {
		if t.accepts(got) {
			return true
		}
	}
	return false
}

// oneOf lists types for a message. It leaves Dyn and Any out, because nobody writes such a result on
// purpose.
func oneOf(results []Type) string {
	var names []string
	for _, t := range results {
		if t.is != celgo.DynType && t.is != celgo.AnyType {
			names = append(names, t.String())
		}
	}
	if len(names) == 1 {
		return names[0]
	}
	return "one of [" + strings.Join(names, " ") + "]"
}
