package crdoracle

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// wideBound is what Kubernetes says of every value under a bound outside of the range of the type. The definition of
// MetalLB has one: a maximum of 4294967295 for 32 bits with a sign.
const wideBound = " boundary value must be of type "

// wideBounds returns the fields that have such a bound.
func wideBounds(theirs []cause) (out []string) {
	for _, c := range theirs {
		if at := strings.LastIndex(c.message, " in "); strings.Contains(c.message, wideBound) && at >= 0 {
			out = append(out, c.message[at+len(" in "):])
		}
	}
	return out
}

// compare returns what the causes of one side have and those of the other lack.
func compare(theirs, ours []cause) (missing, added []cause) {
	for i := range ours {
		ours[i] = intended(ours[i])
	}
	var branches []string
	for _, c := range theirs {
		if path, ok := c.branchOf(); ok {
			branches = append(branches, path)
		}
	}
	wide := wideBounds(theirs)
	for _, c := range theirs {
		path, isBranch := c.branchOf()
		switch {
		case strings.Contains(c.message, wideBound):
			// A bound that no value of the type reaches is no reason to refuse every value, see TestIntended.
		case slices.Contains(wide, c.field) && slices.ContainsFunc(ours, func(o cause) bool { return o.field == c.field }):
			// Such a bound is compared with the value as a float, and both are written as such.
		case isBranch && strings.Contains(c.message, "must validate all the schemas (allOf)"):
			// Problems of allOf are reported by themselves.
		case isBranch && slices.ContainsFunc(branches, func(outer string) bool { return outer != path && belowAny([]string{outer}, path) }):
			// A branch in a branch is left out as well.
		case isBranch:
			if !slices.ContainsFunc(ours, func(o cause) bool { return sameBranch(path, c, o) || wrongType(path, o) }) {
				missing = append(missing, c)
			}
		default:
			c = kubernetesQuirk(c)
			if !slices.ContainsFunc(ours, func(o cause) bool { return c == o || sameType(c, o) || wrongType(c.field, o) }) {
				missing = append(missing, c)
			}
		}
	}
	for _, o := range ours {
		found := slices.ContainsFunc(theirs, func(c cause) bool {
			path, isBranch := c.branchOf()
			return isBranch && sameBranch(path, c, o) || kubernetesQuirk(c) == o || sameType(c, o)
		})
		beside := slices.ContainsFunc(ours, func(p cause) bool { return wrongType(o.field, p) }) && strings.Contains(o.message, " validate ")
		found = found || slices.Contains(wide, o.field) && slices.ContainsFunc(theirs, func(c cause) bool { return c.field == o.field })
		if !found && !refusedFormat(o) && !beside && !truncated.MatchString(o.message) {
			added = append(added, o)
		}
	}
	return missing, added
}

// wrongType reports whether our problem o says that a value at a path has a wrong type. Whether it
// follows conditions that are for another type does not matter.
func wrongType(path string, o cause) bool {
	return o.field == strings.TrimPrefix(path, ".") && o.typ == "FieldValueTypeInvalid"
}

// truncated matches numbers that are not in an enum. Kubernetes takes 0.5 for 0.
var truncated = regexp.MustCompile(`^Unsupported value: -?[0-9.e+-]+:`)

// sameBranch reports whether our problem o is Kubernetes' problem c with a branch at a path.
func sameBranch(path string, c, o cause) bool {
	path = strings.TrimPrefix(path, ".")
	for _, keyword := range []string{"(anyOf)", "(oneOf)", "(not)"} {
		if strings.Contains(c.message, keyword) && strings.Contains(o.message, keyword) {
			return o.field == path || path == "" && o.field == "<nil>"
		}
	}
	return false
}

// refusedFormat reports whether a cause is about a text or a list that Kubernetes accepts, see
// TestIntended and TestFormats.
func refusedFormat(c cause) bool {
	if strings.HasSuffix(c.message, `must be of type string: "array"`) {
		return true
	}
	for format, values := range refusedByUs {
		for _, value := range values {
			if strings.HasSuffix(c.message, fmt.Sprintf("must be of type %s: %q", format, value)) {
				return true
			}
		}
	}
	return false
}

// refusedDefault reports whether a cause is about a number that is a default beside a format of texts. As a
// value, Kubernetes accepts it, see TestIntended_Defaults.
func refusedDefault(c cause) bool {
	return strings.Contains(c.field, ".default") && c.typ == "FieldValueTypeInvalid" &&
		besideFormat.MatchString(c.message)
}

var besideFormat = regexp.MustCompile(`: "(int64|float64)"$|must be of type : "integer"$`)

