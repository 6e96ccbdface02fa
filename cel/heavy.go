package cel

import (
	"context"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/kindwright/kindwright/openapi"
)

// The language counts one unit for some steps that read all of a text, a list or an object: the size of a text, the
// comparison of objects, a field that is written in base64. A thousand rounds of such a step take minutes, and a
// program that does not count looks at no cost at all. So steps on what is large take their work off a second
// budget, which all programs have and nobody sees in the cost of a rule. Small values take nothing.
const (
	workLimit       = 3 * RuleCostLimit // of one evaluation, in units of about 100 ns
	objectWorkLimit = ObjectCostLimit   // of all evaluations for one object

	bytesOfWork = 50 // that are read

	bytesOfSearch = 200 // that are compared with an item of a list
	runesOfWork   = 10  // that are made of a text
	itemsOfWork   = 5
	stepsOfWork   = 50 // of a pattern, one for each character and each part of the pattern
	zoneWork      = 50 // to look up a time zone, which is a file
	interrupting  = 20 // units after which the context is looked at, before the step

	// largeMatch is from where on a match can be interrupted, in steps. Until then it takes a few milliseconds.
	largeMatch = 200_000
)

// load is what an evaluation may still do. The zero value limits nothing. It belongs to one goroutine.
type load struct {
	ctx     context.Context //nolint:containedctx // of one evaluation
	left    int64
	limited bool
}

// workName is the name under which steps find the work of their evaluation. No expression can write it.
const workName = "@work"

// newWork returns the work of an evaluation.
func newWork(ctx context.Context, limit int64) load {
	return load{ctx: ctx, left: limit, limited: true}
}

// take takes some units, and reports whether there were enough. w may be nil.
func (w *load) take(units int) bool {
	if w == nil || !w.limited || units == 0 {
		return true
	}
	w.left -= int64(units)
	return w.left >= 0
}

// spend is take for steps of a program, which it ends if there were not enough units, or if the context has ended.
func (w *load) spend(units int) {
	if units == 0 {
		return
	}
	if !w.take(units) {
		panic(interpreter.EvalCancelledError{Message: overrun, Cause: interpreter.CostLimitExceeded})
	}
	if units >= interrupting {
		w.interrupt()
	}
}

// order takes what it takes to bring names into their order.
func (w *load) order(names int) {
	if names > small {
		w.spend(names)
	}
}

// interrupt ends a program whose context has ended.
func (w *load) interrupt() {
	if w.ended() {
		panic(interpreter.EvalCancelledError{Message: interpreter.InterruptError{}.Error(), Cause: interpreter.ContextCancelled})
	}
}

// look ends a program whose context has ended, now and then in a loop over many parts. An error as the value of the
// loop would not do: what compares lists takes it for equal or different.
func (w *load) look(round int) {
	if round&1023 == 1023 {
		w.interrupt()
	}
}

func (w *load) ended() bool { return w != nil && w.ctx != nil && w.ctx.Err() != nil }

// workOf returns the work of an evaluation, or nil.
func workOf(frame *interpreter.ExecutionFrame) *load {
	v, _ := frame.ResolveName(workName)
	w, _ := v.(*load)
	return w
}

// watched is a call whose arguments are looked at before it is made.
type watched struct {
	interpreter.InterpretableCall

	to *functions.Overload
}

// Exec calls the function.
func (c *watched) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args, bad := values(frame, c.Args())
	if bad != nil {
		return bad
	}
	if units := weighCall(c.Function(), args); units > 0 {
		workOf(frame).spend(units)
	}
	if !isTimeOf(c.Function()) && !isBearable(c.Function(), args) {
		return overrunError()
	}
	if c.Function() == "findAll" {
		return types.LabelErrNode(c.ID(), compiledPattern(args, func(pattern *regexp.Regexp, args []ref.Val) ref.Val {
			return newSought(pattern).all(workOf(frame), args)
		}))
	}
	return types.LabelErrNode(c.ID(), call(c.to, args))
}

