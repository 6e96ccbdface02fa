package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage/memory"
)

var duration = flag.Duration("duration", 0, "how long kinds come, go and are replaced under 50 writers, 50 readers and 100 informers; 0 for some changes under a few clients")

// Trawler is a Boat one release later.
type Trawler struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	Spec   TrawlerSpec `json:"spec"`
	Status BoatStatus  `json:"status,omitzero"`
}

// TrawlerSpec is what a trawler should be.
type TrawlerSpec struct {
	Owner string `json:"owner,omitempty" selectable:""`
	Size  int32  `json:"size,omitempty"`
	Net   string `json:"net,omitempty" default:"wide"`
}

// The kinds of the model differ in what happens to them.
const (
	same      = "sames"    // replaced by a kind that shows the same
	other     = "others"   // replaced by a kind that shows something else
	passingBy = "passings" // installed, replaced and removed
	resting   = "restings" // left alone
)

func churned() []string { return []string{same, other, passingBy, resting} }

// definition describes one of the kinds, with a field more if later is set.
func definition(plural string, later bool, doc int) registry.Definition {
	name := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
	if later {
		return registry.Kind[Trawler]{Group: group, Version: "v1", Plural: plural, Names: registry.Names{Kind: name}, Doc: fmt.Sprint(doc)}
	}
	return registry.Kind[Boat]{Group: group, Version: "v1", Plural: plural, Names: registry.Names{Kind: name}, Doc: fmt.Sprint(doc)}
}

func kindPath(plural string) string {
	return "/apis/" + group + "/v1/namespaces/a/" + plural
}

// churn is one run of the model.
type churn struct {
	server *kindwright.Server
	url    string
	client *http.Client

	requests atomic.Int64

	mu       sync.Mutex
	problems []string
	expected map[string]map[string]int // what writers have been told is there, by kind and name
	newest   map[string]uint64         // the version of the last write of a kind that has one

	informers []*informer
	shown     map[string]int // how often a kind went, or was replaced by one that shows something else
}

// pause lets the others go on. More clients pause for longer, so that a minute of many is no more than a machine bears.
func (c *churn) pause() {
	time.Sleep(rand.N(time.Duration(max(1, len(c.informers))) * 5 * time.Millisecond)) //nolint:gosec // any time
}

// Kinds come, go and are replaced under load. No request to a kind that is there fails. Each informer ends with what
// a list shows, and lists again only where its kind was removed or shows something else.
func TestKindsChurn(t *testing.T) {
	clients, lasts := 4, time.Duration(0)
	if *duration > 0 {
		clients, lasts = 50, *duration
	}
	c := newChurn(t)
	for n := range 2 * clients {
		c.informers = append(c.informers, &informer{churn: c, plural: churned()[n%len(churned())]})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working, following sync.WaitGroup
	for n := range clients {
		working.Go(func() { c.write(ctx, fmt.Sprintf("w%d", n)) })
		working.Go(func() { c.read(ctx) })
	}
	for _, i := range c.informers {
		following.Go(func() { i.run(t.Context()) })
	}
	changes := c.change(lasts)
	stop()
	working.Wait()
	for _, plural := range churned() {
		code, answer := c.do(http.MethodPost, kindPath(plural), `{"metadata":{"name":"last"},"spec":{"size":1}}`)
		require.Equal(t, 201, code, "%s", answer)
	}
	following.Wait()
	require.Empty(t, c.problems)
	c.compare(t)
	t.Logf("%d changes, %d requests", changes, c.requests.Load())
	for _, plural := range churned() {
		lists, watches := 0, 0
		for _, i := range c.informers {
			if i.plural == plural {
				lists, watches = max(lists, i.lists), max(watches, i.watches)
			}
		}
		t.Logf("%s: went or shown differently %d times; an informer listed at most %d times and watched %d times", plural, c.shown[plural], lists, watches)
	}
}

func newChurn(t *testing.T) *churn {
	t.Helper()
	c := &churn{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 300}}, expected: map[string]map[string]int{}, newest: map[string]uint64{}, shown: map[string]int{}}
	var definitions []registry.Definition
	for _, plural := range churned() {
		c.expected[plural] = map[string]int{}
		definitions = append(definitions, definition(plural, false, 0))
	}
	var err error
	c.server, err = kindwright.New(memory.New(), kindwright.Serve(definitions...), kindwright.Authorize(authz.AlwaysAllow()),
		kindwright.Watches{MinDuration: 24 * time.Hour}) // so that a watch ends only for its kind
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, c.server.Start(ctx))
	s := httptest.NewServer(c.server)
	c.url = s.URL
	t.Cleanup(func() {
		cancel()
		s.Close()
		c.client.CloseIdleConnections()
		c.server.Wait()
	})
	return c
}

