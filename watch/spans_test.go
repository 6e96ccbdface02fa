package watch_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// addFacts adds facts that are not in the body: computed fields, many labels, owners and a deletion.
func addFacts(t *random.T, f *watch.Facts) {
	word := random.StringOf("abcxyz/.", 0, 200)
	if random.Range(0, 3).Draw(t, "long") == 0 {
		f.Labels = append(f.Labels, meta.Label{Key: "long", Value: strings.Repeat("x", 300)})
	}
	for range random.Range(0, 4).Draw(t, "more labels") {
		f.Labels = append(f.Labels, meta.Label{Key: word.Draw(t, "key"), Value: word.Draw(t, "value")})
	}
	for range random.Range(0, 3).Draw(t, "fields") {
		f.Fields = append(f.Fields, word.Draw(t, "field"))
	}
	for range random.Range(0, 3).Draw(t, "owners") {
		f.Owners = append(f.Owners, meta.UID(word.Draw(t, "owner")))
	}
	if random.Range(0, 2).Draw(t, "deleted") == 0 {
		deleted := time.Unix(int64(random.Range(-70_000_000_000, 200_000_000_000).Draw(t, "at")), 0).UTC()
		f.Deleted = &deleted
	}
}

// Facts come back as they were given, all at once and one by one, wherever they were: in the JSON,
// among the shared texts, or nowhere in it.
func TestFactsComeBack(t *testing.T) {
	texts := watch.NewTexts()
	random.Check(t, func(t *random.T) {
		name := random.StringOf("abcdefghijklmnopqrstuvwxyz", 3, 9).Draw(t, "name")
		body, facts, _ := managedObject(name, 3, []string{`{"manager":"shared","time":"TIME"}`}, []string{stamp})
		if random.Range(0, 2).Draw(t, "in the managed fields") == 0 {
			at := bytes.Index(body.Prefix, []byte("shared"))
			facts.Labels = append(facts.Labels, meta.Label{Key: "z", Value: unsafe.String(&body.Prefix[at], len("shared"))})
		}
		addFacts(t, &facts)
		plain := watch.NewEntry("/k/", 1, body, facts)
		// Parts of the body are found by their address: the copy has its own.
		for _, e := range []*watch.Entry{plain, texts.NewEntry("/k/", 1, body, facts)} {
			require.Equal(t, facts, e.Facts())
			require.Equal(t, facts.Name, e.Name())
			require.Equal(t, facts.Namespace, e.Namespace())
			require.Equal(t, facts.UID, e.UID())
			require.Equal(t, facts.Labels, e.Labels())
			require.Equal(t, facts.Owners, e.Owners())
			require.Equal(t, facts.Deleted != nil, e.Deleting())
			for _, l := range facts.Labels {
				want, _ := facts.Labels.Get(l.Key)
				selector, err := meta.ParseSelector(l.Key + "=" + want)
				if err == nil {
					require.True(t, watch.Filter{Labels: selector}.Matches(e), "%q", l)
				}
			}
		}
	})
}

func TestOwnersAreComparedWithTheirReferences(t *testing.T) {
	entry := func(references string, owners ...meta.UID) *watch.Entry {
		body := watch.Body{Prefix: []byte(`{"metadata":{"name":"n","ownerReferences":` + references + `,`), Suffix: []byte(`"uid":"u"}}`)}
		return watch.NewEntry("/k/", 1, body, watch.Facts{Name: "n", Owners: owners})
	}
	one := entry(`[{"uid":"a"}]`, "a")
	require.True(t, one.SameOwners(entry(`[{"uid":"a"}]`, "a")))
	require.False(t, one.SameOwners(entry(`[{"uid":"a","controller":true}]`, "a")))
	require.False(t, one.SameOwners(entry(`[{"uid":"b"}]`, "b")))
	require.False(t, one.SameOwners(entry(`[{"uid":"a"},{"uid":"b"}]`, "a", "b")))
	require.False(t, one.SameOwners(entry(`[]`)))
	require.True(t, entry(`[]`).SameOwners(entry(`[]`)))
}

// An entry with its facts is two pieces of memory, however many facts there are: the collector
// counts pieces (docs/design/0049-memory.md).
func TestAnEntryIsTwoPiecesOfMemory(t *testing.T) {
	texts := watch.NewTexts()
	manager := `{"fieldsV1":{"f:data":{}},"manager":"m","time":"TIME"}`
	body, facts, _ := managedObject("n", 500, []string{manager, manager}, []string{stamp, "2024-01-01T00:00:00Z"})
	facts.Fields, facts.Owners = []string{facts.Name, "computed"}, []meta.UID{facts.UID}
	var e *watch.Entry
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { e = texts.NewEntry("/k/", storage.Revision(1), body, facts) }), 2.0)
	require.Equal(t, facts, e.Facts())
	require.Less(t, e.Size(), len(body.Prefix)+len(body.Suffix)+160)
}
