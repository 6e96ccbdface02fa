package policy

import (
	"strings"
	"time"

	"github.com/kindwright/kindwright/cel"
)

// Check is one evaluation of an expression of a policy whose result has a consequence. It is what servers count.
type Check struct {
	Policy, Binding string
	Failure         CheckFailure
	Action          string // "deny", "warn", "audit", "allow" for an error that is ignored, "" for a mutation
	Took            time.Duration
}

// CheckFailure says why an evaluation failed.
type CheckFailure string

// The failures. A validation that does not hold is invalid as well.
const (
	CheckNoError     CheckFailure = "no_error"
	CheckCompile     CheckFailure = "compile_error"
	CheckInvalid     CheckFailure = "invalid_error"
	CheckOutOfBudget CheckFailure = "out_of_budget"
)

// failureOf tells failures apart by what is said about them.
func failureOf(message string) CheckFailure {
	switch {
	case strings.HasPrefix(message, "compilation"):
		return CheckCompile
	case strings.HasPrefix(message, cel.BudgetMessage):
		return CheckOutOfBudget
	}
	return CheckInvalid
}

// observe tells whoever counts.
func (x *index) observe(c Check) {
	if x.checked != nil {
		x.checked(c)
	}
}
