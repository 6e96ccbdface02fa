package random_test

import (
	"fmt"
	"math"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/random"
)

// recorder is a test that only notes why it failed.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return "TestName" }
func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// check returns the report about a property, "" if it holds.
func check(t *testing.T, property func(*random.T)) string {
	r, done := &recorder{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		random.Check(r, property)
	}()
	<-done
	return r.failure
}

// allSmall fails for lists with a number above 9.
func allSmall(t *random.T) {
	list := random.SliceOf(random.Range(0, 30), 0, 40).Draw(t, "list")
	random.String().Draw(t, "unused")
	for _, n := range list {
		require.Less(t, n, 10)
	}
}

func TestAFailureIsReportedSmallAndWithItsSeed(t *testing.T) {
	report := check(t, allSmall)
	require.Contains(t, report, "list: []int{10}\nunused: \"\"\n")
	found := regexp.MustCompile(`KINDWRIGHT_SEED=(\d+) go test -run '\^TestName\$'`).FindStringSubmatch(report)
	require.NotNil(t, found, report)

	// The seed repeats the case at once, however late it came before.
	t.Setenv("KINDWRIGHT_SEED", found[1])
	again := check(t, allSmall)
	require.Contains(t, again, "case 1 of")
	_, want, _ := strings.Cut(report, "\n")
	_, got, _ := strings.Cut(again, "\n")
	require.Contains(t, got, strings.SplitAfter(want, "unused: \"\"")[0])
}

func TestPanicsFail(t *testing.T) {
	report := check(t, func(t *random.T) {
		list := random.SliceOf(random.Bool(), 0, 9).Draw(t, "list")
		_ = list[0]
	})
	require.Contains(t, report, "list: []bool{}\npanic: ")
	require.Contains(t, report, "random_test.go")
}

func TestAPropertyThatVariesIsReported(t *testing.T) {
	runs := 0
	report := check(t, func(t *random.T) {
		if runs++; runs == 7 {
			t.Fatalf("the seventh run")
		}
	})
	require.Contains(t, report, "case 7 of")
	require.Contains(t, report, "passes if the case is repeated\nthe seventh run")
}

func TestBadSeedIsRefused(t *testing.T) {
	t.Setenv("KINDWRIGHT_SEED", "x")
	require.Contains(t, check(t, func(*random.T) {}), "KINDWRIGHT_SEED: ")
}

// requireRange asserts that values are within a range, and that the ends and the middle occur.
func requireRange[N random.Integer](t *testing.T, lo, hi N, also ...N) {
	t.Setenv("KINDWRIGHT_SEED", "1") // chance decides whether a value occurs
	seen := map[N]bool{}
	random.Check(t, func(t *random.T) {
		for range 50 {
			v := random.Range(lo, hi).Draw(t, "number")
			require.GreaterOrEqual(t, v, lo)
			require.LessOrEqual(t, v, hi)
			seen[v] = true
		}
	})
	for _, v := range append(also, lo, hi) {
		require.Contains(t, seen, v)
	}
}

func TestRangesHaveTheirEnds(t *testing.T) {
	requireRange(t, 3, 3)
	requireRange(t, 0, 1)
	requireRange(t, -3, 3, 0)
	requireRange(t, 1, 1000, 2)
	requireRange[int64](t, math.MinInt64, math.MaxInt64, 0, 1, -1)
	requireRange[uint64](t, 0, math.MaxUint64, 1)
	requireRange[uint64](t, 7, math.MaxUint64-7)
	requireRange[int32](t, math.MinInt32, math.MaxInt32, 0)
	requireRange[byte](t, 0, 255)
	require.Panics(t, func() { random.Range(1, 0) })
}

func TestGeneratorsKeepWhatTheyPromise(t *testing.T) {
	random.Check(t, func(t *random.T) {
		require.True(t, utf8.ValidString(random.String().Draw(t, "text")))
		few := random.StringOf("ab", 1, 3).Draw(t, "few")
		require.Regexp(t, "^[ab]{1,3}$", few)
		n := utf8.RuneCountInString(random.StringN(2, 4).Draw(t, "bounded"))
		require.True(t, n >= 2 && n <= 4)
		f := random.Float64().Draw(t, "float")
		require.False(t, math.IsNaN(f) || math.IsInf(f, 0))
		require.LessOrEqual(t, len(random.MapOf(random.String(), random.Bool(), 3).Draw(t, "map")), 3)

		ordered := []int{1, 2, 3, 4}
		require.ElementsMatch(t, ordered, random.Permutation(ordered).Draw(t, "order"))
		require.Equal(t, []int{1, 2, 3, 4}, ordered)
		distinct := random.Distinct(random.Range(0, 2), 1, 9, random.ID).Draw(t, "distinct")
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(distinct))), len(distinct))
		require.NotEmpty(t, distinct)
	})
}

// Data that ends early is as good as any other.
func TestFuzzTakesAnyData(t *testing.T) {
	var drawn []uint64
	target := random.Fuzz(func(t *random.T) {
		drawn = append(drawn, random.Number[uint64]().Draw(t, "number"))
		random.SliceOf(random.String(), 1, 9).Draw(t, "list")
	})
	for _, data := range []string{"", "x", strings.Repeat("\xff", 1000), "some data for a list"} {
		target(t, []byte(data))
	}
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(drawn))), 3, "%v", drawn)
}
