package protobuf

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// show formats a message as {1:{1:"a"} 2:7}. If nested is set, it shows bytes that look like a
// message as one.
func show(t *testing.T, message []byte, d *message) string {
	t.Helper()
	var b strings.Builder
	for rest := message; len(rest) > 0; {
		f, after, err := protowire.Next(rest)
		require.NoError(t, err)
		rest = after
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d:", f.Number)
		switch i := d.fieldOf(f.Number); {
		case f.Type != protowire.Bytes:
			fmt.Fprintf(&b, "%d", int64(f.Value))
		case i >= 0 && d.fields[i].cardinality != mapping && d.fields[i].shape.kind == kindMessage:
			b.WriteString("{" + show(t, f.Bytes, d.fields[i].shape.message) + "}")
		default:
			fmt.Fprintf(&b, "%q", f.Bytes)
		}
	}
	return b.String()
}

// zeroSpec is the encoding of an absent spec of a widget: all fields except pointers, lists and
// maps.
const zeroSpec = `1:0 3:0 4:0 5:0 6:0 7:"" 9:0 22:{1:""} 23:{2:""} 25:"\n\x010" 27:"\b\x00\x10\x00\x1a\x00" 28:"" 30:"" 32:"\b\x00" 35:"" 36:"" 700:{1:""}`

const zeroMetadata = `1:"" 2:"" 3:"" 4:"" 5:"" 6:"" 7:0 8:""`

func TestAbsentValuesAreWrittenAsZero(t *testing.T) {
	d := describe[widget](t)
	for _, object := range []string{
		`{}`, ` { } `, `{"apiVersion":"v1","kind":"Widget","unknown":{"a":[1,"}"]}}`, `{"metadata":null,"spec":null,"status":{}}`,
		`{"spec":{"tags":[],"parts":[],"notes":{},"wireless":"x","title":null,"seal":null,"port":null,"verbs":null}}`,
	} {
		message, err := d.AppendMessage(nil, []byte(object))
		require.NoError(t, err, object)
		require.Equal(t, "1:{"+zeroMetadata+"} 2:{"+zeroSpec+"} 3:{1:\"\"}", show(t, message, d.root), object)
	}
}

