package differential

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/clip"
)

// A side is one of the two servers, with its values for the things that both have: the n-th
// version, uid, generated name or token that was seen. A request contains the numbers, and each
// side receives it with its own values.
type side struct {
	name   string
	base   string
	token  string // bearer, "" for none
	client *http.Client

	namespace string
	versions  []uint64 // of objects, in the order they were seen
	lists     []string // versions of lists
	uids      []string
	names     []string // that the server generated
	tokens    []string
	from      []*ask            // the requests that returned the tokens
	bodies    map[string]string // the newest body of each object, by collection and name
}

// begin clears what was seen, for a new episode.
func (s *side) begin(namespace string) {
	s.namespace = namespace
	s.versions, s.lists, s.uids, s.names, s.tokens, s.from = nil, nil, nil, nil, nil, nil
	s.bodies = map[string]string{}
}

// ask is a request for both sides. Words such as ⟦version 3⟧ stand for a side's own value.
type ask struct {
	does    string // the intention of the generator, for reports
	method  string
	path    string
	query   [][2]string
	header  [][2]string
	body    string
	object  string // collection/name that the answer is the new body of, if it is one
	watch   bool
	settle  bool   // ask for a consistent read first: the next answer may come from a cache
	exactly string // the version that a list must carry
}

func (a *ask) String() string {
	return fmt.Sprintf("[%s] %s %s %v\n    %s", a.does, a.method, a.target(func(s string) string { return s }), a.header,
		clip.Text(a.body, 300))
}

// target returns the path with the query.
func (a *ask) target(word func(string) string) string {
	out := word(a.path)
	for i, q := range a.query {
		out += []string{"?", "&"}[min(i, 1)] + q[0] + "=" + url.QueryEscape(word(q[1]))
	}
	return out
}

// get returns the value of a parameter, or "" if it is absent.
func (a *ask) get(name string) string {
	for _, q := range a.query {
		if q[0] == name {
			return q[1]
		}
	}
	return ""
}

func (a *ask) head(name string) string {
	for _, h := range a.header {
		if h[0] == name {
			return h[1]
		}
	}
	return ""
}

var wordPattern = regexp.MustCompile(`⟦([a-z]+) ?([^⟧]*)⟧`)

// words replaces the numbers by this side's values.
func (s *side) words(text string) string {
	return wordPattern.ReplaceAllStringFunc(text, func(word string) string {
		m := wordPattern.FindStringSubmatch(word)
		n, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "namespace":
			return s.namespace
		case "version":
			return strconv.FormatUint(s.versions[n], 10)
		case "list":
			return s.lists[n]
		case "uid":
			return s.uids[n]
		case "name":
			return s.names[n]
		case "token":
			return s.tokens[n]
		case "body":
			return s.bodies[m[2]]
		case "future":
			return strconv.FormatUint(slices.Max(append(s.versions, 1))+1_000_000, 10)
		}
		panic("no such word: " + word)
	})
}

// reply is an unchanged answer.
type reply struct {
	code   int
	header http.Header
	body   []byte
}

// send sends a request and reads the whole answer.
func (s *side) send(ctx context.Context, a *ask) (*reply, error) {
	if a.settle {
		sync := &ask{method: "GET", path: a.path, query: [][2]string{{"limit", "1"}}}
		if a.object != "" {
			sync.path = a.path[:strings.LastIndexByte(a.path, '/')]
		}
		if _, err := s.send(ctx, sync); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, a.method, s.base, strings.NewReader(s.words(a.body)))
	if err != nil {
		return nil, err
	}
	path, query, _ := strings.Cut(a.target(s.words), "?")
	r.URL.Opaque, r.URL.RawQuery = "//"+r.URL.Host+path, query
	r.Header.Set("User-Agent", "differential/1.0")
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for _, h := range a.header {
		r.Header.Set(h[0], h[1])
	}
	res, err := s.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return &reply{code: res.StatusCode, header: res.Header, body: body}, nil
}
