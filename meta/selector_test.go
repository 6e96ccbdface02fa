package meta_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func selector(t testing.TB, s string) meta.Selector {
	t.Helper()
	sel, err := meta.ParseSelector(s)
	require.NoError(t, err, "%q", s)
	return sel
}

func TestQUERY_19_Matches(t *testing.T) {
	const (
		labelled = "app=web,tier=front,empty=,n=7,in=x,example.dev/role=db"
		bare     = ""
	)
	labels := func(s string) map[string]string {
		m := map[string]string{}
		for _, r := range selector(t, s).Requirements() {
			m[r.Key] = r.Values[0]
		}
		return m
	}
	for _, c := range []struct {
		selector       string
		labelled, bare bool
	}{
		{"", true, true},
		{" \t\r\n", true, true},
		{"app", true, false},
		{"!app", false, true},
		{"! app", false, true},
		{"app=web", true, false},
		{"app==web", true, false},
		{" app = web ", true, false},
		{"app=db", false, false},
		{"app!=web", false, true},
		{"app!=db", true, true},
		{"app in (web)", true, false},
		{"app in(db,web)", true, false},
		{"app in ( db , web )", true, false},
		{"app in (a,b,c,d,e,f,g)", false, false},
		{"app notin (web)", false, true},
		{"app notin (db,cache)", true, true},
		{"app,tier", true, false},
		{"app,!tier", false, false},
		{"app=web,tier in (front,back),!gone", true, false},
		{"empty=", true, false},
		{"empty==,app=web", true, false},
		{"empty!=", false, true},
		{"empty in ()", true, false},
		{"empty in (,a)", true, false},
		{"app in (,a)", false, false},
		{"n>6", true, false},
		{"n>7", false, false},
		{"n<8", true, false},
		{"n<7", false, false},
		{"n>006", true, false},
		{"app>1", false, false},
		{"app<1", false, false},
		{"empty<1", false, false},
		{"in", true, false},
		{"in in (x)", true, false},
		{"in notin (in,notin)", true, true},
		{"notin", false, false},
		{"example.dev/role=db", true, false},
		{"example.dev/role in (db)", true, false},
		{"app,!app", false, false},
	} {
		t.Run(c.selector, func(t *testing.T) {
			s := selector(t, c.selector)
			for i, m := range []map[string]string{labels(labelled), labels(bare)} {
				want := [2]bool{c.labelled, c.bare}[i]
				set := meta.NewLabelSet(m)
				require.Equal(t, want, s.Matches(meta.LabelMap(m)), "map %v", m)
				require.Equal(t, want, s.Matches(set), "set %v", m)
				require.Equal(t, want, s.Matches(&set), "pointer to set %v", m)
			}
		})
	}
}

func TestQUERY_19_CanonicalForm(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"  ":                      "",
		"b,a":                     "a,b",
		"a,a,a":                   "a",
		"a==1":                    "a=1",
		"a in (1)":                "a=1",
		"a notin (1)":             "a!=1",
		"a in (c,b,c)":            "a in (b,c)",
		"a notin ( c , b )":       "a notin (b,c)",
		"a in ()":                 "a=",
		"a in (,)":                "a=",
		"a in (b,)":               "a in (,b)",
		"a!=":                     "a!=",
		"! a":                     "!a",
		"a > 007":                 "a>7",
		"a<1,a>1":                 "a>1,a<1",
		"a>2,a>1":                 "a>1,a>2",
		"z=1, x/y in (b,a), !n":   "!n,x/y in (a,b),z=1",
		"a=1,a!=2,a,!a,a in (2)":  "!a,a,a=1,a=2,a!=2",
		"in in (in),notin!=notin": "in=in,notin!=notin",
	} {
		s := selector(t, in)
		require.Equal(t, want, s.String(), "%q", in)
		require.Equal(t, s, selector(t, s.String()), "%q parses back to itself", want)
		require.Equal(t, s.String() == "", s.Empty())
	}
}