func TestValues(t *testing.T) {
	d := describe[widgetSpec](t)
	second := "2026-01-02T03:04:05Z"
	for name, c := range map[string]struct{ object, want string }{
		"integers":                 {`{"size":-1,"weight":9223372036854775807,"mask":255}`, `1:-1 3:9223372036854775807 4:255`},
		"pointers to zero":         {`{"replicas":0,"broken":false,"title":"","renewed":"0001-01-01T00:00:00Z","origin":{}}`, `2:0 8:"" 10:0 24:{1:""} 31:""`},
		"floats":                   {`{"ratio":1.5,"share":-2}`, `5:4609434218613702656 6:3221225472`},
		"integral float":           {`{"ratio":3}`, `5:4613937818241073152`},
		"text":                     {`{"color":"blue","title":"a\"b\\\né\u00e9\ud83d\ude00","shiny":true}`, `7:"blue" 8:"a\"b\\\néé😀" 9:1`},
		"bytes":                    {`{"seal":"AQID"}`, `11:"\x01\x02\x03"`},
		"no bytes":                 {`{"seal":""}`, `11:""`},
		"lists":                    {`{"tags":["a","","b"],"numbers":[0,-1],"shares":[0.5],"seals":["AQ==",null,""]}`, `12:"a" 12:"" 12:"b" 13:0 13:-1 14:4602678819172646912 15:"\x01" 15:"" 15:""`},
		"list of structs":          {`{"parts":[{"name":"a"},null,{"count":0}]}`, `16:{1:"a"} 16:{1:""} 16:{1:"" 2:0}`},
		"maps":                     {`{"notes":{"":"x","a":""}}`, `17:"\n\x00\x12\x01x" 17:"\n\x01a\x12\x00"`},
		"map out of order":         {`{"notes":{"b":"2","a":"1","\u0061\u0062":"3"}}`, `17:"\n\x01a\x12\x011" 17:"\n\x02ab\x12\x013" 17:"\n\x01b\x12\x012"`},
		"map of bytes":             {`{"secrets":{"a":"AQ==","b":"","c":null}}`, `18:"\n\x01a\x12\x01\x01" 18:"\n\x01b\x12\x00" 18:"\n\x01c"`},
		"map of structs":           {`{"shelves":{"a":{"name":"x"},"b":null}}`, `19:"\n\x01a\x12\x03\n\x01x" 19:"\n\x01b\x12\x02\n\x00"`},
		"map of lists":             {`{"extra":{"a":["x","y"],"b":[],"c":null}}`, `20:"\n\x01a\x12\x06\n\x01x\n\x01y" 20:"\n\x01b\x12\x00" 20:"\n\x01c\x12\x00"`},
		"list in a message":        {`{"verbs":["get","list"]}`, `21:"\n\x03get\n\x04list"`},
		"empty list in a message":  {`{"verbs":[]}`, `21:""`},
		"inline":                   {`{"disk":{"size":7},"url":"u","shelf":"s"}`, `22:{1:"s"} 23:{1:{1:7} 2:"u"}`},
		"quantity":                 {`{"limit":"100m","limits":{"cpu":"1","memory":null}}`, `25:"\n\x04100m" 26:"\n\x03cpu\x12\x03\n\x011" 26:"\n\x06memory\x12\x03\n\x010"`},
		"quantity as a number":     {`{"limit":1.5}`, `25:"\n\x031.5"`},
		"integer where text can":   {`{"port":-8080}`, `27:"\b\x00\x10\xf0\xc0\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x00"`},
		"text where integer can":   {`{"port":"http"}`, `27:"\b\x01\x10\x00\x1a\x04http"`},
		"raw JSON":                 {`{"raw":{"a": [1,"é\u00e9"]},"text":[]}`, `28:"\n\x15{\"a\": [1,\"é\\u00e9\"]}" 29:"\n\x02[]"`},
		"times":                    {`{"started":"` + second + `","renewed":"2026-01-02T03:04:05.000007Z"}`, `30:"\b\xa5\xeb\xdc\xca\x06\x10\x00" 31:"\b\xa5\xeb\xdc\xca\x06\x10\xd86"`},
		"time before 1970":         {`{"started":"1969-12-31T23:59:59+00:00"}`, `30:"\b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x00"`},
		"duration":                 {`{"patience":"1.5s"}`, `32:"\b\x80ޠ\xcb\x05"`},
		"true for an object":       {`{"allowed":true}`, `33:"\b\x01"`},
		"false for an object":      {`{"allowed":false}`, `33:"\b\x00"`},
		"object for true":          {`{"allowed":{"name":"a"}}`, `33:"\b\x01\x12\x03\n\x01a"`},
		"list for an object":       {`{"items":[{"name":"a"},{}]}`, `34:"\x12\x03\n\x01a\x12\x02\n\x00"`},
		"empty list for an object": {`{"items":[]}`, `34:""`},
		"object for a list":        {`{"items":{}}`, `34:"\n\x02\n\x00"`},
		"texts for an object":      {`{"needs":["a","b"]}`, `35:"\x12\x01a\x12\x01b"`},
		"object for texts":         {`{"needs":{"name":"a"}}`, `35:"\n\x03\n\x01a"`},
		"great numbers":            {`{"base":{"name":"x"},"tree":{"left":{}}}`, `700:{1:"x"} 701:{1:{1:{2:""}} 2:""}`},
	} {
		t.Run(name, func(t *testing.T) {
			message, err := d.AppendMessage(nil, []byte(c.object))
			require.NoError(t, err)
			require.Equal(t, overlay(zeroSpec, c.want), show(t, message, d.root))
		})
	}
}

// overlay replaces the fields of a message that want contains. Both are in the format of show.
func overlay(zero, want string) string {
	number := func(f string) string { n, _, _ := strings.Cut(f, ":"); return n }
	given := map[string][]string{}
	for _, f := range split(want) {
		given[number(f)] = append(given[number(f)], f)
	}
	var out []string
	for n := 1; n < 800; n++ {
		key := fmt.Sprint(n)
		if fields, ok := given[key]; ok {
			out = append(out, fields...)
			continue
		}
		for _, f := range split(zero) {
			if number(f) == key {
				out = append(out, f)
			}
		}
	}
	return strings.Join(out, " ")
}

