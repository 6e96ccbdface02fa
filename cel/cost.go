package cel

import (
	"math"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/kindwright/kindwright/openapi"
)

// Limits of rules.
// Source: CEL-26, LIM-17.
const (
	// RuleCostLimit bounds one evaluation of a rule.
	RuleCostLimit = 1_000_000
	// ObjectCostLimit bounds the evaluations of all rules for one object.
	ObjectCostLimit = 10_000_000
	// EstimatedRuleCostLimit bounds the estimate for a rule and for all values that it applies to.
	EstimatedRuleCostLimit = 10_000_000
	// EstimatedSchemaCostLimit bounds the sum of the estimates for all rules of a schema.
	EstimatedSchemaCostLimit = 100_000_000
	// MaxMessageBytes bounds the result of a messageExpression.
	MaxMessageBytes = 5120
)

// costs counts and estimates what the functions of the libraries cost. The language itself counts
// the rest: one for each step, 10 for a list and 30 for a map that is written down, a tenth for each
// character that is read.
type costs struct {
	prices Prices
	shapes *shapes
	root   *openapi.Schema // what self is
}

// perCharacter is what it costs to read one character.
const perCharacter = common.StringTraversalCostFactor

// authorizationCost is what one check of the authorizer costs.
const authorizationCost = 350_000

// one lists the functions that cost one unit: they read a part of a value that was parsed before.
func costsOne(function string) bool {
	switch function {
	case "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast",
		"isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat", "isGreaterThan", "isLessThan",
		"compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath",
		"getQuery", "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error",
		"errored":
		return true
	}
	return false
}

// reads returns how often a function reads its first argument, a text.
func reads(function, overload string) (times float64, ok bool) {
	switch function {
	case "url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey", "cidr", "isIP", "isCIDR", "quantity", "isQuantity",
		"semver", "isSemver":
		return 1, true
	case "ip":
		return 1, overload != "cidr_ip"
	case "replace", "split", "ip.isCanonical":
		return 2, true
	}
	return 0, false
}

// CallCost returns the cost of one call, or nil to leave it to the language.
func (c *costs) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	said := c.callCost(function, overload, args, result)
	if more := unseen(function, overload, args, result, said); more > 0 {
		return &more
	}
	return said
}

func (c *costs) callCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	fixed := func(n uint64) *uint64 { return &n }
	read := func(v ref.Val, times float64) uint64 {
		return uint64(math.Ceil(float64(sizeOf(v)) * times * perCharacter))
	}
	if len(args) == 0 {
		return nil
	}
	if isOvergrown(function, result) {
		return fixed(RuleCostLimit + 1)
	}
	if times, ok := reads(function, overload); ok {
		return fixed(read(args[0], times))
	}
	if isRegex(function) && len(args) > 1 {
		text, pattern := textSizes(args)
		return fixed(c.prices.Regex(pattern, text))
	}
	switch function {
	case "ip":
		return fixed(1)
	case "check":
		return fixed(authorizationCost)
	case "fieldSelector", "labelSelector":
		if len(args) > 1 {
			return fixed(selectorCost(checker.FixedSizeEstimate(sizeOf(args[1]))).Max)
		}
	case "isSorted", "sum", "max", "min", "indexOf", "lastIndexOf":
		return fixed(traversal(args[0]))
	case "startsWith", "endsWith":
		return fixed(read(args[0], 1))
	case "join":
		return fixed(read(result, 2))
	case priced:
		return fixed(c.prices.surcharge())
	case round:
		return fixed(0)
	case "containsIP", "containsCIDR":
		if len(args) > 1 {
			return fixed(containsCost(function, overload, args))
		}
	case "validate":
		if f, ok := args[0].(*formatValue); ok && len(args) > 1 {
			return fixed(KubernetesPrices().Regex(f.data.pattern, sizeOf(args[1])))
		}
	case "_==_":
		if isExtension(args[0]) {
			return fixed(1)
		}
	}
	switch overload {
	case overloads.Equals, overloads.NotEquals, overloads.LessString, overloads.LessEqualsString, overloads.GreaterString, overloads.GreaterEqualsString:
		return comparedTexts(args)
	}
	if costsOne(function) {
		return fixed(1)
	}
	return nil
}

