package kindwright_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	certificates "github.com/kindwright/kindwright/authn/x509"
	"github.com/kindwright/kindwright/internal/selfsigned"
)

// A watch over a client certificate ends within a minute after the file of authorities has another one,
// and requests get 401 from the next look at the file on.
func TestS5_A9_StreamsEndWhenTheAuthorityIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	synctest.Test(t, func(t *testing.T) {
		replace := func(a *selfsigned.Authority) {
			require.NoError(t, os.WriteFile(path+".new", a.PEM(), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
		}
		authority := func() *selfsigned.Authority {
			a, err := selfsigned.NewAuthority("people")
			require.NoError(t, err)
			return a
		}
		now := authority()
		replace(now)
		people, err := certificates.Open(path)
		require.NoError(t, err)
		dial := bubbled(t, &memo{t: t}, kindwright.Authenticate(people), kindwright.Authorize(rules{{"ann", everyVerb, "gadgets", "default", ""}}))
		for range 10 {
			made, err := now.Client("ann")
			require.NoError(t, err)
			pair, err := tls.X509KeyPair(made.Cert, made.Key)
			require.NoError(t, err)
			open := func() (io.Writer, *bufio.Reader) {
				s := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{pair}})
				require.NoError(t, s.HandshakeContext(t.Context()))
				return s, bufio.NewReader(s)
			}
			code := func(to io.Writer, from *bufio.Reader, query string) *http.Response {
				_, err := io.WriteString(to, "GET "+gadgetPath+query+" HTTP/1.1\r\nHost: h\r\n\r\n")
				require.NoError(t, err)
				res, err := http.ReadResponse(from, nil)
				require.NoError(t, err)
				return res
			}
			watch, events := open()
			stream := code(watch, events, "?watch=1&timeoutSeconds=7200")
			require.Equal(t, 200, stream.StatusCode)
			time.Sleep(rand.N(20 * time.Minute))

			now = authority()
			replace(now)
			replaced := time.Now()
			_, err = io.Copy(io.Discard, stream.Body)
			require.NoError(t, err, "it ends in order")
			require.LessOrEqual(t, time.Since(replaced), time.Minute+time.Second)
			again, answers := open()
			require.Equal(t, 401, code(again, answers, "").StatusCode)
		}
	})
}
