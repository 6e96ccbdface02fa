package conformance

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz/rbac"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/internal/issuer"
	"github.com/kindwright/kindwright/kinds"
)

// A revocation takes away what the account robot in round n has for its streams, and returns what a
// request gets afterwards.
type revocation struct {
	name   string
	bound  string // the kind of the object that the token is bound to
	revoke func(s *server, n int) (code int)
}

const (
	rolesPath    = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
	bindingsPath = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
)

func revocations() []revocation {
	gone := func(path string, code int) func(*server, int) int {
		return func(s *server, n int) int {
			s.delete(fmt.Sprintf(path, n))
			return code
		}
	}
	again := func(collection, path, body string, code int) func(*server, int) int {
		return func(s *server, n int) int {
			s.delete(fmt.Sprintf(path, n))
			s.create(collection, fmt.Sprintf(body, n))
			return code
		}
	}
	robot := accountsPath + "/robot-%d"
	return []revocation{
		{"the binding is deleted", "", gone(bindingsPath+"/robot-%d", 403)},
		{"the role is deleted", "", gone(rolesPath+"/robot-%d", 403)},
		{"the role says something else", "", func(s *server, n int) int {
			s.patch(fmt.Sprintf(rolesPath+"/robot-%d", n), `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["delete"]}]}`)
			return 403
		}},
		{"the binding names somebody else", "", func(s *server, n int) int {
			s.patch(fmt.Sprintf(bindingsPath+"/robot-%d", n), `{"subjects":[{"kind":"ServiceAccount","name":"other","namespace":"default"}]}`)
			return 403
		}},
		{"the account is deleted", "", gone(robot, 401)},
		{"the account is another one of that name", "", again(accountsPath, robot, `{"metadata":{"name":"robot-%d"}}`, 401)},
		{"the account is about to go", "", func(s *server, n int) int {
			s.patch(fmt.Sprintf(robot, n), `{"metadata":{"finalizers":["example.dev/keep"]}}`)
			s.delete(fmt.Sprintf(robot, n))
			return 401
		}},
		{"the pod is deleted", "Pod", gone(podsPath+"/x-%d", 401)},
		{"the pod is another one of that name", "Pod", again(podsPath, podsPath+"/x-%d", `{"metadata":{"name":"x-%[1]d"},"spec":{"serviceAccountName":"robot-%[1]d"}}`, 401)},
		{"the secret is deleted", "Secret", gone(keptPath+"/x-%d", 401)},
		{"the secret is another one of that name", "Secret", again(keptPath, keptPath+"/x-%d", `{"metadata":{"name":"x-%d"}}`, 401)},
		{"the node is deleted", "Node", gone(nodesPath+"/x-%d", 401)},
		{"the token has expired", "", func(*server, int) int {
			time.Sleep(601 * time.Second)
			return 401
		}},
	}
}