// selectorCost is what it costs to read a selector of some length. The shortest requirement has two
// characters, and each takes an object with a list.
func selectorCost(length checker.SizeEstimate) checker.CostEstimate {
	requirements := length.MultiplyByCostFactor(0.5).MultiplyByCostFactor(common.ListCreateBaseCost + common.StructCreateBaseCost)
	return checker.FixedCostEstimate(common.ListCreateBaseCost).Add(length.MultiplyByCostFactor(perCharacter)).Add(requirements)
}

func containsCost(function, overload string, args []ref.Val) uint64 {
	network := float64(sizeOf(args[0]))
	cost := uint64(math.Ceil(2 * network * perCharacter))
	if function == "containsCIDR" {
		cost += uint64(math.Ceil(network*perCharacter)) + 1
	}
	if overload == "cidr_contains_ip_string" || overload == "cidr_contains_cidr_string" {
		cost += uint64(math.Ceil(float64(sizeOf(args[1])) * perCharacter))
	}
	return cost
}

// sizeOf returns the size of a value as the language counts it.
func sizeOf(v ref.Val) uint64 {
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok && n > 0 {
			return uint64(n)
		}
		return 0
	}
	return 1
}

// traversal returns what it costs to read a value with everything in it; more than the limit if it has too many
// parts to count.
func traversal(v ref.Val) uint64 {
	parts := maxMadeParts
	if sum := traverse(v, &parts); parts >= 0 {
		return sum
	}
	return RuleCostLimit + 1
}

func traverse(v ref.Val, parts *int) uint64 {
	if *parts--; *parts < 0 {
		return 0
	}
	switch v := v.(type) {
	case types.String:
		return uint64(float64(len(v)) * perCharacter)
	case types.Bytes:
		return uint64(float64(len(v)) * perCharacter)
	case traits.Lister, traits.Mapper:
		var sum uint64
		eachPart(v, func(part ref.Val) bool {
			sum += traverse(part, parts)
			return *parts >= 0
		})
		return sum
	}
	return 1
}

// EstimateSize returns the bound of the size of a value that a path of the schema leads to.
func (c *costs) EstimateSize(element checker.AstNode) *checker.SizeEstimate {
	path := element.Path()
	if len(path) == 0 || c.shapes == nil {
		return nil
	}
	most, ok := c.shapes.most(c.root, path[1:])
	if !ok {
		return nil
	}
	return &checker.SizeEstimate{Max: most}
}

// EstimateCallCost returns the bounds of the cost of a call, or nil to leave it to the language.
func (c *costs) EstimateCallCost(function, overload string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	fixed := func(n uint64) *checker.CallEstimate {
		return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(n)}
	}
	if times, ok := reads(function, overload); ok && function != "replace" && function != "split" {
		return c.estimateRead(function, times, target, args)
	}
	switch function {
	case "ip":
		return fixed(1)
	case "check":
		return fixed(authorizationCost)
	case "fieldSelector", "labelSelector":
		if len(args) == 1 {
			return &checker.CallEstimate{CostEstimate: selectorCost(c.size(args[0]))}
		}
	case "isSorted", "sum", "max", "min", "indexOf", "lastIndexOf":
		if target != nil {
			return c.estimateTraversal(*target)
		}
	case "replace":
		if target != nil && len(args) > 1 {
			return c.estimateReplace(c.size(*target), c.size(args[0]), c.size(args[1]))
		}
	case "split":
		if target != nil {
			return c.estimateSplit(c.size(*target), args)
		}
	case "join":
		if target != nil {
			return c.estimateJoin(*target, args)
		}
	case "matches", "find", "findAll":
		return c.estimateRegex(function, target, args)
	case round:
		return fixed(0)
	case priced:
		size := c.size(args[0])
		return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(c.prices.surcharge()), ResultSize: &size}
	case "containsIP", "containsCIDR":
		if len(args) > 0 {
			return c.estimateContains(function, overload, args[0])
		}
	case "validate":
		if len(args) > 0 {
			return &checker.CallEstimate{CostEstimate: c.size(args[0]).MultiplyByCostFactor(perCharacter).
				MultiplyByCostFactor(maxFormatPattern * common.RegexStringLengthCostFactor)}
		}
	case "_==_":
		if len(args) == 2 {
			return estimateEqual(args[0], args[1])
		}
	case "string":
		return c.estimateString(overload)
	}
	if costsOne(function) {
		return fixed(1)
	}
	return nil
}

