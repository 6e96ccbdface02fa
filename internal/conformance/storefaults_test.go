package conformance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

var (
	storeSeeds = flag.Int("store-seeds", max(2, effort.Of(6)), "random runs on a store that fails")
	storeSeed  = flag.Int("store-seed", 1, "the seed of the first of these runs")
)

// Every client must be able to rely on an answer, whatever the store does meanwhile: what was
// acknowledged stays, and what was refused did not happen. What the server does in the background
// gets done when the store works again.
func TestFailingStore_AnswersAreTrueAndWorkGetsDone(t *testing.T) {
	onFailingStores(t, func(*storeRun) {})
}

// The same holds for servers that stop in between and others that take over their work.
func TestFailingStore_AnswersAreTrueAcrossRestarts(t *testing.T) {
	onFailingStores(t, (*storeRun).restarts)
}

// onFailingStores lets clients work on a store that fails, while the test does something else.
func onFailingStores(t *testing.T, meanwhile func(r *storeRun)) {
	t.Helper()
	for i := range *storeSeeds {
		seed := *storeSeed + i
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newStoreRun(t, uint64(seed)) //nolint:gosec // a small number
				r.clients()
				meanwhile(r)
				r.working.Wait()
				r.settle()
				r.checkFaults()
				r.checkAcknowledged()
				r.checkRefused()
				r.checkCounters()
				r.checkOwners()
				r.checkEnds()
			})
		})
	}
}

const (
	staying    = "staying" // a namespace that no client deletes
	comings    = 4         // how many namespaces come and go
	counters   = 3
	finalizer  = "example.com/held"
	mergePatch = "application/merge-patch+json"
)

// widgetsIn is the path of the widgets in a namespace.
func widgetsIn(namespace string) string {
	return "/apis/shop.example.com/v1/namespaces/" + namespace + "/widgets"
}

func coming(i int) string { return "coming-" + strconv.Itoa(i) }

func counterPath(i int) string { return widgetsIn(staying) + "/counter-" + strconv.Itoa(i) }

// storeRun is a server on a store that fails, its clients, and what they were told.
type storeRun struct {
	t       *testing.T
	seed    uint64
	store   *faultyStore
	server  atomic.Pointer[server]
	end     time.Time // of the clients
	started uint64    // how many clients there are
	working sync.WaitGroup

	mu           sync.Mutex // guards the fields below
	acknowledged map[string]string
	refused      []string
	counts       [counters]count
}

// count is how often a counter went up.
type count struct{ surely, maybe int64 }

func newStoreRun(t *testing.T, seed uint64) *storeRun {
	t.Helper()
	r := &storeRun{
		t: t, seed: seed, store: newFaultyStore(seed, memory.New()),
		acknowledged: map[string]string{},
	}
	r.start()
	s := r.server.Load()
	s.namespace(staying)
	for i := range comings {
		s.namespace(coming(i))
	}
	for i := range counters {
		s.create(widgetsIn(staying), fmt.Sprintf(`{"metadata":{"name":"counter-%d"}}`, i))
	}
	r.end = time.Now().Add(2 * time.Minute)
	r.store.on.Store(true)
	return r
}

func (r *storeRun) start() {
	r.t.Helper()
	open := func() storage.Backend { return r.store }
	quiet := kindwright.LogTo(logr.Discard()) // each fault would be reported
	r.server.Store(start(r.t, open, quiet))
}

// restarts replaces the server until the clients end. The store works meanwhile.
func (r *storeRun) restarts() {
	r.t.Helper()
	dice := rand.New(rand.NewPCG(r.seed, 0))
	for time.Now().Before(r.end) {
		time.Sleep(time.Duration(2000+dice.IntN(10_000)) * time.Millisecond)
		r.store.on.Store(false)
		r.server.Load().stop()
		r.start()
		r.store.on.Store(true)
	}
}

