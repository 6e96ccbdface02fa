package cel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// rule is a compiled rule.
type rule struct {
	openapi.Rule
	check     *expression
	message   *expression // nil if the rule has none
	usesOld   bool
	fieldPath string // below the value, without a leading dot
	problem   string // why there is no check
}

// Validate returns the problems of an object that replaces old, which is nil for a new object. Both
// are trees, as package internal/json decodes them; they are not modified.
//
// Rules that use oldSelf only apply to values that replace another one, unless they declare it as
// optional. A rule that an unchanged value breaks does not fail the write: warn gets its message.
// Validation ends with an error when the rules for one object cost too much together, and when ctx
// ends.
//
// sound reports that the object fulfils the schema. The rules are then known to stay within the
// bounds that were computed from the schema, and need not count what they cost.
// Source: CRD-12, CRD-14, CEL-22, CEL-23.
func (r *Rules) Validate(ctx context.Context, object, old map[string]any, sound bool, warn func(string)) []status.FieldError {
	if r == nil {
		return nil
	}
	if ctx == nil {
		return noContext(nil)
	}
	if r.evaluated != nil {
		start := time.Now()
		defer func() { r.evaluated(time.Since(start)) }()
	}
	e := r.evaluation(ctx, !sound)
	if sound {
		e.left /= boundMargin
	}
	e.run(r.root, object, old)
	if e.exceeded && !e.count { // by the bounds; what the rules really cost may be less
		e = r.evaluation(ctx, true)
		e.run(r.root, object, old)
	}
	if warn != nil {
		for _, text := range e.warnings {
			warn(text)
		}
	}
	return e.problems
}

// evaluation returns the beginning of one.
func (r *Rules) evaluation(ctx context.Context, count bool) *evaluation {
	return &evaluation{ctx: ctx, left: ObjectCostLimit, work: cmp.Or(r.work, objectWorkLimit), count: count, whole: r.whole}
}

// evaluation evaluates the rules for one object.
type evaluation struct {
	ctx      context.Context //nolint:containedctx // of one call
	left     int64           // of the budget
	work     int64           // see load
	count    bool            // what the rules really cost
	whole    bool            // see Rules.Whole
	most     int             // problems that are looked for; 0 is no limit
	ended    bool
	exceeded bool

	problems []status.FieldError
	warnings []string
	judged   []status.FieldError // see Rules
}

func (e *evaluation) run(root *node, object, old map[string]any) {
	v := value{at: nil, now: object}
	if old != nil {
		v.old = old
	}
	if old != nil && !e.whole {
		v.before = &earlier{value: object, old: old, schema: root.schema, known: true, root: true}
	}
	e.visit(root, v)
}

// value is a value at its position, with what it replaces.
type value struct {
	at       *status.Path
	now, old any
	before   *earlier // for comparisons; nil if nothing is replaced
}

// visit evaluates the rules for a value and for everything below it.
func (e *evaluation) visit(n *node, v value) {
	if n == nil || v.now == nil || e.ended {
		return
	}
	if len(n.rules) > 0 {
		e.evaluate(n, v)
	}
	for _, branch := range n.allOf {
		below := v
		if v.before != nil && v.before.known { // problems of branches only warn if the value around them is unchanged
			below.before = &earlier{parent: v.before.parent}
		}
		e.visit(branch, below)
	}
	switch now := v.now.(type) {
	case []any:
		e.visitItems(n, v, now)
	case map[string]any:
		e.visitMembers(n, v, now)
	}
}

func (e *evaluation) visitItems(n *node, v value, now []any) {
	if n.items == nil {
		return
	}
	var list *keyedItems
	if old, ok := v.old.([]any); ok && n.schema.ListType == openapi.ListMap {
		list = keyed(old, n.schema)
	}
	for i, item := range now {
		old, known := list.find(item)
		e.visit(n.items, value{at: v.at.Index(i), now: item, old: old, before: v.before.below(item, old, n.schema.Items, known)})
	}
}

