package apitest

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// What may be a secret is known by its name alone, and is left out rather once too often: the
// output of tests is read by many.
const secretWords = `password|passwd|passphrase|token|secret|credential|private|apikey|api_key|api-key`

var (
	secretName = regexp.MustCompile(`(?i)` + secretWords)

	// secretMember finds members of JSON and of YAML whose names speak of secrets, with their
	// values, also where the excerpt ends in their middle. A value is a text in quotation marks, a
	// list, an object, a block or list of YAML, or the rest of the line.
	secretMember = regexp.MustCompile(`(?i)((?:"[^"]*(?:` + secretWords + `)[^"]*"|'[^']*(?:` + secretWords + `)[^']*'|[\w./-]*(?:` + secretWords + `)[\w./-]*)[ \t]*:\s*)` +
		`(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|'[^']*(?:'|$)|\[[^\]]*(?:\]|$)|\{[^}]*(?:\}|$)|[|>][^\n]*(?:\n+[ \t]+[^\n]*)*|-[ \t][^\n]*(?:\n[ \t]*-[ \t][^\n]*)*|[^\s,}][^,}\n]*)`)

	// secretKind finds a document that says it is a Secret.
	secretKind = regexp.MustCompile(`["']?\bkind["']?\s*:\s*["']?Secret\b`)
)

const hidden = "(not shown)"

// excerpt makes what may be shown of the beginning of a body of this request.
func (r *Request) excerpt(body []byte, contentType string) string {
	if len(body) == 0 {
		return ""
	}
	base, _, _ := strings.Cut(r.Resource, "/")
	path, _, _ := strings.Cut(r.URL, "?")
	switch {
	case base == "secrets" || base == "tokenreviews" || base == "certificatesigningrequests" || strings.HasSuffix(r.Resource, "/token"),
		slices.Contains(strings.Split(path, "/"), "secrets"), // who was not let in has no resource
		secretKind.Match(body),
		strings.Contains(contentType, "json-patch") && secretName.Match(body): // which has the value beside the path
		return hidden
	case strings.Contains(contentType, "protobuf") || !printable(body):
		return "(" + cmp.Or(contentType, "not text") + ")"
	}
	text := secretMember.ReplaceAllString(string(body), `$1"…"`)
	text = strings.Join(strings.Fields(text), " ")
	if len(body) >= excerptBytes {
		text += "…"
	}
	return text
}

// withoutSecrets is a document without what looks like a secret in it: the data of a Secret, and
// texts with such names, unless they are names themselves.
func withoutSecrets(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = withoutSecrets(item)
		}
		return out
	case map[string]any:
		out := maps.Clone(v)
		for name, value := range v {
			_, isText := value.(string)
			switch {
			case v["kind"] == "Secret" && (name == "data" || name == "stringData"),
				isText && secretName.MatchString(name) && !strings.HasSuffix(name, "Name"):
				out[name] = hidden
			default:
				out[name] = withoutSecrets(value)
			}
		}
		return out
	}
	return v
}
