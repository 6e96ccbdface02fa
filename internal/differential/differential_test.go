package differential

import (
	"bytes"
	"crypto/tls"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
)

var (
	peer      = flag.String("peer", "", "base URL of a server to compare with, whose certificate is not checked")
	peerToken = flag.String("peer-token", "", "bearer token for the peer")
	seed      = flag.Uint64("seed", 1, "of the random choices")
	requests  = flag.Int("requests", 4000, "how many requests are compared with a peer; a quarter of it between our backends")
	episode   = flag.Uint64("episode", 0, "run this episode alone, and show its requests")
)

// perEpisode is the number of requests that share a namespace. It is smaller than the number of
// changes that a kube-apiserver keeps in memory for watches.
const perEpisode = 60

// exchange is a request with both answers.
type exchange struct {
	ask  *ask
	a, b map[string]any // of ours and of the peer
}

// run compares two servers.
type run struct {
	t         *testing.T
	a, b      *side
	seed      uint64
	rules     []rule
	verbose   bool
	compared  int
	tolerated map[string]int
	left      map[string]*group
	messages  map[string]*group // of errors, whose text no requirement fixes
	kinds     map[string]int    // the kinds of requests, with the code of our answer
}

// group is differences of one shape.
type group struct {
	count int
	first string
}

func newRun(t *testing.T, a, b *side, seed uint64) *run {
	return &run{t: t, a: a, b: b, seed: seed, rules: rules(), tolerated: map[string]int{}, left: map[string]*group{}, messages: map[string]*group{}, kinds: map[string]int{}}
}

// both sends a request to the two servers at once.
func (r *run) both(a *ask) *exchange {
	var replies [2]*reply
	var errs [2]error
	var wg sync.WaitGroup
	for i, s := range []*side{r.a, r.b} {
		wg.Go(func() { replies[i], errs[i] = s.send(r.t.Context(), a) })
	}
	wg.Wait()
	require.NoError(r.t, errs[0], "%s", a)
	require.NoError(r.t, errs[1], "%s", a)
	return &exchange{ask: a, a: r.a.answer(a, replies[0]), b: r.b.answer(a, replies[1])}
}

// some runs a number of requests.
func (r *run) some(n int) {
	for e := uint64(1); r.compared < n; e++ {
		r.episode(e, min(perEpisode, n-r.compared))
	}
}

