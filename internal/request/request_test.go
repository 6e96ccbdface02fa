package request_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/status"
)

// W is the collection that the security vectors use.
const W = "/apis/example.dev/v1/namespaces/a/widgets"

// receive makes a request of a request line, exactly as net/http's server does.
func receive(t testing.TB, line string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + " HTTP/1.1\r\nHost: h\r\n\r\n")))
	require.NoError(t, err)
	return r
}

func parse(t testing.TB, line string) (*request.Info, error) {
	t.Helper()
	info, err := request.Parse(receive(t, line), "")
	require.NotEqual(t, err == nil, info == nil, "an Info or an error, never both and never none")
	return info, err
}

func mustParse(t testing.TB, line string) *request.Info {
	t.Helper()
	info, err := parse(t, line)
	require.NoError(t, err, line)
	return info
}

// refused checks that a request line is refused with this code and returns the message.
func refused(t testing.TB, code int, line string) string {
	t.Helper()
	_, err := parse(t, line)
	require.Error(t, err, line)
	require.Equal(t, code, status.CodeOf(err), "%s: %v", line, err)
	return err.Error()
}

func BenchmarkParse(b *testing.B) {
	parser := request.NewParser("", "")
	for name, target := range map[string]string{
		"get":   W + "/x",
		"watch": W + "?watch=1&allowWatchBookmarks=true&resourceVersion=12345&timeoutSeconds=431&labelSelector=app%3Da",
	} {
		b.Run(name, func(b *testing.B) {
			r := receive(b, "GET "+target)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := parser.Parse(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