func (c *costs) size(n checker.AstNode) checker.SizeEstimate {
	if size := n.ComputedSize(); size != nil {
		return *size
	}
	if size := c.EstimateSize(n); size != nil {
		return *size
	}
	return checker.UnknownSizeEstimate()
}

func (c *costs) estimateRead(function string, times float64, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	switch function {
	case "lowerAscii", "upperAscii", "substring", "trim":
		if target == nil {
			return nil
		}
		size := c.size(*target)
		return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(times * perCharacter), ResultSize: &size}
	}
	if len(args) == 0 {
		return nil
	}
	size := c.size(args[0])
	out := &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(times * perCharacter)}
	if function == "url" || function == "jsonpatch.escapeKey" {
		out.ResultSize = &size
	}
	return out
}

// estimateTraversal is for functions that look at each item of a list, or at each character.
func (c *costs) estimateTraversal(target checker.AstNode) *checker.CallEstimate {
	item := itemsOf(target)
	if item == nil {
		return &checker.CallEstimate{CostEstimate: c.size(target).MultiplyByCostFactor(perCharacter)}
	}
	each := checker.FixedCostEstimate(1)
	if k := item.Type().Kind(); k == types.StringKind || k == types.BytesKind {
		each = each.Add(c.size(item).MultiplyByCostFactor(perCharacter))
	}
	return &checker.CallEstimate{CostEstimate: c.size(target).MultiplyByCost(each)}
}

// estimateReplace bounds the size of the result too: a short text can be replaced by a long one.
func (c *costs) estimateReplace(text, old, replacement checker.SizeEstimate) *checker.CallEstimate {
	var count, kept checker.SizeEstimate
	switch {
	case old.Min == 0: // around each character
		count.Max, kept.Max = saturated(text.Max), text.Max
	case replacement.Max <= old.Min:
		kept.Max = text.Max
	default:
		count.Max = uint64(math.Ceil(float64(text.Max) / float64(old.Min)))
	}
	switch {
	case old.Max == 0:
		count.Min, kept.Min = saturated(text.Min), text.Min
	case old.Max <= replacement.Min:
		kept.Min = text.Min
	default:
		count.Min = uint64(math.Ceil(float64(text.Min) / float64(old.Max)))
	}
	size := count.Multiply(replacement).Add(kept)
	return &checker.CallEstimate{CostEstimate: text.MultiplyByCostFactor(2 * perCharacter), ResultSize: &size}
}

// estimateRegex bounds the price of matching. The language has an estimate for matches, which is
// Kubernetes'.
func (c *costs) estimateRegex(function string, target *checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	if function == "matches" && c.prices.kubernetes {
		return nil
	}
	if target != nil {
		args = append([]checker.AstNode{*target}, args...)
	}
	if len(args) < 2 {
		return nil
	}
	text, pattern := c.size(args[0]), c.size(args[1])
	out := &checker.CallEstimate{CostEstimate: text.MultiplyByCost(pattern.AsCost())}
	if c.prices.kubernetes {
		out.CostEstimate = text.Add(checker.FixedSizeEstimate(1)).MultiplyByCostFactor(perCharacter).
			Multiply(pattern.MultiplyByCostFactor(common.RegexStringLengthCostFactor))
	}
	if function != "matches" {
		out.ResultSize = &checker.SizeEstimate{Max: text.Max}
	}
	return out
}

// estimateString bounds the length of a number or a time as a text. For the language it has no bound, so kube-apiserver
// refuses messages such as 'at most ' + string(self.max).
func (c *costs) estimateString(overload string) *checker.CallEstimate {
	var longest uint64
	switch overload {
	case overloads.BoolToString, overloads.IntToString, overloads.UintToString:
		longest = 20 // -9223372036854775808
	case overloads.DoubleToString:
		longest = 24 // -2.2250738585072014e-308
	case overloads.TimestampToString, overloads.DurationToString:
		longest = maxTimeBytes
	}
	if longest == 0 || c.prices.kubernetes {
		return nil
	}
	return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(1), ResultSize: &checker.SizeEstimate{Max: longest}}
}