// clients starts all clients.
func (r *storeRun) clients() {
	for i := range 6 {
		r.client(fmt.Sprintf("owner-%d", i), time.Second, r.own)
		r.client(fmt.Sprintf("counter-%d", i), time.Second, func(_ string, dice *rand.Rand) {
			r.countUp(dice.IntN(counters))
		})
	}
	for i := range 3 {
		r.client(fmt.Sprintf("writer-%d", i), time.Second, r.write)
	}
	r.client("namespaces", 6*time.Second, r.renew)
	r.client("collections", 9*time.Second, r.clear)
}

// client repeats something until the end, each time with another name, with pauses of up to a time.
func (r *storeRun) client(name string, upTo time.Duration, do func(name string, dice *rand.Rand)) {
	r.started++
	dice := rand.New(rand.NewPCG(r.seed, r.started))
	r.working.Go(func() {
		for i := 0; time.Now().Before(r.end); i++ {
			do(name+"-"+strconv.Itoa(i), dice)
			time.Sleep(time.Duration(dice.Int64N(int64(upTo))))
		}
	})
}

// ask sends a request to the server that runs now. The code of an answer that did not come is zero.
func (r *storeRun) ask(method, path, body string) *answer {
	typ := "application/json"
	if method == "PATCH" {
		typ = mergePatch
	}
	a, err := r.server.Load().attempt(method, path, body, "Content-Type", typ)
	if err != nil {
		return &answer{t: r.t}
	}
	return a
}

// unknown reports whether an answer leaves open what has happened. One with a Retry-After does not:
// it invites clients to send the request again.
func (a *answer) unknown() bool {
	return a.code == 0 || a.code == 504 && a.header.Get("Retry-After") == ""
}

// write creates a widget that stays, and notes the answer.
func (r *storeRun) write(name string, _ *rand.Rand) {
	a := r.ask("POST", widgetsIn(staying), fmt.Sprintf(`{"metadata":{"name":%q}}`, name))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a.code == 201:
		r.acknowledged[name] = a.text("metadata", "uid")
	case !a.unknown():
		r.refused = append(r.refused, name)
	}
}

// countUp adds one to a counter, unless another client has done so since it was read.
func (r *storeRun) countUp(i int) {
	a := r.ask("GET", counterPath(i), "")
	if a.code != 200 {
		return
	}
	size, _ := a.at("spec", "size").(float64)
	a = r.ask("PATCH", counterPath(i), fmt.Sprintf(
		`{"metadata":{"resourceVersion":%q},"spec":{"size":%d}}`,
		a.text("metadata", "resourceVersion"), int(size)+1))
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case a.code == 200:
		r.counts[i].surely++
	case a.unknown():
		r.counts[i].maybe++
	}
}

// own creates a widget and one that depends on it in a namespace that comes and goes. Some owners
// are deleted then, and some have a finalizer, which the client removes if it can.
func (r *storeRun) own(name string, dice *rand.Rand) {
	path := widgetsIn(coming(dice.IntN(comings)))
	held := dice.IntN(4) == 0
	finalizers := ""
	if held {
		finalizers = fmt.Sprintf(`,"finalizers":[%q]`, finalizer)
	}
	a := r.ask("POST", path, fmt.Sprintf(`{"metadata":{"name":%q%s}}`, name, finalizers))
	if a.code != 201 {
		return
	}
	r.ask("POST", path, fmt.Sprintf(
		`{"metadata":{"name":"of-%s","ownerReferences":[{"apiVersion":"shop.example.com/v1",`+
			`"kind":"Widget","name":%q,"uid":%q,"blockOwnerDeletion":%t}]}}`,
		name, name, a.text("metadata", "uid"), dice.IntN(2) == 0))
	if dice.IntN(2) == 0 {
		policy := []string{"Background", "Foreground", "Orphan"}[dice.IntN(3)]
		r.ask("DELETE", path+"/"+name+"?propagationPolicy="+policy, "")
	}
	for try := 0; held && try < 3; try++ {
		code := r.ask("PATCH", path+"/"+name, `{"metadata":{"finalizers":null}}`).code
		held = code != 200 && code != 404
	}
}

