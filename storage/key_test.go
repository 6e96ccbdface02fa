package storage_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/random"
	"github.com/kindwright/kindwright/storage"
)

func TestKeysHaveTheirDocumentedForm(t *testing.T) {
	require.Equal(t, "/r/widgets/", storage.ResourcePrefix("widgets"))
	require.Equal(t, "/r/widgets/team/", storage.NamespacePrefix("widgets", "team"))
	require.Equal(t, "/r/widgets/team/a\x01/", storage.ObjectKey("widgets", "team", "a"))
	require.Equal(t, "/r/zones//eu\x01/", storage.ObjectKey("zones", "", "eu"))
	require.Equal(t, "/r/example.dev%2Fwidgets/team/a\x01/", storage.ObjectKey("example.dev/widgets", "team", "a"))
	require.Equal(t, "/r/rbac/-/system:admin%25\x01/", storage.ObjectKey("rbac", "-", "system:admin%"))
	require.Equal(t, "/sys/", storage.SysKey())
	require.Equal(t, "/sys/token/keys/", storage.SysKey("token", "keys"))
	require.Equal(t, "/sys/phase/a%2Fb/", storage.SysKey("phase", "a/b"))
}

// Rule 24: no key is the prefix of another.
func TestRule24_PrefixesEndInADelimiterThatNoNameContains(t *testing.T) {
	for _, c := range []struct{ prefix, stranger string }{
		{storage.NamespacePrefix("widgets", "team"), storage.ObjectKey("widgets", "team-a", "x")},
		{storage.NamespacePrefix("widgets", ""), storage.ObjectKey("widgets", "team", "x")},
		{storage.ResourcePrefix("widgets"), storage.ObjectKey("widgetsets", "team", "x")},
		{storage.ResourcePrefix("apps"), storage.ObjectKey("apps/deployments", "team", "x")},
		{storage.ObjectKey("widgets", "team", "a"), storage.ObjectKey("widgets", "team", "a-b")},
		{storage.ObjectKey("widgets", "team", "a"), storage.ObjectKey("widgets", "team", "a/b")},
		{storage.ObjectKey("widgets", "", "team"), storage.ObjectKey("widgets", "", "team/a")},
		{storage.SysKey("a"), storage.SysKey("a/b")},
	} {
		require.True(t, strings.HasSuffix(c.prefix, "/"))
		require.False(t, strings.HasPrefix(c.stranger, c.prefix), "%q is below %q", c.stranger, c.prefix)
	}
}

func TestSplitObjectKeyReversesObjectKey(t *testing.T) {
	segment := random.OneOf(random.StringOf("abcxyz", 1, 3), random.StringOf("/%2F5a", 0, 6), random.String())
	random.Check(t, func(t *random.T) {
		storageName, namespace, name := segment.Draw(t, "storage name"), segment.Draw(t, "namespace"), segment.Draw(t, "name")
		key := storage.ObjectKey(storageName, namespace, name)
		gotStorageName, gotNamespace, gotName, ok := storage.SplitObjectKey(key)
		if storageName == "" || name == "" {
			require.False(t, ok, "%q", key)
			return
		}
		require.True(t, ok, "%q", key)
		require.Equal(t, []string{storageName, namespace, name}, []string{gotStorageName, gotNamespace, gotName})
		require.True(t, strings.HasPrefix(key, storage.ResourcePrefix(storageName)))
		require.True(t, strings.HasPrefix(key, storage.NamespacePrefix(storageName, namespace)))
	})
}

func TestCOLL_15_KeysAreOrderedAsNamesAre(t *testing.T) {
	var keys []string
	for _, name := range []string{" ", "!", "a", "a ", "a!", "a-", "a--", "a-b", "a.", "a.b", "a0", "aa", "b", "é"} {
		keys = append(keys, storage.ObjectKey("widgets", "team", name))
	}
	require.True(t, slices.IsSorted(keys), "%q", keys)
}

