package cel

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/kindwright/kindwright/meta"
)

// namedFormat is a rule for text that has a name.
type namedFormat struct {
	name string
	// pattern is the length of the pattern that the check is as expensive as.
	pattern uint64
	check   func(string) string // what is wrong, or ""
}

type formatValue = extension[*namedFormat]

// maxFormatPattern is what a format that is not known before counts.
const maxFormatPattern = 128

// prefix makes the rule for the beginnings of names, which may end with a dash.
func prefix(check func(string) string) func(string) string {
	return func(s string) string {
		if len(s) > 1 && strings.HasSuffix(s, "-") {
			s = s[:len(s)-1] + "a"
		}
		return check(s)
	}
}

// unless returns a check that says what is wrong unless a text is right.
func unless(right func(string) bool, problem string) func(string) string {
	return func(s string) string {
		if right(s) {
			return ""
		}
		return problem
	}
}

func namedFormats() []*namedFormat {
	uuid := regexp.MustCompile(`^(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})$`)
	return []*namedFormat{
		{"dns1123Label", 30, meta.CheckDNSLabel},
		{"dns1123Subdomain", 60, meta.CheckDNSSubdomain},
		{"dns1035Label", 30, meta.CheckDNS1035Label},
		{"qualifiedName", 60, meta.CheckQualifiedName},
		{"dns1123LabelPrefix", 30, prefix(meta.CheckDNSLabel)},
		{"dns1123SubdomainPrefix", 60, prefix(meta.CheckDNSSubdomain)},
		{"dns1035LabelPrefix", 30, prefix(meta.CheckDNS1035Label)},
		{"labelValue", 40, meta.CheckLabelValue},
		{"uri", 1103, func(s string) string {
			if _, err := url.ParseRequestURI(s); err != nil {
				return err.Error()
			}
			return ""
		}},
		{"uuid", 70, unless(uuid.MatchString, "does not match the UUID format")},
		{"byte", 84, unless(func(s string) bool { _, err := base64.StdEncoding.DecodeString(s); return s != "" && err == nil }, "invalid base64")},
		{"date", 71, unless(func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil }, "invalid date")},
		{"datetime", 71, unless(isDateTime, "invalid datetime")},
	}
}

// isDateTime accepts RFC 3339 with a time zone.
func isDateTime(s string) bool {
	_, err := time.Parse(time.RFC3339Nano, strings.ToUpper(s))
	return err == nil
}

// formatLibrary has format.named and a function for each format.
// Source: CEL-27.
func formatLibrary() []celgo.EnvOption {
	is := celgo.ObjectType("kubernetes.NamedFormat")
	known := map[string]ref.Val{}
	var options []celgo.EnvOption
	for _, f := range namedFormats() {
		value := &formatValue{is: is, data: f, equal: func(a, b *namedFormat) bool { return a == b }}
		known[f.name] = value
		name := "format." + f.name
		options = append(options, celgo.Function(name, celgo.Overload(name, signature(), is,
			celgo.FunctionBinding(func(...ref.Val) ref.Val { return value }))))
	}
	named := func(name types.String) ref.Val {
		if f, ok := known[string(name)]; ok {
			return types.OptionalOf(f)
		}
		return types.OptionalNone
	}
	validate := func(f *formatValue, text types.String) ref.Val {
		if problem := f.data.check(string(text)); problem != "" {
			return types.OptionalOf(types.NewStringList(types.DefaultTypeAdapter, []string{problem}))
		}
		return types.OptionalNone
	}
	return append(options,
		celgo.Function("format.named", celgo.Overload("format-named", signature(celgo.StringType), celgo.OptionalType(is), unary(named))),
		celgo.Function("validate", celgo.MemberOverload("format-validate", signature(is, celgo.StringType),
			celgo.OptionalType(celgo.ListType(celgo.StringType)), binary(validate))),
	)
}
