package feed_test

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/feed"
	"github.com/kindwright/kindwright/watch"
)

type thing struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Size int `json:"size"`
}

// entry is an object as the live view has it: its version stands between the two parts.
func entry(name, size string) *watch.Entry {
	body := watch.Body{Prefix: []byte(`{"metadata":{`), Suffix: []byte(`"name":"` + name + `"},"size":` + size + `}`)}
	return watch.NewEntry("/things/"+name, 1, body, watch.Facts{Name: name})
}

// A feed follows the objects of a kind, and takes one that cannot be read for deleted.
func TestFeedFollowsObjects(t *testing.T) {
	known, published := map[string]int{}, 0
	f := &feed.Feed[thing]{
		Lock: &sync.Mutex{}, Put: func(x *thing) { known[x.Metadata.Name] = x.Size }, Drop: func(name string) { delete(known, name) },
		Known: func() []string { return slices.Collect(maps.Keys(known)) }, Publish: func() { published++ },
	}
	a, b := entry("a", "1"), entry("b", "2")
	f.Filled("", slices.Values([]*watch.Entry{a, b}))
	require.Equal(t, map[string]int{"a": 1, "b": 2}, known)
	f.Changed(a, entry("a", "7"))
	require.Equal(t, 7, known["a"])
	f.Changed(a, entry("a", `"large"`))
	require.NotContains(t, known, "a")
	f.Changed(b, nil)
	require.Empty(t, known)
	f.Filled("", slices.Values([]*watch.Entry{a}))
	f.Filled("", slices.Values([]*watch.Entry{b}))
	require.Equal(t, map[string]int{"b": 2}, known, "what is not there any more is dropped")
	require.Equal(t, 6, published)
}
