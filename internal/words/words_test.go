package words_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/words"
)

// The sentences are those that kube-apiserver 1.36 answers with.
func TestWHK_01_POL_01_NamesAreJudgedInTheWordsOfKubernetes(t *testing.T) {
	const (
		part = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character " +
			"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
		value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end " +
			"with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', " +
			"regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
		subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end " +
			"with an alphanumeric character (e.g. 'example.com', regex used for validation is " +
			`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	)
	long := strings.Repeat("a", 64)
	for word, want := range map[string][]string{
		"a": nil, "A.b_c-9": nil, "example.com/A": nil,
		"":                              {"name part must be non-empty", "name part " + part},
		"-a":                            {"name part " + part},
		long:                            {"name part must be no more than 63 bytes"},
		"/a":                            {"prefix part must be non-empty"},
		"A/a":                           {"prefix part " + subdomain},
		"example.com/":                  {"name part must be non-empty", "name part " + part},
		"a/b/c":                         {"a valid label key " + part + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"},
		strings.Repeat("a", 254) + "/b": {"prefix part must be no more than 253 bytes"},
	} {
		require.Equal(t, want, words.QualifiedProblems(word), word)
	}
	for word, want := range map[string][]string{
		"": nil, "A.b_c-9": nil, "a b": {value}, long: {"must be no more than 63 bytes"}, long + "-": {"must be no more than 63 bytes", value},
	} {
		require.Equal(t, want, words.ValueProblems(word), word)
	}
	for word, want := range map[string][]string{
		"": nil, "a b\n": nil, "..": {"may not be '..'"}, "a/b%": {"may not contain '/'", "may not contain '%'"},
	} {
		require.Equal(t, want, words.SegmentProblems(word), word)
	}
}
