package apitest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/internal/effort"
)

// happening is one thing that happened to the widgets of a server.
type happening struct {
	version uint64
	what    string // ADDED, MODIFIED or DELETED
	name    string
	size    int64
}

// twin is a server with its model.
type twin struct {
	srv  *apitest.Server
	past []happening
	from uint64 // before the first of the past
}

// answer is the decoded part of objects, lists and events.
type answer struct {
	Type     string
	Object   *answer
	Metadata struct {
		Name, ResourceVersion, Continue string
	}
	Spec  struct{ Size int64 }
	Items []answer
	Code  int
}

func (a *answer) version() uint64 {
	v, _ := strconv.ParseUint(a.Metadata.ResourceVersion, 10, 64)
	return v
}

func (m *twin) ask(t testing.TB, method, path, body string) (int, answer) {
	t.Helper()
	code, _, text, err := send(m.srv.Client(), method, m.srv.URL+widgetsPath+path, body)
	require.NoError(t, err)
	var a answer
	require.NoError(t, json.Unmarshal([]byte(text), &a), text)
	return code, a
}

// state returns the expected objects at a version: sizes and versions by name.
func (m *twin) state(at uint64) map[string]string {
	out := map[string]string{}
	for _, h := range m.past {
		if h.version > at {
			break
		}
		if delete(out, h.name); h.what != "DELETED" {
			out[h.name] = fmt.Sprint(h.size, "@", h.version)
		}
	}
	return out
}

func shownIn(items []answer) map[string]string {
	out := map[string]string{}
	for _, i := range items {
		out[i.Metadata.Name] = fmt.Sprint(i.Spec.Size, "@", i.Metadata.ResourceVersion)
	}
	return out
}

func (m *twin) head() uint64 {
	if len(m.past) == 0 {
		return m.from
	}
	return m.past[len(m.past)-1].version
}

// write does something at random to one of a few widgets.
func (m *twin) write(t testing.TB, random *rand.Rand) {
	name := fmt.Sprintf("w%02d", random.IntN(12))
	size := random.Int64N(1000)
	_, exists := m.state(m.head())[name]
	body := fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"size":%d}}`, name, size)
	switch {
	case !exists:
		code, a := m.ask(t, http.MethodPost, "", body)
		require.Equal(t, 201, code)
		m.past = append(m.past, happening{a.version(), "ADDED", name, size})
	case random.IntN(3) == 0:
		code, _ := m.ask(t, http.MethodDelete, "/"+name, "")
		require.Equal(t, 200, code)
		_, a := m.ask(t, http.MethodGet, "", "")
		m.past = append(m.past, happening{a.version(), "DELETED", name, 0})
	default:
		code, a := m.ask(t, http.MethodPut, "/"+name, body)
		require.Equal(t, 200, code)
		if a.version() > m.head() { // otherwise nothing has changed
			m.past = append(m.past, happening{a.version(), "MODIFIED", name, size})
		}
	}
}

func (m *twin) fork(t testing.TB) *twin {
	return &twin{srv: m.srv.Fork(t), past: slices.Clone(m.past), from: m.from}
}

// check compares the server with its model.
func (m *twin) check(t testing.TB, random *rand.Rand) {
	t.Helper()
	_, now := m.ask(t, http.MethodGet, "", "")
	require.Equal(t, m.state(m.head()), shownIn(now.Items), "now")
	for range 4 {
		at := m.from + random.Uint64N(m.head()-m.from+1)
		code, then := m.ask(t, http.MethodGet, fmt.Sprintf("?resourceVersionMatch=Exact&resourceVersion=%d", at), "")
		require.Equal(t, 200, code)
		require.Equal(t, m.state(at), shownIn(then.Items), "at %d", at)
		require.Equal(t, at, then.version())
		m.watch(t, at)
	}
}

// watch compares the events after a version with what happened.
func (m *twin) watch(t testing.TB, after uint64) {
	t.Helper()
	var want []string
	for _, h := range m.past {
		if h.version > after {
			want = append(want, fmt.Sprintf("%s %s %d", h.what, h.name, h.version))
		}
	}
	res, err := m.srv.Client().Get(fmt.Sprintf("%s%s?watch=1&resourceVersion=%d&timeoutSeconds=5", m.srv.URL, widgetsPath, after))
	require.NoError(t, err)
	defer res.Body.Close()
	var got []string
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		var e answer
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		got = append(got, fmt.Sprintf("%s %s %s", e.Type, e.Object.Metadata.Name, e.Object.Metadata.ResourceVersion))
	}
	require.Equal(t, want, got, "after %d", after)
}

// page is a list in two chunks, whose second is asked for later.
type page struct {
	at    uint64
	first []answer
	token string
}

func (m *twin) begin(t testing.TB) (page, bool) {
	_, a := m.ask(t, http.MethodGet, "?limit=2", "")
	return page{a.version(), a.Items, a.Metadata.Continue}, a.Metadata.Continue != ""
}

func (m *twin) finish(t testing.TB, p page) {
	t.Helper()
	code, rest := m.ask(t, http.MethodGet, "?limit=500&continue="+url.QueryEscape(p.token), "")
	require.Equal(t, 200, code)
	got := shownIn(p.first)
	maps.Copy(got, shownIn(rest.Items))
	require.Equal(t, m.state(p.at), got, "a list that began at %d", p.at)
}

// TestForksAgainstAModel lets a family of servers write, read and fork at random. Lists, pages and
// watches, now and in the past and across forks, must match a model.
func TestForksAgainstAModel(t *testing.T) {
	for seed := range uint64(effort.Of(12)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 6))
				history := kindwright.Watches{History: 24 * time.Hour} // the watches take a while
				first := &twin{srv: apitest.Config{Options: []kindwright.Option{history}}.New(t, Widgets)}
				_, empty := first.ask(t, http.MethodGet, "", "")
				first.from = empty.version()
				family := []*twin{first}
				begun := map[*twin][]page{}
				for range 150 {
					m := family[random.IntN(len(family))]
					switch random.IntN(12) {
					case 0:
						if len(family) < 6 {
							f := m.fork(t)
							family = append(family, f)
							begun[f] = slices.Clone(begun[m]) // lists that began before the fork go on in both
						}
					case 1:
						if p, more := m.begin(t); more {
							begun[m] = append(begun[m], p)
						}
					case 2:
						for _, p := range begun[m] {
							m.finish(t, p)
						}
					case 3:
						if m.head() > m.from {
							m.check(t, random)
						}
					case 4:
						if len(family) > 1 && random.IntN(3) == 0 {
							m.srv.Close()
							family = slices.DeleteFunc(family, func(o *twin) bool { return o == m })
						}
					default:
						m.write(t, random)
					}
				}
				for _, m := range family {
					if m.head() > m.from {
						m.check(t, random)
					}
					for _, p := range begun[m] {
						m.finish(t, p)
					}
				}
			})
		})
	}
}
