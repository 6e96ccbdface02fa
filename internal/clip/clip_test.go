package clip_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/clip"
)

func TestCutsKeepCharactersWhole(t *testing.T) {
	for _, c := range []struct {
		s           string
		most        int
		cut, prefix string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abc", 2, "ab…", "ab"},
		{"aéb", 3, "aé…", "aé"},
		{"aéb", 2, "a…", "a"},
		{"😀", 3, "…", ""},
		{"\xff", 1, "\xff", "\xff"},
		{"\xffab", 2, "a…", "\xffa"},
	} {
		require.Equal(t, c.cut, clip.Text(c.s, c.most), "%q", c.s)
		require.Equal(t, c.prefix, clip.Prefix(c.s, c.most), "%q", c.s)
	}
}