// split splits the output of show at the spaces between fields.
func split(shown string) (fields []string) {
	depth, quoted, start := 0, false, 0
	for i := 0; i < len(shown); i++ {
		switch c := shown[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ' ' && depth == 0:
			fields = append(fields, shown[start:i])
			start = i + 1
		}
	}
	return append(fields, shown[start:])
}

func TestInlinePointers(t *testing.T) {
	d := describe[widgetStatus](t)
	for object, want := range map[string]string{
		`{}`:               `1:""`,
		`{"country":null}`: `1:""`,
		`{"country":""}`:   `1:"" 3:{1:"" 2:0}`,
		`{"year":1}`:       `1:"" 3:{1:"" 2:1}`,
	} {
		message, err := d.AppendMessage(nil, []byte(object))
		require.NoError(t, err)
		require.Equal(t, want, show(t, message, d.root), object)
	}
}

// Lengths need more bytes as messages grow, so the expected size is sometimes too large and
// sometimes too small.
func TestLengths(t *testing.T) {
	d := describe[widgetSpec](t)
	for _, n := range []int{0, 1, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 16370, 16380, 16383, 16384, 16390, 1 << 21} {
		for name, text := range map[string]string{"plain": strings.Repeat("x", n), "escaped": strings.Repeat(`\u0078`, n)} {
			message, err := d.AppendMessage([]byte("before"), []byte(`{"parts":[{"name":"`+text+`","parts":[{"name":"`+text+`"}]}],"seal":"`+
				base64.StdEncoding.EncodeToString(make([]byte, n))+`"}`))
			require.NoError(t, err)
			plain := strings.Repeat("x", n)
			inner := protowire.AppendBytes([]byte{0x0a}, plain)
			outer := append(protowire.AppendBytes([]byte{0x0a}, plain), protowire.AppendBytes([]byte{0x1a}, inner)...)
			require.Contains(t, string(message), string(protowire.AppendBytes([]byte{0x82, 0x01}, outer)), "%d %s", n, name)
			require.Contains(t, string(message), string(protowire.AppendBytes([]byte{0x5a}, make([]byte, n))))
			require.True(t, strings.HasPrefix(string(message), "before"))
		}
	}
}

