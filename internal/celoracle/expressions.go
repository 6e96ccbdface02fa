package main

import (
	"slices"
	"strings"
)

const schemaDocument = `{"type":"object","properties":{
"s":{"type":"string"},"short":{"type":"string","maxLength":10},"e":{"type":"string","enum":["a","bb"]},"n":{"type":"integer"},"f":{"type":"number"},
"b":{"type":"boolean"},"by":{"type":"string","format":"byte"},"at":{"type":"string","format":"date-time"},"day":{"type":"string","format":"date"},
"wait":{"type":"string","format":"duration"},"io":{"x-kubernetes-int-or-string":true},"port":{"x-kubernetes-int-or-string":true,"maxLength":5},
"ss":{"type":"array","items":{"type":"string"}},"sb":{"type":"array","maxItems":5,"items":{"type":"string","maxLength":8}},
"ns":{"type":"array","maxItems":20,"items":{"type":"integer"}},"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer"}}}},
"m":{"type":"object","additionalProperties":{"type":"string"}},"mm":{"type":"object","maxProperties":3,"additionalProperties":{"type":"integer"}},
"o":{"type":"object","required":["x"],"properties":{"x":{"type":"string"},"y":{"type":"integer"},"a-b":{"type":"string"},"namespace":{"type":"string"}}},
"nul":{"type":"string","nullable":true},"gone":{"type":"string"},"deep":{"type":"array","items":{"type":"array","items":{"type":"string"}}},
"url":{"type":"string","maxLength":100},"ip":{"type":"string","maxLength":40},"cidr":{"type":"string","maxLength":43},"q":{"type":"string","maxLength":20},"ver":{"type":"string","maxLength":30},
"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"emb":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}`

const objectDocument = `{"apiVersion":"g.example.com/v1","kind":"K","metadata":{"name":"n","generateName":"g"},
"s":"hello World","short":"abc","e":"bb","n":7,"f":1.5,"b":true,"by":"aGVsbG8=","at":"2020-01-02T03:04:05Z","day":"2021-02-03","wait":"90s","io":8080,"port":"http",
"ss":["a","b","a"],"sb":["x","yy"],"ns":[3,1,2],"set":["p","q"],"items":[{"k":"a","v":1},{"k":"b","v":2}],"m":{"k":"v"},"mm":{"a":1},
"o":{"x":"ex","y":5,"a-b":"dash","namespace":"ns"},"nul":null,"deep":[["a","b"],["c"]],"url":"https://user@example.com:8443/a%20b?x=1&x=2&y=z#f","ip":"10.1.2.3","cidr":"10.0.0.0/8",
"q":"1500m","ver":"1.2.3-rc.1+b","any":{"x":1},"emb":{"apiVersion":"v1","kind":"P","metadata":{"name":"e"},"spec":{}}}`

// operands are the expressions that stand for a letter in a pattern.
var operands = map[string][]string{
	"N": {"self.n", "1", "-3", "self.ns[0]", "size(self.s)", "self.items[0].v", "self.mm['a']", "self.o.y"},
	"F": {"self.f", "2.5", "-0.0"},
	"S": {"self.s", "self.short", "self.e", "'abc'", "''", "self.ss[0]", "self.o.x", "self.o.a__dash__b", "self.m['k']", "self.sb[1]", "self.metadata.name"},
	"B": {"self.b", "true", "has(self.gone)", "self.s == 'x'", "self.n > 5"},
	"L": {"self.ss", "self.sb", "self.set", "['a', 'b']", "self.deep[0]"},
	"I": {"self.ns", "[1, 2, 3]", "[3, 3]", "self.items.map(i, i.v)"},
	"M": {"self.m", "{'k': 'v'}", "self.mm.map(k, k)"},
	"D": {"self.wait", "duration('1m')", "duration('-1.5h')"},
	"T": {"self.at", "self.day", "timestamp('2022-01-01T00:00:00Z')"},
	"Y": {"self.by", "b'abc'"},
	"A": {"self.n", "self.s", "self.f", "self.b", "self.io", "self.port", "self.ss", "self.m", "self.o", "self.items", "self.at", "self.wait", "self.by", "null", "1u", "self.emb", "self.any"},
	"R": {"'[a-z]+'", "'^h.*d$'", "self.short"},
	"U": {"url(self.url)", "url('https://[::1]:80/p?q')", "url('/path')", "url('http://a')"},
	"P": {"ip(self.ip)", "ip('::1')", "ip('169.254.1.1')", "ip('224.0.0.1')", "ip('0.0.0.0')"},
	"C": {"cidr(self.cidr)", "cidr('10.1.2.3/24')", "cidr('2001:db8::/32')"},
	"Q": {"quantity(self.q)", "quantity('1.5Gi')", "quantity('1k')", "quantity('0')", "quantity('-1e3')", "quantity('0.5Ki')", "quantity('1000m')", "quantity('9223372036854775807')", "quantity('1n')"},
	"V": {"semver(self.ver)", "semver('1.2.3')", "semver('1.2.3-alpha.2')", "semver('10.0.0')"},
}