func TestQUERY_19_Errors(t *testing.T) {
	for _, in := range []string{
		",", "a,", ",a", "a,,b", "a b", "a=b=c", "a===b", "a=!b", "!a=b", "!a in (b)", "!!a", "!", "=a", "==", "!=a",
		"a!", "a!b", "(a)", "a(b)", "a in", "a in b", "a in (", "a in (b", "a in (b,", "a in (b c)", "a in ((b))", "a in (b))",
		"a notin", "a notin (", "a IN (b)", "a in (b) c", "a in (b)(c)", "a in (=)", "a in (!b)", "a exists",
		"a>", "a>b", "a>-1", "a>1.5", "a>9223372036854775808", "a<", "a<b", "a>=1", "a<=1", "a>1>2", ">1",
		"a=b;c", "a=b&c=d", "é=a", "a=é", "a=b\x00", "/a=b", "a/=b", "a/b/c=d", "A/b=c", "-a=b", "a=-b", "a_=b",
		"a=" + strings.Repeat("b", 64), strings.Repeat("a", 64) + "=b", strings.Repeat("a", 254) + "/b=c",
		"kubernetes.io//x", "a in (b,c" + strings.Repeat("d", 64) + ")",
	} {
		_, err := meta.ParseSelector(in)
		require.Error(t, err, "%q", in)
		require.Regexp(t, "^unable to parse requirement: ", err.Error())
		require.Less(t, len(err.Error()), 1000)
	}
}

func TestSEC_W5_SelectorsOfOneMebibyte(t *testing.T) {
	const size = 1 << 20
	t.Run("a hundred thousand values", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("k in (")
		for i := range 100_000 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "v%d", (i*7919)%100_000)
		}
		b.WriteByte(')')
		s := selector(t, b.String())
		require.Len(t, s.Requirements()[0].Values, 100_000)
		require.True(t, s.Matches(meta.LabelMap{"k": "v99999"}))
		require.False(t, s.Matches(meta.LabelMap{"k": "v100000"}))
		require.Equal(t, s, selector(t, s.String()))
	})
	t.Run("too many requirements are refused, not dropped", func(t *testing.T) {
		many := func(n int) string { return strings.TrimSuffix(strings.Repeat("!a,", n), ",") }
		selector(t, many(meta.MaxRequirements))
		for _, n := range []int{meta.MaxRequirements + 1, 50_000} {
			_, err := meta.ParseSelector(many(n))
			require.ErrorContains(t, err, "more than 1000 requirements")
		}
	})
	for name, in := range map[string]string{
		"open brackets":   strings.Repeat("(", size),
		"nested brackets": "a in " + strings.Repeat("(", 10_000) + strings.Repeat(")", 10_000),
		"unclosed":        "a in (" + strings.Repeat("b,", size/2),
		"long key":        strings.Repeat("a", size),
		"long prefix":     strings.Repeat("a.", size/2) + "/b",
		"long value":      "a=" + strings.Repeat("b", size),
		"exclamations":    strings.Repeat("!", size),
		"operators":       "a" + strings.Repeat("=", size),
		"blanks, then":    strings.Repeat(" ", size) + "=",
		"commas":          strings.Repeat(",", size),
		"invalid bytes":   strings.Repeat("\xff", size),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := meta.ParseSelector(in)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 1000, "the input is not repeated")
		})
	}
	t.Run("empty values", func(t *testing.T) {
		require.Equal(t, "a=", selector(t, "a in ("+strings.Repeat(",", size)+")").String())
	})
}

func TestSelectorFromBody(t *testing.T) {
	s, err := meta.SelectorFrom(&meta.LabelSelector{
		MatchLabels: map[string]string{"b": "2", "a": "1"},
		MatchExpressions: []meta.LabelSelectorRequirement{
			{Key: "c", Operator: meta.In, Values: []string{"y", "x"}},
			{Key: "d", Operator: meta.NotIn, Values: []string{"z"}},
			{Key: "e", Operator: meta.Exists},
			{Key: "f", Operator: meta.DoesNotExist, Values: []string{}},
		},
	})
	require.NoError(t, err)
	require.Equal(t, "a=1,b=2,c in (x,y),d!=z,e,!f", s.String())

	for name, e := range map[string]meta.LabelSelectorRequirement{
		"unknown operator":     {Key: "a", Operator: "in", Values: []string{"b"}},
		"no operator":          {Key: "a", Values: []string{"b"}},
		"operator of queries":  {Key: "a", Operator: meta.GreaterThan, Values: []string{"1"}},
		"In without values":    {Key: "a", Operator: meta.In},
		"NotIn without values": {Key: "a", Operator: meta.NotIn},
		"Exists with values":   {Key: "a", Operator: meta.Exists, Values: []string{"b"}},
		"absent with values":   {Key: "a", Operator: meta.DoesNotExist, Values: []string{"b"}},
		"no key":               {Operator: meta.Exists},
		"bad key":              {Key: "a b", Operator: meta.Exists},
		"bad value":            {Key: "a", Operator: meta.In, Values: []string{"b", "c d"}},
	} {
		_, err := meta.SelectorFrom(&meta.LabelSelector{MatchExpressions: []meta.LabelSelectorRequirement{e}})
		require.Error(t, err, name)
	}
	_, err = meta.SelectorFrom(&meta.LabelSelector{MatchLabels: map[string]string{"a": "b c"}})
	require.Error(t, err)
	tooMany := make([]meta.LabelSelectorRequirement, meta.MaxRequirements+1)
	for i := range tooMany {
		tooMany[i] = meta.LabelSelectorRequirement{Key: "a", Operator: meta.Exists}
	}
	_, err = meta.SelectorFrom(&meta.LabelSelector{MatchExpressions: tooMany})
	require.Error(t, err)
}

