package interop

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	kwjson "github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/openapi"
)

// kubernetesTypes returns the Go types of all objects of k8s.io/api, by name.
func kubernetesTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		_, isObject := reflect.New(typ).Interface().(metav1.Object)
		if isObject && gvk.Version != "__internal" {
			types[typ.String()] = typ
		}
	}
	return types
}

// Our codec derives from tags what Kubernetes generates for each type. The messages are identical,
// byte for byte, and decode alike in both directions.
func TestPROTO_MessagesOfAllKubernetesTypes(t *testing.T) {
	types := kubernetesTypes()
	require.Greater(t, len(types), 100)
	var shared protobuf.Types
	described := 0
	for _, name := range slices.Sorted(maps.Keys(types)) {
		typ := types[name]
		if _, ok := reflect.New(typ).Interface().(message); !ok {
			continue
		}
		d, ok, err := shared.Describe(typ)
		require.NoError(t, err, name)
		require.True(t, ok, name)
		described++
		for seed := range int64(12) {
			filled := reflect.New(typ).Interface()
			objectFiller(seed).Fill(filled)
			value, text, err := viaJSON(typ, filled)
			require.NoError(t, err, name)
			want, err := value.(message).Marshal()
			require.NoError(t, err, name)
			got, err := d.AppendMessage(nil, text)
			require.NoError(t, err, "%s: %s", name, clip(text))
			require.True(t, bytes.Equal(want, got), "%s, seed %d: messages differ\nJSON %s\nwant %x\ngot  %x", name, seed, clip(text), clip(want), clip(got))
			requireReadAsKubernetesDoes(t, name, typ, d, want)
			requireReadAsKubernetesDoes(t, name, typ, d, withUnknownFields(want, seed))
		}
	}
	require.Greater(t, described, 100)
}

// requireReadAsKubernetesDoes decodes a message with both codecs.
func requireReadAsKubernetesDoes(t *testing.T, name string, typ reflect.Type, d *protobuf.Descriptor, data []byte) {
	t.Helper()
	read := reflect.New(typ).Interface()
	require.NoError(t, read.(message).Unmarshal(data), name)
	want, err := plainJSON(read)
	require.NoError(t, err)
	got, err := d.AppendJSON(nil, data, "", "", 1<<30)
	require.NoError(t, err, name)
	requireSame(t, want, got)
}

// withUnknownFields adds fields of every wire type around those of a message, with numbers that no
// type uses.
func withUnknownFields(data []byte, seed int64) []byte {
	random := rand.New(rand.NewPCG(uint64(seed), 7))
	var out []byte
	field := func() {
		number := uint64(9000 + random.IntN(1000))
		switch random.IntN(4) {
		case 0:
			out = append(varint(out, number<<3), byte(random.IntN(128)))
		case 1:
			out = append(varint(out, number<<3|1), 1, 2, 3, 4, 5, 6, 7, 8)
		case 2:
			out = append(varint(out, number<<3|2), 3, 'a', 'b', 'c')
		default:
			out = append(varint(out, number<<3|5), 1, 2, 3, 4)
		}
	}
	field()
	out = append(out, data...)
	field()
	return out
}

func varint(out []byte, v uint64) []byte {
	for ; v >= 0x80; v >>= 7 {
		out = append(out, byte(v)|0x80)
	}
	return append(out, byte(v))
}

// Absent and empty fields are distinguished as in Kubernetes, for every field of every type.
func TestPROTO_EmptyMessagesOfAllKubernetesTypes(t *testing.T) {
	for name, typ := range kubernetesTypes() {
		zero, ok := reflect.New(typ).Interface().(message)
		if !ok {
			continue
		}
		d, _, err := protobuf.Describe(typ)
		require.NoError(t, err, name)
		want, err := zero.Marshal()
		require.NoError(t, err)
		text, err := plainJSON(zero)
		require.NoError(t, err)
		got, err := d.AppendMessage(nil, text)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
		requireReadAsKubernetesDoes(t, name, typ, d, want)
		requireReadAsKubernetesDoes(t, name, typ, d, nil)
		for i := range typ.NumField() { // present but empty
			if typ.Field(i).Type.Kind() != reflect.Struct || typ.Field(i).Anonymous {
				continue
			}
			filled := reflect.New(typ)
			empty(filled.Elem().Field(i), 3)
			want, err := filled.Interface().(message).Marshal()
			require.NoError(t, err)
			requireReadAsKubernetesDoes(t, name, typ, d, want)
		}
	}
}

