package words

import (
	"fmt"
	"regexp"
)

// The rules for names.
const (
	labelPattern     = "[a-z]([-a-z0-9]*[a-z0-9])?"
	subdomainPattern = `[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`

	labelSentence = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, " +
		"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '" + labelPattern + "')"
	subdomainSentence = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " +
		"and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '" + subdomainPattern + "')"

	maxLabel     = 63
	maxSubdomain = 253
)

var (
	labelExpression     = regexp.MustCompile("^" + labelPattern + "$")
	subdomainExpression = regexp.MustCompile("^" + subdomainPattern + "$")
)

// LabelProblems says why a word is not a DNS label that begins with a letter.
func LabelProblems(word string) []string {
	return nameProblems(word, maxLabel, labelExpression, labelSentence)
}

// SubdomainProblems says why a word is not a DNS subdomain.
func SubdomainProblems(word string) []string {
	return nameProblems(word, maxSubdomain, subdomainExpression, subdomainSentence)
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