func TestSelectorFromNilMatchesNothingAndEmptyEverything(t *testing.T) {
	none, err := meta.SelectorFrom(nil)
	require.NoError(t, err)
	require.Equal(t, meta.Nothing(), none)
	require.False(t, none.Empty())
	require.Equal(t, none, selector(t, none.String()), "even this one has a text form")

	all, err := meta.SelectorFrom(&meta.LabelSelector{})
	require.NoError(t, err)
	require.True(t, all.Empty())
	require.Equal(t, meta.Selector{}, all)

	for _, m := range []meta.LabelMap{nil, {"a": "b"}, {"nothing": ""}} {
		require.False(t, none.Matches(m))
		require.True(t, all.Matches(m))
	}
}

func TestNewSelector(t *testing.T) {
	values := []string{"c", "b", "c"}
	s, err := meta.NewSelector(
		meta.Requirement{Key: "n", Op: meta.LessThan, Values: []string{"010"}},
		meta.Requirement{Key: "a", Op: meta.In, Values: values},
	)
	require.NoError(t, err)
	require.Equal(t, "a in (b,c),n<10", s.String())
	require.Equal(t, []string{"c", "b", "c"}, values, "the caller's values are left alone")
	require.Equal(t, []meta.Requirement{
		{Key: "a", Op: meta.In, Values: []string{"b", "c"}},
		{Key: "n", Op: meta.LessThan, Values: []string{"10"}},
	}, s.Requirements())

	for _, r := range []meta.Requirement{
		{Key: "a", Op: "Near", Values: []string{"b"}},
		{Key: "a", Op: meta.GreaterThan, Values: []string{"1", "2"}},
		{Key: "a", Op: meta.LessThan},
	} {
		_, err := meta.NewSelector(r)
		require.Error(t, err, "%v", r)
	}
	all, err := meta.NewSelector()
	require.NoError(t, err)
	require.True(t, all.Empty())
}

func TestRequirementsAreACopy(t *testing.T) {
	s := selector(t, "a in (b,c)")
	r := s.Requirements()
	r[0].Values[0], r[0].Key = "changed", "changed"
	require.Equal(t, "a in (b,c)", s.String())
}

func TestIntegersOfLabels(t *testing.T) {
	above := selector(t, "n>5")
	below := selector(t, "n<5")
	for value, want := range map[string][2]bool{
		"6": {true, false}, "4": {false, true}, "5": {false, false}, "-6": {false, true}, "+6": {true, false},
		"9223372036854775807": {true, false}, "9223372036854775808": {}, "-9223372036854775808": {false, true},
		"-9223372036854775809": {}, "18446744073709551622": {}, "": {}, "-": {}, "+": {}, "6a": {}, "6.0": {}, " 6": {}, "--6": {},
	} {
		require.Equal(t, want[0], above.Matches(meta.LabelMap{"n": value}), "%q > 5", value)
		require.Equal(t, want[1], below.Matches(meta.LabelMap{"n": value}), "%q < 5", value)
	}
}

func TestLabelSet(t *testing.T) {
	m := map[string]string{"b": "2", "a": "1", "c": "", "a.b/c": "x"}
	set := meta.NewLabelSet(m)
	require.Equal(t, meta.LabelSet{{Key: "a", Value: "1"}, {Key: "a.b/c", Value: "x"}, {Key: "b", Value: "2"}, {Key: "c"}}, set)
	for k, v := range m {
		got, ok := set.Get(k)
		require.True(t, ok)
		require.Equal(t, v, got)
	}
	for _, k := range []string{"", "aa", "d", "A"} {
		_, ok := set.Get(k)
		require.False(t, ok, k)
	}
	for _, n := range []int{1, 16, 17, 1000} { // short and long sets are searched differently
		many := map[string]string{}
		for i := range n {
			many[fmt.Sprintf("k%d", i)] = strconv.Itoa(i)
		}
		set := meta.NewLabelSet(many)
		for k, v := range many {
			got, ok := set.Get(k)
			require.True(t, ok)
			require.Equal(t, v, got)
		}
		_, ok := set.Get("k")
		require.False(t, ok)
	}
	require.Nil(t, meta.NewLabelSet(nil))
	require.Nil(t, meta.NewLabelSet(map[string]string{}))
	_, ok := meta.LabelSet(nil).Get("a")
	require.False(t, ok)
}

