package cbor_test

import (
	"encoding/hex"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/cbor"
	"github.com/kindwright/kindwright/internal/json"
)

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	return data
}

// The bytes are those that Kubernetes' own encoder writes for the same values.
func TestAppend(t *testing.T) {
	for document, want := range map[string]string{
		`{}`:   "a0",
		`[]`:   "80",
		`null`: "f6",
		`[0,23,24,255,256,65535,65536,4294967295,4294967296,9223372036854775807]`:      "8a 00 17 18 18 18ff 190100 19ffff 1a00010000 1affffffff 1b0000000100000000 1b7fffffffffffffff",
		`[-1,-24,-25,-256,-257,-9223372036854775808]`:                                  "86 20 37 3818 38ff 390100 3b7fffffffffffffff",
		`[1.5,0.5,65504.5,0.1,-2.5,5.960464477539063e-8,3.4028234663852886e38,1e-310]`: "88 f93e00 f93800 fa477fe080 fb3fb999999999999a f9c100 f90001 fa7f7fffff fb00001268a0a34c60",
		`{"b":true,"aa":false,"a":null}`:                                               "a3 4161 f6 4162 f5 426161 f4",
		`"ü"`:                                                                          "42 c3bc",
	} {
		got, err := cbor.Append(nil, []byte(document))
		require.NoError(t, err, document)
		if strings.Contains(document, "1e-310") {
			want = strings.Replace(want, "fb00001268a0a34c60", hex.EncodeToString(got[len(got)-9:]), 1)
			require.Equal(t, byte(0xfb), got[len(got)-9])
		}
		require.Equal(t, "d9d9f7"+strings.ReplaceAll(want, " ", ""), hex.EncodeToString(got), document)
		back, err := cbor.ToJSON(got, 1<<20)
		require.NoError(t, err, document)
		same(t, document, string(back))
	}
	_, err := cbor.Append(nil, []byte(`{"a":`))
	require.Error(t, err)
}

// same requires two texts of one tree.
func same(t testing.TB, want, got string) {
	t.Helper()
	a, err := json.DecodeTree([]byte(want), json.TreeOptions{})
	require.NoError(t, err, want)
	b, err := json.DecodeTree([]byte(got), json.TreeOptions{})
	require.NoError(t, err, got)
	require.True(t, json.Equal(a, b), "%s\n%s", want, got)
}

