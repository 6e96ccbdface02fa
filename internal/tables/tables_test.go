package tables_test

import (
	"regexp/syntax"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/tables"
)

func TestTablesOfPatterns(t *testing.T) {
	for pattern, want := range map[string]int{
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`:     0,
		`(?i)^[a-z]+-[0-9]+$`:                 0,
		`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`:       3,
		`\PN`:                                 1,
		`[\x{20}-\x{D7FF}]`:                   0,
		`(?i)[\x{20}-\x{D7FF}a-\x{1E943}]`:    16,
		`a(?s-U:(?m)(?i:[a-ÿ]))`:              8,
		`(?P<i>[a-\x{1E943}])`:                0,
		`(?s)[a-\x{1E943}](?ms-i:[b-\x{ff}])`: 16,
	} {
		require.Equal(t, want, tables.In(pattern), "%s", pattern)
	}
}

// What is not counted is cheap to read.
func TestPatternsWithoutTablesAreCheap(t *testing.T) {
	for _, unit := range []string{
		`a`, `é`, `.`, `\w`, `(?i:\w)`, `[^a]`, `(?i:[^a])`, `(?i:[K])`, `[[:^alpha:]]`, `(?i:[[:^alpha:]])`, `[a-z]`, `(a|b)`, `(?:ab|ac|ad)`, `a*`, `(?:)`,
		`[\x{0}-\x{10FFFF}]`, `[^a-\x{1E943}]`, `(?i:[!-\377])`, `|`, `^`, `\b`, `\Q.\E`, `(?i:ſ)`,
	} {
		pattern := strings.Repeat(unit, 4000/len(unit))
		require.Zero(t, tables.In(pattern))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := syntax.Parse(pattern, syntax.Perl)
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512*len(pattern)), "%s", unit)
	}
}