// empty sets every pointer, list and map of a struct to an empty value, some levels deep.
func empty(v reflect.Value, depth int) {
	if depth == 0 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		empty(v.Elem(), depth-1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		empty(v.Index(0), depth-1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "Raw" && f.Type.Kind() != reflect.Interface {
				empty(v.Field(i), depth)
			}
		}
	default:
	}
}

// storedAs returns an object as a server stores it.
func storedAs(t *testing.T, s *openapi.Schema, sent []byte) []byte {
	t.Helper()
	tree, err := kwjson.DecodeTree(sent, kwjson.TreeOptions{})
	require.NoError(t, err)
	stored, problems := s.Canonical(tree.(map[string]any))
	require.Empty(t, problems, "%s", clip(sent))
	kept, err := kwjson.AppendTree(nil, stored)
	require.NoError(t, err)
	return kept
}

// sentBy returns an object as a client encodes it after reading it, including HTML escapes.
func sentBy(t *testing.T, typ reflect.Type, kept []byte) []byte {
	t.Helper()
	client := reflect.New(typ).Interface()
	require.NoError(t, json.Unmarshal(kept, client), "%s", clip(kept))
	sent, err := json.Marshal(client)
	require.NoError(t, err)
	return sent
}

// An object that a client with Kubernetes' types reads and sends back is unchanged, in every
// encoding (design rule 8).
func TestMETA_ObjectsOfAllKubernetesTypesComeBackTheSame(t *testing.T) {
	var schemas openapi.Types
	for name, typ := range kubernetesTypes() {
		s, err := schemas.Schema(typ, openapi.RequiredWhenTagged())
		require.NoError(t, err, name)
		for seed := range int64(6) {
			filled := reflect.New(typ).Interface()
			objectFiller(seed).Fill(filled)
			_, sent, err := viaJSON(typ, filled)
			require.NoError(t, err, name)
			written := storedAs(t, s, sentBy(t, typ, storedAs(t, s, sent))) // one round trip first: nulls in maps are dropped
			require.Equal(t, string(written), string(storedAs(t, s, sentBy(t, typ, written))), name)
		}
	}
}

// If our codec accepts a truncated or damaged message, it decodes the same content as Kubernetes,
// and the output is bounded by the size of the input.
func TestPROTO_DamagedMessagesOfAllKubernetesTypes(t *testing.T) {
	var shared protobuf.Types
	taken, refused := 0, 0
	for name, typ := range kubernetesTypes() {
		zero, ok := reflect.New(typ).Interface().(message)
		if !ok {
			continue
		}
		d, _, err := shared.Describe(typ)
		require.NoError(t, err)
		random := rand.New(rand.NewPCG(uint64(len(name)), 5))
		filled := reflect.New(typ).Interface()
		objectFiller(3).Fill(filled)
		value, _, err := viaJSON(typ, filled)
		require.NoError(t, err)
		whole, err := value.(message).Marshal()
		require.NoError(t, err)
		for range 100 {
			data := damaged(random, whole)
			text, err := d.AppendJSON(nil, data, "", "", 4<<20)
			if err != nil {
				refused++
				continue
			}
			read := reflect.New(reflect.TypeOf(zero).Elem()).Interface()
			if read.(message).Unmarshal(data) != nil {
				continue // Kubernetes rejects some unknown fields
			}
			want, err := plainJSON(read)
			if err != nil {
				continue // times beyond the range of Kubernetes
			}
			taken++
			requireSame(t, want, text)
		}
	}
	require.Greater(t, taken, 500)
	require.Greater(t, refused, 500)
}

// damaged truncates a message, changes a byte, duplicates a part, or announces 2 GB.
func damaged(random *rand.Rand, whole []byte) []byte {
	data := slices.Clone(whole)
	at := random.IntN(len(data))
	switch random.IntN(4) {
	case 0:
		return data[:at]
	case 1:
		data[at] ^= 1 << random.IntN(8)
		return data
	case 2:
		return slices.Concat(data, data[at:])
	}
	return slices.Concat(data[:at], []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x07}, data[at:])
}
