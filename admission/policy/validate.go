package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/admission/match"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/words"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Limits of audit annotations.
const (
	maxAuditAnnotations = 20
	maxValueExpression  = 5 << 10 // bytes
)

// Validate reports what is wrong with a policy, in the words of Kubernetes. old is the policy that it
// replaces, nil for a new one: its expressions may go on using what new ones may not.
//
// Source: POL-01, POL-02, CEL-25.
func (p *ValidatingAdmissionPolicy) Validate(old *ValidatingAdmissionPolicy, rules cel.RuleOptions, f *status.Fields) {
	at, spec := f.At("spec"), &p.Spec
	spec.validateTarget(at)
	if old == nil || !sameConditions(spec, &old.Spec) {
		match.ValidateConditions(spec.MatchConditions, at.Child("matchConditions"), p.checker(old, rules).condition)
	}
	c := p.checker(old, rules)
	for i, v := range spec.Variables {
		c.variable(v, at.Child("variables").Index(i))
	}
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const problem = "validations or auditAnnotations must contain at least one item"
		at.Child("validations").Required(problem)
		at.Child("auditAnnotations").Required(problem)
		return
	}
	for i, v := range spec.Validations {
		c.validation(v, at.Child("validations").Index(i))
	}
	c.annotations(p.Name, spec.AuditAnnotations, at.Child("auditAnnotations"))
}

// validateTarget checks what both sorts of policies say about the requests that they are for.
func (s *ValidatingAdmissionPolicySpec) validateTarget(at status.Field) {
	switch policy := s.FailurePolicy; {
	case policy == nil:
		at.Child("failurePolicy").Required("")
	case *policy != Fail && *policy != Ignore:
		at.Child("failurePolicy").NotSupported(*policy, Fail, Ignore)
	}
	s.ParamKind.validate(at.Child("paramKind"))
	constraints := at.Child("matchConstraints")
	if s.MatchConstraints == nil {
		constraints.Required("")
		return
	}
	s.MatchConstraints.Validate(constraints)
	if len(s.MatchConstraints.ResourceRules) == 0 {
		constraints.Child("resourceRules").Required("")
	}
}

// sameConditions reports whether match conditions were valid once, and still are: without parameters, those that
// use them are not.
func sameConditions(spec, old *ValidatingAdmissionPolicySpec) bool {
	params := spec.ParamKind == old.ParamKind || spec.ParamKind != nil && old.ParamKind != nil && *spec.ParamKind == *old.ParamKind
	return params && slices.Equal(spec.MatchConditions, old.MatchConditions)
}

func (k *ParamKind) validate(at status.Field) {
	if k == nil {
		return
	}
	group, version, divided := strings.Cut(k.APIVersion, "/")
	if !divided {
		group, version = "", k.APIVersion
	}
	switch {
	case k.APIVersion == "":
		at.Child("apiVersion").Required("")
	case strings.Contains(version, "/"):
		at.Child("apiVersion").Invalid(k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion)
	default:
		if problems := words.SubdomainProblems(group); group != "" && len(problems) > 0 {
			at.Child("apiVersion").Invalid(group, strings.Join(problems, ","))
		}
		if version == "" {
			at.Child("apiVersion").Invalid(k.APIVersion, "version must be specified")
		} else if problems := words.LabelProblems(version); len(problems) > 0 {
			at.Child("apiVersion").Invalid(version, strings.Join(problems, ","))
		}
	}
	if k.Kind == "" {
		at.Child("kind").Required("")
	} else if problems := words.LabelProblems(strings.ToLower(k.Kind)); len(problems) > 0 {
		at.Child("kind").Invalid(k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(problems, ","))
	}
}

// checker compiles the expressions of one policy that is about to be stored.
type checker struct {
	scope *cel.Admission
	err   error
}

func (p *ValidatingAdmissionPolicy) checker(old *ValidatingAdmissionPolicy, rules cel.RuleOptions) *checker {
	known := map[string]bool{}
	if old != nil {
		for _, c := range old.Spec.MatchConditions {
			known[c.Expression] = true
		}
		for _, v := range old.Spec.Validations {
			known[v.Expression], known[v.MessageExpression] = true, true
		}
		for _, a := range old.Spec.AuditAnnotations {
			known[a.ValueExpression] = true
		}
		for _, v := range old.Spec.Variables {
			known[v.Expression] = true
		}
	}
	scope, err := cel.NewAdmission(cel.AdmissionOptions{
		Release: rules.Release, Known: func(text string) bool { return known[text] }, Params: p.Spec.ParamKind != nil, Prices: rules.Prices,
	})
	return &checker{scope, err}
}

