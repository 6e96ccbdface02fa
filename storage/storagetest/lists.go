package storagetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func listCases() []testCase {
	return []testCase{
		{"a list is in byte order and stays below its prefix", listStrangeKeys},
		{"strange keys are told apart by every call", strangeKeysApart},
		{"pages join to the list whatever their size", pagesJoin},
		{"a page begins after a key that need not exist", pageAfterGap},
		{"pages go on at the revision of the first while others write", pagesUnderWrites},
		{"a list at a retained revision is exact", exactLists},
		{"a list at a future revision is refused", futureList},
		{"what a list returned is the caller's", listIsMine},
	}
}

// strangeKeys are keys that a careless store confuses: by case, order or separators, by bytes that
// are not text, or because one is the start of another.
func strangeKeys() []string {
	var keys []string
	for _, storageName := range []string{"widgets", "widgetsets", "Widgets", "apps", "apps/deployments", "example.dev/widgets"} {
		for _, namespace := range []string{"", "team", "team-a", "team.a", "team0", "TEAM"} {
			keys = append(keys, storage.ObjectKey(storageName, namespace, "a"))
		}
	}
	names := []string{
		"A", "aa", "a-", "a.", "a b", "a:b", "ä", "a\u0308", "a\xff", "\xff", "\xff\xff", "\x01", "\x7f", "~", "!",
		"%", "%2F", "a/b", "/", ".", "..", "-", "0", "00", "10", "9", "\\", "\"", "'", "\n", "null", "*", "?", "🙂",
		strings.Repeat("n", 253), strings.Repeat("n", 252) + "m",
	}
	for _, name := range names {
		keys = append(keys, storage.ObjectKey("widgets", "team", name))
	}
	keys = append(keys, storage.SysKey("a"), storage.SysKey("a", "b"), storage.SysKey("a-b"), storage.SysKey("ab"), storage.SysKey("A"))
	slices.Sort(keys)
	return keys
}

// strangePrefixes are every prefix of whole segments of the strange keys.
func strangePrefixes(keys []string) []string {
	all := map[string]bool{"": true, "/none/": true, "/r/none/": true}
	for _, key := range keys {
		for i := range len(key) {
			if key[i] == '/' {
				all[key[:i+1]] = true
			}
		}
	}
	var prefixes []string
	for p := range all {
		prefixes = append(prefixes, p)
	}
	slices.Sort(prefixes)
	return prefixes
}

// withPrefix filters in the simplest way.
func withPrefix(keys []string, prefix string) []string {
	some := []string{}
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) {
			some = append(some, key)
		}
	}
	return some
}

func keysOf(records []storage.Record) []string {
	keys := []string{}
	for _, r := range records {
		keys = append(keys, r.Key)
	}
	return keys
}

// putStrange writes the strange keys in another order than their own.
func putStrange(s *scene) (keys []string, last storage.Revision) {
	keys = strangeKeys()
	for i := range keys {
		key := keys[(i*37+11)%len(keys)] // 37 is prime to the number of keys
		last = s.put(key, "of "+key)
	}
	return keys, last
}

func listStrangeKeys(s *scene) {
	keys, last := putStrange(s)
	for _, prefix := range strangePrefixes(keys) {
		want := withPrefix(keys, prefix)
		for _, at := range []storage.Revision{0, last} {
			require.Equal(s, want, keysOf(s.wholeList(prefix, at, 1000)), "list of %q at %d", prefix, at)
		}
	}
}

func strangeKeysApart(s *scene) {
	keys, last := putStrange(s)
	for _, key := range keys {
		s.holds(key, "of "+key)
	}
	revisions := map[storage.Revision]bool{}
	for _, r := range s.wholeList("", 0, 1000) {
		require.Equal(s, "of "+r.Key, string(r.Value))
		revisions[r.Revision] = true
	}
	require.Len(s, revisions, len(keys))
	for i, key := range keys {
		if i%2 == 0 {
			s.delete(key)
		}
	}
	for i, key := range keys {
		if i%2 == 0 {
			s.absent(key)
		} else {
			s.holds(key, "of "+key)
		}
	}
	deleted := []string{}
	for _, b := range s.collect("", last, s.current()) {
		deleted = append(deleted, b.Changes[0].Key)
		require.Equal(s, "of "+b.Changes[0].Key, string(b.Changes[0].Prev.Value))
	}
	require.Len(s, deleted, (len(keys)+1)/2)
}

