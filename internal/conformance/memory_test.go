package conformance

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

var (
	bodies    = flag.Int("bodies", 10, "how many bodies of each encoding the search for the one that takes the most memory sends")
	bodySize  = flag.Int("body-size", 3<<20-1024, "the size of these bodies")
	bodySeed  = flag.Uint64("body-seed", 1, "the seed of these bodies")
	bodyLimit = flag.Uint64("body-limit", 40<<20, "how many bytes may be allocated for a body in all; those that are kept at once are fewer")
)

// Hamper has a protobuf form, and a field of each shape.
type Hamper struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	Data   map[string]string `json:"data,omitempty" protobuf:"bytes,2,rep,name=data"`
	Items  []HamperItem      `json:"items,omitempty" protobuf:"bytes,3,rep,name=items"`
	Names  []string          `json:"names,omitempty" protobuf:"bytes,4,rep,name=names"`
	Counts []int32           `json:"counts,omitempty" protobuf:"varint,5,rep,name=counts"`
	Text   string            `json:"text,omitempty" protobuf:"bytes,6,opt,name=text"`
}

// HamperItem is an item of a Hamper.
type HamperItem struct {
	Name  string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	Value int32  `json:"value,omitempty" protobuf:"varint,2,opt,name=value"`
}

// Sack takes anything.
type Sack struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Content map[string]any `json:"content,omitempty"`
}

const (
	hamperPath = "/apis/shop.example.com/v1/namespaces/default/hampers"
	sackPath   = "/apis/shop.example.com/v1/namespaces/default/sacks"
)

// memoryServer is a server for bodies that are sent without a connection.
func memoryServer(t *testing.T) *server {
	t.Helper()
	return startInMemory(t, kindwright.Serve(
		registry.Kind[Hamper]{Group: group, Version: "v1", Plural: "hampers"},
		registry.Kind[Sack]{Group: group, Version: "v1", Plural: "sacks"}))
}

// body is a request with a body.
type body struct {
	what              string
	method, path, typ string
	data              []byte
}

// spend sends a body and returns the code of the answer, the bytes that were allocated for it, and
// the bytes of the answer.
func (s *server) spend(b body) (code int, allocated uint64, answer []byte) {
	s.t.Helper()
	r := httptest.NewRequest(b.method, b.path, io.NopCloser(bytes.NewReader(b.data)))
	r.ContentLength = int64(len(b.data))
	r.Header.Set("Content-Type", b.typ)
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	w := &discarding{httptest.NewRecorder()}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.api.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	return w.Code, after.TotalAlloc - before.TotalAlloc, w.Body.Bytes()
}

// discarding keeps the beginning of an answer.
type discarding struct{ *httptest.ResponseRecorder }

func (d *discarding) Write(p []byte) (int, error) {
	if d.Body.Len() < 1<<10 {
		d.ResponseRecorder.Write(p[:min(len(p), 1<<10)]) //nolint:errcheck // a buffer
	}
	return len(p), nil
}

// units are pieces of JSON whose repetition fills a value. %d is counted up.
var units = []string{
	`{}`, `[]`, `0`, `""`, `null`, `true`, `1.5`, `12345`, `"a"`, `"%d"`, `{"a":0}`, `{"a":{}}`, `{"":""}`, `[[]]`, `[0]`, `{"a":[]}`,
	`{"f:a":{}}`, `{"name":"a"}`, `{"name":"%d","value":%d}`, `{"manager":"a","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{}}`,
	`{"manager":"m%d","operation":"Apply","apiVersion":"shop.example.com/v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:%d":{}}}}`,
	`{"apiVersion":"v1","kind":"A","name":"a","uid":"%d"}`, `{"uid":""}`, `"\u0041"`, `"é"`, `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0}`,
	`{"op":"add","path":"/text","value":""}`, `{"op":"test","path":"/data","value":null}`, `{"op":"add","path":"/names/-","value":"a"}`, `"example.com/%d"`, `1e5`, `-1`,
}

// values are what a member of a map may be.
var values = []string{`{}`, `[]`, `0`, `""`, `null`, `"a"`, `{"a":0}`, `{"f:a":{}}`, `{".":{}}`, `"%d"`}

