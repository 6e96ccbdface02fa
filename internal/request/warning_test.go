package request

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestERR_27_Limits(t *testing.T) {
	w := new(Warnings)
	for i := range 4 {
		w.Add(fmt.Sprintf("%d%s", i, strings.Repeat("é", 1023)))
	}
	require.Len(t, w.Texts(), 4, "4096 characters fit")
	require.Equal(t, 1024, utf8.RuneCountInString(w.Texts()[0]))

	w.Add("x")
	require.Len(t, w.Texts(), 5)
	require.Equal(t, "0"+strings.Repeat("é", 255), w.Texts()[0], "the 4097th cuts them all to 256")
	require.Equal(t, "x", w.Texts()[4])

	w.Add("0" + strings.Repeat("é", 2000))
	require.Len(t, w.Texts(), 5, "equal once it is cut")
	for i := range 10_000 {
		w.Add(fmt.Sprintf("%d %s", i, strings.Repeat("y", 300)))
	}
	require.LessOrEqual(t, utf8.RuneCountInString(strings.Join(w.Texts(), "")), 4096)
}

func TestX13_TextReachesHeaders(t *testing.T) {
	w := new(Warnings)
	w.Add("one\r\nSet-Cookie: a=b")
	w.Add("\x1b[31mred\x1b[0m \u2028 \xff\xfe")
	w.Add(strings.Repeat("z", 1<<20))
	h := http.Header{}
	w.SetHeader(h)
	require.Equal(t, []string{
		`299 - "one  Set-Cookie: a=b"`,
		"299 - \" [31mred [0m   \ufffd\ufffd\"",
		`299 - "` + strings.Repeat("z", 256) + `"`,
	}, h["Warning"])
}

func TestWarningsWithoutACollection(t *testing.T) {
	Warn(context.Background(), "nobody listens")
}

func TestWarningsAreConcurrent(t *testing.T) {
	x := new(Exchange).Begin(new(http.Request).WithContext(t.Context()), "", time.Time{})
	ctx, w := context.WithValue(x, "key", "value"), &x.Warnings //nolint:staticcheck // any key will do
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 100 {
				Warn(ctx, fmt.Sprint(i, j))
				w.SetHeader(http.Header{})
			}
		})
	}
	group.Wait()
	require.Len(t, w.Texts(), 800)
}