// sameType reports whether two causes say that a value does not have its type. Beside a format,
// Kubernetes names the Go types of numbers, and no types of other values. Numbers out of range are
// reported without a field.
func sameType(c, o cause) bool {
	if c.typ == "FieldValueNotSupported" && c.typ == o.typ && len(o.message) > longMessage {
		return c.field == o.field // we do not repeat a large value (0007)
	}
	if at := strings.LastIndex(c.message, " in "); c.field == "<nil>" && strings.Contains(c.message, "Checked value must be of type ") {
		return c.message[at+len(" in "):] == o.field && (o.typ == "FieldValueTypeInvalid" || strings.HasSuffix(o.message, " bits") || strings.HasSuffix(o.message, " float"))
	}
	return c.typ == "FieldValueTypeInvalid" && c.typ == o.typ && c.field == o.field && goTypes.MatchString(c.message)
}

// longMessage is how long a message is that repeats values of an enum in part.
const longMessage = 300

var goTypes = regexp.MustCompile(`: "(int64|float64|)"$`)

// belowAny reports whether a field is at or below the place of a branch. Kubernetes repeats there
// what is wrong with the branch that is nearest to valid.
func belowAny(paths []string, field string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		path = strings.TrimPrefix(path, ".")
		return path == "" || field == path || strings.HasPrefix(field, path+".") || strings.HasPrefix(field, path+"[")
	})
}

// The differences that are meant are taken out of both sides by these rules. TestIntended has an
// example of each.

// bracketed matches a name in brackets, not an index.
var bracketed = regexp.MustCompile(`\.?\[([^\]]*[^0-9\]][^\]]*)\]`)

// intended returns one of our causes as it would be without the differences that are meant.
func intended(c cause) cause {
	field := bracketed.ReplaceAllString(c.field, ".$1")
	c.message = strings.Replace(c.message, c.field+" in body", field+" in body", 1)
	c.field = field
	return named(c)
}

// kubernetesQuirk returns one of Kubernetes' causes in our form, if we write it in another one on
// purpose.
func kubernetesQuirk(c cause) cause {
	// Kubernetes escapes the characters of HTML, as encoding/json does.
	c.message = unescape.Replace(c.message)
	// Kubernetes writes names in two ways, depending on the code that finds the problem.
	c.field = bracketed.ReplaceAllString(c.field, ".$1")
	// Lengths are in characters, the unit in which both measure them (0007).
	if c.typ == "FieldValueTooLong" {
		c.message = strings.Replace(c.message, " bytes", " characters", 1)
		c.message = strings.Replace(c.message, " byte", " character", 1)
	}
	return named(c)
}

var unescape = strings.NewReplacer(`\\u003c`, "<", `\\u003e`, ">", `\\u0026`, "&", `\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// aboutNames matches the fields whose values are names or parts of them. Their sentences are those
// of package meta, for every kind.
var aboutNames = regexp.MustCompile(`(^|\.)(apiVersion|kind|metadata\..*)$`)

// named returns a cause about a name without the sentence.
func named(c cause) cause {
	if aboutNames.MatchString(c.field) && c.typ == "FieldValueInvalid" && !strings.Contains(c.message, " in body ") {
		c.message = "a bad name"
		if labels := strings.LastIndex(c.field, "metadata.labels"); labels >= 0 { // Kubernetes omits the key
			c.field = c.field[:labels+len("metadata.labels")]
		}
	}
	return c
}

// text returns an object as it is stored. Whole numbers have no fraction there.
func text(object map[string]any) string {
	out, err := json.Marshal(whole(object))
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, member := range v {
			out[name] = whole(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = whole(item)
		}
		return out
	case float64:
		if i := int64(v); float64(i) == v && v < 1<<63 {
			return i
		}
	}
	return v
}

// shape is a message without values, for counting differences of the same kind.
func shape(message string) string {
	if head, tail, ok := strings.Cut(message, " in body "); ok {
		message = head[:strings.LastIndex(head, " ")+1] + "… in body " + tail
	}
	var b strings.Builder
	quoted := false
	for _, r := range message {
		switch {
		case r == '"':
			quoted = !quoted
			if quoted {
				b.WriteString("…")
			}
		case quoted:
		case unicode.IsDigit(r):
			b.WriteRune('0')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// report collects differences by their shape, each with an example.
type report struct {
	counts   map[string]int
	examples map[string]string
}

func (r *report) add(kind, example string, args ...any) {
	if r.counts == nil {
		r.counts, r.examples = map[string]int{}, map[string]string{}
	}
	if r.counts[kind]++; r.counts[kind] == 1 {
		r.examples[kind] = fmt.Sprintf(example, args...)
	}
}

// require fails if there are differences.
func (r *report) require(t *testing.T) {
	t.Helper()
	if len(r.counts) > 0 {
		t.Fatal(r.String())
	}
}

// String lists the differences, the most frequent ones first.
func (r *report) String() string {
	kinds := slices.Collect(keys(r.counts))
	slices.SortFunc(kinds, func(a, b string) int { return r.counts[b] - r.counts[a] })
	var b strings.Builder
	for _, kind := range kinds {
		fmt.Fprintf(&b, "%6d %s\n       %s\n", r.counts[kind], kind, r.examples[kind])
	}
	return b.String()
}