// Eval calls the function.
func (c *watched) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// values evaluates arguments. It stops at one that fails.
func values(frame *interpreter.ExecutionFrame, args []interpreter.InterpretableV2) (out []ref.Val, bad ref.Val) {
	out = make([]ref.Val, len(args))
	for i, a := range args {
		if out[i] = a.Exec(frame); types.IsUnknownOrError(out[i]) {
			return nil, out[i]
		}
	}
	return out, nil
}

// call calls the implementation of a function.
func call(to *functions.Overload, args []ref.Val) ref.Val {
	if to.OperandTrait != 0 && !args[0].Type().HasTrait(to.OperandTrait) {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	switch {
	case len(args) == 1 && to.Unary != nil:
		return to.Unary(args[0])
	case len(args) == 2 && to.Binary != nil:
		return to.Binary(args[0], args[1])
	case to.Function != nil:
		return to.Function(args...)
	}
	return types.MaybeNoSuchOverloadErr(args[0])
}

// isTimeOf reports whether a function reads a part of a time, which may be that of a zone.
func isTimeOf(function string) bool {
	switch function {
	case "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds":
		return true
	}
	return false
}

// weighCall returns what a call takes beyond what the language counts.
func weighCall(function string, args []ref.Val) int {
	switch function {
	case "size", "timestamp", "duration", "double", "int", "uint", "bool":
		return textWork(args[0], bytesOfWork)
	case "charAt":
		return textWork(args[0], runesOfWork)
	case "getQuery", "getEscapedPath":
		if u, ok := args[0].(*urlValue); ok {
			return ofLarge(len(u.data.RawQuery)+len(u.data.Path), runesOfWork)
		}
	case "flatten":
		m := measure{parts: maxMadeParts, bytes: maxRequestBytes}
		m.of(args[0])
		return ofLarge(maxMadeParts-m.parts, itemsOfWork)
	case "reverse", "slice", "distinct", "sort", "@sortByAssociatedKeys", "isSorted", "sum", "min", "max", "indexOf", "lastIndexOf":
		list, ok := args[0].(traits.Lister)
		if !ok {
			return textWork(args[0], bytesOfWork)
		}
		units := ofLarge(int(min(sizeOf(list), maxMadeText)), itemsOfWork) //nolint:gosec // small
		switch function {
		case "distinct":
			units += weighItems(list, list)
		case "indexOf", "lastIndexOf":
			units += weighSought(args[1], list)
		}
		return units
	case "sets.contains", "sets.intersects":
		return weighItems(args[0], args[1])
	case "sets.equivalent":
		return 2 * weighItems(args[0], args[1])
	case "replace", "split":
		return textWork(args[0], bytesOfWork)
	case "format", "join":
		m := measure{parts: maxMadeParts, bytes: maxMadeText}
		for _, a := range args {
			m.of(a)
		}
		units := ofLarge(maxMadeText-m.bytes, bytesOfWork)
		if function == "format" { // each number is written as in some language
			return units + ofLarge(maxMadeParts-m.parts, 1)
		}
		return units + ofLarge(maxMadeParts-m.parts, itemsOfWork)
	case "matches", "find", "findAll":
		return matchWork(args)
	}
	if isTimeOf(function) && len(args) > 1 {
		if zone, ok := args[1].(types.String); ok && zone != "" && zone != "UTC" && !strings.Contains(string(zone), ":") {
			return zoneWork
		}
	}
	return 0
}

// matchWork is what it takes to read a pattern that is not written in the expression, and to match it.
func matchWork(args []ref.Val) int {
	text, _ := args[0].(types.String)
	pattern, ok := args[min(1, len(args)-1)].(types.String)
	if !ok || len(pattern) > maxReadPattern {
		return 0
	}
	units := 0
	if w := patternWeight(string(pattern)); w > stepsOfWork {
		units = int(min(w, maxMadeText)) //nolint:gosec // small
	}
	if steps := len(text) * stepsOf(string(pattern)); steps > largeMatch {
		units += steps / stepsOfWork
	}
	return units
}

// textWork is what it takes to read a text.
func textWork(v ref.Val, per int) int {
	if s, ok := v.(types.String); ok {
		return ofLarge(len(s), per)
	}
	return 0
}

// ofLarge returns how many units a size is, 0 for a small one.
func ofLarge(size, per int) int {
	if size <= small {
		return 0
	}
	return size / per
}

// weighComparison returns what it takes to compare two values. It looks at no more than the comparison does.
func weighComparison(kind string, left, right ref.Val) int {
	if kind == operators.In {
		if _, isMap := right.(traits.Mapper); isMap {
			return 0
		}
		if !isDeep(left) {
			return weighSearch(left, right)
		}
		left = right
	}
	if a, ok := left.(*urlValue); ok {
		return ofLarge(len(a.data.RawQuery)+len(a.data.Path), runesOfWork)
	}
	if !isDeep(left) || kind != operators.In && isContainer(right) && sizeOf(left) != sizeOf(right) {
		return 0
	}
	m := measure{parts: maxMadeParts, bytes: maxRequestBytes}
	m.of(left)
	return ofLarge((maxMadeParts-m.parts)*itemsOfWork+(maxRequestBytes-m.bytes)/runesOfWork, itemsOfWork)
}

// weighSearch returns what it takes to look for a scalar in a list. A text is compared with others as far as they are
// equal, and with those of its length alone.
func weighSearch(of, in ref.Val) int {
	list, ok := in.(traits.Sizer)
	if !ok {
		return 0
	}
	n, _ := list.Size().(types.Int)
	text, _ := of.(types.String)
	return ofLarge(int(n)+int(n)*len(text)/bytesOfSearch, itemsOfWork)
}

// isDeep reports whether a value may have parts.
func isDeep(v ref.Val) bool {
	switch v.(type) {
	case hidden, *types.Optional, *built:
		return true
	}
	return isContainer(v)
}

// weighItems returns what it takes to count the parts of two lists and to compare their items. The language counts
// pairs of items, whatever is in them.
func weighItems(left, right ref.Val) int {
	if _, ok := right.(traits.Lister); !ok {
		return 0
	}
	m := measure{parts: 2 * maxMadeParts, bytes: 2 * maxRequestBytes}
	m.of(left)
	m.of(right)
	units := ofLarge(2*maxMadeParts-m.parts, itemsOfWork)
	eachPart(right, func(item ref.Val) bool {
		units += weighSought(item, left)
		return units <= workLimit
	})
	return units
}

// weighSought returns what it takes to compare a value that is large with the items of a list.
func weighSought(v, in ref.Val) int {
	each := weighComparison(operators.Equals, v, v)
	if each == 0 {
		return 0
	}
	n := 0
	eachPart(in, func(item ref.Val) bool {
		if !isContainer(v) || !isContainer(item) || sizeOf(v) == sizeOf(item) {
			n++
		}
		return true
	})
	return n * each
}

// measure counts the parts of a value and the bytes of its texts, down to zero.
type measure struct{ parts, bytes int }

func (m *measure) of(v ref.Val) {
	switch v := v.(type) {
	case *objectView:
		m.tree(v.object)
	case *mapView:
		m.tree(v.object)
	case *listView:
		m.tree(v.items)
	case hidden:
		m.tree(v.data)
	case types.String:
		m.text(string(v))
	case types.Bytes:
		m.parts--
		m.bytes -= len(v)
	default:
		if t, ok := treeBehind(v); ok {
			m.tree(t)
			return
		}
		m.parts--
		eachPart(v, func(part ref.Val) bool {
			m.of(part)
			return m.parts > 0 && m.bytes > 0
		})
	}
}

// treeBehind returns the tree that a value of the language shows.
func treeBehind(v ref.Val) (any, bool) {
	if !isContainer(v) {
		return nil, false
	}
	switch t := v.Value().(type) {
	case map[string]any:
		return t, true
	case []any:
		return t, true
	}
	return nil, false
}

func (m *measure) text(s string) {
	m.parts--
	m.bytes -= len(s)
}

func (m *measure) tree(v any) {
	if m.parts <= 0 || m.bytes <= 0 {
		return
	}
	switch v := v.(type) {
	case string:
		m.text(v)
	case map[string]any:
		m.parts--
		for name, member := range v {
			m.bytes -= len(name)
			m.tree(member)
		}
	case []any:
		m.parts--
		for _, item := range v {
			m.tree(item)
		}
	case ref.Val:
		m.of(v)
	default:
		m.parts--
	}
}

// weighList returns what it took to add two lists. Sets and keyed lists look for each item.
func weighList(v ref.Val) int {
	list, ok := v.(*listView)
	switch {
	case !ok:
		return 0
	case list.isKeyed():
		return ofLarge(len(list.items), 1) + ofLarge(list.keyBytes(), runesOfWork)
	}
	return ofLarge(len(list.items), runesOfWork)
}

// keyBytes returns how long the texts are that tell the items apart.
func (l *listView) keyBytes() int {
	const most = maxRequestBytes
	m := measure{parts: most, bytes: most}
	for _, item := range l.items {
		object, ok := item.(map[string]any)
		if l.schema.ListType == openapi.ListSet || !ok {
			m.tree(item)
			continue
		}
		for _, name := range l.schema.ListMapKeys {
			m.tree(object[name])
		}
	}
	return most - m.bytes
}

// match is the call of a function for a pattern that is written in the expression.
type match struct {
	interpreter.InterpretableCall

	pattern *regexp.Regexp
	steps   int     // for each character
	all     *sought // of findAll; nil for others
	run     func(*regexp.Regexp, []ref.Val) ref.Val
}

func newMatch(call interpreter.InterpretableCall, pattern string, run func(*regexp.Regexp, []ref.Val) ref.Val) (interpreter.InterpretableCall, error) {
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	m := &match{InterpretableCall: call, pattern: compiled, steps: stepsOf(pattern), run: run}
	if call.Function() == "findAll" {
		m.all = newSought(compiled)
	}
	return m, nil
}

// stepsOf returns how many steps a pattern takes for each character at most, about.
func stepsOf(pattern string) int {
	return max(len(pattern), int(min(patternWeight(pattern), maxMadeText))) //nolint:gosec // small
}

// Exec matches.
func (m *match) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args, bad := values(frame, m.Args())
	if bad != nil {
		return bad
	}
	text, ok := args[0].(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	if steps := len(text) * m.steps; steps > largeMatch {
		w := workOf(frame)
		w.spend(steps / stepsOfWork)
		if m.Function() == "matches" && w != nil {
			return types.Bool(matchesWhile(w, m.pattern, string(text)))
		}
	}
	if m.all != nil {
		return m.all.all(workOf(frame), args)
	}
	return m.run(m.pattern, args)
}

// Eval matches.
func (m *match) Eval(vars interpreter.Activation) ref.Val { return m.Exec(interpreter.AsFrame(vars)) }

// matchesWhile matches a long text until the context ends.
func matchesWhile(w *load, pattern *regexp.Regexp, text string) bool {
	found := pattern.MatchReader(&runes{text: text, work: w})
	w.interrupt()
	return found
}

// runes reads a text until the context of an evaluation ends.
type runes struct {
	text string
	work *load
	n    int
}

// ReadRune implements io.RuneReader.
func (r *runes) ReadRune() (rune, int, error) {
	if r.n++; r.n%1024 == 0 && r.work.ended() || r.text == "" {
		return 0, 0, io.EOF
	}
	c, size := utf8.DecodeRuneInString(r.text)
	r.text = r.text[size:]
	return c, size, nil
}