// saturated returns n+1, or the largest number.
func saturated(n uint64) uint64 {
	if n == math.MaxUint64 {
		return n
	}
	return n + 1
}

func (c *costs) estimateSplit(text checker.SizeEstimate, args []checker.AstNode) *checker.CallEstimate {
	most := text.Max // with an empty separator
	if len(args) > 1 {
		if e := args[1].Expr(); e.Kind() == celast.LiteralKind {
			if n, ok := e.AsLiteral().Value().(int64); ok {
				most = uint64(n) //nolint:gosec // a negative limit is none, and the largest number
			}
		}
	}
	return &checker.CallEstimate{CostEstimate: text.MultiplyByCostFactor(2 * perCharacter), ResultSize: &checker.SizeEstimate{Max: most}}
}

func (c *costs) estimateJoin(list checker.AstNode, args []checker.AstNode) *checker.CallEstimate {
	var size checker.SizeEstimate
	items := c.size(list)
	if item := itemsOf(list); item != nil {
		size = items.Multiply(c.size(item))
	}
	if len(args) > 0 {
		less := func(n uint64) uint64 { return n - min(n, 1) }
		size = size.Add(c.size(args[0]).Multiply(checker.SizeEstimate{Min: less(items.Min), Max: less(items.Max)}))
	}
	return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(perCharacter), ResultSize: &size}
}

func (c *costs) estimateContains(function, overload string, other checker.AstNode) *checker.CallEstimate {
	address := checker.SizeEstimate{Min: 4, Max: 16}
	cost := address.Add(address).MultiplyByCostFactor(perCharacter)
	if function == "containsCIDR" {
		cost = cost.Add(address.MultiplyByCostFactor(perCharacter)).Add(checker.FixedCostEstimate(1))
	}
	if overload == "cidr_contains_ip_string" || overload == "cidr_contains_cidr_string" {
		cost = cost.Add(c.size(other).MultiplyByCostFactor(perCharacter))
	}
	return &checker.CallEstimate{CostEstimate: cost}
}

// maxFormatName bounds the length of what tells formats apart.
const maxFormatName = 64

// estimateEqual is for values of the types that the libraries add.
func estimateEqual(a, b checker.AstNode) *checker.CallEstimate {
	if a.Type().TypeName() != b.Type().TypeName() {
		return nil
	}
	read := func(most uint64) *checker.CallEstimate {
		return &checker.CallEstimate{CostEstimate: checker.CostEstimate{Min: 1, Max: most}.MultiplyByCostFactor(perCharacter)}
	}
	switch a.Type().TypeName() {
	case "net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver":
		return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(1)}
	case "kubernetes.NamedFormat":
		return read(maxFormatName)
	case "kubernetes.URL":
		if size := b.ComputedSize(); size != nil {
			return read(size.Max)
		}
		return read(1)
	}
	return nil
}

// items stands for any item of a list.
type items struct {
	path []string
	of   *types.Type
}

func (i *items) Path() []string                      { return i.path }
func (i *items) Type() *types.Type                   { return i.of }
func (i *items) Expr() celast.Expr                   { return nil }
func (i *items) ComputedSize() *checker.SizeEstimate { return nil }

// itemsOf returns what stands for the items of a list, or nil if the value is none.
func itemsOf(list checker.AstNode) checker.AstNode {
	parameters := list.Type().Parameters()
	if len(parameters) == 0 {
		return nil
	}
	out := &items{of: parameters[0]}
	if path := list.Path(); path != nil {
		out.path = append(append(out.path, path...), "@items")
	}
	return out
}

// comparedTexts returns what it costs to compare two texts, as the language counts it. The language counts the
// characters of both, also of a long text that is compared with a short one.
func comparedTexts(args []ref.Val) *uint64 {
	if len(args) != 2 {
		return nil
	}
	a, ok := args[0].(types.String)
	b, both := args[1].(types.String)
	if !ok || !both {
		return nil
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	size := sizeOf(a)
	if len(b) < 4*len(a) { // otherwise it has more characters
		size = min(size, sizeOf(b))
	}
	cost := uint64(math.Ceil(float64(size) * perCharacter))
	return &cost
}
