// Package cel will be the only door to cel-go: it compiles expressions and runs them within a budget, for validation rules,
// match conditions and policies.
//
// Nothing is here yet, and no part of a server evaluates expressions.
package cel