func TestValuesThatDoNotFit(t *testing.T) {
	d := describe[widget](t)
	for object, want := range map[string]string{
		`[]`:                                                 "protobuf: must be an object",
		`{"spec":[]}`:                                        "protobuf: spec: must be an object",
		`{"spec":{"size":"1"}}`:                              "protobuf: spec.size: must be a number",
		`{"spec":{"size":2147483648}}`:                       "protobuf: spec.size: must be an integer of 32 bits",
		`{"spec":{"size":1.5}}`:                              "protobuf: spec.size: must be an integer of 32 bits",
		`{"spec":{"mask":-1}}`:                               "protobuf: spec.mask: must be an unsigned integer of 8 bits",
		`{"spec":{"ratio":1e999}}`:                           "protobuf: spec.ratio: must be a number of 64 bits",
		`{"spec":{"share":1e99}}`:                            "protobuf: spec.share: must be a number of 32 bits",
		`{"spec":{"color":1}}`:                               "protobuf: spec.color: must be a string",
		`{"spec":{"shiny":"true"}}`:                          "protobuf: spec.shiny: must be true or false",
		`{"spec":{"seal":"%"}}`:                              "protobuf: spec.seal: must be base64",
		`{"spec":{"tags":{}}}`:                               "protobuf: spec.tags: must be an array",
		`{"spec":{"tags":["a",2]}}`:                          "protobuf: spec.tags[1]: must be a string",
		`{"spec":{"parts":[{},{"count":""}]}}`:               "protobuf: spec.parts[1].count: must be a number",
		`{"spec":{"parts":[{},{"count":1.5}]}}`:              "protobuf: spec.parts[1].count: must be an integer of 64 bits",
		`{"spec":{"notes":[]}}`:                              "protobuf: spec.notes: must be an object",
		`{"spec":{"notes":{"a/b":1}}}`:                       "protobuf: spec.notes[a/b]: must be a string",
		`{"spec":{"shelves":{"a":{"count":1e3}}}}`:           "protobuf: spec.shelves.a.count: must be an integer of 64 bits",
		`{"spec":{"extra":{"a":"x"}}}`:                       "protobuf: spec.extra.a: must be an array",
		`{"spec":{"port":true}}`:                             "protobuf: spec.port: must be a string or a number",
		`{"spec":{"port":1.5}}`:                              "protobuf: spec.port: must be an integer of 32 bits or a string",
		`{"spec":{"limit":[]}}`:                              "protobuf: spec.limit: must be a string or a number",
		`{"spec":{"allowed":[]}}`:                            "protobuf: spec.allowed: must be an object or one of its alternatives",
		`{"spec":{"items":true}}`:                            "protobuf: spec.items: must be an object or one of its alternatives",
		`{"spec":{"items":[{"name":1}]}}`:                    "protobuf: spec.items[0].name: must be a string",
		`{"spec":{"started":"yesterday"}}`:                   "protobuf: spec.started: must be an RFC 3339 time",
		`{"spec":{"renewed":"2026-01-02"}}`:                  "protobuf: spec.renewed: must be an RFC 3339 time",
		`{"spec":{"patience":"1 day"}}`:                      "protobuf: spec.patience: must be a duration such as 1h30m",
		`{"spec":{"url":1}}`:                                 "protobuf: spec.url: must be a string",
		`{"spec":{"color":"\ud800"}}`:                        "protobuf: spec.color: the text has an invalid escape",
		`{"metadata":{"labels":{"\x":"a"}}}`:                 "protobuf: metadata.labels: the text has an invalid escape",
		`{"spec":` + strings.Repeat(`{"tree":{"left":`, 400): "nested more than 512 levels deep",
	} {
		message, err := d.AppendMessage([]byte("before"), []byte(object))
		var failure *Error
		require.ErrorAsf(t, err, &failure, "%s", object)
		require.ErrorContains(t, err, want, object)
		require.Equal(t, "before", string(message))
	}
}

func TestTextThatIsNoJSON(t *testing.T) {
	d := describe[widget](t)
	whole := `{"metadata":{"labels":{"a":"b\"c"},"name":"x"},"spec":{"parts":[{"name":"a"},{"count":1}],"raw":{"a":[1]},"size":1,"tags":["a"]}}`
	for i := range len(whole) {
		_, err := d.AppendMessage(nil, []byte(whole[:i]))
		require.Errorf(t, err, "%s", whole[:i])
	}
	for _, text := range []string{
		"", "null", `{"spec"}`, `{"spec":}`, `{spec:{}}`, `{"spec":{} "status":{}}`, `{"spec":{"tags":["a" "b"]}}`,
		`{"spec":{"size":}}`, `{} {}`, `{},`, `{"spec":{"notes":{1:2}}}`, "\x00", `{"a":]}`,
	} {
		_, err := d.AppendMessage(nil, []byte(text))
		require.Errorf(t, err, "%s", text)
	}
}

func TestDescriptorsAreShared(t *testing.T) {
	d := describe[widget](t)
	object := atRest(2000)
	want, err := d.AppendMessage(nil, object)
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				got, err := d.AppendMessage(nil, object)
				if err != nil || string(got) != string(want) {
					t.Errorf("another message: %v", err)
				}
				if _, err := d.AppendMessage(nil, object[:len(object)/2]); err == nil {
					t.Error("half an object was written")
				}
				text, err := d.AppendJSON(nil, want, "", "", 1<<20)
				if again, _ := d.AppendMessage(nil, text); err != nil || string(again) != string(want) {
					t.Errorf("another object: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestTABLE_10_MetadataOfAnyObject(t *testing.T) {
	d := describe[meta.PartialObjectMetadata](t)
	full, err := d.AppendMessage(nil, atRest(4000))
	require.NoError(t, err)
	text, err := d.AppendJSON(nil, full, "meta.k8s.io/v1", "PartialObjectMetadata", 1<<20)
	require.NoError(t, err)
	require.Contains(t, string(text), `"name":"widget-000123"`)
	require.NotContains(t, string(text), `"tags"`)
}
