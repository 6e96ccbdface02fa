package cel

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/effort"
)

// Matches that are looked for one by one are those of the library.
func TestCEL_07_MatchesAreFoundOneByOne(t *testing.T) {
	parts := strings.Split("x y é . x* y* x*y|x .*? ^ $ \\b \\B (?m)^ (?m)$ \\A \\z [^y] (x|y) (x|xy)+ | (?i)X (?s).+ \\n \\Qx* {0,2} ? \\pL", " ")
	letters := []string{"x", "x", "y", "é", "\n", " ", "\xff", "\xc3", "X", ""}
	r := rand.New(rand.NewPCG(7, 1))
	tried := 0
	for range effort.Of(20_000) {
		var source, text string
		for range 1 + r.IntN(4) {
			source += parts[r.IntN(len(parts))]
		}
		for range r.IntN(12) {
			text += letters[r.IntN(len(letters))]
		}
		pattern, err := regexp.Compile(source)
		if err != nil {
			continue
		}
		tried++
		most := r.IntN(5) - 1
		s := newSought(pattern)
		require.NotNil(t, s.behind(), source)
		require.Equal(t, pattern.FindAllString(text, most), s.find(nil, text, most), "%q in %q, at most %d", source, text, most)
	}
	require.Greater(t, tried, effort.Of(5000))
}

// A pattern that reads a text once or twice takes no work, however many matches it has.
func TestCEL_07_C2_MatchesThatReadATextOnceTakeNothing(t *testing.T) {
	w := newWork(t.Context(), 1)
	text := strings.Repeat("word, ", 2000)
	require.Len(t, newSought(regexp.MustCompile(`[^, ]+`)).find(&w, text, -1), 2000)
	require.Len(t, newSought(regexp.MustCompile(`\bw.*?d\b`)).find(&w, text, -1), 2000)
	require.Len(t, newSought(regexp.MustCompile(`.`)).find(&w, text, -1), len(text))
	require.Len(t, newSought(regexp.MustCompile(`\b|$`)).find(&w, text, -1), 4001)
	require.EqualValues(t, 1, w.left)
}