// change changes kinds for a time, but often enough, and leaves all of them in place.
func (c *churn) change(lasts time.Duration) (changes int) {
	there, later, least := true, map[string]bool{}, 1
	if lasts == 0 {
		least = 50
	}
	for end := time.Now().Add(lasts); changes < least || time.Now().Before(end); changes++ {
		plural := churned()[rand.IntN(3)]
		c.settle(plural, there)
		remove := []meta.GroupVersionResource{{Group: group, Version: "v1", Resource: plural}}
		var add []registry.Definition
		next := plural != same && rand.IntN(2) == 0
		if plural != passingBy || !there || rand.IntN(2) == 0 {
			add = append(add, definition(plural, next, changes))
		}
		if len(add) == 0 || next != later[plural] && (there || plural != passingBy) {
			c.shown[plural]++
		}
		if err := c.server.Change(context.Background(), remove, add...); err != nil {
			c.problem("change of %s: %v", plural, err)
			return changes
		}
		later[plural] = next
		if plural == passingBy {
			there = len(add) > 0
		}
	}
	if !there {
		if err := c.server.Install(context.Background(), definition(passingBy, false, changes)); err != nil {
			c.problem("install: %v", err)
		}
	}
	return changes
}

// settle waits until the informers of a kind that is there have come to what was written before.
func (c *churn) settle(plural string, there bool) {
	c.pause()
	if plural == passingBy && !there {
		return
	}
	c.mu.Lock()
	newest := c.newest[plural]
	c.mu.Unlock()
	for _, i := range c.informers {
		for i.plural == plural && i.reached.Load() < newest {
			time.Sleep(time.Millisecond)
		}
	}
}