func (e *evaluation) visitMembers(n *node, v value, now map[string]any) {
	before, _ := v.old.(map[string]any)
	if n.additional != nil {
		for _, name := range slices.Sorted(maps.Keys(now)) {
			e.visit(n.additional, value{at: v.at.Key(name), now: now[name], old: before[name], before: v.before.member(name, now[name], n.schema.AdditionalProperties)})
		}
	}
	for _, field := range n.fields {
		member, present := now[field.name]
		if present {
			e.visit(field.node, value{at: v.at.Child(field.name), now: member, old: before[field.name], before: v.before.member(field.name, member, field.schema)})
		}
	}
}

// fail records a problem of a value.
func (e *evaluation) fail(at *status.Path, t meta.CauseType, value any, detail string) {
	e.problems = append(e.problems, problem(at, t, value, detail))
	if e.most > 0 && len(e.problems) >= e.most {
		e.ended = true
	}
}

func problem(at *status.Path, t meta.CauseType, value any, detail string) status.FieldError {
	field := noPath
	if at != nil {
		field = at.String()
	}
	return status.FieldError{Type: t, Field: field, Value: value, Detail: detail}
}

// spend subtracts a cost from the budget and reports whether there was enough.
func (e *evaluation) spend(cost uint64) bool {
	if cost > uint64(max(e.left, 0)) { //nolint:gosec // not negative
		e.ended, e.exceeded = true, true
		return false
	}
	e.left -= int64(cost) //nolint:gosec // at most what is left
	return true
}

// untypedRules are the words of Kubernetes.
const untypedRules = "rule compiler initialization error: failed to convert to declType for CEL validation rules"

const outOfBudget = "validation failed due to running out of cost budget, no further validation rules will be run"

// evaluate evaluates the rules of one schema for one value.
func (e *evaluation) evaluate(n *node, v value) {
	kind := string(n.schema.Type)
	if e.left <= 0 {
		e.ended, e.exceeded = true, true
		e.fail(v.at, meta.CauseFieldValueInvalid, kind, outOfBudget)
		return
	}
	if n.untyped { // the value was stored under another schema, and did not change
		e.fail(v.at, meta.CauseFieldValueInvalid, kind, untypedRules)
		return
	}
	vars := &variables{work: newWork(e.ctx, e.work)}
	vars.self = rootView(v.now, n.schema, &vars.work)
	for _, r := range n.rules {
		if e.ended {
			return
		}
		if r.usesOld && v.old == nil && !r.OptionalOldSelf {
			continue // there is nothing to compare with
		}
		if r.usesOld || r.message != nil {
			vars.old = oldSelf(n, v, r.OptionalOldSelf, &vars.work)
		}
		e.evaluateRule(n, v, r, vars)
	}
}

// oldSelf returns the value of the variable, or nil if there is none.
func oldSelf(n *node, v value, optional bool, w *load) ref.Val {
	switch {
	case v.old != nil && optional:
		return types.OptionalOf(rootView(v.old, n.schema, w))
	case v.old != nil:
		return rootView(v.old, n.schema, w)
	case optional:
		return types.OptionalNone
	}
	return nil
}

// ask evaluates an expression. What it may do is limited for itself, and for all of one object together.
func (e *evaluation) ask(x *expression, vars *variables) (ref.Val, uint64, error) {
	most := min(workLimit, e.work)
	vars.work.left = most
	result, cost, err := x.run(e.ctx, vars, e.count)
	e.work -= most - vars.work.left
	return result, cost, err
}

