package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/client"
	"github.com/kindwright/kindwright/storage/bbolt"
)

var (
	faultCalls = flag.Int("fault-calls", 1500, "how many operations clients carry out on a server whose store fails")
	faultSeed  = flag.Uint64("fault-seed", 1, "what the faults and the writes are drawn with")
)

const (
	parties       = 8   // of each kind
	contended     = 6   // names that all parties of a kind share
	callsAStop    = 500 // the server is stopped after so many operations
	impatient     = 50  // of a thousand calls end by the caller
	waitWhileDown = 200 * time.Millisecond
)

// What is stored is never answered as failed, and nobody is told to repeat what may have happened.
// client-go writes to a server whose store refuses commits, does not know whether they happened, is
// slow, and is closed and opened again; requests and answers are lost. Afterwards the record of the
// store decides about what each call was told.
func TestFaultyStoreUnderClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		var running sync.WaitGroup
		widgetsOf := plain{tr.dynamic.Resource(widgets).Namespace("default")}
		leasesOf := tr.typed.CoordinationV1().Leases("default")
		for n := range parties {
			running.Go(func() {
				(&party[*unstructured.Unstructured, *unstructured.UnstructuredList]{
					trial: tr, verbs: widgetsOf, many: widgetsOf, label: fmt.Sprint("widgets-", n), dice: tr.newDice(100 + n), make: newWidget,
					applied: `"apiVersion":"example.dev/v1","kind":"Widget","spec":{"size":3}`,
				}).work()
			})
			running.Go(func() {
				(&party[*coordinationv1.Lease, *coordinationv1.LeaseList]{
					trial: tr, verbs: leasesOf, many: leasesOf, label: fmt.Sprint("leases-", n), dice: tr.newDice(200 + n), make: newLease,
					applied: `"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"holderIdentity":"me"}`,
				}).work()
			})
		}
		tr.stopNowAndThen(t)
		running.Wait()
		tr.backend.settle()
		tr.calm.Store(true)
		tr.judge(t)
	})
}

// trial is a server with a faulty store, its clients, and what they were told.
type trial struct {
	*wire
	path    string
	db      *bbolt.DB
	backend *faulty
	server  *apitest.Server
	dynamic dynamic.Interface
	typed   kubernetes.Interface

	left  atomic.Int64 // operations to begin
	notes atomic.Int64

	told  sync.Mutex
	calls []*call // guarded by told
}

func newTrial(t *testing.T) *trial {
	tr := &trial{path: filepath.Join(t.TempDir(), "store.db")}
	tr.wire = &wire{dice: tr.newDice(2)}
	tr.left.Store(int64(*faultCalls))
	tr.open(t)
	tr.backend = newFaulty(*faultSeed, tr.db)
	t.Cleanup(func() { require.NoError(t, tr.db.Close()) })
	tr.start(t)
	cfg := &rest.Config{Host: client.InProcessURL, QPS: -1, Transport: tr.wire}
	var err error
	tr.dynamic, err = dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	tr.typed, err = kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	return tr
}

func (tr *trial) newDice(n int) *rand.Rand { return rand.New(rand.NewPCG(*faultSeed, uint64(n))) }

func (tr *trial) open(t *testing.T) {
	var err error
	tr.db, err = bbolt.Open(tr.path)
	require.NoError(t, err)
}

// start starts a server on the store.
func (tr *trial) start(t *testing.T) {
	tr.backend.on.Store(false)
	tr.server = apitest.Config{Backend: tr.backend, Options: []kindwright.Option{
		kindwright.LogTo(logr.Discard()), kindwright.Before("authenticate", tr.handle),
	}}.New(t, definitions()...)
	tr.backend.on.Store(true)
	to := tr.server.Transport()
	tr.to.Store(&to)
}

// stopNowAndThen stops the server while it works, and starts another one on the same file. Every
// second time the store is closed before the server.
func (tr *trial) stopNowAndThen(t *testing.T) {
	total := int64(*faultCalls)
	for n := int64(1); n*callsAStop < total; n++ {
		for tr.left.Load() > total-n*callsAStop {
			time.Sleep(time.Second)
		}
		if n%2 == 0 {
			require.NoError(t, tr.db.Close())
			time.Sleep(3 * time.Second)
		}
		tr.server.Close()
		tr.to.Store(nil)
		time.Sleep(time.Second)
		require.NoError(t, tr.db.Close())
		tr.open(t)
		tr.backend.replace(tr.db)
		tr.start(t)
	}
}

// party is a client that writes, one call after the other.
type party[T object, L runtime.Object] struct {
	*trial
	verbs[T, L]
	many interface {
		DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	}
	label   string // of the objects whose names the server made
	dice    *rand.Rand
	make    func(name string) T
	applied string // the members of a configuration for server-side apply, without metadata
}

