package meta_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/meta"
)

func TestNAME_11_META_16_Checks(t *testing.T) {
	label63, label64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	sub253 := strings.Repeat("a.", 126) + "a"
	for _, c := range []struct {
		name      string
		check     func(string) string
		good, bad []string
	}{
		{
			"DNS subdomain", meta.CheckDNSSubdomain,
			[]string{"a", "0", "a-b", "a.b", "1.2.3", "a--b", label64, sub253},
			[]string{"", ".", "..", "a.", ".a", "a..b", "-a", "a-", "a-.b", "a.-b", "A", "a_b", "a b", "a/b", "é", "a\n", sub253 + "a", "a%b"},
		}, {
			"DNS label", meta.CheckDNSLabel,
			[]string{"a", "0", "a-b", "a--b", "123", label63},
			[]string{"", ".", "a.b", "-a", "a-", "A", "a_b", "é", "a\x00", label64},
		}, {
			"DNS 1035 label", meta.CheckDNS1035Label,
			[]string{"a", "a0", "a-b", label63},
			[]string{"", "0", "0a", "-a", "a-", "a.b", "A", label64},
		}, {
			"path segment", meta.CheckPathSegment,
			[]string{"a", "A", "a.b", "...", "system:node", "a b", "é", label64, sub253 + sub253},
			[]string{"", ".", "..", "/", "a/b", "../a", "%", "a%2fb"},
		}, {
			"label key", meta.CheckLabelKey,
			[]string{"a", "A", "0", "a_b", "a.b", "a-b", "example.com/a", "a.b/C", label63, sub253 + "/" + label63},
			[]string{"", "/", "/a", "a/", "a/b/c", "-a", "a-", "_a", ".a", "a.", "A.b/c", "a_b/c", "a b", "é", label64, sub253 + "a/b", "a/" + label64},
		}, {
			"qualified name", meta.CheckQualifiedName,
			[]string{"orphan", "example.dev/protect"},
			[]string{"", "example.dev/", "Example.dev/protect"},
		}, {
			"annotation key", meta.CheckAnnotationKey,
			[]string{"a", "A", "Example.COM/a", "example.com/A", sub253 + "/" + label63, strings.ToUpper(sub253) + "/a"},
			[]string{"", "/a", "a/", "a/b/c", "-A/b", "\u212a.io/a", label64, "a b/c", sub253 + "a/b", strings.Repeat("A", 1<<20) + "/b"},
		}, {
			"label value", meta.CheckLabelValue,
			[]string{"", "a", "A", "0", "a_b-c.d", label63},
			[]string{"-", "-a", "a-", ".a", "a/b", "a b", "é", label64},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, s := range c.good {
				require.Empty(t, c.check(s), "%q is good", s)
			}
			for _, s := range append(c.bad, strings.Repeat("/", 1<<20), strings.Repeat("a.", 1<<19)) {
				if c.name == "path segment" && strings.HasPrefix(s, "a.a.") {
					continue // no limit of length
				}
				problem := c.check(s)
				require.NotEmpty(t, problem, "%q is bad", s)
				require.Less(t, len(problem), 250, "the sentence does not repeat the string")
			}
		})
	}
}

func TestNameProblemsReadAsSentences(t *testing.T) {
	require.Equal(t, "must be no more than 63 bytes", meta.CheckDNSLabel(strings.Repeat("a", 64)))
	require.Equal(t, "must not be empty", meta.CheckDNSSubdomain(""))
	require.Equal(t, `must not be ".."`, meta.CheckPathSegment(".."))
	require.Equal(t, "must not contain '%'", meta.CheckPathSegment("a%"))
	require.Equal(t, "the part before '/' must not be empty", meta.CheckLabelKey("/a"))
	require.Equal(t, "the name part must not be empty", meta.CheckLabelKey("a/"))
}

func TestMETA_16_AnnotationBytes(t *testing.T) {
	require.Zero(t, meta.AnnotationBytes(nil))
	require.Equal(t, 9, meta.AnnotationBytes(map[string]string{"ab": "cde", "é": "12"}))
}