// renew deletes a namespace, and creates those that are gone.
func (r *storeRun) renew(_ string, dice *rand.Rand) {
	r.ask("DELETE", "/api/v1/namespaces/"+coming(dice.IntN(comings)), "")
	time.Sleep(time.Duration(dice.IntN(6000)) * time.Millisecond)
	for i := range comings {
		r.ask("POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":%q}}`, coming(i)))
	}
}

// clear deletes all widgets of a namespace.
func (r *storeRun) clear(_ string, dice *rand.Rand) {
	r.ask("DELETE", widgetsIn(coming(dice.IntN(comings))), "")
}

// settle ends the faults, removes the finalizers of clients, and lets the server finish.
func (r *storeRun) settle() {
	r.store.on.Store(false)
	time.Sleep(time.Minute)
	for _, w := range r.left(widgetsPath) {
		if held, _ := at(w, "metadata", "finalizers").([]any); slices.Contains(held, any(finalizer)) {
			path := widgetsIn(ofMeta(w, "namespace")) + "/" + ofMeta(w, "name")
			r.server.Load().patch(path, `{"metadata":{"finalizers":null}}`)
		}
	}
	time.Sleep(3 * time.Minute)
}

// left returns the objects of a list.
func (r *storeRun) left(path string) []any {
	r.t.Helper()
	return r.server.Load().get(path).items()
}

// ofMeta returns a text in the metadata of an object.
func ofMeta(object any, field string) string {
	text, _ := at(object, "metadata", field).(string)
	return text
}

// uids returns the uids of the widgets in the namespace that stays, by name.
func (r *storeRun) uids() map[string]string {
	r.t.Helper()
	uids := map[string]string{}
	for _, w := range r.left(widgetsIn(staying)) {
		uids[ofMeta(w, "name")] = ofMeta(w, "uid")
	}
	return uids
}

// checkFaults requires that there were faults of each kind, and answers of each kind.
func (r *storeRun) checkFaults() {
	r.t.Helper()
	for m := range mishaps {
		assert.Positive(r.t, r.store.met[m].Load(), "mishap %d", m)
	}
	assert.NotEmpty(r.t, r.acknowledged)
	assert.NotEmpty(r.t, r.refused)
}

// checkAcknowledged requires that nothing is lost or replaced.
func (r *storeRun) checkAcknowledged() {
	r.t.Helper()
	uids := r.uids()
	for name, uid := range r.acknowledged {
		assert.Equal(r.t, uid, uids[name], "%s was created", name)
	}
}

// checkRefused requires that what a client may do again has not been done.
func (r *storeRun) checkRefused() {
	r.t.Helper()
	uids := r.uids()
	for _, name := range r.refused {
		assert.NotContains(r.t, uids, name, "its creation was refused")
	}
}

// checkCounters requires that each step of a counter was made once.
func (r *storeRun) checkCounters() {
	r.t.Helper()
	for i, n := range r.counts {
		size, _ := r.server.Load().get(counterPath(i)).at("spec", "size").(float64)
		assert.Positive(r.t, n.surely, "counter %d", i)
		assert.GreaterOrEqual(r.t, int64(size), n.surely, "counter %d", i)
		assert.LessOrEqual(r.t, int64(size), n.surely+n.maybe, "counter %d", i)
	}
}

// checkOwners requires that what is left has its owners and its namespace.
func (r *storeRun) checkOwners() {
	r.t.Helper()
	namespaces, uids := map[string]bool{}, map[any]bool{}
	for _, n := range r.left("/api/v1/namespaces") {
		namespaces[ofMeta(n, "name")] = true
	}
	widgets := r.left(widgetsPath)
	for _, w := range widgets {
		uids[ofMeta(w, "uid")] = true
	}
	for _, w := range widgets {
		assert.True(r.t, namespaces[ofMeta(w, "namespace")], "no namespace: %v", w)
		owners, _ := at(w, "metadata", "ownerReferences").([]any)
		for _, o := range owners {
			assert.True(r.t, uids[at(o, "uid")], "no owner: %v", w)
		}
	}
}

// checkEnds requires that no deletion still waits.
func (r *storeRun) checkEnds() {
	r.t.Helper()
	for _, path := range []string{"/api/v1/namespaces", widgetsPath} {
		for _, object := range r.left(path) {
			assert.Empty(r.t, ofMeta(object, "deletionTimestamp"), "%v", object)
		}
	}
}