// write creates, changes and deletes an object of its own in each kind.
func (c *churn) write(ctx context.Context, name string) {
	sizes := map[string]int{}
	for n := 1; ctx.Err() == nil; n++ {
		plural := churned()[rand.IntN(4)]
		method, path, body, want := http.MethodPost, kindPath(plural), fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"size":%d}}`, name, n), 201
		switch size := sizes[plural]; {
		case size > 0 && rand.IntN(3) == 0:
			method, path, body, want = http.MethodDelete, path+"/"+name, "", 200
		case size > 0:
			method, path, body, want = http.MethodPatch, path+"/"+name, fmt.Sprintf(`{"spec":{"size":%d}}`, n), 200
		}
		code, answer := c.do(method, path, body)
		switch {
		case code == want && method == http.MethodDelete:
			sizes[plural] = 0
		case code == want:
			sizes[plural] = n
			c.written(plural, answer)
		case code != 404 || plural != passingBy:
			c.problem("%s %s: %d %s", method, path, code, answer)
		}
		c.pause()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for plural, size := range sizes {
		if size > 0 {
			c.expected[plural][name] = size
		}
	}
}

// written notes the version of an object that was answered.
func (c *churn) written(plural string, answer []byte) {
	var o boat
	if err := json.Unmarshal(answer, &o); err != nil {
		c.problem("an answer about %s: %v", plural, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest[plural] = max(c.newest[plural], number(o.Metadata.ResourceVersion))
}

func number(version string) uint64 {
	n, _ := strconv.ParseUint(version, 10, 64)
	return n
}

func (c *churn) read(ctx context.Context) {
	for ; ctx.Err() == nil; c.pause() {
		plural := churned()[rand.IntN(4)]
		path := []string{kindPath(plural), "/apis/" + group + "/v1/" + plural + "?limit=2", "/apis/" + group + "/v1", "/openapi/v3/apis/" + group + "/v1"}[rand.IntN(4)]
		if code, answer := c.do(http.MethodGet, path, ""); code != 200 && (code != 404 || plural != passingBy) {
			c.problem("GET %s: %d %s", path, code, answer)
		}
	}
}

// do sends a request and returns code and body of the answer; code 0 if there is none.
func (c *churn) do(method, path, body string) (int, []byte) {
	c.requests.Add(1)
	r, err := http.NewRequestWithContext(context.Background(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, []byte(err.Error())
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w, err := c.client.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = w.Body.Close() }() // it was read
	answer, err := io.ReadAll(w.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return w.StatusCode, answer
}

func (c *churn) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) < 20 {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// compare checks informers against lists, and lists against what writers were told.
func (c *churn) compare(t *testing.T) {
	t.Helper()
	for _, plural := range churned() {
		fresh := &informer{churn: c, plural: plural}
		require.Equal(t, 200, fresh.list())
		sizes := map[string]int{}
		for name, o := range fresh.seen {
			sizes[name] = o.Spec.Size
		}
		c.expected[plural]["last"] = 1
		require.Equal(t, c.expected[plural], sizes, plural)
		for _, i := range c.informers {
			if i.plural != plural {
				continue
			}
			require.Equal(t, fresh.seen, i.seen, plural)
			require.LessOrEqual(t, i.lists, 1+c.shown[plural], "%s: an informer lists again only where its kind went or shows something else", plural)
			if plural == resting {
				require.Equal(t, 1, i.watches, "nothing has changed")
			}
		}
	}
}

// boat is what informers compare of an object.
type boat struct {
	Metadata struct {
		Name, ResourceVersion, UID string
		Generation                 int
	}
	Spec struct{ Size int }
}

// informer keeps what a list and watches tell. It goes on from the version it has when a watch ends.
type informer struct {
	*churn
	plural string
	seen   map[string]boat
	at     string

	lists, watches int
	reached        atomic.Uint64 // the number of at, for others
}

var errExpired = errors.New("the version is too old")

// run follows the kind until it sees the object that is written last.
func (i *informer) run(ctx context.Context) {
	defer i.reached.Store(math.MaxUint64) // nobody waits for it any more
	for ctx.Err() == nil {
		if i.at == "" {
			if code := i.list(); code != 200 {
				i.absent("list", code)
				continue
			}
		}
		if _, last := i.seen["last"]; last {
			return
		}
		if err := i.watch(ctx); errors.Is(err, errExpired) {
			i.at = ""
		} else if err != nil {
			i.problem("watch of %s from %s: %v", i.plural, i.at, err)
			return
		}
	}
}

// absent waits while the kind is not there.
func (i *informer) absent(what string, code int) {
	if code != 404 || i.plural != passingBy {
		i.problem("%s of %s: %d", what, i.plural, code)
	}
	time.Sleep(time.Millisecond)
}

func (i *informer) list() int {
	code, answer := i.do(http.MethodGet, kindPath(i.plural), "")
	if code != 200 {
		return code
	}
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []boat
	}
	if err := json.Unmarshal(answer, &list); err != nil {
		i.problem("list of %s: %v", i.plural, err)
	}
	i.lists++
	i.at, i.seen = list.Metadata.ResourceVersion, map[string]boat{}
	i.reached.Store(number(i.at))
	for _, o := range list.Items {
		i.seen[o.Metadata.Name] = o
	}
	return code
}

// watch follows until the stream ends or the last object is seen.
func (i *informer) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url+kindPath(i.plural)+"?watch=1&allowWatchBookmarks=true&resourceVersion="+i.at, nil)
	if err != nil {
		return err
	}
	w, err := i.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = w.Body.Close() }() // nothing to lose
	switch {
	case w.StatusCode == http.StatusGone:
		return errExpired
	case w.StatusCode != http.StatusOK:
		i.absent("watch", w.StatusCode)
		return nil
	}
	i.watches++
	lines := bufio.NewReader(w.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err := i.note(line); err != nil {
			return err
		}
		if _, last := i.seen["last"]; last {
			return nil
		}
	}
}

func (i *informer) note(line []byte) error {
	var event struct {
		Type   string
		Object struct {
			boat
			Code int
		}
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return err
	}
	o := event.Object.boat
	have, known := i.seen[o.Metadata.Name]
	switch event.Type {
	case "ADDED", "MODIFIED":
		if known != (event.Type == "MODIFIED") {
			return fmt.Errorf("%s of %s: known %t as %v", event.Type, o.Metadata.Name, known, have)
		}
		i.seen[o.Metadata.Name] = o
	case "DELETED":
		delete(i.seen, o.Metadata.Name)
	case "BOOKMARK":
	case "ERROR":
		if event.Object.Code == http.StatusGone {
			return errExpired
		}
		return fmt.Errorf("%s", line)
	}
	i.at = o.Metadata.ResourceVersion
	i.reached.Store(number(i.at))
	return nil
}
