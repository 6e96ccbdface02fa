package paths

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/jsonpath"

	kjson "github.com/kindwright/kindwright/internal/json"
	ours "github.com/kindwright/kindwright/internal/jsonpath"
)

var record = flag.Bool("record", false, "write the answers of client-go to internal/jsonpath/testdata")

const file = "../../jsonpath/testdata/answers.json"

const object = `{"apiVersion":"shop.example.com/v1","kind":"Shirt","metadata":{"name":"a","labels":{"example.com/tier":"gold","b c":"d"}},
"spec":{"n":3,"f":2.5,"yes":true,"none":null,"text":"abc","":"empty","0":"zero","list":[1,2,3,4,5],"mixed":[1,"a",null,2.5,true,{"x":1},[7,8]],"nested":[[1,2],[3],[]],"void":[],"empty":{},
"items":[{"name":"a","n":1,"ok":true,"s":"x"},{"name":"b","n":2,"f":1.5,"tags":["p","q"]},{"n":-3,"name":"c d","none":null,"ok":false},{"name":"e)","o":{"n":5}}]},
"status":{"conditions":[{"type":"Live","status":"True","count":1},{"type":"Ready","status":"False","count":12}]}}`

// steps and operands are what random paths are made of.
var (
	steps = []string{
		".spec", ".status", ".metadata", ".labels", ".items", ".list", ".mixed", ".nested", ".void", ".empty", ".text", ".none", ".n", ".f", ".name", ".tags",
		".conditions", ".type", ".status", ".*", "[*]", "[0]", "[-1]", "[1:]", "[:2]", "[::2]", "[1:3]", "[-2:]", "[3:1]", "[9]", "[-9]", "[1:1]", "[::0]", "[::-1]", "[0:9]",
		"[]", "[0,1]", "[0,-1]", "['name','n']", "['spec']", "['example.com/tier']", `['example\.com/tier']`, `.example\.com/tier`, "..name", "..", "..n", "['b c']", "[x]", "[+1]",
		"[-]", "[1:2:3:4]", "[0,x]", ".", "@", "$", " ", "3", "-2", "2.5", "1.2.3", "+", `"q"`, `'q'`, `"a\tb"`, `'a\'b'`, `"open`, "true", "word", "}{", "}text{", "{", "}", "[", "]", "\n", "\t", ",",
		"[99999999999999999999]", "[9223372036854775807]", "é", ".é", "\xff",
	}
	operands  = []string{"@", "@.n", "@.name", "@.f", "@.ok", "@.none", "@.o", "@.tags", "@.tags[0]", "@.tags[*]", "@[0]", "@[9]", "@.x", "1", "2.5", "-3", `"a"`, "'a'", `"c d"`, `"e)"`, "true", "false", "null", "word", "", "@.type", `"Ready"`, "@.count", "$", "@..n"}
	operators = []string{"==", "!=", "<", "<=", ">", ">=", " == ", " != ", "=", "===", "<>", "!", ""}
)

// prefixes lead to values that further steps can select from.
var prefixes = []string{
	".spec", ".spec.items", ".spec.items[*]", ".spec.items[-1:]", ".spec.list", ".spec.mixed", ".spec.nested", ".spec.nested[*]", ".status.conditions", ".metadata.labels", "..", ".spec.items[*].o",
}

