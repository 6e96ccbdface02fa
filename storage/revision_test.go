package storage_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
)

func TestParseRevisionTakesTheCanonicalForm(t *testing.T) {
	for text, want := range map[string]storage.Revision{
		"0": 0, "1": 1, "10": 10, "9007199254740993": 1<<53 + 1, "18446744073709551615": math.MaxUint64,
	} {
		got, err := storage.ParseRevision(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		require.Equal(t, text, got.String())
	}
}

// W1: a version has one spelling.
func TestW1_ParseRevisionRefusesEverythingElse(t *testing.T) {
	for _, text := range []string{
		"", "-1", "+5", " 5", "5 ", "05", "00", "007", "1e3", "0x10", "5,6", "5.0", "1_000", "٣", "５", "\x00", "5\n",
		"18446744073709551616", "18446744073709551620", "28446744073709551615", "99999999999999999999",
		"184467440737095516150", strings.Repeat("1", 1<<20), strings.Repeat("0", 21), "null", "latest",
	} {
		got, err := storage.ParseRevision(text)
		require.ErrorIs(t, err, storage.ErrInvalid, "%.30q", text)
		require.Zero(t, got)
		require.Less(t, len(err.Error()), 200, "a long text is not repeated")
	}
}

func FuzzParseRevision(f *testing.F) {
	for _, seed := range []string{"0", "1", "01", "18446744073709551615", "18446744073709551616", "-1", "٣"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rev, err := storage.ParseRevision(text)
		if err == nil && rev.String() != text {
			t.Fatalf("%q is accepted as %v", text, rev)
		}
	})
}
