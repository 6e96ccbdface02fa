package cel

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
	"github.com/kindwright/kindwright/status"
)

// RuleOptions select how rules are compiled. The zero value is for new rules in the newest release.
type RuleOptions struct {
	// Release is the release of Kubernetes that the server emulates, such as "1.36". New rules may
	// use the libraries of the release before it, so that they survive a rollback.
	Release string

	// Known reports the expressions that were accepted before. They may use every library. Nil means
	// that all expressions are new.
	Known func(expression string) bool

	// Unlimited leaves out the limit of the estimated cost of each rule, for a schema that is stored
	// already.
	Unlimited bool

	// Stored is for a schema that is in use already. Its expressions may use every library, and no
	// limits apply to its estimated costs.
	Stored bool

	// Size is the length of the document that the schema was read from, which says how many parts all its
	// rules may have together. Zero sets no limit.
	Size int

	// Prices are the prices of the parts of expressions.
	Prices Prices

	// Compiled, if set, returns the rules of schemas that were compiled with the same prices before, and is
	// told of others.
	Compiled *Compiled

	// Path is the position of the schema in its document, such as
	// "spec.validation.openAPIV3Schema". The paths of all problems begin with it.
	Path string

	// Problems are what else is wrong with the document, by their positions in it, malformed rules
	// among them. A rule is not compiled if its schema, or one below it, has such a problem.
	Problems []status.FieldError
}

// Rules are the compiled rules of a schema. They are safe for concurrent use. A nil Rules has no
// rules.
type Rules struct {
	root      *node
	whole     bool                     // see Whole
	evaluated func(took time.Duration) // see Timing; may be nil
	judged    []status.FieldError      // see RuleOptions.Problems
	work      int64                    // for tests: what evaluations for an object may do, if not objectWorkLimit
}

// Whole returns the rules for updates that have to be valid as a whole: a rule counts also if the value
// that breaks it did not change.
func (r *Rules) Whole() *Rules {
	if r == nil {
		return nil
	}
	out := *r
	out.whole = true
	return &out
}

// node holds the rules for one schema, and leads to those below it.
type node struct {
	schema     *openapi.Schema // as expressions see it
	rules      []*rule
	fields     []fieldNode // in the order of the schema
	additional *node
	items      *node
	allOf      []*node
	untyped    bool // see place.untyped
}

// fieldNode leads to the rules for a field.
type fieldNode struct {
	name   string
	schema *openapi.Schema
	node   *node
}

// isEmpty reports whether there are no rules for the schema or below it.
func (n *node) isEmpty() bool {
	return n == nil || len(n.rules)+len(n.fields)+len(n.allOf) == 0 && n.additional == nil && n.items == nil
}

// CompileRules compiles the rules of an object's schema and of all schemas below it. It returns all
// problems: rules that are malformed, do not compile, or could cost too much. Their fields are
// positions such as "properties[spec].x-kubernetes-validations[0].rule". Rules that have problems are for
// ValidateDefaults alone.
//
// Expressions see the object as self and what it replaces as oldSelf. Of its metadata they see the
// name and the generateName.
// Source: CRD-12, CRD-13, CEL-28.
func CompileRules(schema *openapi.Schema, o RuleOptions) (*Rules, []status.FieldError) {
	if !schema.HasRules() {
		return nil, nil
	}
	if known := o.Compiled.of(schema); known != nil {
		return known, nil
	}
	defer o.Compiled.begin()()
	c := compiler{options: o, shared: o.Compiled, open: map[*openapi.Schema]*node{}}
	if c.shared == nil {
		c.shared = new(Compiled)
	}
	if o.Size > 0 && !o.Stored && c.newParts(schema, 0) > minRuleParts+o.Size/bytesOfPart {
		return nil, []status.FieldError{{Type: meta.CauseFieldValueForbidden, Field: o.Path, Detail: tooManyOfRules}}
	}
	if err := c.prepare(); err != nil {
		return nil, []status.FieldError{{Type: meta.CauseInternalError, Field: o.Path, Detail: err.Error()}}
	}
	var at *status.Path
	if o.Path != "" {
		at = at.Child(o.Path)
	}
	one := uint64(1)
	whole := place{schema: schema, structure: schema, at: at, count: &one, root: true}
	ahead := c.compileAhead(whole)
	root, _ := c.compile(whole)
	runtime.KeepAlive(ahead)
	c.total(at)
	out := &Rules{root: root, judged: o.Problems}
	if problems := append(c.malformed, c.problems...); len(problems)+len(o.Problems) > 0 {
		return out, problems
	}
	if o.Compiled != nil {
		out.evaluated = o.Compiled.timing.Evaluated
	}
	o.Compiled.keep(schema, out)
	return out, nil
}

