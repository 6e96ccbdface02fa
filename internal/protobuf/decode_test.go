package protobuf

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protowire"
	"github.com/kindwright/kindwright/meta"
)

// Builders for unusual messages.
func number(n int32, v uint64) string {
	return string(protowire.AppendVarint(protowire.AppendKey(nil, n, protowire.Varint), v))
}

func text(n int32, v string) string {
	return string(protowire.AppendBytes(protowire.AppendKey(nil, n, protowire.Bytes), v))
}

func double(n int32, v float64) string {
	return string(protowire.AppendFixed64(protowire.AppendKey(nil, n, protowire.Fixed64), math.Float64bits(v)))
}

func single(n int32, v float32) string {
	return string(protowire.AppendFixed32(protowire.AppendKey(nil, n, protowire.Fixed32), math.Float32bits(v)))
}

const limit = 1 << 20

// plainSpec is the JSON of a widget's spec that is empty on the wire: all fields that the Go type
// does not omit.
const plainSpec = `"size":0,"title":null,"tags":null,"limit":"0","port":0,"raw":null,"started":null`

func TestNothingIsWhatTheGoTypeDoesNotOmit(t *testing.T) {
	d := describe[widget](t)
	got, err := d.AppendJSON([]byte("before "), nil, "", "", limit)
	require.NoError(t, err)
	require.Equal(t, `before {"metadata":{},"spec":{`+plainSpec+`},"status":{}}`, string(got))

	got, err = d.AppendJSON(nil, nil, "example.dev/v1", "Widget", limit)
	require.NoError(t, err)
	require.Equal(t, `{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{},"spec":{`+plainSpec+`},"status":{}}`, string(got))
}

func TestMessagesWithoutTypeMeta(t *testing.T) {
	d := describe[widgetSpec](t)
	got, err := d.AppendJSON(nil, nil, "example.dev/v1", "Widget", limit)
	require.NoError(t, err)
	require.Equal(t, `{`+plainSpec+`}`, string(got))
}