// positions are where a value that fills a document stands.
var positions = []string{
	`{"metadata":{"name":"x","managedFields":%s}}`,
	`{"metadata":{"name":"x","managedFields":[{"manager":"a","operation":"Update","apiVersion":"shop.example.com/v1","fieldsType":"FieldsV1","fieldsV1":%s}]}}`,
	`{"metadata":{"name":"x","ownerReferences":%s}}`, `{"metadata":{"name":"x","finalizers":%s}}`,
	`{"metadata":{"name":"x","labels":%s}}`, `{"metadata":{"name":"x","annotations":%s}}`, `{"metadata":%s}`,
	`{"metadata":{"name":"x"},"data":%s}`, `{"metadata":{"name":"x"},"items":%s}`, `{"metadata":{"name":"x"},"names":%s}`,
	`{"metadata":{"name":"x"},"counts":%s}`, `{"metadata":{"name":"x"},"text":%s}`, `{"metadata":{"name":"x"},"z":%s}`,
	`{"metadata":{"name":"x"},"content":{"a":%s}}`, `{"metadata":{"name":"x"},"content":%s}`, `%s`,
	`{"metadata":{"name":"x","annotations":{"kubectl.kubernetes.io/last-applied-configuration":%s}}}`,
	`[{"op":"add","path":"/data","value":%s}]`, `{"dryRun":%s}`, `{"preconditions":{"uid":%s}}`,
}

func pick(r *rand.Rand, of []string) string { return of[r.IntN(len(of))] }

// counted replaces %d by i.
func counted(unit string, i int) string { return strings.ReplaceAll(unit, "%d", fmt.Sprint(i)) }

