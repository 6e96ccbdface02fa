package meta_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func fieldSelector(t testing.TB, s string) meta.FieldSelector {
	t.Helper()
	sel, err := meta.ParseFieldSelector(s)
	require.NoError(t, err, "%q", s)
	return sel
}

func TestQUERY_20_FieldSelectors(t *testing.T) {
	for _, c := range []struct{ in, canonical string }{
		{"", ""},
		{",,,", ""},
		{"a=b", "a=b"},
		{"a==b", "a=b"},
		{"a!=b", "a!=b"},
		{"a=", "a="},
		{"a!=", "a!="},
		{"a==", "a="},
		{",a=b,,c=d,", "a=b,c=d"},
		{"c=d,a!=x,a=b,a=b", "a=b,a!=x,c=d"},
		{`a=b\,c`, `a=b\,c`},
		{`a=b\=c`, `a=b\=c`},
		{`a=b\\`, `a=b\\`},
		{`a=b\\,c=d`, `a=b\\,c=d`},
		{`a=\,,b=\=`, `a=\,,b=\=`},
		{"a=b!c", "a=b!c"},
		{"a=!b", "a=!b"},
		{"metadata.name=x,metadata.namespace!=y", "metadata.name=x,metadata.namespace!=y"},
		{"a=é b", "a=é b"},
		{"a = b", "a = b"},
	} {
		s := fieldSelector(t, c.in)
		require.Equal(t, c.canonical, s.String(), "%q", c.in)
		require.Equal(t, s, fieldSelector(t, s.String()))
		require.Equal(t, c.canonical == "", s.Empty())
	}
}

func TestQUERY_20_FieldSelectorErrors(t *testing.T) {
	for _, in := range []string{
		"a", "a,b=c", "=b", "!=b", "==", "a!b", "!a", "a!b=c", "a=b=c", "a==b=c", "a===b", `a=b\`, `a=b\c`, `a\=b`, `a\,b=c`, `\=a=b`,
		"a=b,c", "a in (b)", `a=\`,
	} {
		s, err := meta.ParseFieldSelector(in)
		require.ErrorContains(t, err, "invalid field selector ", "%q", in)
		require.Equal(t, meta.FieldSelector{}, s)
	}
}

func TestQUERY_20_FieldSelectorMatches(t *testing.T) {
	fields := meta.LabelMap{"metadata.name": "web", "metadata.namespace": "", "spec.owner": "a,b=c"}
	for in, want := range map[string]bool{
		"":                                      true,
		"metadata.name=web":                     true,
		"metadata.name=db":                      false,
		"metadata.name!=db":                     true,
		"metadata.name!=web":                    false,
		"metadata.namespace=":                   true,
		"metadata.namespace!=":                  false,
		"absent=":                               true,
		"absent!=":                              false,
		"absent!=x":                             true,
		`spec.owner=a\,b\=c`:                    true,
		"metadata.name=web,metadata.name!=db":   true,
		"metadata.name=web,metadata.name=db":    false,
		"metadata.name=web,metadata.namespace=": true,
	} {
		require.Equal(t, want, fieldSelector(t, in).Matches(fields), in)
	}
}

func TestFieldSelectorExact(t *testing.T) {
	s := fieldSelector(t, "metadata.name=b,metadata.name=a,spec.x!=y,empty=")
	v, ok := s.Exact("metadata.name")
	require.True(t, ok)
	require.Equal(t, "a", v)
	v, ok = s.Exact("empty")
	require.True(t, ok)
	require.Empty(t, v)
	for _, f := range []string{"spec.x", "metadata.namespace", ""} {
		_, ok = s.Exact(f)
		require.False(t, ok, f)
	}
}

func TestQUERY_20_UnknownFieldIsNamed(t *testing.T) {
	s := fieldSelector(t, "metadata.name=a,spec.x=b")
	require.NoError(t, s.Check("metadata.name", "metadata.namespace", "spec.x"))
	require.EqualError(t, s.Check("metadata.name", "metadata.namespace"),
		`"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`)
	require.NoError(t, meta.FieldSelector{}.Check())
}

func TestNewFieldSelector(t *testing.T) {
	s, err := meta.NewFieldSelector(
		meta.FieldRequirement{Field: "b", Op: meta.NotEquals, Value: `,=\`},
		meta.FieldRequirement{Field: "a", Op: meta.Equals},
	)
	require.NoError(t, err)
	require.Equal(t, `a=,b!=\,\=\\`, s.String())
	require.Equal(t, s, fieldSelector(t, s.String()))

	reqs := s.Requirements()
	reqs[0].Field = "changed"
	require.Equal(t, "a", s.Requirements()[0].Field)

	for _, r := range []meta.FieldRequirement{
		{Op: meta.Equals}, {Field: "a"}, {Field: "a", Op: ">"}, {Field: "a=b", Op: meta.Equals}, {Field: "a,b", Op: meta.Equals}, {Field: `a\`, Op: meta.Equals},
	} {
		_, err := meta.NewFieldSelector(r)
		require.Error(t, err, "%+v", r)
	}
	_, err = meta.NewFieldSelector(make([]meta.FieldRequirement, meta.MaxRequirements+1)...)
	require.Error(t, err)
	all, err := meta.NewFieldSelector()
	require.NoError(t, err)
	require.Equal(t, meta.FieldSelector{}, all)
}

func TestSEC_W5_FieldSelectorsOfOneMebibyte(t *testing.T) {
	const size = 1 << 20
	for name, in := range map[string]string{
		"requirements": strings.Repeat("a=b,", size/4),
		"equal signs":  strings.Repeat("=", size),
		"backslashes":  "a=" + strings.Repeat(`\`, size-1),
		"no operator":  strings.Repeat("a", size),
	} {
		_, err := meta.ParseFieldSelector(in)
		require.Error(t, err, name)
		require.Less(t, len(err.Error()), 1000)
	}
	require.True(t, fieldSelector(t, strings.Repeat(",", size)).Empty())
	long := strings.Repeat("b", size)
	v, ok := fieldSelector(t, "a="+long).Exact("a")
	require.True(t, ok)
	require.Equal(t, long, v)
	require.Less(t, len(fieldSelector(t, long+"=a").Check("a").Error()), 1000)
}

func FuzzFieldSelector(f *testing.F) {
	for _, s := range []string{"", "a=b", "a==b", "a!=b", `a=\,\=\\`, "a=b,,c!=d", `a=\`, "metadata.name=x,metadata.name!=y", "=", ","} {
		f.Add(s, "a", "b")
	}
	f.Fuzz(func(t *testing.T, text, field, value string) {
		fields := meta.LabelMap{field: value}
		if pinned, err := meta.NewFieldSelector(meta.FieldRequirement{Field: field, Op: meta.Equals, Value: value}); err == nil {
			back, err := meta.ParseFieldSelector(pinned.String())
			require.NoError(t, err, "%q", pinned)
			require.Equal(t, pinned, back, "any value survives the text form")
			require.True(t, back.Matches(fields))
		}
		s, err := meta.ParseFieldSelector(text)
		if err != nil {
			require.Equal(t, meta.FieldSelector{}, s)
			require.Less(t, len(err.Error()), 1500)
			return
		}
		if s.Empty() {
			require.Empty(t, strings.Trim(text, ","))
		}
		again, err := meta.ParseFieldSelector(s.String())
		require.NoError(t, err, "%q from %q", s, text)
		require.Equal(t, s, again)
		want := true
		for _, r := range s.Requirements() {
			want = want && (fields[r.Field] == r.Value) == (r.Op == meta.Equals)
		}
		require.Equal(t, want, s.Matches(fields))
	})
}