func TestReadValues(t *testing.T) {
	d := describe[widgetSpec](t)
	minus := func(v int64) uint64 { return uint64(v) }
	for name, c := range map[string]struct{ message, want string }{
		"integers":                          {number(1, minus(-1)) + number(3, math.MaxInt64) + number(4, 255), `{"size":-1,"weight":9223372036854775807,"mask":255}`},
		"integers too long":                 {number(1, 1<<32+7) + number(4, 0x1ff), `{"size":7,"mask":255}`},
		"zeros":                             {number(1, 0) + number(3, 0) + number(9, 0) + text(7, "") + double(5, 0), `{}`},
		"zeros behind pointers":             {number(2, 0) + number(10, 0) + text(8, "") + text(24, ""), `{"replicas":0,"broken":false,"title":"","origin":{"name":""}}`},
		"floats":                            {double(5, 1.5) + single(6, 0.1), `{"ratio":1.5,"share":0.1}`},
		"integral float":                    {double(5, 3), `{"ratio":3}`},
		"text":                              {text(7, "a\"b\\\né😀\x00") + number(9, 2), `{"color":"a\"b\\\né😀\u0000","shiny":true}`},
		"bytes":                             {text(11, "\x01\x02\x03"), `{"seal":"AQID"}`},
		"no bytes":                          {text(11, ""), `{}`},
		"lists":                             {text(12, "a") + number(13, 1) + text(12, "") + number(13, 2) + text(15, "\x01") + text(15, ""), `{"tags":["a",""],"numbers":[1,2],"seals":["AQ==",""]}`},
		"packed lists":                      {text(13, "\x01\x02") + number(13, 3) + text(13, "") + text(14, double(1, 0.5)[1:]+double(1, 2)[1:]), `{"numbers":[1,2,3],"shares":[0.5,2]}`},
		"list of structs":                   {text(16, text(1, "a")) + text(16, ""), `{"parts":[{"name":"a"},{"name":""}]}`},
		"map":                               {text(17, text(1, "b")+text(2, "2")) + text(17, text(2, "1")+text(1, "a")), `{"notes":{"a":"1","b":"2"}}`},
		"map without keys or values":        {text(17, "") + text(18, text(1, "a")) + text(19, text(1, "b")) + text(20, text(1, "c")) + text(26, text(1, "d")), `{"notes":{"":""},"secrets":{"a":""},"shelves":{"b":{"name":""}},"extra":{"c":[]},"limits":{"d":"0"}}`},
		"map with a key again":              {text(17, text(1, "a")+text(2, "1")) + text(17, text(1, "b")) + text(17, text(1, "a")+text(2, "2")), `{"notes":{"a":"2","b":""}}`},
		"map with more in an entry":         {text(17, text(1, "a")+number(3, 1)+text(1, "b")+text(2, "1")+text(2, "2")), `{"notes":{"b":"2"}}`},
		"map of structs, the last counts":   {text(19, text(2, text(1, "x")+number(2, 1))+text(2, text(1, "y"))), `{"shelves":{"":{"name":"y"}}}`},
		"map of lists":                      {text(20, text(1, "a")+text(2, text(1, "x")+text(1, "y"))), `{"extra":{"a":["x","y"]}}`},
		"list in a message":                 {text(21, text(1, "get")) + text(21, text(1, "list")), `{"verbs":["get","list"]}`},
		"empty list in a message":           {text(21, ""), `{}`},
		"inline":                            {text(22, text(1, "s")) + text(23, text(1, number(1, 7))+text(2, "u")), `{"disk":{"size":7},"url":"u","shelf":"s"}`},
		"inline in parts":                   {text(23, text(1, number(1, 7))) + text(23, text(2, "u")), `{"disk":{"size":7},"url":"u"}`},
		"struct in parts":                   {text(24, text(1, "a")+text(3, text(1, "x"))) + number(1, 1) + text(24, number(2, 5)+text(3, text(1, "y"))), `{"size":1,"origin":{"name":"a","count":5,"parts":[{"name":"x"},{"name":"y"}]}}`},
		"the last one counts":               {number(1, 5) + text(7, "a") + number(1, 0) + text(7, "b") + number(3, 9) + number(3, 0), `{"color":"b"}`},
		"quantity":                          {text(25, text(1, "100m")) + text(26, text(1, "cpu")+text(2, text(1, "1"))), `{"limit":"100m","limits":{"cpu":"1"}}`},
		"integer where text can be":         {text(27, number(1, 0)+number(2, minus(-8080))+text(3, "x")), `{"port":-8080}`},
		"text where an integer can be":      {text(27, number(1, 1)+text(3, "http")), `{"port":"http"}`},
		"raw JSON":                          {text(28, text(1, `{"a": [1]}`)) + text(29, text(1, "[]")), `{"raw":{"a":[1]},"text":[]}`},
		"raw null":                          {text(28, text(1, "null")) + text(29, text(1, " null ")), `{}`},
		"no raw JSON":                       {text(28, "") + text(29, text(1, "")), `{}`},
		"times":                             {text(30, number(1, 1767323045)+number(2, 5)) + text(31, number(1, 1767323045)+number(2, 7999)), `{"started":"2026-01-02T03:04:05Z","renewed":"2026-01-02T03:04:05.000007Z"}`},
		"1970":                              {text(30, number(2, 0)) + text(31, number(1, 0)), `{"started":"1970-01-01T00:00:00Z","renewed":"1970-01-01T00:00:00.000000Z"}`},
		"zero times":                        {text(30, number(1, minus(-62135596800))) + text(31, ""), `{"renewed":null}`},
		"the last time counts whole":        {text(31, number(1, 5)+number(2, 5000)) + text(31, number(1, 6)), `{"renewed":"1970-01-01T00:00:06.000000Z"}`},
		"micro time before 1970":            {text(31, number(2, minus(-1000))), `{"renewed":"1969-12-31T23:59:59.999999Z"}`},
		"duration":                          {text(32, number(1, 1_500_000_000)), `{"patience":"1.5s"}`},
		"duration of zero":                  {text(32, number(1, 0)), `{}`},
		"true for an object":                {text(33, number(1, 1)), `{"allowed":true}`},
		"false for an object":               {text(33, ""), `{"allowed":false}`},
		"object for true":                   {text(33, text(2, text(1, "a"))), `{"allowed":{"name":"a"}}`},
		"list for an object":                {text(34, text(2, text(1, "a"))), `{"items":[{"name":"a"}]}`},
		"nothing for an object":             {text(34, ""), `{"items":null}`},
		"object for a list":                 {text(34, text(1, "")), `{"items":{"name":""}}`},
		"texts for an object":               {text(35, text(2, "a")), `{"needs":["a"]}`},
		"neither texts nor an object":       {text(35, ""), `{}`},
		"struct that is omitted when zero":  {text(700, text(1, "")), `{}`},
		"struct that is not zero":           {text(700, text(3, "")), `{"base":{"name":"","parts":[{"name":""}]}}`},
		"pointer to zero in it":             {text(700, number(2, 0)), `{"base":{"name":"","count":0}}`},
		"great numbers":                     {text(701, text(1, "")), `{"tree":{"left":{"tree":{"label":""}},"label":""}}`},
		"what JSON does not have":           {text(36, "secret"), `{}`},
		"unknown fields":                    {number(500, 1) + text(501, "x") + number(5000, 1) + double(502, 1) + "\xbb\x1f\x08\x01\xbc\x1f" + number(1, 3) + single(503, 1), `{"size":3}`},
		"unknown fields further down":       {text(24, number(9, 1)+text(1, "a")+text(9, "x")), `{"origin":{"name":"a"}}`},
		"unknown fields in small messages":  {text(30, number(1, 0)+text(3, "x")) + text(27, number(9, 1)) + text(25, number(2, 2)), `{"started":"1970-01-01T00:00:00Z"}`},
		"numbers no field of ours can have": {number(protowire.MaxNumber, 1), `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.AppendJSON(nil, []byte(c.message), "", "", limit)
			require.NoError(t, err)
			require.NoError(t, json.Valid(got))
			want := parsed(t, "{"+plainSpec+"}")
			for member, value := range parsed(t, c.want) {
				want[member] = value
			}
			require.Equal(t, want, parsed(t, string(got)))
		})
	}
}

// parsed decodes JSON as a request is decoded: duplicate names are errors.
func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := json.DecodeTree([]byte(text), json.TreeOptions{})
	require.NoError(t, err, text)
	return v.(map[string]any)
}

func TestInlinePointersAreRead(t *testing.T) {
	d := describe[widgetStatus](t)
	for message, want := range map[string]string{
		"":                     `{}`,
		text(3, ""):            `{"year":0}`,
		text(3, number(2, 26)): `{"year":26}`,
		text(1, "x"):           `{"phase":"x"}`,
	} {
		got, err := d.AppendJSON(nil, []byte(message), "", "", limit)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestMessagesThatAreRefused(t *testing.T) {
	d := describe[widget](t)
	spec := func(message string) string { return text(2, message) }
	for name, c := range map[string]struct{ message, want string }{
		"truncated key":                     {"\x80", "protobuf: the message ends early"},
		"truncated bytes":                   {"\x0a\x05abc", "protobuf: the message ends early"},
		"2 GiB announced":                   {"\x12\xff\xff\xff\xff\x07\x0a", "protobuf: the message ends early"},
		"2 GiB announced further down":      {spec("\x3a\xff\xff\xff\xff\x07blue"), "protobuf: spec: the message ends early"},
		"2 GiB in a list":                   {spec(text(16, "\x0a\x80\x80\x80\x80\x08")), "protobuf: spec.parts[0]: the message ends early"},
		"2^64-1 announced":                  {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "protobuf: the message ends early"},
		"number 0":                          {"\x00\x00", "protobuf: a field has no valid number"},
		"wire type 7":                       {"\x0f", "protobuf: a field has a type that does not exist"},
		"integer of 11 bytes":               {spec("\x08" + strings.Repeat("\xff", 10) + "\x01"), "protobuf: spec: an integer has more than 64 bits"},
		"group without end":                 {"\x0b", "protobuf: the message ends early"},
		"groups without end":                {strings.Repeat("\x0b", limit), "protobuf: a group has no end, or an end without a group"},
		"integer for a message":             {number(1, 1), "protobuf: metadata: has wire type varint, must be bytes"},
		"text for an integer":               {spec(text(1, "1")), "protobuf: spec.size: has wire type bytes, must be varint"},
		"fixed64 for an integer":            {spec(double(1, 1)), "protobuf: spec.size: has wire type fixed64, must be varint"},
		"fixed32 for a double":              {spec(single(5, 1)), "protobuf: spec.ratio: has wire type fixed32, must be fixed64"},
		"group for text":                    {spec("\x3b\x3c"), "protobuf: spec.color: has wire type group, must be bytes"},
		"integer for a list of texts":       {spec(number(12, 1)), "protobuf: spec.tags: has wire type varint, must be bytes"},
		"integer for an inline struct":      {spec(number(23, 1)), "protobuf: spec: has wire type varint, must be bytes"},
		"packed list that ends early":       {spec(text(13, "\x01\x80")), "protobuf: spec.numbers: the message ends early"},
		"integer for a key":                 {spec(text(17, number(1, 1))), "protobuf: spec.notes: has wire type varint, must be bytes"},
		"integer for a value":               {spec(text(17, number(2, 1))), "protobuf: spec.notes: has wire type varint, must be bytes"},
		"damaged entry":                     {spec(text(17, "\x0a\x05a")), "protobuf: spec.notes: the message ends early"},
		"text that is not UTF-8":            {spec(text(7, "\xff")), "protobuf: spec.color: the text is not valid UTF-8"},
		"half a surrogate":                  {spec(text(12, "\xed\xa0\x80")), "protobuf: spec.tags[0]: the text is not valid UTF-8"},
		"key that is not UTF-8":             {spec(text(17, text(1, "\xff"))), "protobuf: spec.notes: the text is not valid UTF-8"},
		"value that is not UTF-8":           {spec(text(17, text(1, "a/b")+text(2, "\xff"))), "protobuf: spec.notes[a/b]: the text is not valid UTF-8"},
		"value that does not count":         {spec(text(17, text(2, "\xff")) + text(17, "")), "protobuf: spec.notes[]: the text is not valid UTF-8"},
		"not a number":                      {spec(double(5, math.NaN())), "protobuf: spec.ratio: must be a finite number"},
		"infinite":                          {spec(single(6, float32(math.Inf(1)))), "protobuf: spec.share: must be a finite number"},
		"raw JSON that is none":             {spec(text(28, text(1, `{"a":1`))), "protobuf: spec.raw: must be JSON"},
		"raw JSON that is two":              {spec(text(29, text(1, `{},"b":{}`))), "protobuf: spec.text: must be JSON"},
		"raw JSON nested too deep":          {spec(text(28, text(1, strings.Repeat("[", 1000)+strings.Repeat("]", 1000)))), "protobuf: spec.raw: must be JSON"},
		"integer for raw JSON":              {spec(text(28, number(1, 1))), "protobuf: spec.raw: has wire type varint, must be bytes"},
		"year 10000":                        {spec(text(30, number(1, 253402300800))), "protobuf: spec.started: must be a time in the years 0 to 9999"},
		"year 10000 by a fraction":          {spec(text(31, number(1, 253402300799)+number(2, 1_000_000_000))), "protobuf: spec.renewed: must be a time in the years 0 to 9999"},
		"year -1":                           {spec(text(30, number(1, 1<<63))), "protobuf: spec.started: must be a time in the years 0 to 9999"},
		"text for seconds":                  {spec(text(30, text(1, ""))), "protobuf: spec.started: has wire type bytes, must be varint"},
		"text for seconds, not counting":    {spec(text(30, text(1, "")) + text(30, "")), "protobuf: spec.started: has wire type bytes, must be varint"},
		"damaged time":                      {spec(text(31, "\x08")), "protobuf: spec.renewed: the message ends early"},
		"neither integer nor text":          {spec(text(27, number(1, 2))), "protobuf: spec.port: must be an integer or a string"},
		"damaged quantity":                  {spec(text(25, "\x0a")), "protobuf: spec.limit: the message ends early"},
		"damaged duration":                  {spec(text(32, "\x08")), "protobuf: spec.patience: the message ends early"},
		"integer for an item of verbs":      {spec(text(21, number(1, 1))), "protobuf: spec.verbs: has wire type varint, must be bytes"},
		"damaged object for true":           {spec(text(33, text(2, "\x0a"))), "protobuf: spec.allowed: the message ends early"},
		"damaged object for a list":         {spec(text(34, text(1, "\x0a"))), "protobuf: spec.items: the message ends early"},
		"damaged item of an or-list":        {spec(text(34, text(2, "")+text(2, "\x0a"))), "protobuf: spec.items[1]: the message ends early"},
		"damaged struct in the second part": {text(1, "") + text(1, "\x0a"), "protobuf: metadata: the message ends early"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.AppendJSON([]byte("before"), []byte(c.message), "v1", "Widget", 2*limit)
			require.EqualError(t, err, c.want)
			var failure *Error
			require.ErrorAs(t, err, &failure)
			require.False(t, failure.TooLarge)
			require.Equal(t, "before", string(got))
		})
	}
}

func TestDepth(t *testing.T) {
	d := describe[part](t)
	nested := func(depth int) (message string) {
		for range depth - 1 {
			message = text(3, message)
		}
		return message
	}
	_, err := d.AppendJSON(nil, []byte(nested(maxDepth)), "", "", limit)
	require.NoError(t, err)
	for _, depth := range []int{maxDepth + 1, 2000} {
		_, err = d.AppendJSON(nil, []byte(nested(depth)), "", "", limit)
		require.ErrorContains(t, err, "nested more than 100 levels deep")
		require.Less(t, len(err.Error()), 1000)
	}
}

func TestLimit(t *testing.T) {
	d := describe[widgetSpec](t)
	for name, message := range map[string]string{
		"text":    text(7, "blue"),
		"lists":   strings.Repeat(text(16, ""), 1000),
		"packed":  text(13, strings.Repeat("\x00", 1000)),
		"map":     text(17, text(1, "a")) + text(17, text(1, "b")),
		"nothing": "",
		"escapes": text(7, strings.Repeat("\x01", 1000)),
		"raw":     text(28, text(1, "["+strings.Repeat("1,", 1000)+"1]")),
	} {
		t.Run(name, func(t *testing.T) {
			whole, err := d.AppendJSON(nil, []byte(message), "", "", limit)
			require.NoError(t, err)
			got, err := d.AppendJSON([]byte("before"), []byte(message), "", "", len(whole))
			require.NoError(t, err)
			require.Equal(t, "before"+string(whole), string(got))
			for short := range min(len(whole), 300) {
				got, err = d.AppendJSON([]byte("before"), []byte(message), "", "", short)
				var failure *Error
				require.ErrorAs(t, err, &failure)
				require.True(t, failure.TooLarge)
				require.Equal(t, "before", string(got))
			}
		})
	}
}

// TestSmallMessagesThatGrow bounds the cost of small input. A list of empty messages grows most
// when it becomes JSON.
func TestSmallMessagesThatGrow(t *testing.T) {
	d := describe[meta.PartialObjectMetadataList](t)
	bomb := []byte(strings.Repeat(text(2, ""), 1_500_000)) // 3 MB, 24 MB as JSON
	out, err := d.AppendJSON(make([]byte, 0, 3<<20), bomb, "", "", 3<<20-100)
	var failure *Error
	require.ErrorAs(t, err, &failure)
	require.True(t, failure.TooLarge)
	require.Equal(t, 3<<20, cap(out), "what was written went beyond the limit")
}