// problem says why an expression does not compile, "" if it does.
func (c *checker) problem(text string, authorizer bool, results ...cel.Type) string {
	err := c.err
	if err == nil {
		_, err = c.scope.Compile(text, authorizer, results...)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func (c *checker) condition(text string) string { return c.problem(text, true, cel.Bool()) }

func (c *checker) variable(v Variable, at status.Field) {
	switch {
	case strings.TrimSpace(v.Name) == "":
		at.Child("name").Required("name is not specified")
	case !isIdentifier(v.Name):
		at.Child("name").Invalid(v.Name, "must be a valid CEL identifier")
	}
	if strings.TrimSpace(v.Expression) == "" {
		at.Child("expression").Required("expression is not specified")
		return
	}
	err := c.err
	if err == nil {
		err = c.scope.Define(v.Name, v.Expression)
	}
	if err != nil {
		at.Child("expression").Invalid(v.Expression, err.Error())
	}
}

// lineBreaks are those of expressions.
const lineBreaks = "\n\r"

func (c *checker) validation(v Validation, at status.Field) {
	if strings.TrimSpace(v.Expression) == "" {
		at.Child("expression").Required("expression is not specified")
	} else if problem := c.problem(v.Expression, true, cel.Bool()); problem != "" {
		at.Child("expression").Invalid(v.Expression, problem)
	}
	if v.MessageExpression != "" {
		if strings.TrimSpace(v.MessageExpression) == "" {
			at.Child("messageExpression").Invalid(v.MessageExpression, "must be non-empty if specified")
		} else if problem := c.problem(v.MessageExpression, false, cel.String()); problem != "" {
			at.Child("messageExpression").Invalid(v.MessageExpression, problem)
		}
	}
	switch message := strings.TrimSpace(v.Message); {
	case v.Message != "" && message == "":
		at.Child("message").Invalid(v.Message, "must be non-empty if specified")
	case strings.ContainsAny(message, lineBreaks):
		at.Child("message").Invalid(v.Message, "must not contain line breaks")
	}
	reasons := []string{string(meta.ReasonForbidden), string(meta.ReasonInvalid), string(meta.ReasonRequestEntityTooLarge), string(meta.ReasonUnauthorized)}
	if v.Reason != nil && !slices.Contains(reasons, *v.Reason) {
		at.Child("reason").NotSupported(*v.Reason, reasons...)
	}
}

func (c *checker) annotations(name string, all []AuditAnnotation, at status.Field) {
	if len(all) > maxAuditAnnotations {
		at.Invalid(all, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations))
	}
	seen := map[string]bool{}
	for i, a := range all {
		at := at.Index(i)
		if name == "" {
			at.Child("key").Invalid(a.Key, "requires metadata.name be non-empty")
		} else {
			match.Invalid(at.Child("key"), name+"/"+a.Key, words.QualifiedProblems(name+"/"+a.Key))
		}
		switch text := strings.TrimSpace(a.ValueExpression); {
		case text == "":
			at.Child("valueExpression").Required("valueExpression is not specified")
		case len(text) > maxValueExpression:
			at.Child("valueExpression").Required(fmt.Sprintf("must not exceed %d bytes in length", maxValueExpression))
		default:
			if problem := c.problem(text, true, cel.String(), cel.Null()); problem != "" {
				at.Child("valueExpression").Invalid(a.ValueExpression, problem)
			}
		}
		if seen[a.Key] {
			at.Child("key").Duplicate(a.Key)
		}
		seen[a.Key] = true
	}
}

// isIdentifier reports whether a word can name a variable.
func isIdentifier(word string) bool {
	switch word {
	case "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
		"package", "namespace", "return", "var", "void", "while":
		return false
	}
	return identifier().MatchString(word)
}

func identifier() *regexp.Regexp { return regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$") }

// Validate reports what is wrong with a binding, in the words of Kubernetes.
//
// Source: POL-03.
func (b *ValidatingAdmissionPolicyBinding) Validate(f *status.Fields) {
	at := f.At("spec")
	checkPolicyName(b.Spec.PolicyName, at.Child("policyName"))
	b.Spec.ParamRef.validate(at.Child("paramRef"))
	b.Spec.MatchResources.Validate(at.Child("matchResources"))
	actions := b.Spec.ValidationActions
	list := at.Child("validationActions")
	seen := map[string]bool{}
	for i, action := range actions {
		if action != Deny && action != Warn && action != Audit {
			list.Index(i).NotSupported(action, Audit, Deny, Warn)
		}
		if seen[action] {
			list.Index(i).Duplicate(action)
		}
		seen[action] = true
	}
	if seen[Deny] && seen[Warn] {
		list.Invalid(actions, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)")
	}
	if len(actions) == 0 {
		list.Required("at least one validation action is required")
	}
}

func checkPolicyName(name string, at status.Field) {
	if name == "" {
		at.Required("")
	} else {
		match.Invalid(at, name, words.SubdomainProblems(name))
	}
}

func (r *ParamRef) validate(at status.Field) {
	if r == nil {
		return
	}
	if r.Name != "" {
		match.Invalid(at.Child("name"), r.Name, words.SegmentProblems(r.Name))
		if r.Selector != nil {
			at.Child("name").Forbidden("name and selector are mutually exclusive")
		}
	}
	match.ValidateSelector(r.Selector, at.Child("selector"))
	if r.Selector != nil && r.Name != "" {
		at.Child("selector").Forbidden("name and selector are mutually exclusive")
	}
	if r.Name == "" && r.Selector == nil {
		at.Required("one of name or selector must be specified")
	}
	switch action := r.ParameterNotFoundAction; {
	case action == nil || *action == "":
		at.Child("parameterNotFoundAction").Required("")
	case *action != AllowAction && *action != DenyAction:
		at.Child("parameterNotFoundAction").NotSupported(*action, DenyAction, AllowAction)
	}
}
