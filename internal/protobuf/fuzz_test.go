package protobuf

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
)

// withoutNulls decodes a document and removes its null members.
func withoutNulls(t *testing.T, document []byte) any {
	t.Helper()
	tree, err := json.DecodeTree(document, json.TreeOptions{})
	require.NoError(t, err)
	return strip(tree)
}

func strip(tree any) any {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			if value == nil {
				delete(tree, name)
			} else {
				tree[name] = strip(value)
			}
		}
	case []any:
		for i := range tree {
			tree[i] = strip(tree[i])
		}
	}
	return tree
}

// FuzzAppendJSON decodes arbitrary bytes. The result is JSON, and another round trip does not
// change it.
func FuzzAppendJSON(f *testing.F) {
	d, _, err := Describe(reflect.TypeFor[widget]())
	require.NoError(f, err)
	seed, err := d.AppendMessage(nil, atRest(1000))
	require.NoError(f, err)
	f.Add(seed)
	f.Add([]byte(text(2, text(33, text(2, text(1, "a")))+text(27, number(1, 1))+text(17, text(1, "b"))+text(17, text(1, "a")))))
	f.Add([]byte("\x12\x19\x92\x02\x050\xca000B\x010 0\x8a0\x03000\x8a0\x03000"))
	f.Add([]byte(text(2, text(28, text(1, `{"a":1}`))+text(30, number(1, 5))+text(700, number(2, 1)))))
	f.Fuzz(func(t *testing.T, message []byte) {
		const limit = 1 << 16
		first, err := d.AppendJSON(nil, message, "v1", "Widget", limit)
		if err != nil {
			require.ErrorAs(t, err, new(*Error))
			require.Empty(t, first)
			return
		}
		require.LessOrEqual(t, len(first), limit)
		_, err = json.DecodeTree(first, json.TreeOptions{})
		if err != nil {
			require.Regexp(t, `raw|text|fieldsV1`, err.Error(), "only what came as JSON can be what we refuse in JSON")
			return
		}
		again, err := d.AppendMessage(nil, first)
		require.NoError(t, err, "%s", first)
		second, err := d.AppendJSON(nil, again, "v1", "Widget", limit)
		require.NoError(t, err)
		// As in Kubernetes, a pointer to an empty value, such as the zero time, becomes null in
		// JSON. When that is encoded again, null is absent.
		require.Equal(t, withoutNulls(t, first), withoutNulls(t, second))
		third, err := d.AppendMessage(nil, second)
		require.NoError(t, err)
		require.Equal(t, again, third)
	})
}

// FuzzAppendMessage encodes text that may not be JSON.
func FuzzAppendMessage(f *testing.F) {
	d, _, err := Describe(reflect.TypeFor[widget]())
	require.NoError(f, err)
	f.Add(atRest(1000))
	f.Add([]byte(`{"spec":{"verbs":["a"],"extra":{"a":["b"]},"allowed":{"name":"x"},"items":[{}],"tree":{"left":{}},"seal":"AQ==","secrets":{"a":null}}}`))
	f.Add([]byte(`{"spec":{"items":[]}}`))
	f.Add([]byte(`{"spec":{"notes":{"b":"1","a":"2","b":"3"},"size":1,"size":2,"extra":{"z":["1"],"a":null}}}`))
	f.Add([]byte(`{"spec":{"raw":{"a":1},"limits":{"a":1.5},"port":"x","patience":"1s","renewed":"2026-01-02T03:04:05Z"}}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		message, err := d.AppendMessage([]byte("x"), object)
		asOracle(t, d, object, message, err)
		if err != nil {
			require.ErrorAs(t, err, new(*Error))
			require.Equal(t, "x", string(message))
			return
		}
		if json.Valid(object) != nil {
			return // the encoder trusts stored objects to be JSON
		}
		text, err := d.AppendJSON(nil, message[1:], "", "", 1<<20)
		require.NoError(t, err, "%q", object)
		again, err := d.AppendMessage(nil, text)
		require.NoError(t, err)
		second, err := d.AppendJSON(nil, again, "", "", 1<<20)
		require.NoError(t, err)
		// As above: a pointer to an empty choice becomes null, and null is absent.
		require.Equal(t, withoutNulls(t, text), withoutNulls(t, second))
	})
}

// asOracle compares what was encoded after an x with what the oracle makes of the same object.
func asOracle(t *testing.T, d *Descriptor, object, message []byte, err error) {
	t.Helper()
	want, wantErr := d.appendMessageByNodes([]byte("x"), object)
	if json.Valid(object) == nil {
		require.Equal(t, wantErr == nil, err == nil, "%q: %v and %v", object, wantErr, err)
	}
	if wantErr == nil && err == nil {
		require.Equal(t, want, message, "%q", object)
	}
}

func FuzzOpen(f *testing.F) {
	d, _, err := Describe(reflect.TypeFor[widget]())
	require.NoError(f, err)
	seed, err := d.AppendObject(nil, "v1", "Widget", atRest(1000))
	require.NoError(f, err)
	f.Add(seed)
	f.Fuzz(func(t *testing.T, document []byte) {
		e, err := Open(document)
		if err != nil {
			require.ErrorAs(t, err, new(*Error))
			return
		}
		require.True(t, bytes.Contains(document, e.Message))
		require.True(t, bytes.Contains(document, []byte(e.Kind)))
	})
}
