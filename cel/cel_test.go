package cel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
)

func environment(t testing.TB, variables ...cel.Variable) *cel.Environment {
	t.Helper()
	e, err := cel.NewEnvironment(variables...)
	require.NoError(t, err)
	return e
}

func claims(fields map[string]any) cel.Values { return cel.Values{"claims": fields} }

func TestEvaluateReturnsDecodedJSON(t *testing.T) {
	e := environment(t, cel.Claims())
	values := claims(map[string]any{
		"sub": "alice", "n": int64(1) << 60, "f": 1.5, "yes": true, "none": nil,
		"roles": []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}},
		"names": []string{"x", "y"},
		"extra": map[string][]string{"k": {"v"}},
	})
	for expression, want := range map[string]any{
		"claims.sub":                                    "alice",
		`claims["n"]`:                                   int64(1) << 60,
		"claims.f":                                      1.5,
		"claims.yes":                                    true,
		"claims.none":                                   nil,
		"claims.roles.map(r, r.name)":                   []any{"a", "b"},
		"claims.roles[1]":                               map[string]any{"name": "b"},
		"claims.names":                                  []any{"x", "y"},
		"claims.extra":                                  map[string]any{"k": []any{"v"}},
		"claims.?mail.orValue('-')":                     "-",
		"dyn([claims.?mail, claims.?sub])":              []any{nil, "alice"},
		"claims.sub + ':' + string(claims.n)":           "alice:1152921504606846976",
		"claims.sub.upperAscii().split('L')":            []any{"A", "ICE"},
		"sets.contains(claims.names, ['x'])":            true,
		"claims.names.reverse()":                        []any{"y", "x"},
		"claims.extra.transformList(k, v, k + v[0])":    []any{"kv"},
		"claims.n > 1.5 && has(claims.sub)":             true,
		"dyn(claims).exists(k, k == 'sub')":             true,
		"claims.names.all(n, claims.names.size() == 2)": true,
	} {
		p, err := e.Compile(expression, cel.Dyn(), cel.Bool(), cel.String(), cel.List(cel.Dyn()), cel.List(cel.String()), cel.Map(cel.Dyn()))
		require.NoError(t, err, expression)
		got, err := p.Evaluate(t.Context(), values)
		require.NoError(t, err, expression)
		require.Equal(t, want, got, expression)
	}
}

func TestAUTHNCFG_44_45_CompileChecksNamesAndTypes(t *testing.T) {
	c := environment(t, cel.Claims())
	u := environment(t, cel.User())
	r := environment(t, cel.AccessReview())
	for _, c := range []struct {
		in         *cel.Environment
		expression string
		want       string
	}{
		{c, "user.username", "ERROR: <input>:1:1: undeclared reference to 'user'"},
		{u, "claims.sub", "ERROR: <input>:1:1: undeclared reference to 'claims'"},
		{u, "user.usrname", "ERROR: <input>:1:5: undefined field 'usrname'"},
		{u, "user.username == 1", "found no matching overload for '_==_'"},
		{c, "claims.", "Syntax error"},
		{c, "", "Syntax error"},
		{c, "claims.sub.matches('[')", "invalid matches argument"},
		{c, "[1, 'a']", "expected type 'int' but found 'string'"},
		{r, "request.resourceAttributes.verbs == 'get'", "undefined field 'verbs'"},
		{r, "request.resourceAttributes.labelSelector.requirements.exists(q, q.key == 1)", "no matching overload"},
		{r, "request.user", "must evaluate to bool but got string"},
		{c, "claims.ok", "must evaluate to bool but got dyn"},
	} {
		_, err := c.in.Compile(c.expression, cel.Bool())
		var failed *cel.CompileError
		require.ErrorAs(t, err, &failed, c.expression)
		require.ErrorContains(t, err, c.want, c.expression)
		require.NotEmpty(t, failed.Problems)
	}

	_, err := c.Compile("claims.a == 'x' &&\n  nobody", cel.Bool())
	var failed *cel.CompileError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, 2, failed.Problems[0].Line)
	require.Equal(t, 3, failed.Problems[0].Column)

	_, err = c.Compile("1", cel.String(), cel.List(cel.String()), cel.Dyn())
	require.EqualError(t, err, "must evaluate to one of [string list(string)] but got int")
	_, err = c.Compile("[1]", cel.List(cel.String()))
	require.EqualError(t, err, "must evaluate to list(string) but got list(int)")
	for _, expression := range []string{"[]", "claims.map(k, claims[k])", "['a']"} {
		_, err = c.Compile(expression, cel.List(cel.String()))
		require.NoError(t, err, "%s: items whose type is known later", expression)
	}
}