// episode runs the requests of one episode, until the two servers no longer have the same state.
func (r *run) episode(number uint64, n int) {
	namespace := fmt.Sprintf("differential-%d-%d-%x", r.seed, number, time.Now().UnixNano()) // the peer may remember other runs
	r.a.begin(namespace)
	r.b.begin(namespace)
	for _, s := range []*side{r.a, r.b} {
		made, err := s.send(r.t.Context(), &ask{
			method: "POST", path: "/api/v1/namespaces", header: [][2]string{{"Content-Type", "application/json"}},
			body: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"⟦namespace⟧"}}`,
		})
		require.NoError(r.t, err)
		require.Equal(r.t, 201, made.code, "%s", made.body)
	}
	g := newGenerator(r.seed, number, r.a)
	for i := range n {
		x := r.both(g.next())
		r.compared++
		r.kinds[fmt.Sprintf("%s %v", x.ask.does, x.a["code"])]++
		if r.verbose {
			r.t.Logf("%d %s\n    %s", i, x.ask, show(x.a))
		}
		if !r.compare(x, fmt.Sprintf("episode %d, request %d", number, i)) {
			return
		}
	}
}

// compare classifies the differences of an exchange, and reports whether the servers still have the
// same state.
func (r *run) compare(x *exchange, where string) bool {
	same := true
	for _, d := range x.differences() {
		d.path = strings.TrimPrefix(d.path, ".")
		if i := slices.IndexFunc(r.rules, func(rule rule) bool { return rule.holds(x, d) }); i >= 0 {
			r.tolerated[r.rules[i].id+": "+r.rules[i].reason]++
			same = same && (x.harmless() || !r.rules[i].stored() && d.path != "answer")
			continue
		}
		into := r.left
		if d.message {
			into = r.messages
		}
		// Messages are grouped by their words, everything else by path and kind of difference.
		key := fmt.Sprintf("%s: %s", x.ask.does, d.path)
		if d.path == "answer" {
			key += fmt.Sprintf(" %v, %v", d.a.(outcome), d.b.(outcome))
		}
		if into[key] == nil {
			into[key] = &group{first: fmt.Sprintf("%s\n    %s\n    %s", where, x.ask, d)}
		}
		into[key].count++
		same = same && (d.message || x.harmless())
	}
	return same && len(r.a.versions) == len(r.b.versions) && len(r.a.uids) == len(r.b.uids) && len(r.a.names) == len(r.b.names) &&
		len(r.a.tokens) == len(r.b.tokens) && len(r.a.lists) == len(r.b.lists)
}

// outcome returns the result of a request in short form.
type outcome struct{ code, reason, message string }

func (o outcome) String() string { return o.code + " " + o.reason }

func outcomeOf(answer map[string]any) outcome {
	o := outcome{code: answer["code"].(string), reason: text(answer, "body", "reason"), message: text(answer, "body", "message")}
	if events, ok := answer["events"].([]any); ok && o.reason == "" {
		o.message = show(events)
	}
	if b := answer["body"]; o.message == "" && b != nil {
		o.message = show(b)
	}
	return o
}

// differences returns those of the two answers. If the outcome differs, it is the only difference.
func (x *exchange) differences() []difference {
	a, b := outcomeOf(x.a), outcomeOf(x.b)
	if a.code != b.code || a.reason != b.reason {
		return []difference{{path: "answer", a: a, b: b}}
	}
	return differences("", x.a, x.b)
}

// harmless reports whether the request changed nothing on either server.
func (x *exchange) harmless() bool {
	a, b := x.a["code"].(string), x.b["code"].(string)
	return x.ask.method == "GET" || x.ask.method == "HEAD" || a >= "400" && b >= "400"
}

// report prints the findings.
func (r *run) report() {
	var out strings.Builder
	fmt.Fprintf(&out, "%s and %s: %d requests compared, seed %d\n", r.a.name, r.b.name, r.compared, r.seed)
	fmt.Fprintf(&out, "tolerated:\n")
	for _, id := range slices.Sorted(maps.Keys(r.tolerated)) {
		fmt.Fprintf(&out, "%6d  %s\n", r.tolerated[id], id)
	}
	for name, groups := range map[string]map[string]*group{"differences": r.left, "messages in other words": r.messages} {
		fmt.Fprintf(&out, "%s: %d kinds\n", name, len(groups))
		for _, key := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int { return groups[b].count - groups[a].count }) {
			fmt.Fprintf(&out, "%6d  %s\n    %s\n", groups[key].count, key, groups[key].first)
		}
	}
	r.t.Log(out.String())
}

func ours(t *testing.T, name string, middleware func(http.Handler) http.Handler) *side {
	if name == "bbolt" {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"))
		require.NoError(t, err)
		return &side{name: name, base: serve(t, db, middleware), client: client()}
	}
	return &side{name: name, base: serve(t, memory.New(), middleware), client: client()}
}

// client sends requests as they are, and follows no redirects.
func client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a test server on this machine
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// TestServersAnswerAlike compares our server with the peer; without -peer, our backends with each other.
func TestServersAnswerAlike(t *testing.T) {
	switch {
	case *episode > 0:
		a, b := pair(t)
		r := newRun(t, a, b, *seed)
		r.verbose = true
		r.episode(*episode, perEpisode)
		r.report()
		require.Empty(t, slices.Collect(maps.Keys(r.left)))
	case *peer != "":
		a, b := pair(t)
		r := newRun(t, a, b, *seed)
		r.some(max(*requests, 1))
		r.end()
	default: // side by side, since a watch takes a second
		for i := range uint64(4) {
			t.Run(fmt.Sprintf("seed %d", *seed+i), func(t *testing.T) {
				t.Parallel()
				a, b := pair(t)
				r := newRun(t, a, b, *seed+i)
				r.rules = nil // ours need none
				r.some(*requests / 16)
				r.end()
			})
		}
	}
}

// pair returns our server, and either the peer or our server over another backend.
func pair(t *testing.T) (a, b *side) {
	if *peer != "" {
		return ours(t, "memory", nil), &side{name: "peer", base: strings.TrimSuffix(*peer, "/"), token: *peerToken, client: client()}
	}
	return ours(t, "memory", nil), ours(t, "bbolt", nil)
}

// end prints the findings, and fails the test if there are any.
func (r *run) end() {
	if testing.Verbose() || len(r.left) > 0 {
		r.report()
	}
	require.Empty(r.t, slices.Collect(maps.Keys(r.left)), "differences that no rule explains")
}

// TestAFaultIsReported replaces the peer by a server with one fault.
func TestAFaultIsReported(t *testing.T) {
	for name, f := range map[string]struct {
		spoil func(r *http.Request, code *int, body []byte) []byte
		path  string // where the difference is
	}{
		"a code": {func(r *http.Request, code *int, body []byte) []byte {
			if *code == http.StatusConflict {
				*code = http.StatusBadRequest
			}
			return body
		}, "answer 409"},
		"a reason": {func(_ *http.Request, _ *int, body []byte) []byte {
			return bytes.ReplaceAll(body, []byte(`"NotFound"`), []byte(`"Gone"`))
		}, "answer 404 NotFound, 404 Gone"},
		"a cause": {func(_ *http.Request, _ *int, body []byte) []byte {
			return bytes.ReplaceAll(body, []byte(`"FieldValueInvalid"`), []byte(`"FieldValueRequired"`))
		}, "details.causes.*.reason"},
		"a version that goes back": {func(r *http.Request, _ *int, body []byte) []byte {
			if r.Method == http.MethodPatch {
				return regexp.MustCompile(`"resourceVersion":"\d+"`).ReplaceAll(body, []byte(`"resourceVersion":"1"`))
			}
			return body
		}, "metadata.resourceVersion"},
		"a manager": {func(_ *http.Request, _ *int, body []byte) []byte {
			return bytes.ReplaceAll(body, []byte(`"operation":"Apply"`), []byte(`"operation":"Update"`))
		}, "managedFields.*.operation"},
		"an event": {func(_ *http.Request, _ *int, body []byte) []byte {
			return bytes.ReplaceAll(body, []byte(`{"type":"MODIFIED"`), []byte(`{"type":"ADDED"`))
		}, "watch: events.*.type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spoil := func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					rec := httptest.NewRecorder()
					h.ServeHTTP(rec, r)
					maps.Copy(w.Header(), rec.Header())
					code := rec.Code
					body := f.spoil(r, &code, rec.Body.Bytes())
					w.Header().Del("Content-Length")
					w.WriteHeader(code)
					_, _ = w.Write(body)
				})
			}
			r := newRun(t, ours(t, "memory", nil), ours(t, "memory", spoil), 3)
			r.rules = nil
			found := func() bool {
				return slices.ContainsFunc(slices.Collect(maps.Keys(r.left)), func(key string) bool { return strings.Contains(key, f.path) })
			}
			for e := uint64(1); e <= 40 && !found(); e++ {
				r.episode(e, perEpisode)
			}
			require.True(t, found(), "%s among %v", f.path, slices.Collect(maps.Keys(r.left)))
		})
	}
}