func TestMatchingAllocatesNothing(t *testing.T) {
	m := meta.LabelMap{"app": "web", "tier": "front", "n": "x"}
	set := meta.NewLabelSet(m)
	s := selector(t, "app in (a,b,c,web),tier!=back,!gone,app,n notin (1,2)")
	n := selector(t, "n>3")
	fields, err := meta.ParseFieldSelector("app=web,tier!=a")
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if !s.Matches(m) || !s.Matches(&set) || n.Matches(m) || !fields.Matches(&set) {
			panic("wrong answer")
		}
	}))
}

func FuzzSelector(f *testing.F) {
	for _, s := range []string{
		"", "a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b,c)", "a>1", "a<1", "a in (,b)", "in in (in)", "a,b,!c",
		"a=b,", "a in (", " x/y\t=\nz ", "nothing,!nothing",
	} {
		f.Add(s, "a", "b")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		s, err := meta.ParseSelector(text)
		if err != nil {
			require.True(t, s.Empty())
			require.Less(t, len(err.Error()), 1500)
			return
		}
		again, err := meta.ParseSelector(s.String())
		require.NoError(t, err, "%q from %q", s, text)
		require.Equal(t, s, again)
		rebuilt, err := meta.NewSelector(s.Requirements()...)
		require.NoError(t, err)
		require.Equal(t, s, rebuilt)
		if s.Empty() {
			require.Empty(t, strings.Trim(text, " \t\r\n"), "only blanks mean everything")
		}
		m := map[string]string{key: value}
		for _, r := range s.Requirements() {
			if len(r.Values) > 0 {
				m[r.Key] = r.Values[0]
			}
		}
		set := meta.NewLabelSet(m)
		require.Equal(t, slowMatch(s.Requirements(), m), s.Matches(meta.LabelMap(m)))
		require.Equal(t, s.Matches(meta.LabelMap(m)), s.Matches(&set))
	})
}

// slowMatch says the meaning of requirements again, as plainly as possible.
func slowMatch(reqs []meta.Requirement, m map[string]string) bool {
	for _, r := range reqs {
		value, there := m[r.Key]
		var ok bool
		switch r.Op {
		case meta.In:
			ok = there && slices.Contains(r.Values, value)
		case meta.NotIn:
			ok = !there || !slices.Contains(r.Values, value)
		case meta.Exists:
			ok = there
		case meta.DoesNotExist:
			ok = !there
		default:
			number, err := strconv.ParseInt(value, 10, 64)
			bound, _ := strconv.ParseInt(r.Values[0], 10, 64)
			ok = there && err == nil && (r.Op == meta.GreaterThan && number > bound || r.Op == meta.LessThan && number < bound)
		}
		if !ok {
			return false
		}
	}
	return true
}

func BenchmarkSelectorMatches(b *testing.B) {
	set := meta.NewLabelSet(map[string]string{"app": "web", "tier": "front", "pod-template-hash": "5d4f8c7b9", "zone": "a"})
	m := meta.LabelMap{"app": "web", "tier": "front", "pod-template-hash": "5d4f8c7b9", "zone": "a"}
	for _, text := range []string{"app=web", "app=db", "app in (a,b,c,web),tier!=back,!gone"} {
		s := selector(b, text)
		for name, labels := range map[string]meta.Labels{"set": &set, "map": m} {
			b.Run(text+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s.Matches(labels)
				}
			})
		}
	}
}

func BenchmarkParseSelector(b *testing.B) {
	values := make([]string, 100_000)
	for i := range values {
		values[i] = fmt.Sprintf("v%d", (i*7919)%100_000)
	}
	for name, text := range map[string]string{
		"short":         "app=web,tier in (front,back),!gone",
		"100000 values": "k in (" + strings.Join(values, ",") + ")",
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = meta.ParseSelector(text)
			}
		})
	}
}