func (p *party[T, L]) work() {
	for p.left.Add(-1) >= 0 {
		name := fmt.Sprint("x", p.dice.IntN(contended))
		switch n := p.dice.IntN(100); {
		case n < 20:
			p.create(name)
		case n < 33:
			p.create("")
		case n < 50:
			_ = p.update(name)
		case n < 63:
			_ = retry.RetryOnConflict(retry.DefaultRetry, func() error { return p.update(name) })
		case n < 75:
			p.merge(name)
		case n < 80:
			p.patch(&call{verb: "json patch", name: name}, types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/%s","value":"y"}]`)
		case n < 85:
			p.patch(&call{verb: "apply", name: name}, types.ApplyPatchType, `{`+p.applied+`,"metadata":{"name":"`+name+`","annotations":{"%s":"y"}}}`)
		case n < 97:
			p.delete(name)
		default:
			p.deleteMany()
		}
	}
}

func (p *party[T, L]) create(name string) {
	o, c := p.make(name), &call{verb: "create", name: name, note: p.note()}
	if name == "" {
		o.SetGenerateName("made-")
		o.SetLabels(map[string]string{"party": p.label})
	}
	o.SetAnnotations(map[string]string{c.note: "y"})
	_ = p.do(c, func(ctx context.Context) (T, error) { return p.Create(ctx, o, metav1.CreateOptions{}) })
}

// update adds a note to what it has read.
func (p *party[T, L]) update(name string) error {
	o, err := p.Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return p.absent(err)
	}
	c := &call{verb: "update", name: name, note: p.note(), seen: o.GetResourceVersion(), uid: o.GetUID()}
	notes := map[string]string{c.note: "y"}
	for key := range o.GetAnnotations() {
		notes[key] = "y"
	}
	o.SetAnnotations(notes)
	return p.do(c, func(ctx context.Context) (T, error) { return p.Update(ctx, o, metav1.UpdateOptions{}) })
}

// merge patches what it has read, or whatever there is.
func (p *party[T, L]) merge(name string) {
	c, version := &call{verb: "merge patch", name: name}, ""
	if p.dice.IntN(2) == 0 {
		o, err := p.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			_ = p.absent(err)
			return
		}
		c.seen = o.GetResourceVersion()
		version = `"resourceVersion":"` + c.seen + `",`
	}
	p.patch(c, types.MergePatchType, `{"metadata":{`+version+`"annotations":{"%s":"y"}}}`)
}

func (p *party[T, L]) patch(c *call, kind types.PatchType, format string) {
	c.note = p.note()
	var o metav1.PatchOptions
	if kind == types.ApplyPatchType {
		yes := true
		o.FieldManager, o.Force = c.note, &yes // nobody else's fields are in its way, or in its care
	}
	_ = p.do(c, func(ctx context.Context) (T, error) {
		return p.Patch(ctx, c.name, kind, fmt.Appendf(nil, format, c.note), o)
	})
}

// delete deletes what it has read, or whatever there is.
func (p *party[T, L]) delete(name string) {
	c, o := &call{verb: "delete", name: name}, metav1.DeleteOptions{}
	if how := p.dice.IntN(3); how > 0 {
		read, err := p.Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			_ = p.absent(err)
			return
		}
		c.uid = read.GetUID()
		o.Preconditions = &metav1.Preconditions{UID: &c.uid}
		if how > 1 {
			c.seen = read.GetResourceVersion()
			o.Preconditions.ResourceVersion = &c.seen
		}
	}
	_ = p.ask(c, func(ctx context.Context) error { return p.Delete(ctx, name, o) })
}

func (p *party[T, L]) deleteMany() {
	c := &call{verb: "delete many", label: p.label}
	_ = p.ask(c, func(ctx context.Context) error {
		return p.many.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "party=" + c.label})
	})
}

func (p *party[T, L]) note() string { return fmt.Sprint("n", p.notes.Add(1)) }

// do makes a call that returns an object.
func (p *party[T, L]) do(c *call, f func(context.Context) (T, error)) error {
	return p.ask(c, func(ctx context.Context) error {
		o, err := f(ctx)
		if err == nil {
			c.told.name, c.told.version, c.told.uid = o.GetName(), o.GetResourceVersion(), o.GetUID()
			_, c.told.noted = o.GetAnnotations()[c.note]
		}
		return err
	})
}

// ask makes a call and records it. Some callers give up.
func (p *party[T, L]) ask(c *call, f func(context.Context) error) error {
	ctx := context.WithValue(context.Background(), callKey{}, c)
	if p.dice.IntN(1000) < impatient {
		short, cancel := context.WithTimeout(ctx, time.Duration(p.dice.Int64N(int64(10*time.Second))))
		defer cancel()
		ctx = short
	}
	c.from = p.backend.newest()
	c.err = f(ctx)
	c.to = p.backend.newest()
	p.told.Lock()
	p.calls = append(p.calls, c)
	p.told.Unlock()
	return p.absent(c.err)
}

// absent waits a little if there is no server, and returns the error.
func (p *party[T, L]) absent(err error) error {
	if err != nil && !errors.As(err, new(apierrors.APIStatus)) {
		time.Sleep(waitWhileDown)
	}
	return err
}
