package conformance

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/cbor"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

var (
	bodies        = flag.Int("bodies", 10, "how many bodies of each encoding the search for the one that takes the most memory sends")
	bodySize      = flag.Int("body-size", 3<<20-1024, "the size of these bodies")
	bodySeed      = flag.Uint64("body-seed", 1, "the seed of these bodies")
	bodyLimit     = flag.Uint64("body-limit", 32<<20, "how many bytes may be allocated for a body in all; those that are kept at once are fewer")
	residentLimit = flag.Uint64("resident-limit", 0, "how many bytes may become resident for one of the worst bodies, on Linux; zero does not measure them")
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
	return startInMemory(t, withCBOR, kindwright.Serve(
		registry.Kind[Hamper]{Group: group, Version: "v1", Plural: "hampers"},
		registry.Kind[Sack]{Group: group, Version: "v1", Plural: "sacks"}))
}

// mostYAML is the length of a YAML document that is still read.
const mostYAML = 1 << 20

// body is a request with a body.
type body struct {
	what              string
	method, path, typ string
	data              []byte
	chunked           bool // the request does not state its length
}

// spend sends a body and states what it took.
func (s *server) spend(b body) found {
	s.t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := s.handle(b)
	runtime.ReadMemStats(&after)
	return found{body: b, code: w.Code, allocated: after.TotalAlloc - before.TotalAlloc, answer: w.Body.Bytes()}
}

// handle sends a body without a connection.
func (s *server) handle(b body) *discarding {
	r := httptest.NewRequest(b.method, b.path, io.NopCloser(bytes.NewReader(b.data)))
	if r.ContentLength = int64(len(b.data)); b.chunked {
		r.ContentLength = -1
	}
	r.Header.Set("Content-Type", b.typ)
	r.Header.Set("X-User", "admin")
	r.Header.Set("X-Groups", "system:masters")
	w := &discarding{httptest.NewRecorder()}
	s.api.ServeHTTP(w, r)
	return w
}

// resident sends a body again, and returns by how much the resident memory of the process grows at its
// peak. The kernel keeps the peak, and forgets it when asked. The result is zero where there is no
// such kernel, or no limit.
func (s *server) resident(b body) uint64 {
	if *residentLimit == 0 {
		return 0
	}
	s.tidy()
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return 0
	}
	before := residentMemory("VmRSS:")
	s.handle(b)
	return max(before, residentMemory("VmHWM:")) - before
}

// residentMemory returns a line of the kernel's account of the memory of the process.
func residentMemory(line string) (bytes uint64) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, text, _ := strings.Cut(string(data), line)
	if _, err := fmt.Sscan(text, &bytes); err != nil {
		return 0
	}
	return bytes << 10
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
	`{"propagationPolicy":%s}`, `{"kind":"DeleteOptions","apiVersion":"v1","ignoreStoreReadErrorWithClusterBreakingPotential":%s}`,
}

// operations are of JSON patches. They follow one that adds a text.
var operations = []string{
	`{"op":"copy","from":"/text","path":"/data/k%d"}`, `{"op":"copy","from":"/names","path":"/names/-"}`, `{"op":"copy","from":"/data","path":"/data/k%d"}`,
	`{"op":"copy","from":"/content/a","path":"/content/a/k%d"}`, `{"op":"test","path":"/text","value":"a"}`, `{"op":"test","path":"/names/0","value":"a"}`,
	`{"op":"move","from":"/text","path":"/names/0"}`, `{"op":"add","path":"/names/-","value":"%d"}`, `{"op":"add","path":"/data/k%d","value":"v"}`,
	`{"op":"remove","path":"/data/k%d"}`, `{"op":"replace","path":"/text","value":"%d"}`, `{"op":"add","path":"/names/01","value":"%d"}`,
	`{"op":"copy","from":"/text","path":"/z%d"}`, `{"op":"copy","from":"/data","path":"/z%d"}`, `{"op":"copy","from":"/content","path":"/z%d"}`,
	`{"op":"move","from":"/text","path":"/z%d"}`, `{"op":"test","path":"/data","value":{}}`, `{"op":"add","path":"/content/a","value":{"a":{}}}`, `{"op":"replace","path":"/metadata/labels","value":{"a":"%d"}}`,
}