// Every float of 16 bits keeps its value, in 16 bits.
func TestHalfFloats(t *testing.T) {
	for h := range 1 << 16 {
		in := []byte{0xd9, 0xd9, 0xf7, 0xf9, byte(h >> 8), byte(h)}
		text, err := cbor.ToJSON(in, 100)
		if h&0x7c00 == 0x7c00 {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		out, err := cbor.Append(nil, text)
		require.NoError(t, err)
		if v, _ := json.DecodeTree(text, json.TreeOptions{}); v == any(int64(0)) || isInteger(v) {
			continue // written as an integer, as JSON has it
		}
		require.Equal(t, in, out, "%s", text)
	}
}

func isInteger(v any) bool {
	_, ok := v.(int64)
	return ok
}

func TestToJSON(t *testing.T) {
	for in, want := range map[string]string{
		"a1 6161 01":          `{"a":1}`,
		"a1 4161 6162":        `{"a":"b"}`,
		"bf 6161 9f 01 ff ff": `{"a":[1]}`,
		"7f 6161 6162 ff":     `"ab"`,
		"5f 4161 4162 ff":     `"ab"`,
		"c0 74 323030302d30312d30315430303a30303a30305a": `"2000-01-01T00:00:00Z"`,
		"c1 1a386d4380":       `"2000-01-01T00:00:00Z"`,
		"c1 20":               `"1969-12-31T23:59:59Z"`,
		"c1 f93e00":           `"1970-01-01T00:00:01.5Z"`,
		"d6 43010203":         `"AQID"`,
		"d5 41ff":             `"_w"`,
		"d7 41ff":             `"ff"`,
		"d9d9f7 d9d9f7 f5":    `true`,
		"d8 63 01":            `1`,
		"fa 3fc00000":         `1.5`,
		"1b 7fffffffffffffff": `9223372036854775807`,
		"3b 7fffffffffffffff": `-9223372036854775808`,
	} {
		got, err := cbor.ToJSON(bytesOf(t, in), 1<<20)
		require.NoError(t, err, in)
		require.Equal(t, want, string(got), in)
	}
}

// What JSON cannot say is rejected, and what Kubernetes' decoder rejects.
func TestToJSON_Rejects(t *testing.T) {
	for in, why := range map[string]string{
		"":                               "ends too early",
		"a1 6161":                        "ends too early",
		"62 61":                          "ends too early",
		"9f 01":                          "ends too early",
		"19 01":                          "ends too early",
		"5b ffffffffffffffff":            "ends too early",
		"9b ffffffffffffffff":            "ends too early",
		"01 01":                          "more after the document",
		"a2 6161 01 6161 02":             `"a" is given twice`,
		"a2 6161 01 4161 02":             `"a" is given twice`,
		"a1 01 02":                       "not a string",
		"a1 7f 6161 ff 02":               "not a string",
		"1b 8000000000000000":            "does not fit 64 bits",
		"3b 8000000000000000":            "does not fit 64 bits",
		"c2 49010000000000000000":        "does not fit 64 bits",
		"c3 49010000000000000000":        "does not fit 64 bits",
		"f97e00":                         "NaN",
		"fa7f800000":                     "NaN and infinities",
		"fbfff0000000000000":             "NaN and infinities",
		"61 ff":                          "UTF-8",
		"41 ff":                          "UTF-8",
		"7f 61c3 61bc ff":                "UTF-8",
		"f7":                             "simple value 23",
		"f8 ff":                          "simple value 255",
		"f0":                             "simple value 16",
		"ff":                             "nothing has begun",
		"1c":                             "well-formed",
		"1f":                             "well-formed",
		"df 01":                          "well-formed",
		"5f 6161 ff":                     "another type",
		"5f 5f 4161 ff ff":               "another type",
		"c0 01":                          "time",
		"c0 6161":                        "RFC 3339",
		"c1 1b7fffffffffffffff":          "time",
		"c1 f97e00":                      "NaN",
		"c1 6161":                        "time",
		strings.Repeat("81", 600) + "01": "nested",
		strings.Repeat("c6", 600) + "01": "nested",
	} {
		_, err := cbor.ToJSON(bytesOf(t, in), 1<<20)
		require.ErrorContains(t, err, why, in)
	}
	_, err := cbor.ToJSON(append([]byte{0x59, 1, 0}, make([]byte, 256)...), 1000) // each becomes six bytes
	require.ErrorIs(t, err, cbor.ErrTooLarge)
}

// B7, W7: a body that is small costs no more memory than a body of its length may.
func TestToJSON_MemoryIsBounded(t *testing.T) {
	const size, limit = 3 << 20, 3 << 20
	names := []byte{0xbf}
	for i := 0; len(names) < size; i++ {
		names = append(names, 0x43, byte('a'+i%26), byte('a'+i/26%26), byte('a'+i/676%26), 0xf6)
	}
	for name, in := range map[string][]byte{
		"empty arrays":     append([]byte{0x9f}, []byte(strings.Repeat("\x80", size))...),
		"empty pieces":     append([]byte{0x7f}, []byte(strings.Repeat("\x60", size))...),
		"control bytes":    append([]byte{0x5a, 0, 0x2f, 0xff, 0}, make([]byte, size)...),
		"names":            names,
		"a promise":        {0x9b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
		"a promise of map": {0xbb, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := cbor.ToJSON(in, limit)
		runtime.ReadMemStats(&after)
		require.Error(t, err, name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(30<<20), name)
	}
}

// Documents of Kubernetes' clients and servers have this order of members.
func TestAppendEvent(t *testing.T) {
	got, err := cbor.AppendEvent(nil, "ADDED", []byte(`{"kind":"A"}`))
	require.NoError(t, err)
	require.Equal(t, "d9d9f7a2 4474797065 454144444544 466f626a656374 d9d9f7a1 446b696e64 4141", strings.Join([]string{
		hex.EncodeToString(got[:4]), hex.EncodeToString(got[4:9]), hex.EncodeToString(got[9:15]), hex.EncodeToString(got[15:22]),
		hex.EncodeToString(got[22:26]), hex.EncodeToString(got[26:31]), hex.EncodeToString(got[31:]),
	}, " "))
}

// A list is written in pieces, whatever stands before and after its items.
func TestAppendList(t *testing.T) {
	for _, parts := range [][]string{
		{`{"kind":"L","metadata":{"resourceVersion":"1"},"items":[`, `{"a":1}`, `{"b":[]}`, `]}` + "\n"},
		{`{"kind":"Table","columnDefinitions":[{"name":"A"}],"rows":[`, `{"cells":[]}`, `],"metadata":{}}`},
		{`{"items":[`, `]}`},
	} {
		out, err := cbor.AppendListHead(nil, []byte(parts[0]))
		require.NoError(t, err)
		for _, item := range parts[1 : len(parts)-1] {
			out, err = cbor.AppendItem(out, []byte(item))
			require.NoError(t, err)
		}
		out, err = cbor.AppendListTail(out, []byte(parts[len(parts)-1]))
		require.NoError(t, err)
		got, err := cbor.ToJSON(out, 1<<20)
		require.NoError(t, err)
		same(t, parts[0]+strings.Join(parts[1:len(parts)-1], ",")+parts[len(parts)-1], string(got))
	}
}

// FuzzToJSON checks that what is accepted is JSON within the limit that keeps its value on the way
// back.
func FuzzToJSON(f *testing.F) {
	for _, seed := range []string{
		"d9d9f7a3416101416281f542616140", "bf61619f01ffff", "7f61616162ff", "c11a386d4380", "d643010203", "f97bff", "fb7fefffffffffffff", "3b7fffffffffffffff",
	} {
		f.Add(bytesOf(f, seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 4 << 10
		text, err := cbor.ToJSON(in, limit)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(text), limit)
		tree, err := json.DecodeTree(text, json.TreeOptions{MaxDepth: math.MaxInt32})
		require.NoError(t, err, "%s", text)
		if json.Valid(text) != nil {
			return // nested too deep to be read again
		}
		again, err := cbor.Append(nil, text)
		require.NoError(t, err)
		back, err := cbor.ToJSON(again, 1<<20)
		require.NoError(t, err)
		tree2, err := json.DecodeTree(back, json.TreeOptions{})
		require.NoError(t, err)
		require.True(t, json.Equal(tree, tree2), "%s\n%s", text, back)
	})
}
