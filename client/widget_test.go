package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
)

type widget struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`

	Spec   widgetSpec   `json:"spec"`
	Status widgetStatus `json:"status,omitzero"`
}

type widgetSpec struct {
	Size  int32  `json:"size,omitempty"`
	Parts []part `json:"parts,omitempty"`
}

type part struct {
	Name  string `json:"name"`
	Count int32  `json:"count,omitempty"`
}

type widgetStatus struct {
	Phase string `json:"phase,omitempty"`
	Size  int32  `json:"size,omitempty"`
}

func widgets() registry.Kind[widget] {
	return registry.Kind[widget]{Group: "example.dev", Version: "v1", Plural: "widgets", Names: registry.Names{Kind: "Widget"}}
}

const widgetPath = "/apis/example.dev/v1/namespaces/default/widgets"

func key(name string) meta.Key { return meta.Key{Namespace: "default", Name: name} }

func named(name string) *widget { return &widget{ObjectMeta: meta.Named("default", name)} }

// script is a server with prepared responses. It records the requests.
type script struct {
	t *testing.T

	mu      sync.Mutex
	answers []reply
	asked   []string // "METHOD path?query"
	bodies  []string
}

// reply is one prepared answer; a body that ends in … stays open after it.
type reply struct {
	code   int
	body   string
	header map[string]string
}

func play(t *testing.T, answers ...reply) (*script, *client.Client[widget]) {
	t.Helper()
	s := &script{t: t, answers: answers}
	return s, serve(t, s)
}

func serve(t *testing.T, h http.Handler, opts ...client.Option) *client.Client[widget] {
	t.Helper()
	tr := client.InProcess(h)
	t.Cleanup(tr.Close)
	return client.For(&http.Client{Transport: tr}, widgets(), opts...)
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
	s.bodies = append(s.bodies, string(body))
	if len(s.answers) == 0 {
		s.mu.Unlock()
		http.Error(w, "the script has ended", http.StatusTeapot)
		return
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	s.mu.Unlock()
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	if a.code != 0 {
		w.WriteHeader(a.code)
	}
	text, open := strings.CutSuffix(a.body, "…")
	_, _ = io.WriteString(w, text)
	if open {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

func (s *script) require(asked ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(s.t, asked, s.asked)
}

func (s *script) body(i int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodies[i]
}

// object is a widget as a server sends it.
func object(name, version string, more ...string) string {
	return fmt.Sprintf(`{"kind":"Widget","apiVersion":"example.dev/v1","metadata":{"namespace":"default","name":%q,"resourceVersion":%q}%s}`,
		name, version, strings.Join(append([]string{""}, more...), ","))
}

// list is a page as a server sends it.
func list(version, next string, objects ...string) string {
	return fmt.Sprintf(`{"kind":"WidgetList","apiVersion":"example.dev/v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[%s]}`,
		version, next, strings.Join(objects, ","))
}

func event(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

// failure is a Status as a server sends it.
func failure(code int, reason meta.Reason, more ...string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"it did not work","reason":%q,"code":%d%s}`,
		reason, code, strings.Join(append([]string{""}, more...), ","))
}

func refuse(code int, reason meta.Reason, more ...string) reply {
	return reply{code: code, body: failure(code, reason, more...)}
}

func names(items []*widget) []string {
	out := []string{}
	for _, w := range items {
		out = append(out, w.Name)
	}
	return out
}