// randomOperations returns a JSON patch that adds a value and then repeats an operation up to as
// often as is allowed.
func randomOperations(r *rand.Rand, size int) (text, what string) {
	n := []int{1, 3, 100, 9_998}[r.IntN(4)]
	operation := pick(r, operations)
	var b strings.Builder
	for i := range n {
		b.WriteString("," + counted(operation, i))
	}
	value, of := filling(r, max(2, size-b.Len()-200))
	to := pick(r, []string{"/text", "/names", "/data", "/content", "/metadata/annotations"})
	return fmt.Sprintf(`[{"op":"add","path":%q,"value":%s}%s]`, to, value, b.String()), fmt.Sprintf("%s at %s, then %d of %s", of, to, n, operation)
}

func pick(r *rand.Rand, of []string) string { return of[r.IntN(len(of))] }

// counted replaces %d by i.
func counted(unit string, i int) string { return strings.ReplaceAll(unit, "%d", fmt.Sprint(i)) }

// filling returns a JSON value of about size bytes, and what it is made of.
func filling(r *rand.Rand, size int) (text, what string) {
	var b strings.Builder
	switch kind := r.IntN(6); kind {
	case 5: // a part that takes much less than the bound on nodes, and text
		half := size / []int{2, 4, 8, 16}[r.IntN(4)]
		first, of := filling(r, half)
		return `{"a":` + first + `,"b":"` + strings.Repeat("x", max(0, size-len(first)-20)) + `"}`, fmt.Sprintf("%d bytes of %s, and text", half, of)
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
		unit := pick(r, []string{"x", `\u0041`, `\n`, "é", `{\"a\":0},`, "[", "a b ", "\u2028"})
		return `"` + strings.Repeat(unit, max(0, size-2)/len(unit)) + `"`, "text of " + unit
	}
}