// grant makes an account with a role, and returns a token of it.
func (s *server) grant(n int, kind string) string {
	s.t.Helper()
	name := fmt.Sprintf("robot-%d", n)
	s.create(accountsPath, `{"metadata":{"name":"`+name+`"}}`)
	s.create(rolesPath, `{"metadata":{"name":"`+name+`"},"rules":[{"apiGroups":["shop.example.com"],"resources":["widgets","posts/talk"],"verbs":["get","list","watch","create"]}]}`)
	s.create(bindingsPath, `{"metadata":{"name":"`+name+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"`+name+`"},"subjects":[{"kind":"ServiceAccount","name":"`+name+`","namespace":"default"}]}`)
	spec, x := `"expirationSeconds":600`, fmt.Sprintf("x-%d", n)
	switch kind {
	case "Pod":
		s.create(podsPath, `{"metadata":{"name":"`+x+`"},"spec":{"serviceAccountName":"`+name+`"}}`)
	case "Secret":
		s.create(keptPath, `{"metadata":{"name":"`+x+`"}}`)
	case "Node":
		s.create(nodesPath, `{"metadata":{"name":"`+x+`"}}`)
	}
	if kind != "" {
		spec += "," + boundTo(kind, x)
	}
	return s.do("POST", accountsPath+"/"+name+"/token", `{"spec":{`+spec+`}}`).is(201).text("status", "token")
}

// AUTHZ, rules of long streams: whatever it is that gives a client its streams, they end within a minute
// after it was taken away, and from that moment on nothing new is served.
func TestS5_A9_Z16_StreamsEndWhateverIsTakenAway(t *testing.T) {
	const rounds = 1 // of each; the moment in the life of a stream is another one each time
	upgraded := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	onEachWithAccounts(t, func(t *testing.T, s *server, _ issuer.Key) {
		s.create(postPath, `{"metadata":{"name":"a"},"greeting":"hello"}`)
		n := 0
		for range rounds {
			for _, r := range revocations() {
				n++
				token := s.grant(n, r.bound)
				const watching = "GET " + widgetPath + "?watch=1&timeoutSeconds=7200"
				who := "Authorization: Bearer " + token
				streams := map[string]*phone{
					"a watch":                  s.callAs(who, watching),
					"a watch over a WebSocket": s.callAs(who, watching, upgraded...),
					"a connection":             s.callAs(who, "GET "+postPath+"/a/talk", upgrade...),
				}
				var mu sync.Mutex
				ended := map[string]time.Time{}
				var reading sync.WaitGroup
				for name, p := range streams {
					res, err := http.ReadResponse(p.r, nil)
					require.NoError(t, err, name)
					require.Less(t, res.StatusCode, 300, "%s: %s", r.name, name)
					var rest io.Reader = p.r
					if res.StatusCode == http.StatusOK {
						rest = bufio.NewReader(res.Body)
					}
					reading.Go(func() {
						_, _ = io.Copy(io.Discard, rest)
						mu.Lock()
						defer mu.Unlock()
						ended[name] = time.Now()
					})
				}
				time.Sleep(rand.N(5 * time.Minute))
				mu.Lock()
				require.Empty(t, ended, r.name)
				mu.Unlock()
				code := r.revoke(s, n)
				revoked := time.Now()
				for _, path := range []string{widgetPath, widgetPath + "?watch=1&timeoutSeconds=1"} {
					require.Equal(t, code, s.as(token, "GET", path, "").code, "%s: a new request", r.name)
				}
				require.Equal(t, code, s.as(token, "POST", postPath+"/a/talk", "").code, r.name)
				reading.Wait()
				for name, at := range ended {
					// A WebSocket waits a little for the client's farewell.
					require.LessOrEqual(t, at.Sub(revoked), time.Minute+10*time.Second, "%s: %s", r.name, name)
				}
				for _, p := range streams {
					require.NoError(t, p.Close())
				}
			}
		}
	}, kindwright.Serve(kinds.RBAC(), posts()), kindwright.Authorize(rbac.New("")), kindwright.Watches{WebSockets: true})
}

// Grant, use, revoke and ask, while others write: nothing that begins after an acknowledged revocation is
// served, and what was given back is served at once.
func TestS5_A9_NothingIsServedAfterARevocationOnABusyServer(t *testing.T) {
	const workers = 4
	rounds := effort.Of(36)
	onEachWithAccounts(t, func(t *testing.T, s *server, _ issuer.Key) {
		s.create(postPath, `{"metadata":{"name":"a"},"greeting":"hello"}`)
		var busy sync.WaitGroup
		stop := make(chan struct{})
		for w := range workers {
			busy.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					s.create(rolesPath, fmt.Sprintf(`{"metadata":{"name":"busy-%d-%d"},"rules":[{"apiGroups":["x"],"resources":["y"],"verbs":["get"]}]}`, w, i))
					if i > 3 {
						s.delete(fmt.Sprintf(rolesPath+"/busy-%d-%d", w, i-3))
					}
				}
			})
		}
		all := revocations()
		all = all[:len(all)-1] // time alone
		for n := 1000; n < 1000+rounds; n++ {
			r := all[n%len(all)]
			token := s.grant(n, r.bound)
			s.as(token, "GET", widgetPath, "").is(200)
			code := r.revoke(s, n)
			for _, path := range []string{widgetPath, widgetPath + "?watch=1&timeoutSeconds=1", postPath + "/a/talk"} {
				require.Equal(t, code, s.as(token, "GET", path, "").code, "%s: %s", r.name, path)
			}
			if strings.Contains(r.name, "binding is deleted") {
				s.create(bindingsPath, fmt.Sprintf(`{"metadata":{"name":"robot-%[1]d"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"robot-%[1]d"},"subjects":[{"kind":"ServiceAccount","name":"robot-%[1]d","namespace":"default"}]}`, n))
				s.as(token, "GET", widgetPath, "").is(200)
			}
		}
		close(stop)
		busy.Wait()
	}, kindwright.Serve(kinds.RBAC(), posts()), kindwright.Authorize(rbac.New("")))
}
