package apitest

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Secrets are recognized by their names alone. It is better to hide too much, because many people
// read the output of tests.
const secretWords = `password|passwd|passphrase|token|secret|credential|private|apikey|api_key|api-key`

var (
	secretName = regexp.MustCompile(`(?i)` + secretWords)

	// secretMember matches members of JSON and YAML whose names suggest a secret, with their
	// values, even if the excerpt ends within one. A value is a quoted string, a list, an object, a
	// block or list of YAML, or the rest of the line.
	secretMember = regexp.MustCompile(`(?i)((?:"[^"]*(?:` + secretWords + `)[^"]*"|'[^']*(?:` + secretWords + `)[^']*'|[\w./-]*(?:` + secretWords + `)[\w./-]*)[ \t]*:\s*)` +
		`(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|'[^']*(?:'|$)|\[[^\]]*(?:\]|$)|\{[^}]*(?:\}|$)|[|>][^\n]*(?:\n+[ \t]+[^\n]*)*|-[ \t][^\n]*(?:\n[ \t]*-[ \t][^\n]*)*|[^\s,}][^,}\n]*)`)

	// secretKind matches a document whose kind is Secret.
	secretKind = regexp.MustCompile(`["']?\bkind["']?\s*:\s*["']?Secret\b`)
)

const hidden = "(not shown)"

// excerpt returns the beginning of a body of this request without secrets.
func (r *Request) excerpt(body []byte, contentType string) string {
	if len(body) == 0 {
		return ""
	}
	base, _, _ := strings.Cut(r.Resource, "/")
	path, _, _ := strings.Cut(r.URL, "?")
	switch {
	case base == "secrets" || base == "tokenreviews" || base == "certificatesigningrequests" || strings.HasSuffix(r.Resource, "/token"),
		slices.Contains(strings.Split(path, "/"), "secrets"), // a rejected request has no resource
		secretKind.Match(body),
		strings.Contains(contentType, "json-patch") && secretName.Match(body): // the value is not below the path
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

// withoutSecrets returns a document without secrets: the data of a Secret, and texts with such
// names, unless they are names themselves.
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