// compiler compiles the rules of one schema.
type compiler struct {
	options   RuleOptions
	new, base *celgo.Env
	shared    *Compiled
	open      map[*openapi.Schema]*node   // schemas that are being compiled, for types that contain themselves
	found     func(*node, []openapi.Rule) // if set, is told of rules in place of compiling them

	malformed []status.FieldError // rules that are not looked at any further
	problems  []status.FieldError
	sum       uint64
	work      int // see maxCompileWork
	tables    int // see maxTables
	expensive []expense
}

// expense is a rule that contributes to the estimated cost of the schema.
type expense struct {
	at   *status.Path
	cost uint64
}

func (c *compiler) prepare() (err error) {
	minor, err := minorOf(c.options.Release)
	if err != nil {
		return err
	}
	if c.base, err = bases.of(all); err != nil {
		return err
	}
	c.new, err = bases.of(minor)
	return err
}

// place is a schema at its position.
type place struct {
	schema    *openapi.Schema // has the rules
	structure *openapi.Schema // says what the values are; another one for a branch of allOf
	at        *status.Path
	count     *uint64      // how many values there can be; nil if nothing bounds them
	fixed     *status.Path // of the list whose items cannot be correlated with earlier ones
	isFixed   bool
	root      bool // a whole object
	untyped   bool // below items of what is no list: expressions know no type for it
}

// below returns the place of a part.
func (p place) below(schema, structure *openapi.Schema, at *status.Path) place {
	p.schema, p.structure, p.at = schema, structure, at
	p.root = structure.EmbeddedObject
	return p
}

// times multiplies the number of values.
func (p place) times(most *int64) place {
	if p.count != nil && most != nil {
		product := multiply(*p.count, atLeastZero(*most))
		p.count = &product
	} else {
		p.count = nil
	}
	return p
}

// compile compiles a schema with everything below it. It reports whether the rules in it are well
// formed: the rules around malformed ones are not compiled.
func (c *compiler) compile(p place) (*node, bool) {
	if !p.schema.HasRules() {
		return nil, true
	}
	if n, open := c.open[p.schema]; open {
		return n, true
	}
	n := &node{schema: p.structure, untyped: p.untyped}
	if p.root {
		n.schema = asResource(p.structure)
	}
	c.open[p.schema] = n
	defer delete(c.open, p.schema)

	sound := c.compileParts(n, p)
	malformed := len(c.malformed)
	for i := range p.schema.Rules {
		if c.options.Problems == nil { // otherwise the malformed rules are known
			c.checkForm(p, i)
		}
	}
	if sound = sound && len(c.malformed) == malformed; sound && len(p.schema.Rules) > 0 {
		c.compileBeside(n, p)
	}
	return n, sound
}

// compileBeside compiles the rules of a schema. Beside other problems, they are for defaults alone: nobody is
// told what is wrong with them, and they cost nothing.
func (c *compiler) compileBeside(n *node, p place) {
	problems, sum, expensive := c.problems, c.sum, c.expensive
	if c.compileRules(n, p); concerns(c.options.Problems, p.at) {
		c.problems, c.sum, c.expensive = problems, sum, expensive
	}
}

