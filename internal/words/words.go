package words

import (
	"fmt"
	"regexp"
	"strings"
)

// The rules for names.
const (
	labelPattern     = "[a-z]([-a-z0-9]*[a-z0-9])?"
	subdomainPattern = `[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`

	labelSentence = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
		"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '" + labelPattern + "')"
	subdomainSentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
		"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '" + subdomainPattern + "')"

	partPattern = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
	partForm    = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
	partExample = " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '" + partPattern + "')"

	valuePattern  = "(" + partPattern + ")?"
	valueSentence = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " +
		"and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', " +
		"regex used for validation is '" + valuePattern + "')"

	maxLabel     = 63
	maxSubdomain = 253
)

var (
	labelExpression     = regexp.MustCompile("^" + labelPattern + "$")
	subdomainExpression = regexp.MustCompile("^" + subdomainPattern + "$")
	partExpression      = regexp.MustCompile("^" + partPattern + "$")
	valueExpression     = regexp.MustCompile("^" + valuePattern + "$")
)

// LabelProblems says why a word is not a DNS label that begins with a letter.
func LabelProblems(word string) []string {
	return nameProblems(word, maxLabel, labelExpression, labelSentence)
}

// SubdomainProblems says why a word is not a DNS subdomain.
func SubdomainProblems(word string) []string {
	return nameProblems(word, maxSubdomain, subdomainExpression, subdomainSentence)
}

// QualifiedProblems says why a word is not a qualified name, such as the key of a label: a name, after a DNS
// subdomain and a slash if there is one.
func QualifiedProblems(word string) (problems []string) {
	prefix, name, prefixed := strings.Cut(word, "/")
	switch {
	case !prefixed:
		name = word
	case strings.Contains(name, "/"):
		return []string{"a valid label key " + partForm + partExample + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"}
	case prefix == "":
		problems = append(problems, "prefix part must be non-empty")
	default:
		if len(prefix) > maxSubdomain {
			problems = append(problems, fmt.Sprintf("prefix part must be no more than %d bytes", maxSubdomain))
		}
		if !subdomainExpression.MatchString(prefix) {
			problems = append(problems, "prefix part "+subdomainSentence)
		}
	}
	switch {
	case name == "":
		problems = append(problems, "name part must be non-empty")
	case len(name) > maxLabel:
		problems = append(problems, fmt.Sprintf("name part must be no more than %d bytes", maxLabel))
	}
	if !partExpression.MatchString(name) {
		problems = append(problems, "name part "+partForm+partExample)
	}
	return problems
}

// ValueProblems says why a word is not the value of a label.
func ValueProblems(word string) (problems []string) {
	if len(word) > maxLabel {
		problems = append(problems, fmt.Sprintf("must be no more than %d bytes", maxLabel))
	}
	if !valueExpression.MatchString(word) {
		problems = append(problems, valueSentence)
	}
	return problems
}

// SegmentProblems says why a word cannot be a segment of a path, as names of objects are.
func SegmentProblems(word string) (problems []string) {
	if word == "." || word == ".." {
		return []string{"may not be '" + word + "'"}
	}
	for _, not := range []string{"/", "%"} {
		if strings.Contains(word, not) {
			problems = append(problems, "may not contain '"+not+"'")
		}
	}
	return problems
}

func nameProblems(word string, limit int, form *regexp.Regexp, sentence string) (problems []string) {
	if len(word) > limit {
		problems = append(problems, fmt.Sprintf("must be no more than %d characters", limit))
	}
	if !form.MatchString(word) {
		problems = append(problems, sentence)
	}
	return problems
}
