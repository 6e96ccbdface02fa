package differential

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/yaml"
)

// answer turns a reply into a comparable form: code, headers, body and events. Values that are
// particular to this side are replaced by the order in which they were seen.
func (s *side) answer(a *ask, r *reply) map[string]any {
	out := map[string]any{"code": strconv.Itoa(r.code), "header": s.headers(r)}
	switch contentType, _, _ := strings.Cut(r.header.Get("Content-Type"), ";"); {
	case a.method == "HEAD":
	case a.watch && r.code == 200:
		out["events"] = s.events(a, r.body)
	case contentType == "application/yaml":
		data, err := yaml.ToJSON(r.body, 1<<24)
		if err != nil {
			out["body"] = err.Error()
			break
		}
		out["body"] = s.document(a, data)
	case contentType == "application/json":
		out["body"] = s.document(a, r.body)
		if body, ok := out["body"].(map[string]any); ok && a.object != "" && r.code < 300 && body["kind"] != "Status" && body["kind"] != "Table" &&
			body["kind"] != "PartialObjectMetadata" && a.get("dryRun") == "" {
			s.bodies[a.object] = string(r.body)
		}
	default:
		out["body"] = string(r.body)
	}
	return out
}

// headers are the headers that clients act on.
func (s *side) headers(r *reply) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"Content-Type", "Warning", "Retry-After", "Allow", "Location"} {
		for i, v := range r.header.Values(name) {
			out[fmt.Sprintf("%s.%d", name, i)] = s.text(v)
		}
	}
	return out
}

func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func (s *side) document(a *ask, data []byte) any {
	v, err := decode(data)
	if err != nil {
		return "not JSON: " + clip.Text(string(data), 200)
	}
	s.learn(a, v)
	return s.normal(a, v, nil)
}

// events are the frames of a watch. A server may send bookmarks at any time, so only the one that
// ends the initial events counts.
func (s *side) events(a *ask, data []byte) any {
	out := []any{}
	for line := range bytes.Lines(data) {
		v, err := decode(line)
		if err != nil {
			return "not JSON: " + clip.Text(string(line), 200)
		}
		if at(v, "type") == "BOOKMARK" && !bytes.Contains(line, []byte("k8s.io/initial-events-end")) {
			continue
		}
		s.learn(a, at(v, "object"))
		frame := s.normal(a, v, nil)
		if o, ok := at(v, "object").(map[string]any); ok && at(v, "type") == "BOOKMARK" {
			m, _ := at(frame, "object", "metadata").(map[string]any)
			s.normalList(a, o, m) // a version of the collection
		}
		out = append(out, frame)
	}
	return out
}

// at returns the value at a path of a document, or nil if there is none.
func at(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func text(v any, path ...string) string {
	s, _ := at(v, path...).(string)
	return s
}

// learn records the versions, uids, names and tokens in a document that were not seen before.
func (s *side) learn(a *ask, v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			s.learn(a, item)
		}
	case map[string]any:
		if m, ok := v["metadata"].(map[string]any); ok {
			s.learnMetadata(a, v, m)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if key != "metadata" {
				s.learn(a, v[key])
			}
		}
	}
}

func (s *side) learnMetadata(a *ask, v, m map[string]any) {
	if isList(v) {
		if rv := text(m, "resourceVersion"); rv != "" && !a.watch {
			s.lists = append(s.lists, rv)
		}
		if token := text(m, "continue"); token != "" {
			s.tokens, s.from = append(s.tokens, token), append(s.from, a)
		}
		return
	}
	if name, prefix := text(m, "name"), text(m, "generateName"); prefix != "" && len(name) > 5 &&
		strings.HasPrefix(prefix, name[:len(name)-5]) && !slices.Contains(s.names, name) {
		s.names = append(s.names, name)
	}
	if uid := text(m, "uid"); uid != "" && a.get("dryRun") == "" && !slices.Contains(s.uids, uid) {
		s.uids = append(s.uids, uid)
	}
	if rv, err := strconv.ParseUint(text(m, "resourceVersion"), 10, 64); err == nil && !slices.Contains(s.versions, rv) &&
		v["kind"] != "Status" && text(m, "annotations", "k8s.io/initial-events-end") == "" && text(m, "name") != "" {
		s.versions = append(s.versions, rv)
	}
}

// isList reports whether a document is a list. Its version is that of the collection.
func isList(v map[string]any) bool {
	kind := text(v, "kind")
	_, items := v["items"]
	return items || kind == "Table" || strings.HasSuffix(kind, "List") || kind == "Status"
}

var (
	timePattern = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	uidPattern  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	madePattern = regexp.MustCompile(`(g\d\d\d-(?:x\.|x|BAD|_|y*)?)[bcdfghjklmnpqrstvwxz2456789]{5}\b`) // a name that only an error shows
	numbers     = regexp.MustCompile(`\d+`)
)

// text returns a string without values that only this side has.
func (s *side) text(v string) string {
	for i, name := range s.names {
		v = strings.ReplaceAll(v, name, fmt.Sprintf("⟦name %d⟧", i))
	}
	v = madePattern.ReplaceAllString(v, "$1⟦made⟧")
	v = timePattern.ReplaceAllString(v, "⟦time⟧")
	return uidPattern.ReplaceAllStringFunc(v, func(uid string) string { return s.place("uid", slices.Index(s.uids, uid)) })
}