func FuzzSplitObjectKey(f *testing.F) {
	for _, seed := range []string{"/r/a/b/c\x01/", "/r/a//c\x01/", "/r/a/b/c\x01", "/r/a/b/c/", "/r/a/b/c/d\x01/", "/r/a/b/c\x01\x01/", "/r/%2F/%25/%\x01/", "/r/%2f/b/c\x01/", "/sys/a/", "", "/r/", "/r///c/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		storageName, namespace, name, ok := storage.SplitObjectKey(key)
		switch {
		case !ok && storageName+namespace+name != "":
			t.Fatalf("%q is refused with parts", key)
		case ok && storage.ObjectKey(storageName, namespace, name) != key:
			t.Fatalf("%q is taken apart and becomes %q", key, storage.ObjectKey(storageName, namespace, name))
		}
	})
}

func TestSplitObjectKeyRefusesOtherTexts(t *testing.T) {
	for _, key := range []string{
		"", "/", "/r", "/r/", "/r/a", "/r/a/", "/r/a/b/", "/r/a/b/c", "/r/a/b/c/", "/r/a/b/c\x01", "/r/a/b//", "/r/a/b/\x01/", "/r//b/c\x01/", "/r/a/b/c/d\x01/",
		"/r/a/b/c\x01//", "/r/a/b/c\x01/d\x01/", "r/a/b/c\x01/", "/sys/a/b/c/", "/t/x/r/a/b/c\x01/", "/R/a/b/c\x01/", "/r/%/b/c\x01/", "/r/a/%2/c\x01/",
		"/r/a/b/%2f\x01/", "/r/a/b/%41\x01/",
	} {
		_, _, _, ok := storage.SplitObjectKey(key)
		require.False(t, ok, key)
	}
}

func TestStoreRefusesKeysOutsideTheGrammar(t *testing.T) {
	s := storage.New(&fake{t: t})
	for _, key := range []string{
		"", "/", "a", "/a/", "/r/", "/sys/", "/r/a/b/c", "/r/a/b/c/", "/r/a/b/", "/r//b/c\x01/", "/r/a/b//", "/r/a/b/\x01/", "/r/a/b/c/d\x01/",
		"/sys/a", "/sys//", "/sys/a//b/", "/t/tenant/r/a/b/c\x01/", "/sys/a\x00/", "/r/a/b/c\x00\x01/", "/r/a/b/" + strings.Repeat("x", storage.MaxKeyBytes) + "\x01/",
	} {
		_, err := s.Get(context.Background(), key)
		require.ErrorIs(t, err, storage.ErrInvalid, "%.40q", key)
		require.Less(t, len(err.Error()), 500, "a long key is not repeated")
		_, err = s.Commit(context.Background(), []storage.Op{storage.Put(key, nil, storage.Any)})
		require.ErrorIs(t, err, storage.ErrInvalid, "%.40q", key)
	}
}

// D10: every prefix ends with a slash.
func TestD10_StoreRefusesPrefixesThatEndWithinASegment(t *testing.T) {
	s := storage.New(&fake{t: t})
	for _, prefix := range []string{"/r", "/r/widgets", "r/", "widgets", "/r/widgets/team", "\x00", "/\x00/", "/" + strings.Repeat("x", storage.MaxKeyBytes) + "/"} {
		_, err := s.List(context.Background(), storage.ListRequest{Prefix: prefix, Limit: 1})
		require.ErrorIs(t, err, storage.ErrInvalid, "%.40q", prefix)
		for _, err := range s.Watch(context.Background(), prefix, 1) {
			require.ErrorIs(t, err, storage.ErrInvalid, "%.40q", prefix)
		}
	}
	for _, r := range []storage.ListRequest{
		{Limit: 0},
		{Limit: -1},
		{Prefix: "/r/a/", After: "/r/b/c/d\x01/", Limit: 1},
		{Prefix: "/r/a/", After: "/r/", Limit: 1},
		{After: "\x00", Limit: 1},
		{After: strings.Repeat("x", storage.MaxKeyBytes+1), Limit: 1},
	} {
		_, err := s.List(context.Background(), r)
		require.ErrorIs(t, err, storage.ErrInvalid, "%.60v", r)
	}
}