// concerns reports whether one of the problems is at a position or below it.
func concerns(problems []status.FieldError, at *status.Path) bool {
	if len(problems) == 0 {
		return false
	}
	position := at.String()
	return slices.ContainsFunc(problems, func(e status.FieldError) bool {
		rest, ok := strings.CutPrefix(e.Field, position)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func (c *compiler) compileParts(n *node, p place) bool {
	sound := true
	part := func(to **node, below place) {
		child, ok := c.compile(below)
		if !child.isEmpty() || c.open[below.schema] != nil {
			*to = child
		}
		sound = sound && ok
	}
	if s, of := p.schema.AdditionalProperties, p.structure.AdditionalProperties; s != nil && of != nil {
		part(&n.additional, p.below(s, of, p.at.Child("additionalProperties")).times(p.structure.MaxProperties))
	}
	for _, field := range p.schema.Properties {
		of, ok := p.structure.Property(field.Name)
		hidden := ok && formOf(of) == formHidden
		if !ok || hidden && c.options.Stored {
			continue
		}
		var child *node
		part(&child, p.below(field.Schema, of, p.at.Child("properties").Key(field.Name)))
		if child != nil && !hidden { // rules below what expressions know no type for are judged, but never run
			n.fields = append(n.fields, fieldNode{field.Name, of, child})
		}
	}
	for i, branch := range p.schema.AllOf {
		var child *node
		below := p.below(branch, p.structure, p.at.Child("allOf").Index(i))
		below.root = p.root
		if part(&child, below); child != nil {
			n.allOf = append(n.allOf, child)
		}
	}
	if s, of := p.schema.Items, p.structure.Items; s != nil && of != nil {
		below := p.below(s, of, p.at.Child("items")).times(p.structure.MaxItems)
		if p.structure.ListType != openapi.ListMap && !p.isFixed {
			below.fixed, below.isFixed = p.at, true
		}
		below.untyped = below.untyped || p.structure.Type != openapi.Array
		part(&n.items, below)
	}
	return sound
}

// shownRule is a rule as messages repeat it.
type shownRule struct {
	Rule, Message, MessageExpression string
	Reason                           *string
	FieldPath                        string
	OptionalOldSelf                  *bool
}

func shown(r openapi.Rule) shownRule {
	out := shownRule{Rule: r.Rule, Message: r.Message, MessageExpression: r.MessageExpression, FieldPath: r.FieldPath}
	if r.Reason != "" {
		out.Reason = &r.Reason
	}
	if r.SaysOptionalOldSelf() {
		out.OptionalOldSelf = &r.OptionalOldSelf
	}
	return out
}

func hasLines(text string) bool { return strings.ContainsAny(text, "\r\n") }

// reasons are the reasons that a rule can give.
var reasons = []string{
	string(meta.CauseFieldValueDuplicate), string(meta.CauseFieldValueForbidden), string(meta.CauseFieldValueInvalid), string(meta.CauseFieldValueRequired),
}

// checkForm checks what can be said about a rule without compiling it.
func (c *compiler) checkForm(p place, i int) {
	r := p.schema.Rules[i]
	at := p.at.Child("x-kubernetes-validations").Index(i)
	var f status.Fields
	message := strings.TrimSpace(r.Message)
	switch {
	case strings.TrimSpace(r.Rule) == "":
		f.In(at.Child("rule")).Required("rule is not specified")
	case r.Message != "" && message == "":
		f.In(at.Child("message")).Invalid(r.Message, "must be non-empty if specified")
	case hasLines(message):
		f.In(at.Child("message")).Invalid(r.Message, "must not contain line breaks")
	case hasLines(strings.TrimSpace(r.Rule)) && message == "":
		f.In(at.Child("message")).Required("message must be specified if rule contains line breaks")
	}
	if r.MessageExpression != "" && strings.TrimSpace(r.MessageExpression) == "" {
		f.In(at.Child("messageExpression")).Required("messageExpression must be non-empty if specified")
	}
	if r.Reason != "" && !slices.Contains(reasons, r.Reason) {
		f.In(at.Child("reason")).NotSupported(r.Reason, reasons...)
	}
	if r.FieldPath != "" {
		field := f.In(at.Child("fieldPath"))
		if strings.TrimSpace(r.FieldPath) == "" {
			field.Invalid(r.FieldPath, "must be non-empty if specified")
		}
		if hasLines(r.FieldPath) {
			field.Invalid(r.FieldPath, "must not contain line breaks")
		}
		if _, err := fieldPath(r.FieldPath, p.structure); err != nil {
			field.Invalid(r.FieldPath, "must be a valid path")
		}
	}
	c.malformed = append(c.malformed, f.Errors()...)
}

// fail records a problem of a rule.
func (c *compiler) fail(t meta.CauseType, at *status.Path, value any, detail string) {
	c.problems = append(c.problems, status.FieldError{Type: t, Field: at.String(), Value: value, Detail: detail})
}

// scope is what the expressions of one schema are compiled in.
type scope struct {
	shapes *shapes
	costs  *costs
	self   *types.Type
	made   map[scopeKey]*celgo.Env
	alike  map[*openapi.Schema]bool // schemas of other scopes that were compared with this one
}

// same reports whether another schema looks like that of the scope.
func (s *scope) same(other *openapi.Schema) bool {
	is, ok := s.alike[other]
	if !ok {
		is = alike(s.costs.root, other)
		s.alike[other] = is
	}
	return is
}

type scopeKey struct{ known, optional bool }

// env returns the environment of an expression.
func (s *scope) env(c *compiler, known, optional bool) (*celgo.Env, error) {
	key := scopeKey{known, optional}
	if env, ok := s.made[key]; ok {
		return env, nil
	}
	base := c.new
	if known {
		base = c.base
	}
	old := s.self
	if optional {
		old = types.NewOptionalType(s.self)
	}
	env, err := base.Extend(celgo.CustomTypeProvider(s.shapes), celgo.Variable("self", s.self), celgo.Variable("oldSelf", old))
	if err == nil {
		s.made[key] = env
	}
	return env, err
}

// newScope returns the scope of a schema, and whether expressions can have a type for it.
func (c *compiler) newScope(schema *openapi.Schema) (*scope, bool) {
	sh := newShapes(c.base.CELTypeProvider())
	s := &scope{shapes: sh, costs: &costs{prices: c.options.Prices, shapes: sh, root: schema}, made: map[scopeKey]*celgo.Env{}, alike: map[*openapi.Schema]bool{}}
	if !sh.isReachable(schema) {
		return nil, false
	}
	s.self = sh.typeOf(schema, "@self")
	return s, true
}

// compileRules compiles the rules of one schema and adds up what they can cost.
func (c *compiler) compileRules(n *node, p place) {
	if c.found != nil {
		c.found(n, p.schema.Rules)
		return
	}
	s, ok := c.newScope(n.schema)
	if !ok {
		c.fail(meta.CauseInternalError, p.at.Child("x-kubernetes-validations"), nil,
			"internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations")
		return
	}
	count := uint64(maxRequestBytes / (s.shapes.shortest(n.schema) + 1)) //nolint:gosec // positive
	if p.count != nil {
		count = *p.count
	}
	for i, described := range p.schema.Rules {
		if c.work > maxCompileWork || len(c.problems) >= maxRuleProblems {
			return // reported once
		}
		at := p.at.Child("x-kubernetes-validations").Index(i)
		r := c.compileRule(s, described, at, count)
		if r.check != nil && r.usesOld && p.isFixed {
			c.fail(meta.CauseFieldValueInvalid, at.Child("rule"), described.Rule,
				fmt.Sprintf("oldSelf cannot be used on the uncorrelatable portion of the schema within %s", cmp.Or(p.fixed.String(), noPath)))
		} else if !r.usesOld && (described.OptionalOldSelf || described.SaysOptionalOldSelf() && !c.options.Stored) {
			c.fail(meta.CauseFieldValueInvalid, at.Child("optionalOldSelf"), described.OptionalOldSelf, "may not be set if oldSelf is not used in rule")
		}
		if described.FieldPath != "" {
			r.fieldPath, _ = fieldPath(described.FieldPath, p.structure)
		}
		n.rules = append(n.rules, r)
	}
}

// noPath is the path of a whole object in messages.
const noPath = "<nil>"

// compileRule compiles the expressions of one rule.
func (c *compiler) compileRule(s *scope, described openapi.Rule, at *status.Path, count uint64) *rule {
	r := &rule{Rule: described}
	check, problem := c.expression(s, described.Rule, described.OptionalOldSelf, types.BoolType, "")
	if r.problem = problem; problem != "" {
		c.observe(at.Child("rule"), 0)
		c.fail(meta.CauseFieldValueInvalid, at.Child("rule"), shown(described), problem)
		return r
	}
	r.check, r.usesOld = check, check.uses("oldSelf")
	if described.MessageExpression != "" {
		r.message, problem = c.expression(s, described.MessageExpression, described.OptionalOldSelf, types.StringType, "messageExpression ")
	}
	cost := multiply(check.most, count)
	c.limit(at.Child("rule"), "estimated rule cost", cost)
	c.observe(at.Child("rule"), cost)
	if problem != "" {
		c.fail(meta.CauseFieldValueInvalid, at.Child("messageExpression"), shown(described), problem)
	} else if r.message != nil {
		c.limit(at.Child("messageExpression"), "estimated messageExpression cost", r.message.most)
		c.observe(at.Child("messageExpression"), r.message.most)
	}
	return r
}

// newParts returns the number of parts of all expressions below a schema from a document that were not accepted
// before.
func (c *compiler) newParts(s *openapi.Schema, depth int) (n int) {
	if !s.HasRules() || depth > maxSchemaDepth {
		return 0
	}
	for _, r := range s.Rules {
		for _, text := range []string{r.Rule, r.MessageExpression} {
			if text != "" && (c.options.Known == nil || !c.options.Known(text)) {
				n += partsOfAny + partsIn(text)
			}
		}
	}
	for _, branch := range s.AllOf {
		n += c.newParts(branch, depth+1)
	}
	for _, p := range s.Properties {
		n += c.newParts(p.Schema, depth+1)
	}
	return n + c.newParts(s.Items, depth+1) + c.newParts(s.AdditionalProperties, depth+1)
}

// expression compiles one expression. what begins the message of a problem.
func (c *compiler) expression(s *scope, text string, optional bool, result *types.Type, what string) (_ *expression, problem string) {
	known := c.options.Stored || c.options.Known != nil && c.options.Known(text)
	if !c.options.Stored && partsIn(text) > maxParts {
		return nil, what + "compilation failed: " + tooManyParts
	}
	key := sharedKey{text, c.options.Release, known, optional, result == types.StringType}
	if e := c.shared.find(key, s.same); e != nil {
		return c.again(e, what)
	}
	e, problem := c.newExpression(s, key, result, what)
	if e != nil {
		c.shared.share(key, e)
	}
	return e, problem
}

// again counts what an expression takes, also if it was compiled before: whether a schema is accepted must not
// depend on what others have sent.
func (c *compiler) again(e *expression, what string) (_ *expression, problem string) {
	if c.work += e.work; c.work > maxCompileWork {
		return nil, what + tooMuchWork
	}
	if c.tables += e.tables; e.parts > maxCalls || c.tables > maxTables {
		return nil, what + "compilation failed: " + tooMuch(e.parts)
	}
	return e, ""
}

func (c *compiler) newExpression(s *scope, key sharedKey, result *types.Type, what string) (_ *expression, problem string) {
	env, err := s.env(c, key.known, key.optional)
	if err != nil {
		return nil, err.Error()
	}
	text, took := key.text, expression{}
	ast, issues := parse(env, text)
	if !isBad(issues) {
		calls := callsIn(ast)
		took = expression{work: work(text, calls), tables: tablesIn(ast.NativeRep().Expr()), parts: calls}
		if _, problem := c.again(&took, what); problem != "" {
			return nil, problem
		}
		if typeDepth(ast) > maxTypeDepth {
			return nil, what + tooDeep
		}
		ast, issues = check(env, text, ast, calls, func(ast *celgo.Ast) {
			c.options.Prices.mark(ast)
			markRounds(ast)
		})
	}
	switch {
	case isBad(issues):
		return nil, what + "compilation failed: " + described(issues, text)
	case ast.OutputType() != result && what == "":
		return nil, "cel expression must evaluate to a bool"
	case ast.OutputType() != result:
		return nil, "messageExpression must evaluate to a string"
	}
	bound, err := env.EstimateCost(ast, s.costs)
	if err != nil {
		return nil, what + "cost estimation failed: " + err.Error()
	}
	e := &expression{text: text, env: env, ast: ast, costs: s.costs, most: bound.Max, work: took.work, tables: took.tables, parts: took.parts}
	if err := e.plan(); err != nil {
		return nil, what + "program instantiation failed: " + err.Error()
	}
	return e, ""
}

// limit reports a rule that could cost too much.
func (c *compiler) limit(at *status.Path, what string, cost uint64) {
	if cost > EstimatedRuleCostLimit && !c.options.Unlimited && !c.options.Stored {
		c.fail(meta.CauseFieldValueForbidden, at, nil, excess(what, cost, EstimatedRuleCostLimit))
	}
}

// excess says by how much a limit is exceeded.
func excess(what string, cost, limit uint64) string {
	factor := float64(cost) / float64(limit)
	text := fmt.Sprintf("%.1fx", factor)
	switch {
	case factor > 100:
		text = "more than 100x"
	case factor < 1.5:
		text = fmt.Sprintf("%fx", factor)
	}
	return what + " exceeds budget by factor of " + text + " (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
}

// observe adds a cost to the sum.
func (c *compiler) observe(at *status.Path, cost uint64) {
	if c.sum > math.MaxUint64-cost {
		c.sum = math.MaxUint64
	} else {
		c.sum += cost
	}
	if cost >= EstimatedSchemaCostLimit/100 {
		c.expensive = append(c.expensive, expense{at, cost})
	}
}

// maxExpensive is how many rules are named when all together cost too much.
const maxExpensive = 4

// total reports the most expensive rules if all together could cost too much.
func (c *compiler) total(at *status.Path) {
	if c.sum <= EstimatedSchemaCostLimit || c.options.Stored {
		return
	}
	slices.SortStableFunc(c.expensive, func(a, b expense) int { return cmp.Compare(b.cost, a.cost) })
	for _, e := range c.expensive[:min(len(c.expensive), maxExpensive)] {
		c.fail(meta.CauseFieldValueForbidden, e.at, nil, "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema")
	}
	c.fail(meta.CauseFieldValueForbidden, at, nil, excess("x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema", c.sum, EstimatedSchemaCostLimit))
}

// multiply returns a product, or the largest number.
func multiply(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}
