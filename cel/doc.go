// Package cel compiles expressions and evaluates them within a budget. It is the only importer of
// cel-go, and no type of cel-go is part of its API.
//
// An [Environment] says which variables an expression may use and of which types these are:
//
//	[Claims]        claims    the claims of a token, whose types nobody knows before
//	[User]          user      a user: username, uid, groups, extra
//	[AccessReview]  request   the spec of a SubjectAccessReview
//
// [Environment.Compile] parses an expression, checks its types and the type of its result, and
// returns a [Program]. Compile once, when a configuration is loaded; a Program may be evaluated any
// number of times and concurrently. [Program.Evaluate] stops when its context ends and when the
// expression has used up its budget.
//
// Values are decoded JSON: bool, int64, float64, string, nil, []any and map[string]any, and beside
// them []string and map[string][]string.
//
// [CompileRules] compiles the rules in a schema (x-kubernetes-validations), which see an object as
// self and what it replaces as oldSelf. [Rules] evaluate them on each write. Rules have Kubernetes'
// libraries, by release, and budgets of their own.
//
// Expressions are written by administrators. The budget bounds what an expression costs on the data
// of a client. A single call such as replace can still allocate the product of the sizes of its
// arguments before its cost is counted, so callers must bound the size of values.
//
// The functions of an Environment are those of the language, optional values, macros with two
// variables, and the extension libraries for strings, lists and sets, each in a fixed version. Only
// rules have Kubernetes' own libraries: URLs, quantities, addresses, patterns, formats, versions.
// Source: AUTHNCFG-44, AUTHNCFG-45.
package cel