// patchTypes are the media types of patches in JSON, and of an apply.
var patchTypes = []string{"application/merge-patch+json", "application/json-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}

// bodyTypes are the media types of the encodings.
var bodyTypes = map[string]string{
	"json": "application/json", "yaml": "application/yaml", "cbor": cborType, "protobuf": "application/vnd.kubernetes.protobuf",
}

// randomBody returns a request with a body in one of the encodings: it creates, updates, patches or
// applies an object, or deletes one or all of them.
func randomBody(r *rand.Rand, encoding string, size int) body {
	b := body{typ: bodyTypes[encoding], path: pick(r, []string{hamperPath, hamperPath, sackPath})}
	b.method = pick(r, []string{"POST", "PUT", "PATCH", "PATCH", "DELETE", "DELETE"})
	if b.method != "POST" && (b.method != "DELETE" || r.IntN(2) == 0) {
		b.path += "/x"
	}
	query := pick(r, []string{"", "?dryRun=All", "?fieldValidation=Strict"})
	if b.method == "PATCH" {
		switch encoding {
		case "json":
			b.typ = pick(r, patchTypes)
		case "yaml":
			b.typ = patchTypes[3]
		case "cbor":
			b.typ = cborApply
		}
		if b.typ == patchTypes[3] || b.typ == cborApply {
			query = "?fieldManager=a&force=true"
		}
	}
	b.path += query
	var what string
	b.data, what = content(r, encoding, b.typ, size)
	b.chunked = r.IntN(4) == 0
	b.what = fmt.Sprintf("%s %s %s (chunked: %t): %s", b.method, b.typ, b.path, b.chunked, what)
	return b
}

// content returns the bytes of a body, and what they are made of.
func content(r *rand.Rand, encoding, contentType string, size int) (data []byte, what string) {
	if encoding == "protobuf" {
		return randomMessage(r, size)
	}
	if encoding == "yaml" && r.IntN(10) > 0 {
		size = min(size, mostYAML-20) // inYAML adds to it
	}
	if encoding == "cbor" && r.IntN(2) == 0 {
		return randomItems(r, size)
	}
	if contentType == patchTypes[1] && r.IntN(4) > 0 {
		text, what := randomOperations(r, size)
		return []byte(text), what
	}
	text, what := filling(r, size-200)
	position := pick(r, positions)
	data = []byte(strings.Replace(position, "%s", text, 1))
	switch encoding {
	case "yaml":
		data = inYAML(r, data)
	case "cbor":
		converted, err := cbor.Append(nil, data)
		if err != nil {
			panic(err) // filling writes what is not JSON
		}
		data = converted
	}
	return data, what + " in " + position
}

// randomItems returns a CBOR document that repeats one item.
func randomItems(r *rand.Rand, size int) (document []byte, what string) {
	unit := pick(r, []string{
		"\x80", "\xa0", "\x00", "\x40", "\x60", "\xf6", "\x9f\xff", "\xbf\xff", "\x5f\xff", "\x81\x80", "\xa1\x60\xf6", "\xa1\x41a\x00",
		"\xf9\x3c\x01", "\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a", "\x1b\x7f\xff\xff\xff\xff\xff\xff\xff", "\xc1\x00", "\xd6\x40", "\xd7\x41a", "\xc6\xc6\xc6\x00", "\x58\x64" + strings.Repeat("\x01", 100),
	})
	open, end := pick(r, []string{"\x9f", "\xbf\x41z\x9f", "\xbf\x48metadata\xbf\x4dmanagedFields\x9f", "\xbf\x48metadata\xbf\x4fownerReferences\x9f", "\x9f\x9f", "\x5f", "\xbf", "\xd7\x5f"}), "\xff\xff\xff"
	end = end[:min(len(end), max(1, strings.Count(open, "\x9f")+strings.Count(open, "\xbf")))]
	return []byte(open + strings.Repeat(unit, (size-len(open)-len(end))/len(unit)) + end), fmt.Sprintf("CBOR items %x in %x", unit, open)
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
	allocated uint64 // in all
	answer    []byte
}

// TestS1_MemoryOfBodies sends random bodies that are made to take memory. "make memory-search" sends
// 10,000 of each encoding. It counts the bytes that are allocated for each request in all, which do not
// depend on the machine and are an upper bound of what it holds at once. It sends the worst once more
// after everything that is free has been given back, and measures by how much the resident memory of
// the process grows at its peak.
func TestS1_MemoryOfBodies(t *testing.T) {
	for _, encoding := range []string{"json", "yaml", "protobuf", "cbor"} {
		t.Run(encoding, func(t *testing.T) {
			s := memoryServer(t)
			r := rand.New(rand.NewPCG(*bodySeed, uint64(len(encoding))))
			var worst []found
			for range effort.Of(*bodies) {
				f := s.spends(randomBody(r, encoding, effort.Of(*bodySize)))
				i, _ := slices.BinarySearchFunc(worst, f, func(a, b found) int { return cmp.Compare(b.allocated, a.allocated) })
				worst = slices.Insert(worst, i, f)[:min(len(worst)+1, 12)]
			}
			for _, f := range worst {
				resident := s.resident(f.body)
				t.Logf("%5.1f MiB allocated, %5.1f MiB resident, %d %s: %.120s", mebibytes(f.allocated), mebibytes(resident), f.code, f.what, f.answer)
				require.LessOrEqual(t, resident, *residentLimit, "%s", f.what)
			}
			require.LessOrEqual(t, worst[0].allocated, *bodyLimit, "%s", worst[0].what)
		})
	}
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }

// spends sends a body to a server on which a small object x exists, and states what it took.
func (s *server) spends(b body) found {
	s.t.Helper()
	s.tidy()
	f := s.spend(b)
	require.Less(s.t, f.code, 500, "%s: %.300s", f.what, f.answer)
	return f
}

// tidy makes x a small object.
func (s *server) tidy() {
	for _, path := range []string{hamperPath, sackPath} {
		s.small("DELETE", path+"/x", "")
		s.small("POST", path, `{"metadata":{"name":"x"}}`)
	}
}

// small sends a small request.
func (s *server) small(method, path, data string) {
	s.handle(body{method: method, path: path, typ: "application/json", data: []byte(data)})
}

// repeated is a document of the size of the search with one value many times.
func repeated(position, unit string) []byte {
	n := (*bodySize - len(position)) / (len(unit) + 1)
	return []byte(strings.Replace(position, "%s", strings.Repeat(unit+",", n)+unit, 1))
}

// manyMembers is a CBOR document with as many members as fit in size bytes of JSON.
func manyMembers(size int) []byte {
	out := []byte("\xbf")
	for i := range size / len(`"0000000":null,`) {
		out = fmt.Appendf(out, "\x47%07d\xf6", i)
	}
	return append(out, 0xff)
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
		{"application/yaml", repeated("kind: Hamper\nz: [%s]\n", "[]"), "1048576"},
		{"application/yaml", repeated("kind: Hamper\nz: [%s]\n", "[]")[:mostYAML], "50000"},
		{"application/yaml", []byte("z:\n" + strings.Repeat("- \n", mostYAML/4)), "50000"},
		{cborType, manyMembers(*bodySize), "limit is 3145728"},
		{"application/vnd.kubernetes.protobuf", metadata(strings.Repeat(empty, *bodySize/len(empty)-20)), "metadata.managedFields"},
	} {
		f := s.spends(body{what: c.text, method: "POST", path: hamperPath + "?dryRun=All", typ: c.typ, data: c.data})
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

// The first one and the third took 38 MiB, the second one 35 until it was refused.
func TestS1_LargePatches(t *testing.T) {
	s, size := memoryServer(t), effort.Of(*bodySize)
	textAfter := func(first string) string {
		return `{"a":` + first + `,"b":"` + strings.Repeat("x", size-220-len(first)) + `"}`
	}
	var members strings.Builder
	for i := 0; members.Len() < size/4; i++ {
		fmt.Fprintf(&members, `,"f:%d":0`, i)
	}
	var nulls strings.Builder
	for i := 0; nulls.Len() < size/2; i++ {
		fmt.Fprintf(&nulls, `,"example.com/%d":null`, i)
	}
	list := strings.Repeat(`,{"f:a":{}}`, size/16/len(`,{"f:a":{}}`))
	for _, c := range []struct{ typ, path, data string }{
		{patchTypes[0], sackPath + "/x?fieldValidation=Strict", `{"metadata":{"name":"x"},"content":` + textAfter("{"+members.String()[1:]+"}") + `}`},
		{patchTypes[1], hamperPath + "/x?dryRun=All", `[{"op":"add","path":"/metadata/annotations","value":` + textAfter("["+list[1:]+"]") + `},{"op":"test","path":"/names/0","value":"a"}]`},
		{patchTypes[1], hamperPath + "/x", `[{"op":"add","path":"/text","value":` + textAfter("{"+nulls.String()[1:]+"}") + `},{"op":"move","from":"/text","path":"/names/0"}]`},
	} {
		f := s.spends(body{what: c.path, method: "PATCH", path: c.path, typ: c.typ, data: []byte(c.data)})
		t.Logf("%s: %d, %.1f MiB", c.typ, f.code, mebibytes(f.allocated))
		require.LessOrEqual(t, f.allocated, *bodyLimit, c.typ)
	}
}

// Objects with many members and a long text, which are taken: in CBOR, a dry run took 43 MiB.
func TestS1_ManyMembersAndAText(t *testing.T) {
	s, size := memoryServer(t), effort.Of(*bodySize)
	for _, value := range []string{"null", "[]", `""`, `{"a":0}`} {
		for _, part := range []int{4, 8, 16, 32} {
			var members strings.Builder
			for i := 0; members.Len() < size/part; i++ {
				fmt.Fprintf(&members, `,"f:%d":%s`, i, value)
			}
			object := []byte(`{"apiVersion":"shop.example.com/v1","kind":"Sack","metadata":{"name":"y"},"content":{"a":{` + members.String()[1:] +
				`},"b":"` + strings.Repeat("x", size-400-members.Len()) + `"}}`)
			for _, typ := range []string{"application/json", cborType} {
				b := body{what: typ, method: "POST", path: sackPath + "?dryRun=All", typ: typ, data: object, chunked: true}
				if typ == cborType {
					var err error
					b.data, err = cbor.Append(nil, object)
					require.NoError(t, err)
				}
				f := s.spends(b)
				t.Logf("%s of %s, a %dth: %d, %.1f MiB", typ, value, part, f.code, mebibytes(f.allocated))
				require.LessOrEqual(t, f.allocated, *bodyLimit, "%s of %s, a %dth", typ, value, part)
			}
		}
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
			f := s.spends(body{what: what, method: "POST", path: c.path + query, typ: "application/json", data: []byte(strings.Replace(c.body, "%s", name, 1))})
			require.Equal(t, 201, f.code, "%s of %d bytes: %s", what, len(c.body), f.answer)
			t.Logf("%s of %d KiB: %.1f MiB", what, len(c.body)>>10, float64(f.allocated)/(1<<20))
		}
	}
}