func pagesJoin(s *scene) {
	keys, last := putStrange(s)
	for _, limit := range []int{1, 2, 3, 10, len(keys) - 1, len(keys), len(keys) + 1, 1 << 20} {
		for _, prefix := range []string{"", "/r/", storage.ResourcePrefix("widgets"), storage.NamespacePrefix("widgets", "team")} {
			require.Equal(s, withPrefix(keys, prefix), keysOf(s.wholeList(prefix, 0, limit)), "%q in pages of %d", prefix, limit)
			require.Equal(s, withPrefix(keys, prefix), keysOf(s.wholeList(prefix, last, limit)), "%q in pages of %d", prefix, limit)
		}
	}
}

func pageAfterGap(s *scene) {
	for _, name := range []string{"b", "d", "f"} {
		s.put(widget(name), "x")
	}
	s.put(storage.ObjectKey("widgets", "team-a", "a"), "x")
	prefix := storage.NamespacePrefix("widgets", "team")
	for after, want := range map[string][]string{
		"":                   {widget("b"), widget("d"), widget("f")},
		prefix:               {widget("b"), widget("d"), widget("f")},
		widget("a"):          {widget("b"), widget("d"), widget("f")},
		widget("b"):          {widget("d"), widget("f")},
		widget("b") + "\x01": {widget("d"), widget("f")},
		widget("c"):          {widget("d"), widget("f")},
		widget("f"):          {},
		widget("z"):          {},
	} {
		p, err := s.List(s.ctx, storage.ListRequest{Prefix: prefix, After: after, Limit: 10})
		require.NoError(s, err)
		require.Equal(s, want, keysOf(p.Records), "after %q", after)
		require.False(s, p.More)
	}
}

func pagesUnderWrites(s *scene) {
	for i := range 20 {
		s.put(widget(fmt.Sprintf("%02d", i)), "old")
	}
	prefix := storage.ResourcePrefix("widgets")
	want := s.wholeList(prefix, 0, 1000)
	r := storage.ListRequest{Prefix: prefix, Limit: 3}
	var got []storage.Record
	for round := 0; ; round++ {
		p, err := s.List(s.ctx, r)
		require.NoError(s, err)
		require.NoError(s, checkPage(r, p))
		got = append(got, p.Records...)
		if !p.More {
			break
		}
		r.At, r.After = p.Revision, p.Records[len(p.Records)-1].Key
		s.put(widget(fmt.Sprintf("%02d", 19-round)), "changed")
		s.delete(widget(fmt.Sprintf("%02d", 10+round)))
		s.put(widget(fmt.Sprintf("%02d-new", 10+round)), "new")
	}
	require.NoError(s, newState(got).equal(newState(want)))
	require.Equal(s, keysOf(want), keysOf(got))
}

func exactLists(s *scene) {
	type moment struct {
		revision storage.Revision
		records  []storage.Record
	}
	history := []moment{{s.current(), nil}}
	for i := range 30 {
		key := widget(fmt.Sprint(i * 7 % 5))
		if i%4 == 3 {
			s.delete(key)
		} else {
			s.put(key, fmt.Sprint(i))
		}
		s.put(gadget("foreign"), fmt.Sprint(i))
		history = append(history, moment{s.current(), s.wholeList("", 0, 1000)})
	}
	for _, m := range history {
		require.NoError(s, newState(s.wholeList("", m.revision, 2)).equal(newState(m.records)), "list at %d", m.revision)
	}
}

func futureList(s *scene) {
	rev := s.put(widget("a"), "x")
	for _, ahead := range []storage.Revision{1, 2, 1 << 30} {
		s.listFails("", rev+ahead, storage.ErrFutureRevision)
		s.listFails(storage.ResourcePrefix("gadgets"), rev+ahead, storage.ErrFutureRevision)
	}
	s.wholeList("", rev, 10)
}

func listIsMine(s *scene) {
	s.put(widget("a"), "one")
	s.put(widget("b"), "two")
	p, err := s.List(s.ctx, storage.ListRequest{Limit: 10})
	require.NoError(s, err)
	clear(p.Records)
	require.Equal(s, []string{widget("a"), widget("b")}, keysOf(s.wholeList("", 0, 10)))
}