// filling returns a JSON value of about size bytes, and what it is made of.
func filling(r *rand.Rand, size int) (text, what string) {
	var b strings.Builder
	switch kind := r.IntN(5); kind {
	case 0, 1:
		unit := pick(r, units)
		b.WriteByte('[')
		for i := 0; b.Len() < size-len(unit)-20; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(counted(unit, i))
		}
		b.WriteByte(']')
		return b.String(), "list of " + unit
	case 2, 3:
		value, prefix := pick(r, values), pick(r, []string{"", "f:", "example.com/"})
		b.WriteByte('{')
		for i := 0; b.Len() < size-len(value)-40; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"%s%d":%s`, prefix, i, counted(value, i))
		}
		b.WriteByte('}')
		return b.String(), "map of " + prefix + value
	default:
		unit := pick(r, []string{"x", `\u0041`, `\n`, "é", `{\"a\":0},`, "["})
		return `"` + strings.Repeat(unit, max(0, size-2)/len(unit)) + `"`, "text of " + unit
	}
}

// types are the media types of JSON patches and documents, by method.
var patchTypes = []string{"application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}

// randomBody returns a body in JSON, in YAML or in protobuf.
func randomBody(r *rand.Rand, encoding string, size int) body {
	path := pick(r, []string{hamperPath, hamperPath, sackPath})
	b := body{typ: "application/json", path: path}
	var position, what string
	if encoding == "protobuf" {
		b.typ, b.path = "application/vnd.kubernetes.protobuf", hamperPath
		b.data, what = randomMessage(r, size)
	} else {
		var text string
		text, what = filling(r, size-200)
		position = pick(r, positions)
		b.data = []byte(strings.Replace(position, "%s", text, 1))
		if encoding == "yaml" {
			b.typ = "application/yaml"
			b.data = inYAML(r, b.data)
		}
	}
	b.method = pick(r, []string{"POST", "PUT", "PATCH", "PATCH", "DELETE"})
	query := pick(r, []string{"", "?dryRun=All", "?fieldValidation=Strict"})
	switch b.method {
	case "PUT", "DELETE":
		b.path += "/x"
	case "PATCH":
		b.path += "/x"
		b.typ = pick(r, patchTypes)
		if encoding == "yaml" {
			b.typ = patchTypes[3]
		}
		if b.typ == patchTypes[3] {
			query = "?fieldManager=a&force=true"
		}
	}
	b.path += query
	b.what = fmt.Sprintf("%s %s %s: %s in %s", b.method, b.typ, b.path, what, position)
	return b
}

// inYAML writes JSON so that it has to be read as YAML.
func inYAML(r *rand.Rand, text []byte) []byte {
	if r.IntN(2) == 0 || text[0] != '{' {
		return append([]byte("# \n"), text...)
	}
	out := bytes.ReplaceAll(text, []byte("},{"), []byte("},\n {"))
	return append([]byte("? apiVersion\n: shop.example.com/v1\n? z\n: "), bytes.ReplaceAll(out, []byte("],["), []byte("],\n ["))...)
}

// randomMessage returns a protobuf document that repeats one field.
func randomMessage(r *rand.Rand, size int) (document []byte, what string) {
	inMetadata := r.IntN(2) == 0
	number := int32(r.IntN(6) + 1)
	if inMetadata {
		number = []int32{1, 11, 12, 13, 14, 15, 17, 17, 99}[r.IntN(9)]
	}
	var unit []byte
	switch kind := r.IntN(5); kind {
	case 0:
		unit = protowire.AppendBytes(protowire.AppendKey(nil, number, protowire.Bytes), "")
	case 1:
		unit = protowire.AppendVarint(protowire.AppendKey(nil, number, protowire.Varint), 1)
	case 2:
		unit = protowire.AppendBytes(protowire.AppendKey(nil, number, protowire.Bytes), "\x0a\x00")
	case 3:
		unit = protowire.AppendBytes(protowire.AppendKey(nil, number, protowire.Bytes), "\x0a\x01a\x12\x01b")
	default:
		unit = protowire.AppendBytes(protowire.AppendKey(nil, number, protowire.Bytes), strings.Repeat("\x01", size/2))
	}
	message := bytes.Repeat(unit, (size-64)/len(unit))
	if inMetadata {
		name := protowire.AppendBytes(protowire.AppendKey(nil, 1, protowire.Bytes), "x")
		message = protowire.AppendBytes(protowire.AppendKey(nil, 1, protowire.Bytes), string(append(name, message...)))
	}
	kind := protowire.AppendBytes(protowire.AppendKey(nil, 1, protowire.Bytes), "shop.example.com/v1")
	kind = protowire.AppendBytes(protowire.AppendKey(kind, 2, protowire.Bytes), "Hamper")
	document = protowire.AppendBytes(protowire.AppendKey([]byte("k8s\x00"), 1, protowire.Bytes), string(kind))
	document = protowire.AppendBytes(protowire.AppendKey(document, 2, protowire.Bytes), string(message))
	return document, fmt.Sprintf("field %d of %d bytes, in metadata: %t", number, len(unit), inMetadata)
}

// found is what a body took.
type found struct {
	body

	code      int
	allocated uint64
	answer    []byte
}

// TestS1_MemoryOfBodies sends random bodies that are made to take memory. "make memory-search" sends
// 10,000 of each encoding.
func TestS1_MemoryOfBodies(t *testing.T) {
	s := memoryServer(t)
	for _, encoding := range []string{"json", "yaml", "protobuf"} {
		r := rand.New(rand.NewPCG(*bodySeed, uint64(len(encoding))))
		var worst []found
		for range *bodies {
			f := s.spends(randomBody(r, encoding, *bodySize))
			i, _ := slices.BinarySearchFunc(worst, f, func(a, b found) int { return cmp.Compare(b.allocated, a.allocated) })
			worst = slices.Insert(worst, i, f)[:min(len(worst)+1, 12)]
		}
		for _, f := range worst {
			t.Logf("%-8s %6.1f MiB %3d %s: %.160s", encoding, float64(f.allocated)/(1<<20), f.code, f.what, f.answer)
		}
		require.LessOrEqual(t, worst[0].allocated, *bodyLimit, "%s: %s", worst[0].what, worst[0].data)
	}
}

// spends sends a body to a server on which the object x exists, and states what it took.
func (s *server) spends(b body) found {
	s.t.Helper()
	for _, path := range []string{hamperPath, sackPath} {
		s.spend(body{"", "POST", path, "application/json", []byte(`{"metadata":{"name":"x"}}`)})
	}
	f := found{body: b}
	f.code, f.allocated, f.answer = s.spend(b)
	require.Less(s.t, f.code, 500, "%s: %.300s", f.what, f.answer)
	f.data = f.data[:min(len(f.data), 200)]
	return f
}

// repeated is a document of the size of the search with one value many times.
func repeated(position, unit string) []byte {
	n := (*bodySize - len(position)) / (len(unit) + 1)
	return []byte(strings.Replace(position, "%s", strings.Repeat(unit+",", n)+unit, 1))
}

// The worst bodies that are known are refused, and say where.
func TestS1_KnownBodies(t *testing.T) {
	s := memoryServer(t)
	metadata := func(message string) []byte {
		out := protowire.AppendBytes(protowire.AppendKey([]byte("k8s\x00"), 2, protowire.Bytes),
			string(protowire.AppendBytes(protowire.AppendKey(nil, 1, protowire.Bytes), message)))
		return out
	}
	empty := string(protowire.AppendBytes(protowire.AppendKey(nil, 17, protowire.Bytes), ""))
	for _, c := range []struct {
		typ  string
		data []byte
		text string
	}{
		{"application/json", repeated(`{"metadata":{"name":"y","managedFields":[%s]}}`, "{}"), "metadata.managedFields"},
		{"application/json", repeated(`{"metadata":{"name":"y","managedFields":[{"fieldsV1":{"f:a":[%s]}}]}}`, "0"), "metadata.managedFields"},
		{"application/json", repeated(`{"metadata":{"name":"y","ownerReferences":[%s]}}`, `{"uid":""}`), "metadata.ownerReferences"},
		{"application/json", repeated(`{"metadata":{"name":"y","finalizers":[%s]}}`, "-1"), "metadata.finalizers"},
		{"application/json", repeated(`{"metadata":{"name":"y"},"z":[%s]}`, "[]"), "in z["},
		{"application/json", repeated(`{"metadata":{"name":"y"},"names":[%s]}`, "[]"), "in names["},
		{"application/json", repeated(`[%s]`, "{}"), "byte"},
		{"application/yaml", repeated("kind: Hamper\nz: [%s]\n", "[]"), "50000"},
		{"application/yaml", []byte("z:\n" + strings.Repeat("- \n", *bodySize/4)), "50000"},
		{"application/vnd.kubernetes.protobuf", metadata(strings.Repeat(empty, *bodySize/len(empty)-20)), "metadata.managedFields"},
	} {
		f := s.spends(body{c.text, "POST", hamperPath + "?dryRun=All", c.typ, c.data})
		code, reason := 413, "RequestEntityTooLarge"
		if strings.HasPrefix(c.text, "metadata.") && c.typ == "application/json" {
			code, reason = 422, "Invalid" // as less metadata would be
		}
		require.Equal(t, code, f.code, "%.60s: %s", c.data, f.answer)
		require.Contains(t, string(f.answer), c.text, "%.60s", c.data)
		require.Contains(t, string(f.answer), `"reason":"`+reason+`"`)
		require.LessOrEqual(t, f.allocated, *bodyLimit, "%.60s", c.data)
	}
}

// What is large and means no harm is taken.
func TestS1_LargeObjects(t *testing.T) {
	s := memoryServer(t)
	pairs := func(n int, name, value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"`+name+`":"`+value+`"`, i, i)
		}
		return b.String()[1:]
	}
	properties := strings.Repeat(`{"type":"object","description":"The desired state of this part of the object, in a sentence of about the usual length.","properties":{"name":{"type":"string"}}},`, 10_000)
	for what, c := range map[string]struct{ path, body string }{
		"few large values":    {hamperPath, `{"metadata":{"name":"%s"},"data":{` + pairs(3, "k%d", strings.Repeat("v", 1_000_000)+"%d") + `}}`},
		"many small values":   {hamperPath, `{"metadata":{"name":"%s"},"data":{` + pairs(55_000, "key-%06d", "value-%06d") + `}}`},
		"a schema":            {sackPath, `{"metadata":{"name":"%s"},"content":{"allOf":[` + strings.TrimSuffix(properties, ",") + `]}}`},
		"an object of 20 KiB": {sackPath, `{"metadata":{"name":"%s"},"content":{"a":[` + strings.Repeat(`{},`, 7_000) + `{}]}}`},
	} {
		for i, query := range []string{"?dryRun=All", "?dryRun=All&fieldManager=me"} {
			name := fmt.Sprintf("y%d", i)
			f := s.spends(body{what, "POST", c.path + query, "application/json", []byte(strings.Replace(c.body, "%s", name, 1))})
			require.Equal(t, 201, f.code, "%s of %d bytes: %s", what, len(c.body), f.answer)
			t.Logf("%s of %d KiB: %.1f MiB", what, len(c.body)>>10, float64(f.allocated)/(1<<20))
		}
	}
}