func (e *evaluation) evaluateRule(n *node, v value, r *rule, vars *variables) {
	kind := string(n.schema.Type)
	if r.check == nil {
		if strings.TrimSpace(r.Rule.Rule) != "" {
			e.fail(v.at, meta.CauseFieldValueInvalid, kind, "rule compile error: "+r.problem)
		}
		return
	}
	result, cost, err := e.ask(r.check, vars)
	if !e.spend(cost) {
		e.fail(v.at, meta.CauseFieldValueInvalid, kind, outOfBudget)
		return
	}
	if err != nil {
		e.failed(v, kind, r, err)
		return
	}
	if result == types.True {
		return
	}
	at := v.at
	if r.fieldPath != "" {
		at = at.Child(r.fieldPath)
	}
	detail, problem := e.explain(r, vars)
	if problem != "" {
		e.add(v, r, at, meta.CauseFieldValueInvalid, kind, problem)
		return
	}
	var shown any = status.Omitted{}
	if n.schema.Type != openapi.Object && n.schema.Type != openapi.Array {
		shown = v.now
	}
	reason := reasonOf(r)
	if reason == meta.CauseFieldValueDuplicate {
		detail = "" // Kubernetes has no place for a message there
	}
	e.add(v, r, at, reason, shown, detail)
}

// add records that a value breaks a rule: as a warning if it did before.
func (e *evaluation) add(v value, r *rule, at *status.Path, t meta.CauseType, shown any, detail string) {
	if !r.usesOld && v.before.unchanged() {
		e.warnings = append(e.warnings, problem(at, t, shown, detail).String())
		return
	}
	e.fail(at, t, shown, detail)
}

// failed records a rule that could not be evaluated.
func (e *evaluation) failed(v value, kind string, r *rule, err error) {
	text := err.Error()
	switch {
	case e.ctx.Err() != nil:
		e.ended = true
		e.fail(v.at, meta.CauseInternalError, nil, "validation was cancelled: "+context.Cause(e.ctx).Error())
	case strings.HasPrefix(text, "no such overload"):
		e.fail(v.at, meta.CauseFieldValueInvalid, kind,
			fmt.Sprintf("'%s': call arguments did not match a supported operator, function or macro signature for rule: %s", text, shortly(r)))
	case isOverrun(err):
		e.ended = true
		e.fail(v.at, meta.CauseFieldValueInvalid, kind,
			fmt.Sprintf("'%s': no further validation rules will be run due to call cost exceeds limit for rule: %s", text, shortly(r)))
	default:
		e.fail(v.at, meta.CauseFieldValueInvalid, kind, fmt.Sprintf("%s evaluating rule: %s", text, shortly(r)))
	}
}

func reasonOf(r *rule) meta.CauseType {
	if !slices.Contains(reasons, r.Reason) { // there is none, or a definition is being refused for it
		return meta.CauseFieldValueInvalid
	}
	return meta.CauseType(r.Reason)
}

// shortly names a rule in messages.
func shortly(r *rule) string {
	if r.Message != "" {
		return strings.TrimSpace(r.Message)
	}
	return strings.TrimSpace(r.Rule.Rule)
}

// explain returns the message of a rule that is broken. A messageExpression that fails, or whose
// result is no short line, is ignored; one that costs too much ends the validation with a problem.
func (e *evaluation) explain(r *rule, vars *variables) (text, problem string) {
	plain := strings.TrimSpace(r.Message)
	if r.Message == "" {
		plain = "failed rule: " + shortly(r)
	}
	if r.message == nil {
		return plain, ""
	}
	result, cost, err := e.ask(r.message, vars)
	if !e.spend(cost) {
		return "", "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
	}
	if err != nil {
		if isOverrun(err) {
			e.ended = true
			return "", fmt.Sprintf("no further validation rules will be run due to call cost exceeds limit for messageExpression: %q", r.MessageExpression)
		}
		return plain, ""
	}
	s, ok := result.(types.String)
	line := strings.TrimSpace(string(s))
	if !ok || line == "" || len(line) > MaxMessageBytes || strings.Contains(line, "\n") {
		return plain, ""
	}
	return line, ""
}

// noContext is the outcome without a context.
func noContext(at *status.Path) []status.FieldError {
	e := &evaluation{}
	e.fail(at, meta.CauseInternalError, nil, errNoContext.Error())
	return e.problems
}