func TestObjectsAreTheOnesThatWereDeclared(t *testing.T) {
	e := environment(t, cel.AccessReview())
	request := map[string]any{
		"resourceAttributes": map[string]any{
			"namespace": "ns", "verb": "list", "group": "apps", "version": "v1", "resource": "pods", "subresource": "", "name": "",
			"fieldSelector": map[string]any{"requirements": []any{map[string]any{"key": "spec.nodeName", "operator": "In", "values": []string{"n"}}}},
		},
		"user": "alice", "groups": []string{"dev"}, "uid": "1", "extra": map[string][]string{"k": {"v"}},
	}
	for expression, want := range map[string]bool{
		"has(request.resourceAttributes) && request.resourceAttributes.namespace == 'ns'":                                true,
		"has(request.nonResourceAttributes)":                                                                             false,
		"request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName' && r.values == ['n'])": true,
		"has(request.resourceAttributes.labelSelector)":                                                                  false,
		"'dev' in request.groups && request.extra['k'] == ['v']":                                                         true,
		"!('system:masters' in request.groups)":                                                                          true,
		"request.?nonResourceAttributes.?path.orValue('/') == '/'":                                                       true,
	} {
		p, err := e.Compile(expression, cel.Bool())
		require.NoError(t, err, expression)
		got, err := p.Holds(t.Context(), cel.Values{"request": request})
		require.NoError(t, err, expression)
		require.Equal(t, want, got, expression)
	}
	p, err := e.Compile("request.nonResourceAttributes.path == '/'", cel.Bool())
	require.NoError(t, err)
	_, err = p.Holds(t.Context(), cel.Values{"request": request})
	require.ErrorContains(t, err, "no such key: nonResourceAttributes")
}

func TestNewEnvironmentRejectsContradictions(t *testing.T) {
	_, err := cel.NewEnvironment(cel.Claims(), cel.Claims())
	require.EqualError(t, err, "two variables of the name claims")
	for want, v := range map[string]cel.Variable{
		`variable "": the name must be`:          {Type: cel.String()},
		`variable "a-b": the name must be`:       {Name: "a-b", Type: cel.String()},
		`variable "in": the name is a word of`:   {Name: "in", Type: cel.String()},
		`variable "claims": the type is missing`: {Name: "claims"},
	} {
		_, err := cel.NewEnvironment(v)
		require.ErrorContains(t, err, want)
	}
	one := cel.Object("o", map[string]cel.Type{"a": cel.String()})
	other := cel.Object("o", map[string]cel.Type{"a": cel.Bool()})
	_, err = cel.NewEnvironment(cel.Variable{Name: "x", Type: cel.List(one)}, cel.Variable{Name: "y", Type: cel.Map(other)})
	require.EqualError(t, err, "two types of the name o")
	_, err = cel.NewEnvironment(cel.Variable{Name: "x", Type: one}, cel.Variable{Name: "y", Type: one})
	require.NoError(t, err)
}

func TestSelects(t *testing.T) {
	e := environment(t, cel.Claims())
	for expression, want := range map[string]bool{
		"claims.email":                                true,
		"claims['email']":                             true,
		"claims.?email.orValue('')":                   true,
		"claims[?'email'].orValue('')":                true,
		"has(claims.email) ? 'a' : 'b'":               true,
		"['a'].map(x, claims.email)[0]":               true,
		"{'a': claims.email}.a":                       true,
		"claims.email.verified":                       true,
		"claims.other.email":                          false,
		"claims.email_verified":                       false,
		"'email'":                                     false,
		"claims.sub":                                  false,
		"claims.sub.replace('a', claims.email, 1)":    true,
		"{'email': 'x'}.email":                        false,
		"claims.x == 'claims.email' ? 'a' : claims.y": false,
	} {
		p, err := e.Compile(expression, cel.Dyn(), cel.String())
		require.NoError(t, err, expression)
		require.Equal(t, want, p.Selects("claims", "email"), expression)
	}
}