// written are paths that are interesting by themselves.
var written = []string{
	"", ".", "@", "$", "{.spec.n}", "{.spec.n} and {.spec.f}", ".spec.n", ".spec.text", ".spec.0", ".spec.*", ".spec.list[*]", ".spec.text.*", ".spec.text[*]",
	`.status.conditions[?(@.type=="Ready")].status`, `.status.conditions[?(@.type=='Ready')].status`, `.status.conditions[?(@.count>=12)].type`,
	`.status.conditions[?(@.type == "Ready")].status`, `.status.conditions[?(@.type!="Ready")].status`, `.status.conditions[?(@.none)].status`, `.spec.items[?(@.ok)].name`,
	`.spec.items[?(@.ok==true)].name`, `.spec.items[?(@.name=="e)")].o.n`, `.spec.items[?(@[5])].name`, `.spec.mixed[?(@==1)]`, `.spec.list[?(@>2)]`, `.spec.list[?(3<@)]`,
	`.spec.items[?(@.n>"a")].name`, `.spec.text[?(@.a)]`, `.spec.none[?(@.a)]`, `.spec.none[0]`, `.spec.none.a`, `.spec.mixed[2]`, `.spec.mixed[5].x`, `.spec.mixed[6][1]`,
	`.spec.nested[*][0]`, `.spec.nested[*][0:0]`, `.spec.nested[0:2][0]`, `..n`, `..["n"]`, `...n`, `....n`, `.. .. .n`, `.spec..name`, `.spec.items[*]['name','n']`, `.spec.items[*].tags[*]`,
	`{range .spec.items[*]}{.name}{end}`, `{end}`, `{word}`, `.spec word`, `.spec "q"`, `.none "q"`, `.spec 5`, `.spec true`, `.metadata.labels['b c']`, `.metadata.labels.b\ c`, `.spec[""]`, `.spec['']`,
	`.a} text`, `.spec.n} text {.missing`, `.spec.n} text {.spec[0]`, `{.spec.n`, `.spec.items[?(@.a"[?(@.b)]")]`, `.spec.items[?(`, `.spec.items[?()]`, `.spec.items[?(@.name`, `.spec.items[?(@.name)`,
	`.spec.items[?(@.n==)]`, `.spec.items[?(==1)]`, `.spec.items[?(!@.n)]`, `.spec.list[0`, `.spec.list[1:2:`, `.spec.n\`, `.spec.list[ 0 ]`, `.spec.list[ 0,1 ]`, `.spec.list[0, 1]`,
}

func random(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(4) > 0 {
		b.WriteString(pick(r, prefixes))
	}
	for range 1 + r.IntN(4) {
		if r.IntN(6) == 0 {
			left, operator, right := pick(r, operands), pick(r, operators), pick(r, operands)
			b.WriteString("[?(" + left + operator + right + ")]")
			continue
		}
		b.WriteString(pick(r, steps[:len(steps)*(1+r.IntN(2))/2]))
	}
	return b.String()
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }

// answer is what is recorded of one path. Package internal/jsonpath reads it.
type answer struct {
	Path   string `json:"path"`
	Bad    bool   `json:"bad,omitempty"`
	Failed bool   `json:"failed,omitempty"`
	Found  []any  `json:"found,omitempty"`
}

// ask evaluates a path with client-go.
func ask(t *testing.T, path string, tree any) answer {
	text := path
	if !strings.HasPrefix(text, "{") {
		text = "{" + text + "}"
	}
	out := answer{Path: path}
	p := jsonpath.New("").AllowMissingKeys(true)
	if err := p.Parse(text); err != nil {
		out.Bad = true
		return out
	}
	out.Found, out.Failed = find(t, p, tree)
	return out
}

// requireSame requires that client-go has an answer, and reports true. It reports false where
// client-go goes by the order of a Go map, which differs from time to time.
func requireSame(t *testing.T, got answer, tree any) bool {
	first := ask(t, got.Path, tree)
	if strings.Contains(got.Path, "*") || strings.Contains(got.Path, "..") {
		for range 60 {
			if !equal(t, first, ask(t, got.Path, tree)) {
				return false
			}
		}
	}
	require.Equal(t, first, got)
	return true
}

// find returns the first results, as the columns of custom resources do.
func find(t *testing.T, p *jsonpath.JSONPath, tree any) (found []any, failed bool) {
	all, err := p.FindResults(tree)
	if err != nil {
		return nil, true
	}
	if len(all) == 0 {
		return nil, false
	}
	for _, v := range all[0] {
		if !v.IsValid() || !v.CanInterface() {
			found = append(found, nil)
			continue
		}
		found = append(found, v.Interface())
	}
	return plainly(t, found), false
}

func plainly(t *testing.T, values []any) (out []any) {
	data, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &out))
	if len(out) == 0 {
		return nil
	}
	return out
}

func equal(t *testing.T, a, b answer) bool {
	left, err := json.Marshal(a)
	require.NoError(t, err)
	right, err := json.Marshal(b)
	require.NoError(t, err)
	return bytes.Equal(left, right)
}

func ourAnswer(t *testing.T, path string, tree any) answer {
	out := answer{Path: path}
	p, err := ours.Parse(path)
	if err != nil {
		out.Bad = true
		return out
	}
	found, err := p.Find(tree)
	out.Found, out.Failed = plainly(t, found), err != nil
	return out
}

type answers struct {
	Object json.RawMessage `json:"object"`
	Paths  []answer        `json:"paths"`
}

// 8,000 random paths have the same answer as in client-go.
func TestCRD_18_PathsAreThoseOfClientGo(t *testing.T) {
	tree, err := kjson.DecodeTree([]byte(object), kjson.TreeOptions{})
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	recorded := answers{Object: json.RawMessage(object)}
	paths := slices.Clone(written)
	for range 8_000 {
		paths = append(paths, random(r))
	}
	seen := map[string]bool{}
	found := 0
	for i, path := range paths {
		got := ourAnswer(t, path, tree)
		// Only client-go evaluates the keywords of templates.
		if seen[path] || strings.Contains(path, "{range") || !requireSame(t, got, tree) {
			continue
		}
		seen[path] = true
		if len(got.Found) > 0 {
			found++
		}
		valid := strings.ToValidUTF8(path, "") == path
		if valid && (i < len(written)+200 || !got.Bad && (!got.Failed || i%8 == 0) && len(recorded.Paths) < 900) {
			recorded.Paths = append(recorded.Paths, got)
		}
	}
	require.Greater(t, len(seen), 5_000)
	require.Greater(t, found, 200)
	if !*record {
		return
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	require.NoError(t, encoder.Encode(recorded))
	require.NoError(t, os.WriteFile(file, bytes.ReplaceAll(text.Bytes(), []byte(`},{"path"`), []byte("},\n{\"path\"")), 0o644)) //nolint:gosec // test data in a repository
}

// Recorded answers are still those of client-go.
func TestCRD_18_RecordedAnswersAreThoseOfClientGo(t *testing.T) {
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var all answers
	require.NoError(t, json.Unmarshal(data, &all))
	tree, err := kjson.DecodeTree(all.Object, kjson.TreeOptions{})
	require.NoError(t, err)
	for _, want := range all.Paths {
		require.True(t, requireSame(t, want, tree), "%q", want.Path)
	}
}
