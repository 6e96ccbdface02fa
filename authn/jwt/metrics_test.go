package jwt_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn/jwt"
	"github.com/kindwright/kindwright/internal/metrics"
)

// The series of issuers have the names and labels of Kubernetes 1.36. A remembered proof counts
// nothing.
func TestOPS_04_MetricsOfIssuers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := example(t, "login.example.com")
		n := newNetwork(i)
		a := open(t, jwt.Options{ServerID: "s"}.WithTransport(n), provider(i))
		var registry metrics.Registry
		a.CollectMetrics(&registry)
		read := func() string {
			var out strings.Builder
			require.NoError(t, metrics.Write(&out, registry.Families()))
			return out.String()
		}
		hash := func(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
		synctest.Wait()
		require.Empty(t, read())

		token := i.Token(nil)
		accepted(t, a, token)
		accepted(t, a, token)
		const prefix = "apiserver_authentication_jwt_authenticator_"
		issuer, set := hash(i.URL), hash(string(i.Set()))
		require.Contains(t, read(), prefix+`latency_seconds_count{jwt_issuer_hash="`+issuer+`",result="success"} 1`)
		require.Contains(t, read(), prefix+`jwks_fetch_last_key_set_info{apiserver_id_hash="`+hash("s")+`",hash="`+set+`",jwt_issuer_hash="`+issuer+`"} 1`)
		require.Contains(t, read(), prefix+`jwks_fetch_last_timestamp_seconds{apiserver_id_hash="`+hash("s")+`",jwt_issuer_hash="`+issuer+`",result="success"}`)
		require.NotContains(t, read(), "failure")

		time.Sleep(time.Minute)
		n.set("login.example.com", http.NotFoundHandler())
		require.False(t, is(t, a, token+"A"))
		require.Contains(t, read(), prefix+`latency_seconds_count{jwt_issuer_hash="`+issuer+`",result="failure"} 1`)
		require.Contains(t, read(), prefix+`jwks_fetch_last_timestamp_seconds{apiserver_id_hash="`+hash("s")+`",jwt_issuer_hash="`+issuer+`",result="failure"}`)
		require.Contains(t, read(), set, "the keys are in use")
	})
}