// Security vector C: what an expression costs is bounded, whatever the data.
func TestLIM_18_EvaluateIsBounded(t *testing.T) {
	e := environment(t, cel.Claims())
	many := make([]any, 10_000)
	for i := range many {
		many[i] = "x"
	}
	values := claims(map[string]any{"many": many, "text": strings.Repeat("ab", 20_000)})
	const whole = "claims.many.map(a, claims.text.split('a')).size() > 0" // few steps, each of which costs much
	for _, expression := range []string{
		whole,
		"claims.many.all(a, claims.many.all(b, true))",
		"claims.many.map(a, claims.text.replace('a', 'bb')).size() > 0",
	} {
		if expression != whole {
			e.SetLimit(cel.CostLimit / 50)
		}
		p, err := e.Compile(expression, cel.Bool())
		require.NoError(t, err)
		_, err = p.Holds(t.Context(), values)
		require.ErrorIs(t, err, cel.ErrBudget, expression)
	}

	// Each step is cheap, and the value has 2^40 parts.
	p, err := e.Compile("[0]"+strings.Repeat(".map(x, [x, x])", 1)+strings.Repeat(".map(x, dyn([x, x]))", 39), cel.List(cel.Dyn()))
	require.NoError(t, err)
	_, err = p.Evaluate(t.Context(), values)
	require.ErrorIs(t, err, cel.ErrBudget)

	_, err = e.Compile(strings.Repeat("(", 1000)+"true"+strings.Repeat(")", 1000), cel.Bool())
	require.ErrorContains(t, err, "recursion")
	_, err = e.Compile("'"+strings.Repeat("a", cel.MaxExpressionLength)+"' == ''", cel.Bool())
	require.ErrorContains(t, err, "size exceeds limit")
}

func TestEvaluateStopsWithItsContext(t *testing.T) {
	e := environment(t, cel.Claims())
	p, err := e.Compile("claims.many.all(a, claims.many.all(b, true))", cel.Bool())
	require.NoError(t, err)
	why := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err = p.Holds(ctx, claims(map[string]any{"many": make([]any, 900)}))
	require.ErrorIs(t, err, why)
}

func TestHoldsNeedsABool(t *testing.T) {
	e := environment(t, cel.Claims())
	p, err := e.Compile("claims.sub", cel.Dyn())
	require.NoError(t, err)
	require.Equal(t, "claims.sub", p.String())
	_, err = p.Holds(t.Context(), claims(map[string]any{"sub": "true"}))
	require.EqualError(t, err, "the result is no bool but string")
	p, err = e.Compile("claims.sub == 'x' ? b'1' : dyn({1: 2})", cel.Dyn())
	require.NoError(t, err)
	_, err = p.Evaluate(t.Context(), claims(map[string]any{"sub": "x"}))
	require.ErrorContains(t, err, "a part of the type bytes")
	_, err = p.Evaluate(t.Context(), claims(map[string]any{"sub": "y"}))
	require.ErrorContains(t, err, "a key of the type int")
}

// CEL: numbers that JSON cannot say are an error of the expression. An object that has one cannot be written.
func TestResultsAreJSON(t *testing.T) {
	e := environment(t, cel.Claims())
	for text, want := range map[string]string{"0.0 / 0.0": "NaN", "[1.0 / 0.0]": "+Inf", "{'a': -1.0 / 0.0}": "-Inf"} {
		p, err := e.Compile("dyn("+text+")", cel.Dyn())
		require.NoError(t, err)
		_, err = p.Evaluate(t.Context(), claims(nil))
		require.ErrorContains(t, err, "the result has a number that JSON does not have: "+want, text)
	}
}

// A document of configuration that kube-apiserver 1.36 reads is read here: its expressions have the
// libraries of its rules. Source: CEL-24, AUTHZCFG-15, AUTHNCFG-44.
func TestExpressionsOfConfigurationHaveTheLibraries(t *testing.T) {
	for _, v := range []cel.Variable{cel.Claims(), cel.User(), cel.AccessReview()} {
		env, err := cel.NewEnvironment(v)
		require.NoError(t, err)
		for _, expression := range []string{
			"'alice'.find('l.*') == 'lice'", "'alice'.findAll('[a-z]').size() == 5",
			"isQuantity('1Gi')", "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
			"isIP('1.2.3.4')", "ip('1.2.3.4').family() == 4", "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
			"url('https://a/b').getHost() == 'a'", "isURL('https://a')",
			"semver('1.2.3').major() == 1", "isSemver('1.2.3')",
			"format.dns1123Label().validate('A').hasValue()",
			"!format.named('dns1123Label').value().validate('a').hasValue()",
			"[1, 2, 3].sum() == 6", "[1, 2, 3].isSorted()", "['a', 'b'].indexOf('b') == 1",
		} {
			p, err := env.Compile(expression, cel.Bool())
			require.NoError(t, err, expression)
			holds, err := p.Holds(t.Context(), cel.Values{v.Name: map[string]any{}})
			require.NoError(t, err, expression)
			require.True(t, holds, expression)
		}
		_, err = env.Compile("authorizer.path('/x').check('get').allowed()", cel.Bool())
		require.ErrorContains(t, err, "undeclared reference", "nobody can be asked here")
	}
}