func (s *side) place(what string, i int) string {
	if i < 0 {
		return "⟦" + what + "⟧"
	}
	return fmt.Sprintf("⟦%s %d⟧", what, i)
}

// normal returns a document in its comparable form.
func (s *side) normal(a *ask, v any, path []string) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = s.normal(a, item, append(path, "*"))
		}
		if len(path) > 0 && path[len(path)-1] == "causes" {
			return causes(out)
		}
		if len(path) > 0 && path[len(path)-1] == "managedFields" {
			slices.SortFunc(out, func(a, b any) int { return strings.Compare(owner(a), owner(b)) }) // answers order them by second
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			if key == "time" && len(path) > 1 && path[len(path)-2] == "managedFields" {
				continue // a second more or less
			}
			out[key] = s.normal(a, item, append(path, key))
		}
		if m, ok := out["metadata"].(map[string]any); ok && isList(v) {
			s.normalList(a, v, m)
		}
		return out
	case string:
		return s.leaf(v, path)
	default:
		return v
	}
}

// causes are compared as a set of types and fields. A server may explain one fault in several
// sentences, in any order.
func causes(all []any) []any {
	slices.SortStableFunc(all, func(a, b any) int {
		return strings.Compare(text(a, "field")+text(a, "reason"), text(b, "field")+text(b, "reason"))
	})
	return slices.CompactFunc(all, func(a, b any) bool {
		return text(a, "field") == text(b, "field") && text(a, "reason") == text(b, "reason")
	})
}

// owner identifies an entry of managedFields.
func owner(v any) string {
	return strings.Join([]string{text(v, "manager"), text(v, "operation"), text(v, "subresource"), text(v, "apiVersion")}, "\x00")
}

func (s *side) leaf(v string, path []string) string {
	if len(path) == 0 {
		return s.text(v)
	}
	switch key := path[len(path)-1]; key {
	case "resourceVersion":
		return s.version(v)
	case "continue":
		if v != "" {
			return "⟦token⟧"
		}
	case "message":
		if strings.Contains(strings.ToLower(v), "version") { // numbers of versions
			return numbers.ReplaceAllString(s.text(v), "N")
		}
	}
	return s.text(v)
}

// version returns the position of an object's version in the order of versions, and the version
// before it.
func (s *side) version(v string) string {
	n, err := strconv.ParseUint(v, 10, 64)
	i := slices.Index(s.versions, n)
	if err != nil || i < 0 {
		return "⟦version⟧"
	}
	return fmt.Sprintf("⟦version %d⟧ after %s", i, s.before(n))
}

// before returns the newest known version that is older than n.
func (s *side) before(n uint64) string {
	best := -1
	for i, v := range s.versions {
		if v < n && (best < 0 || v > s.versions[best]) {
			best = i
		}
	}
	return s.place("version", best)
}

// normalList replaces a list's version by the objects' versions that it includes. Two correct
// servers need not agree on more.
func (s *side) normalList(a *ask, v, m map[string]any) {
	rv := text(v, "metadata", "resourceVersion")
	if n, err := strconv.ParseUint(rv, 10, 64); err == nil && n > 0 && m != nil {
		m["resourceVersion"] = "at least " + s.before(n+1)
	}
	if a.exactly != "" && v["kind"] != "Status" {
		m["resourceVersion"] = fmt.Sprintf("as asked for: %t", rv == s.words(a.exactly))
	}
}

// difference is one place in which two answers differ.
type difference struct {
	path    string // such as body.metadata.labels.app
	a, b    any    // nil if absent
	message bool   // the text of an error message
}

func (d difference) String() string {
	if a, ok := d.a.(outcome); ok {
		b := d.b.(outcome)
		return fmt.Sprintf("%s:\n      ours %s %s\n      peer %s %s", d.path, a, clip.Text(a.message, 500), b, clip.Text(b.message, 500))
	}
	a, b := show(d.a), show(d.b)
	if n := len(commonPrefix(a, b)); n > 200 {
		a, b = "…"+a[n-100:], "…"+b[n-100:]
	}
	return fmt.Sprintf("%s:\n      ours %s\n      peer %s", d.path, clip.Text(a, 1000), clip.Text(b, 1000))
}

func show(v any) string {
	data, _ := json.Marshal(v)
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(data))
}

func commonPrefix(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// differences compares two documents and returns the paths in order.
func differences(path string, a, b any) []difference {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := maps.Clone(x)
			maps.Copy(keys, y)
			var out []difference
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				out = append(out, differences(path+"."+key, x[key], y[key])...)
			}
			return out
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			var out []difference
			for i := range x {
				out = append(out, differences(path+".*", x[i], y[i])...)
			}
			return out
		}
	}
	if a == nil && b == nil || reflect.DeepEqual(a, b) {
		return nil
	}
	return []difference{{path: path, a: a, b: b, message: strings.HasSuffix(path, ".message") || strings.HasSuffix(path, ".description") || strings.HasPrefix(path, ".header.Warning")}}
}
