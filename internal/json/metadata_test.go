package json_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/random"
)

func TestScanMetadata(t *testing.T) {
	object := `{"apiVersion":"v1","data":{"metadata":"{\"name\":\"no\"}","x":[1.5,{"uid":"no"}]},"kind":"K","metadata":{` +
		`"annotations":{"a":"\"uid\":\"no\""},"creationTimestamp":"2023-11-14T22:13:20Z","deletionTimestamp":"2023-11-14T22:13:21Z",` +
		`"labels":{"a":"1","b/\u0001é":"2"},"name":"n","namespace":"ns","ownerReferences":[{"kind":"K","uid":"o1"},{"uid":"o2"}],` +
		`"uid":"u"},"spec":{"metadata":{"uid":"no"}}}`
	m, err := json.ScanMetadata([]byte(object))
	require.NoError(t, err)
	require.Equal(t, json.Metadata{
		Name: "n", Namespace: "ns", UID: "u",
		Labels:  []json.Pair{{Key: "a", Value: "1"}, {Key: "b/\x01é", Value: "2"}},
		Owners:  []string{"o1", "o2"},
		Created: time.Unix(1_700_000_000, 0).UTC(), Deleted: time.Unix(1_700_000_001, 0).UTC(),
		Splice: strings.LastIndex(object, `"uid":"u"`),
	}, m)
}

// Splicing the version into an object gives the same bytes as encoding the object with the version.
func TestScanMetadata_SpliceIsCanonical(t *testing.T) {
	text := random.String()
	random.Check(t, func(t *random.T) {
		metadata := map[string]any{"uid": random.StringN(1, 20).Draw(t, "uid")}
		for _, name := range []string{"name", "namespace", "generateName", "selfLink", "zz", "resourceVersioo", "resourceVersions"} {
			if random.Bool().Draw(t, name) {
				metadata[name] = text.Draw(t, name)
			}
		}
		if random.Bool().Draw(t, "labels") {
			metadata["labels"] = random.Map(random.MapOf(text, text, 10), func(m map[string]string) any {
				out := map[string]any{}
				for k, v := range m {
					out[k] = v
				}
				return out
			}).Draw(t, "labels")
		}
		object := map[string]any{"metadata": metadata, text.Draw(t, "other") + "_": trees(2).Draw(t, "tree")}
		stored, err := json.AppendTree(nil, object)
		require.NoError(t, err)
		m, err := json.ScanMetadata(stored)
		require.NoError(t, err, "%s", stored)
		require.Equal(t, metadata["uid"], m.UID)

		metadata["resourceVersion"] = "42"
		want, err := json.AppendTree(nil, object)
		require.NoError(t, err)
		require.Equal(t, string(want), string(stored[:m.Splice])+`"resourceVersion":"42",`+string(stored[m.Splice:]))
	})
}

func TestScanMetadata_Refused(t *testing.T) {
	for text, want := range map[string]string{
		``:                                    "ends early",
		`[]`:                                  "an object should be",
		`{}`:                                  "metadata.uid",
		`{"metadata":{}}`:                     "metadata.uid",
		`{"metadata":{"uid":""}}`:             "metadata.uid",
		`{"metadata":{"uid":3}}`:              "text should be",
		`{"metadata":{"uid":"u"}} `:           "after the end",
		`{"metadata":{"uid":"u"}`:             "ends early",
		`{"metadata":{"uid":"u","name":""}}`:  "not sorted",
		`{"metadata":{"uid":"u","uid":"v"}}`:  "not sorted",
		`{"metadata":{"uid":"u"},"kind":"K"}`: "not sorted",
		`{"metadata":{"resourceVersion":"1","uid":"u"}}`:      "must not have metadata.resourceVersion",
		`{"metadata":{"creationTimestamp":"x","uid":"u"}}`:    "RFC 3339",
		`{"metadata":{"labels":{"b":"1","a":"2"},"uid":"u"}}`: "not sorted",
		`{"metadata":{"labels":[],"uid":"u"}}`:                "an object should be",
		`{"metadata":{"ownerReferences":{},"uid":"u"}}`:       "an array should be",
		`{"metadata":{"uid":"u"},"spec":{"a":[1,}}`:           "a value should be",
		"{\"metadata\":{\"name\":\"\xff\",\"uid\":\"u\"}}":    "UTF-8",
		"{\"metadata\":{\"uid\":\"u\"},\"spec\":\"\xff\"}":    "UTF-8",
	} {
		_, err := json.ScanMetadata([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
	m, err := json.ScanMetadata([]byte(`{"metadata":{"creationTimestamp":null,"uid":"u"}}`))
	require.NoError(t, err)
	require.True(t, m.Created.IsZero())
}

func FuzzScanMetadata(f *testing.F) {
	f.Add([]byte(`{"kind":"K","metadata":{"labels":{"a":"b"},"name":"n","ownerReferences":[{"uid":"o"}],"uid":"u"},"spec":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := json.ScanMetadata(data)
		if err != nil {
			return
		}
		spliced := string(data[:m.Splice]) + `"resourceVersion":"1",` + string(data[m.Splice:])
		tree, err := json.DecodeTree([]byte(spliced), json.TreeOptions{Duplicates: func(string) {}})
		if err != nil {
			require.ErrorContains(t, err, "JSON") // the scanner does not check numbers and depth
			return
		}
		metadata := tree.(map[string]any)["metadata"].(map[string]any)
		require.Equal(t, "1", metadata["resourceVersion"])
		require.Equal(t, m.UID, metadata["uid"])
	})
}

// Cutting the managed fields out gives the same bytes as encoding the object without them.
func TestScanMetadata_ManagedFieldsAreFound(t *testing.T) {
	text, stamp := random.String(), random.SampledFrom([]any{"2023-11-14T22:13:20Z", "2023-11-14T22:13:20.5Z", "é", nil, true})
	random.Check(t, func(t *random.T) {
		metadata := map[string]any{"uid": "u", "name": text.Draw(t, "name")}
		var times []string
		entries := random.SliceOf(random.Custom(func(t *random.T) any {
			entry := map[string]any{"fieldsV1": trees(2).Draw(t, "fields"), "manager": text.Draw(t, "manager")}
			if random.Bool().Draw(t, "timed") {
				entry["time"] = stamp.Draw(t, "time")
			}
			return entry
		}), 0, 4).Draw(t, "entries")
		for _, entry := range entries {
			if s, ok := entry.(map[string]any)["time"].(string); ok && len(s) == json.StampBytes {
				times = append(times, s)
			}
		}
		object := map[string]any{"metadata": metadata, "spec": trees(2).Draw(t, "spec")}
		without, err := json.AppendTree(nil, object)
		require.NoError(t, err)
		metadata["managedFields"] = entries
		stored, err := json.AppendTree(nil, object)
		require.NoError(t, err)
		m, err := json.ScanMetadata(stored)
		require.NoError(t, err)
		require.Equal(t, string(without), string(stored[:m.Managed.From])+string(stored[m.Managed.To:]))
		require.Len(t, m.Managed.Times, len(times))
		for i, at := range m.Managed.Times {
			require.Equal(t, times[i], string(stored[at:at+json.StampBytes]))
		}
	})
	for _, odd := range []string{`{}`, `"x"`, `[1,{"time":2}]`, `null`} {
		m, err := json.ScanMetadata([]byte(`{"metadata":{"managedFields":` + odd + `,"uid":"u"}}`))
		require.NoError(t, err)
		require.Empty(t, m.Managed.Times)
		require.Equal(t, len(`{"metadata":{"managedFields":,`+odd), m.Managed.To)
	}
}
