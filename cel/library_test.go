package cel_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/cel"
)

// Every row of the libraries that rules have. What Kubernetes says to more expressions is recorded
// in testdata.
func TestCEL_04_05_06_07_08_10_11_27_Libraries(t *testing.T) {
	rulesOf := func(expression string) *cel.Rules { return compiled(t, kind(t, object("s", text()), must(expression))) }
	for _, expression := range []string{
		// CEL-04
		"has(self.spec.s) && [1, 2].all(i, i > 0) && [1, 2].exists(i, i > 1) && [1, 2].exists_one(i, i > 1)",
		"[1, 2].map(i, i * 2) == [2, 4] && [1, 2].filter(i, i > 1) == [2] && [1, 2].map(i, i > 1, i + 1) == [3]",
		// CEL-05
		"'abc'.charAt(1) == 'b' && 'abca'.indexOf('a') == 0 && 'abca'.indexOf('a', 1) == 3 && 'abca'.lastIndexOf('a') == 3",
		"'AbC'.lowerAscii() == 'abc' && 'AbC'.upperAscii() == 'ABC' && 'aXa'.replace('a', 'b') == 'bXb' && 'aXa'.replace('a', 'b', 1) == 'bXa'",
		"'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'abc'.substring(1, 2) == 'b' && ' a '.trim() == 'a'",
		"'%d is %s'.format([1, 'one']) == '1 is one' && strings.quote('a') == '\"a\"'",
		// CEL-06
		"[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1, 3].max() == 3 && [2.0, 1.5].min() == 1.5 && [1, 2].sum() == 3",
		"['a', 'b'].isSorted() && ![2, 1].isSorted() && [duration('1s'), duration('2s')].sum() == duration('3s')",
		"[3, 1].sort() == [1, 3] && [1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2] && lists.range(2) == [0, 1] && [1, 2].slice(0, 1) == [1]",
		// CEL-07
		"'a1b22'.find('[0-9]+') == '1' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b22'.findAll('[0-9]+', 1) == ['1'] && self.spec.s.find('b.*') == 'b'",
		// CEL-08
		"isURL('https://a:8/p') && !isURL('a b') && url('https://a:8/p%20q?x=1').getScheme() == 'https' && url('https://a:8/').getHost() == 'a:8'",
		"url('https://a:8/').getHostname() == 'a' && url('https://a:8/').getPort() == '8' && url('https://a/p%20q').getEscapedPath() == '/p%20q'",
		"url('https://a/?x=1&x=2').getQuery()['x'] == ['1', '2'] && url('/a') == url('/a') && url('/a') != url('/b')",
		// CEL-10
		"isQuantity('1Gi') && !isQuantity('1x') && quantity('1k').isInteger() && quantity('1k').asInteger() == 1000 && quantity('500m').asApproximateFloat() == 0.5",
		"sign(quantity('-1')) == -1 && quantity('1').add(quantity('500m')) == quantity('1.5') && quantity('1').add(2) == quantity('3')",
		"quantity('1').sub(quantity('2')) == quantity('-1') && quantity('5').sub(2) == quantity('3') && quantity('200M').compareTo(quantity('0.2G')) == 0",
		"quantity('50M').isLessThan(quantity('50Mi')) && quantity('50Mi').isGreaterThan(quantity('50M')) && !quantity('0.5').isInteger()",
		// CEL-11
		"self.?spec.?s.orValue('') == 'ab' && self.spec.?s.hasValue() && 1 < 1.5 && 1u < 2 && [1, 2][?5].orValue(0) == 0 && optional.none().or(optional.of(1)).value() == 1",
		// CEL-27
		"sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1]) && sets.intersects([1], [1, 2])",
		"isIP('10.0.0.1') && !isIP('x') && ip('::1').family() == 6 && ip('127.0.0.1').isLoopback() && ip.isCanonical('::1') && string(ip('::1')) == '::1'",
		"cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsIP(ip('10.1.1.1')) && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16')",
		"cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.0.0/8').ip() == ip('10.1.0.0') && cidr('10.0.0.0/8').prefixLength() == 8 && isCIDR('::/0')",
		"!format.dns1123Label().validate('ab').hasValue() && format.dns1123Label().validate('A').hasValue() && format.named('uuid').hasValue() && !format.named('x').hasValue()",
		"!format.dns1035LabelPrefix().validate('a-').hasValue() && format.date().validate('x').value() == ['invalid date'] && format.uri().validate('x').hasValue()",
		"{'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && [1, 2].transformList(i, v, i + v) == [1, 3] && [1].all(i, v, i == 0) && {'a': 1}.exists(k, v, v == 1)",
		"semver('1.2.3').major() == 1 && semver('1.2.3') == semver('1.2.3+b') && semver('1.2.3-a.1').isLessThan(semver('1.2.3')) && isSemver('v1', true) && !isSemver('v1')",
		"semver('1.2.3-a.2').compareTo(semver('1.2.3-a.10')) == -1 && semver('2.0.0').isGreaterThan(semver('1.9.9')) && semver('01.1', true).minor() == 1",
	} {
		require.Empty(t, validate(t, rulesOf(expression), m{"s": "ab"}, nil), expression)
	}
	for expression, want := range map[string]string{
		"quantity('1Ke') == quantity('1')":        "unable to parse quantity's suffix",
		"quantity('1' + '0.5Gi').asInteger() > 0": "cannot convert value to integer",

		"[].max() == 1":                                         "max called on empty list",
		"ip('fe80::1%eth0').family() == 6":                      "with zone value is not allowed",
		"isIP(self.spec.s) || ip(self.spec.s).family() == 4":    "parse error during conversion from string",
		"cidr('10.0.0.0').prefixLength() == 1":                  "network address parse error",
		"semver('1.2').major() == 1":                            "No Major.Minor.Patch elements found",
		"url('x y').getHost() == ''":                            "URL parse error during conversion from string",
		"self.spec.s.find('[' + self.spec.s) == ''":             "Illegal regex",
		"quantity('1e99999999').isLessThan(quantity('1e9999'))": "unable to parse quantity's suffix",
	} {
		problems := validate(t, rulesOf(expression), m{"s": "ab"}, nil)
		require.Len(t, problems, 1, expression)
		require.Contains(t, problems[0], want, expression)
	}
}

func TestCEL_24_25_VER_12_LibrariesByRelease(t *testing.T) {
	for expression, since := range map[string]string{
		"'a'.charAt(0) == 'a'":            "1.27",
		"quantity('1') == quantity('1')":  "1.29",
		"1 < 1.5":                         "1.29",
		"self.?spec.hasValue()":           "1.29",
		"sets.contains([1], [1])":         "1.30",
		"isIP('::1')":                     "1.31",
		"format.named('uuid').hasValue()": "1.32",
		"[1].all(i, v, true)":             "1.33",
		"isSemver('1.2.3')":               "1.34",
		"[1].sort() == [1]":               "1.35",
	} {
		for _, release := range []string{"1.27", "1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"} {
			schema := kind(t, object("s", text()), must(expression))
			_, problems := cel.CompileRules(schema, cel.RuleOptions{Release: release})
			require.Equal(t, release >= since, len(problems) == 0, "%s in %s: %v", expression, release, problems)
			_, problems = cel.CompileRules(schema, cel.RuleOptions{Release: release, Known: func(text string) bool { return text == expression }})
			require.Empty(t, problems, "a stored expression survives a rollback: %s in %s", expression, release)
		}
	}
	_, problems := cel.CompileRules(kind(t, object("s", text()), must("true")), cel.RuleOptions{Release: "none"})
	require.Len(t, problems, 1)
}
