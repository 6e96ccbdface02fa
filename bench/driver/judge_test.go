package driver

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// saw returns a watch that received these versions.
func saw(at time.Time, versions ...uint64) *member {
	m := &member{}
	for _, v := range versions {
		m.deliveries = append(m.deliveries, delivery{v, at})
	}
	return m
}

func TestJudgeCountsEachFault(t *testing.T) {
	start := time.Now()
	at := start.Add(time.Millisecond)
	broken := errors.New("connection lost")
	ended := saw(at, 4, 7, 9)
	ended.ended.Store(&broken)
	for name, c := range map[string]struct {
		member                                     *member
		missed, doubled, reordered, ended, unknown int
	}{
		"all":        {saw(at, 4, 7, 9), 0, 0, 0, 0, 0},
		"none":       {saw(at), 3, 0, 0, 0, 0},
		"missed":     {saw(at, 4, 9), 1, 0, 0, 0, 0},
		"doubled":    {saw(at, 4, 7, 7, 9, 4), 0, 2, 0, 0, 0},
		"reordered":  {saw(at, 7, 4, 9), 0, 0, 1, 0, 0},
		"of another": {saw(at, 4, 5, 7, 9), 0, 0, 0, 0, 1},
		"ended":      {ended, 0, 0, 0, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{since: map[uint64]time.Time{4: start, 7: start, 9: start}}
			v := l.judge([]*member{c.member, saw(at, 4, 7, 9)})
			assert.Equal(t, []int{c.missed, c.doubled, c.reordered, c.ended, c.unknown}, []int{v.missed, v.doubled, v.reordered, v.ended, v.unknown})
			assert.Len(t, v.latencies, 6-c.missed)
			r := v.report(Result{})
			assert.Equal(t, c.missed+c.doubled+c.reordered+c.ended+c.unknown, r.Errors)
			assert.Equal(t, r.Errors > 0, r.FirstError != "")
			if c.ended > 0 {
				assert.Contains(t, r.FirstError, broken.Error())
			}
		})
	}
}

func TestEventsStopAtAnInvalidEvent(t *testing.T) {
	const first = `{"type":"ADDED","object":{"metadata":{"resourceVersion":"5"}}}` + "\n" +
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}` + "\n"
	for text, want := range map[string]string{
		"": "EOF",
		`{"type":"ERROR","object":{"code":410}}` + "\n":               "410",
		`{"type":"MODIFIED","object":{"metadata":{}}}` + "\n":         "without a version",
		`{"type":"MODIFIED","object":{"resourceVersion":"x"}}` + "\n": "invalid syntax",
	} {
		var m member
		err := record(&m, strings.NewReader(first+text))
		require.ErrorContains(t, err, want)
		assert.Equal(t, int64(1), m.count.Load())
		require.Len(t, m.deliveries, 1)
		assert.Equal(t, uint64(5), m.deliveries[0].version)
	}
}

func TestLinesOfAnyLength(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	l := newLines(bufio.NewReaderSize(strings.NewReader("a\n"+long+"\nb\n"+long), 16))
	for _, want := range []string{"a\n", long + "\n", "b\n"} {
		got, err := l.next()
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	got, err := l.next()
	require.ErrorIs(t, err, io.EOF)
	assert.Equal(t, long, string(got))
}

func TestTokenIsFoundBeforeAndAfterTheItems(t *testing.T) {
	items := `"items":[` + strings.Repeat(`{"a":1},`, 1000) + `{}]`
	assert.Equal(t, "abc=", continueToken([]byte(`{"metadata":{"continue":"abc="},`+items+`}`)))
	assert.Equal(t, "abc=", continueToken([]byte(`{`+items+`,"metadata":{"continue":"abc="}}`)))
	assert.Empty(t, continueToken([]byte(`{"metadata":{},`+items+`}`)))
	assert.Empty(t, continueToken(nil))
}

func TestItemsOfAMessageAreCounted(t *testing.T) {
	list := "\x0a\x01m" + "\x12\x03one" + "\x12\x00" + "\x12\x03two"
	message := "k8s\x00" + "\x0a\x02tm" + "\x12" + string(rune(len(list))) + list
	n, err := countMessages([]byte(message))
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	for _, bad := range []string{"", "{}", message[:len(message)-1], "k8s\x00\x08\x01", "k8s\x00\x12\xff"} {
		_, err := countMessages([]byte(bad))
		require.Error(t, err, "%q", bad)
	}
}

func TestNamesOfWorkloadsDiffer(t *testing.T) {
	var names []string
	for _, w := range Workloads(DefaultScale()) {
		assert.NotContains(t, names, w.Name)
		names = append(names, w.Name)
	}
	for _, name := range []string{
		"get/c16", "get-rv0/c64", "list/watchlist", "list/field1pct", "watch/1000", "watch-paced/100", "create/c64",
		"apply-noop/c16", "writes/c64", "memory/load-50000", "memory/idle-10000", "memory/churn",
	} {
		assert.True(t, slices.Contains(names, name), name)
	}
}