// patterns are expressions in which a capital letter in braces stands for each of its operands.
var patterns = []string{
	// the language
	"{N} == {N}", "{N} != {N}", "{N} < {N}", "{N} <= {N}", "{N} > {N}", "{N} >= {N}", "{N} + {N} > 0", "{N} - {N} < 5", "{N} * {N} == 7", "{N} / {N} == 1", "{N} % {N} == 0", "-{N} < 0",
	"{F} == {F}", "{F} < {N}", "{F} + {F} > 0.0", "{N} == {F}", "int({F}) == 1", "double({N}) > 1.0", "uint({N}) == 1u", "string({N}) == '7'", "'was ' + string({N}) != ''", "{F} / 0.0 > 1.0", "{N} in {I}", "{N} / 0 == 1",
	"{S} == {S}", "{S} < {S}", "{S} + {S} != 'x'", "{S} in {L}", "{S} in self.m", "size({S}) > 2", "{S}.contains('l')", "{S}.startsWith('a')", "{S}.endsWith({S})", "{S}.matches({R})", "bytes({S}) == {Y}",
	"{B} && {B}", "{B} || {B}", "!{B}", "{B} ? {B} : {B}", "{L} == {L}", "{L} + {L} == ['a']", "{L}[0] == 'a'", "{L}[5] == 'a'", "size({L}) == 2", "{M} == {M}", "size(self.m) == 1", "{D} == {D}", "{D} < {D}", "{D} + {D} > {D}",
	"{T} == {T}", "{T} < {T}", "{T} + {D} > {T}", "{T} - {T} > {D}", "{T}.getFullYear() == 2020", "{T}.getMonth() == 0", "{T}.getDayOfWeek('America/New_York') == 4", "{T}.getHours() == 3", "{D}.getSeconds() == 90", "string({T}) != ''", "string({D}) == '90s'",
	"{Y} == {Y}", "size({Y}) == 5", "{Y} + {Y} != b''", "string({Y}) == 'hello'", "{A} == {A}", "type({A}) == type({A})", "dyn({A}) == dyn({A})", "type({A}) == map", "type({A}) == string", "{A} in [1, 2]", "[{A}].size() == 1", "{'x': {A}}.size() == 1",
	"self.io == {N}", "self.io < {N}", "self.port.startsWith('h')", "type(self.io) == int ? self.io > 80 : self.io.matches('x')", "self.io + 1 == 8081",
	// macros
	"has(self.gone)", "has(self.o.x)", "has(self.o.nope)", "has(self.m.k)", "has(self.m.nope)", "has(self.nul)", "has(self.metadata.generateName)", "has(self.metadata.labels)", "has(self.emb.metadata.name)", "has(self.any.x)",
	"{L}.all(i, i != {S})", "{L}.exists(i, i == {S})", "{L}.exists_one(i, i == 'a')", "{L}.map(i, i + 'x') == ['ax', 'bx']", "{L}.map(i, i != 'a', i) == ['b']", "{L}.filter(i, i == 'a').size() > 0", "{I}.all(i, i > {N})", "{I}.exists(i, i * i == 4)",
	"self.m.all(k, k == 'k')", "self.m.exists(k, self.m[k] == {S})", "self.mm.all(k, self.mm[k] > 0)", "self.items.all(i, i.v > 0)", "self.items.exists(i, i.k == {S})", "self.items.map(i, i.k) == {L}", "self.deep.all(d, d.all(e, e != {S}))", "{L}.all(i, {L}.exists(j, i == j))",
	"{L}.all(i, v, v != 'z')", "{L}.exists(i, v, i == 1)", "{L}.existsOne(i, v, v == 'a')", "{I}.transformList(i, v, v * i) == [0, 1, 4]", "self.m.transformMap(k, v, v + k) == {'k': 'vk'}", "{I}.transformList(i, v, i > 0, v).size() == 2", "self.mm.transformMapEntry(k, v, {k + 'x': v}) == {'ax': 1}",
	// strings
	"{S}.charAt(1) == 'b'", "{S}.indexOf('l') == 2", "{S}.indexOf('l', 1) == 2", "{S}.lastIndexOf('l') == 9", "{S}.lowerAscii() == 'abc'", "{S}.upperAscii() == 'ABC'", "{S}.replace('l', 'LL') == 'x'", "{S}.replace('', '-') == 'x'", "{S}.replace('a', {S}, 2) == 'x'",
	"{S}.split('l').size() == 4", "{S}.split('').size() == 3", "{S}.split('b', 1).size() == 1", "{L}.join() == 'ab'", "{L}.join(',') == 'a,b'", "{L}.join({S}).size() > 0", "{S}.substring(1) == 'bc'", "{S}.substring(1, 2) == 'b'", "{S}.trim() == 'abc'", "strings.quote({S}) != ''", "'%s-%d'.format([{S}, {N}]) == 'x'", "'%.2f %x %b %e'.format([{F}, {N}, {N}, {F}]) == 'x'",
	// lists
	"{I}.isSorted()", "{L}.isSorted()", "{I}.sum() == 6", "{I}.max() == 3", "{I}.min() == 1", "{L}.max() == 'b'", "{L}.min() == 'a'", "[].max() == 1", "{L}.indexOf({S}) == 0", "{L}.lastIndexOf('a') == 2", "{I}.indexOf({N}) == 0", "[{D}, {D}].sum() > {D}", "[{T}, {T}].max() > {T}", "[1.5, {F}].sum() == 3.0", "[true, false].isSorted()",
	"{I}.sort() == [1, 2, 3]", "{I}.distinct().size() == 3", "{I}.reverse() == [2, 1, 3]", "{L}.sort() == ['a', 'b']", "{I}.slice(0, 1) == [3]", "{I}.slice(1, 9) == []", "self.deep.flatten().size() == 3", "lists.range({N}).size() == 7", "self.items.sortBy(i, i.v)[0].k == 'a'", "{L}.distinct() == ['a', 'b']",
	// regex, sets, optionals
	"{S}.find({R}) == 'hello'", "{S}.findAll({R}).size() == 2", "{S}.findAll({R}, 1) == ['hello']", "{S}.find('[') == ''", "sets.contains({L}, ['a'])", "sets.equivalent({L}, {L})", "sets.intersects({I}, [3])", "self.?s.hasValue()", "self.?gone.hasValue()", "self.?o.?y.orValue(0) == {N}",
	"self.m[?'k'].orValue('') == 'v'", "self.m.?nope.orValue('d') == 'd'", "{L}[?9].hasValue()", "optional.of({N}).value() == 7", "optional.none().orValue({N}) == 7", "optional.ofNonZeroValue({S}).hasValue()", "self.?gone.or(self.?s).value() == {S}", "self.?n.optMap(n, n + 1).orValue(0) == 8", "self.?n.optFlatMap(n, optional.of(n)).orValue(0) == 7", "[?self.?gone, ?self.?s].size() == 1", "{?'a': self.?gone}.size() == 0", "optional.unwrap([optional.of(1), optional.none()]) == [1]", "[optional.of({N})].unwrapOpt() == [7]",
	// URLs
	"isURL({S})", "isURL(self.url)", "{U}.getScheme() == 'https'", "{U}.getHost() == 'example.com:8443'", "{U}.getHostname() == 'example.com'", "{U}.getPort() == '8443'", "{U}.getEscapedPath() == '/a%20b'", "{U}.getQuery() == {'x': ['1', '2'], 'y': ['z']}", "{U} == {U}", "url({S}).getHost() == ''",
	// addresses
	"isIP({S})", "isIP(self.ip)", "{P}.family() == 4", "{P}.isLoopback()", "{P}.isUnspecified()", "{P}.isLinkLocalUnicast()", "{P}.isLinkLocalMulticast()", "{P}.isGlobalUnicast()", "{P} == {P}", "ip.isCanonical(self.ip)", "ip.isCanonical('::0:1')", "string({P}) == '10.1.2.3'", "ip({S}).family() == 4", "ip('::ffff:1.2.3.4').family() == 4", "ip('fe80::1%e').family() == 6", "type({P}) == net.IP",
	"isCIDR({S})", "isCIDR(self.cidr)", "{C}.containsIP({P})", "{C}.containsIP(self.ip)", "{C}.containsIP('x')", "{C}.containsCIDR({C})", "{C}.containsCIDR('10.1.0.0/16')", "{C}.containsCIDR({S})", "{C}.prefixLength() == 8", "{C}.masked() == {C}", "{C}.ip() == {P}", "string({C}) == '10.0.0.0/8'", "cidr({S}).prefixLength() == 1", "{C} == {C}",
	// quantities
	"isQuantity({S})", "isQuantity(self.q)", "{Q} == {Q}", "{Q}.compareTo({Q}) == 0", "{Q}.isLessThan({Q})", "{Q}.isGreaterThan({Q})", "{Q}.add({Q}) == {Q}", "{Q}.sub({Q}).isInteger()", "{Q}.add({N}).isInteger()", "{Q}.sub({N}) == {Q}", "{Q}.isInteger()", "{Q}.asInteger() == 1000", "{Q}.asApproximateFloat() == 1.5", "sign({Q}) == 1", "quantity({S}) == {Q}",
	// formats and versions
	"format.dns1123Label().validate({S}).hasValue()", "format.dns1123Subdomain().validate({S}).hasValue()", "format.dns1035Label().validate({S}).hasValue()", "format.qualifiedName().validate({S}).hasValue()", "format.dns1123LabelPrefix().validate('a-').hasValue()", "format.dns1123SubdomainPrefix().validate('a.').hasValue()", "format.dns1035LabelPrefix().validate({S}).hasValue()", "format.labelValue().validate({S}).hasValue()",
	"format.uri().validate({S}).hasValue()", "format.uuid().validate({S}).hasValue()", "format.uuid().validate('c0ffee00-0000-4000-8000-000000000000').hasValue()", "format.byte().validate({S}).hasValue()", "format.date().validate({S}).hasValue()", "format.date().validate('2020-01-01').hasValue()", "format.datetime().validate('2020-01-01T00:00:00Z').hasValue()", "format.datetime().validate({S}).hasValue()", "format.named({S}).hasValue()", "format.named('uuid').value() == format.uuid()",
	"isSemver({S})", "isSemver(self.ver)", "isSemver('v01.1', true)", "isSemver('1', true)", "isSemver('1-a', true)", "{V} == {V}", "{V}.compareTo({V}) == 1", "{V}.isLessThan({V})", "{V}.isGreaterThan({V})", "{V}.major() == 1", "{V}.minor() == 2", "{V}.patch() == 3", "semver({S}).major() == 1", "semver('v1.2', true).minor() == 2", "semver('1.02.3').major() == 1", "semver('1.2.3-01').major() == 1",
	// objects and lists with types
	"self.o == {'x': 'ex'}", "self.o == self.o", "self.items == self.items", "self.set == ['q', 'p']", "['q', 'p'] == self.set", "self.set + ['r', 'p'] == ['p', 'q', 'r']", "(self.items + self.items).size() == 2", "self.emb.kind == 'P' && self.emb.metadata.name == 'e'", "self.emb.spec == {}", "self.any == self.any", "self.any.x == 1", "self.o.namespace == 'ns'", "self.o.__namespace__ == 'ns'", "self.o.a-b == 'x'", "self.nope == 1",
	"self.nul == null", "self.nul == ''", "self.metadata.labels.size() == 0", "self.kind == 'K' && self.apiVersion.startsWith('g')", "self", "self.n", "self.deep[0][1] == 'b'", "self.m.k == 'v'", "self.m['nope'] == 'v'", "self.items[0] == self.items[0]", "self.items[0].k == 'a' && self.items[1].v == 2", "self.ss.exists(s, s in self.set)", "oldSelf == self", "unknown", "1 +", "'a' + 1 == 'a'", "[1, 'a'] == [1]", "self.s.nope()", "self.s.matches('(')", "duration('x') == self.wait", "timestamp('x') == self.at", "self.items.all(i, has(i.v) && i.v < 10)", "google.protobuf.Int32Value{value: 1} == 1", "b'\\xff' == self.by", "r'\\d' == '\\\\d'", "'\\u00e9'.size() == 1", "'\\u00e9'.upperAscii() != ''",
}

// maxPerPattern bounds how many expressions one pattern gives.
const maxPerPattern = 24

// expressions returns all expressions, each once.
func expressions() []string {
	var out []string
	for _, p := range patterns {
		all := expand(p, operands)
		step := max(1, len(all)/maxPerPattern)
		for i := 0; i < len(all); i += step {
			out = append(out, all[i])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// expand replaces the first letter in braces by each of its operands, and so on.
func expand(pattern string, operands map[string][]string) []string {
	for i := 0; i+2 < len(pattern); i++ {
		if pattern[i] != '{' || pattern[i+2] != '}' {
			continue
		}
		values, known := operands[pattern[i+1:i+2]]
		if !known {
			continue
		}
		var out []string
		for _, rest := range expand(pattern[i+3:], operands) {
			for _, v := range values {
				out = append(out, pattern[:i]+v+rest)
			}
		}
		return out
	}
	return []string{strings.Clone(pattern)}
}
