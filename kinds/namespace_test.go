package kinds_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/kinds"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/bbolt"
	"github.com/kindwright/kindwright/storage/memory"
	"github.com/kindwright/kindwright/watch"
)

type note struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`
	Text            string `json:"text,omitempty"`
}

var (
	notes      = registry.Kind[note]{Group: "example.dev", Version: "v1", Plural: "notes", Names: registry.Names{Kind: "Note"}}
	noteType   = meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "notes"}
	namespaces = meta.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// start runs a server with namespaces and notes. The returned function stops it.
func start(t *testing.T, b storage.Backend, opts ...kindwright.Option) (*engine.Engine, func()) {
	t.Helper()
	srv, err := kindwright.New(b, append(opts, kindwright.Serve(notes, kinds.ControlPlane()))...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(t, srv.Start(ctx))
	stop := sync.OnceFunc(func() { cancel(); srv.Wait() })
	t.Cleanup(stop)
	return srv.Engine().(*engine.Engine), stop
}

func makeNamespace(t *testing.T, e *engine.Engine, name string) {
	t.Helper()
	_, err := e.Create(t.Context(), registry.Target{Resource: namespaces}, fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name), registry.WriteOptions{})
	require.NoError(t, err)
}

func makeNote(ctx context.Context, e *engine.Engine, namespace, name string) error {
	_, err := e.Create(ctx, registry.Target{Resource: noteType, Namespace: namespace}, fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name), registry.WriteOptions{})
	return err
}

// gone waits until a namespace is gone.
func gone(t *testing.T, e *engine.Engine, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f, err := meta.ParseFieldSelector("metadata.name=" + name)
	require.NoError(t, err)
	c, err := e.Follow(ctx, registry.Target{Resource: namespaces}, registry.WatchRequest{Fields: f})
	require.NoError(t, err)
	defer c.Close()
	var events []watch.Event
	exists := false
	for {
		events, err = c.Next(ctx, events[:0])
		require.NoError(t, err)
		for _, ev := range events {
			switch ev.Type {
			case meta.Added:
				exists = true
			case meta.Deleted:
				return
			case meta.Bookmark:
				if !exists {
					return
				}
			}
		}
	}
}

func TestNS_07_NamespacesMustExist(t *testing.T) {
	e, _ := start(t, memory.New())
	err := makeNote(t.Context(), e, "nowhere", "x")
	require.True(t, status.IsNotFound(err))
	require.ErrorContains(t, err, `namespaces "nowhere" not found`)
}

func TestNS_08_ProtectedAndMisnamed(t *testing.T) {
	e, _ := start(t, memory.New())
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		_, err := e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: name}, registry.DeleteOptions{})
		require.True(t, status.IsForbidden(err), name)
	}
	_, err := e.Create(t.Context(), registry.Target{Resource: namespaces}, []byte(`{"metadata":{"name":"a.b"}}`), registry.WriteOptions{})
	require.True(t, status.IsInvalid(err))

	for _, bad := range []kinds.NamespaceOption{kinds.InitialNamespaces("team", "A B"), kinds.ProtectedNamespaces("A B")} {
		_, err = kinds.Namespaces(bad).Define(registry.Env{GroupDomain: "k8s.io"})
		require.ErrorContains(t, err, `namespaces: the name "A B" must consist of`)
	}
}

// NS-06: the phase matches the deletion timestamp, whatever is written to the status.
func TestNS_06_ThePhaseMatchesTheDeletion(t *testing.T) {
	e, _ := start(t, memory.New())
	makeNamespace(t, e, "shop")
	at := func(subresource string) registry.Target {
		return registry.Target{Resource: namespaces, Name: "shop", Subresource: subresource}
	}
	write := func(phase string) error {
		_, err := e.Patch(t.Context(), at("status"), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"status":{"phase":` + phase + `}}`)}, registry.WriteOptions{})
		return err
	}
	require.True(t, status.IsInvalid(write(`"Terminating"`)))
	require.NoError(t, write(`"Active"`))
	require.NoError(t, write(`null`), "Active is the default")
	_, err := e.Patch(t.Context(), at(""), registry.PatchRequest{Type: meta.MergePatch, Body: []byte(`{"metadata":{"finalizers":["example.dev/hold"]}}`)}, registry.WriteOptions{})
	require.NoError(t, err)
	_, err = e.Delete(t.Context(), at(""), registry.DeleteOptions{})
	require.NoError(t, err)
	for _, phase := range []string{`"Active"`, `null`} {
		require.True(t, status.IsInvalid(write(phase)), phase)
	}
	require.NoError(t, write(`"Terminating"`))
}

// Finalizers of a namespace must be qualified names.
func TestNS_FinalizersAreQualifiedNames(t *testing.T) {
	e, _ := start(t, memory.New())
	makeNamespace(t, e, "shop")
	finalize := func(finalizers string) error {
		_, err := e.Update(t.Context(), registry.Target{Resource: namespaces, Name: "shop", Subresource: "finalize"},
			[]byte(`{"metadata":{"name":"shop"},"spec":{"finalizers":`+finalizers+`}}`), registry.WriteOptions{})
		return err
	}
	for _, bad := range []string{`["kubernetes","a b"]`, `[""]`, `["a/b/c"]`} {
		require.True(t, status.IsInvalid(finalize(bad)), bad)
	}
	require.NoError(t, finalize(`["kubernetes","example.dev/hold"]`))
}

// A create that passed admission waits just before its commit while its namespace is deleted. It
// must be rejected, or the object would outlive the namespace (design rule 2).
func TestRule2_ACreationDoesNotSlipIntoAnEndingNamespace(t *testing.T) {
	arrived, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	barrier := admission.Plugin{Name: "barrier", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Name == "late" {
			once.Do(func() { close(arrived); <-proceed })
		}
		return nil
	})}
	e, _ := start(t, memory.New(), kindwright.Admit(barrier))
	makeNamespace(t, e, "team")
	result := make(chan error, 1)
	go func() { result <- makeNote(context.Background(), e, "team", "late") }()
	<-arrived
	_, err := e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: "team"}, registry.DeleteOptions{})
	require.NoError(t, err)
	close(proceed)
	err = <-result
	require.True(t, status.IsForbidden(err) || status.IsNotFound(err), "%v", err)
	gone(t, e, "team")
	l, err := e.List(t.Context(), registry.Target{Resource: noteType}, registry.ListRequest{})
	require.NoError(t, err)
	for entry, err := range l.Items {
		require.NoError(t, err)
		require.Fail(t, "left behind", entry.Key())
	}
}

func TestLabellingANamespaceDoesNotFailCreates(t *testing.T) {
	phaseReads := 0
	plugin := admission.Plugin{Name: "count", Validator: admission.ValidatorFunc(func(_ context.Context, r *admission.Request) error {
		if r.Resource == noteType {
			phaseReads++
		}
		return nil
	})}
	e, _ := start(t, memory.New(), kindwright.Admit(plugin))
	before := phaseReads
	_, err := e.Update(t.Context(), registry.Target{Resource: namespaces, Name: "default"}, []byte(`{"metadata":{"name":"default","labels":{"a":"b"}}}`), registry.WriteOptions{})
	require.NoError(t, err)
	require.NoError(t, makeNote(t.Context(), e, "default", "x"))
	require.Equal(t, before+1, phaseReads, "the step list ran once")
}

func TestTerminationResumesAfterARestart(t *testing.T) {
	path := t.TempDir() + "/db"
	b, err := bbolt.Open(path)
	require.NoError(t, err)
	e, stop := start(t, b)
	makeNamespace(t, e, "team")
	_, err = e.Create(t.Context(), registry.Target{Resource: noteType, Namespace: "team"}, []byte(`{"metadata":{"name":"held","finalizers":["example.dev/hold"]}}`), registry.WriteOptions{})
	require.NoError(t, err)
	_, err = e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: "team"}, registry.DeleteOptions{})
	require.NoError(t, err)
	stop()
	require.NoError(t, b.Close())

	b, err = bbolt.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	e, stop = start(t, b)
	t.Cleanup(stop) // before the store closes
	_, err = e.Update(t.Context(), registry.Target{Resource: noteType, Namespace: "team", Name: "held"}, []byte(`{"metadata":{"name":"held"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	gone(t, e, "team")
}

// A deletion rule that panics fails only that deletion. Namespaces terminate in the background,
// where no request catches the panic (ERR-25).
func TestERR_25_APanickingRuleFailsOnlyItsDeletion(t *testing.T) {
	kind := notes
	kind.Plural, kind.Names.Kind = "traps", "Trap"
	var calm atomic.Bool
	kind.Rules.BeforeDelete = func(context.Context, *note) error {
		if !calm.Load() {
			panic("trap")
		}
		return nil
	}
	e, _ := start(t, memory.New(), kindwright.Serve(kind))
	makeNamespace(t, e, "team")
	traps := registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "traps"}, Namespace: "team"}
	_, err := e.Create(t.Context(), traps, []byte(`{"metadata":{"name":"x"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	_, err = e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: "team"}, registry.DeleteOptions{})
	require.NoError(t, err)
	_, err = e.DeleteCollection(t.Context(), traps, registry.ListRequest{}, registry.DeleteOptions{})
	require.Equal(t, meta.ReasonInternalError, status.ReasonOf(err))
	require.NotContains(t, err.Error(), "trap")
	calm.Store(true)
	gone(t, e, "team")
}

// The same holds for rules that run on marked objects and on the remains of a removed namespace.
func TestERR_25_RulesThatPanicInTheBackground(t *testing.T) {
	kind := notes
	kind.Plural, kind.Names.Kind = "traps", "Trap"
	var calm atomic.Bool
	r, err := kind.Resource()
	require.NoError(t, err)
	r.Hooks.Held = func(registry.Tree) bool {
		if !calm.Load() {
			panic("trap")
		}
		return false
	}
	e, _ := start(t, memory.New(), kindwright.Serve(described{r}))
	traps := registry.Target{Resource: meta.GroupVersionResource{Group: "example.dev", Version: "v1", Resource: "traps"}}
	for _, name := range []string{"ends", "forced"} {
		makeNamespace(t, e, name)
		traps.Namespace = name
		for i := range 40 {
			_, err := e.Create(t.Context(), traps, fmt.Appendf(nil, `{"metadata":{"name":"x%d"}}`, i), registry.WriteOptions{})
			require.NoError(t, err)
		}
		_, err := e.Delete(t.Context(), registry.Target{Resource: namespaces, Name: name}, registry.DeleteOptions{})
		require.NoError(t, err)
	}
	_, err = e.Update(t.Context(), registry.Target{Resource: namespaces, Name: "forced", Subresource: "finalize"}, []byte(`{"metadata":{"name":"forced"}}`), registry.WriteOptions{})
	require.NoError(t, err)
	gone(t, e, "forced")
	require.Eventually(t, func() bool {
		ns, err := e.Get(t.Context(), registry.Target{Resource: namespaces, Name: "ends"}, registry.ListRequest{})
		return err == nil && strings.Contains(string(ns.AppendJSON(nil)), "the server's log has the cause")
	}, time.Minute, 10*time.Millisecond)
	calm.Store(true)
	gone(t, e, "ends")
	require.Eventually(t, func() bool { return len(left(t, e, "")) == 0 }, time.Minute, 10*time.Millisecond)
}

// described defines a resource by its description.
type described struct{ *registry.Resource }

func (d described) Define(registry.Env) (registry.Bundle, error) {
	return registry.Bundle{Resources: []*registry.Resource{d.Resource}}, nil
}

// gets counts the reads of single records.
type gets struct {
	storage.Backend
	n atomic.Int64
}

func (g *gets) Unwrap() storage.Backend { return g.Backend }

func (g *gets) Get(ctx context.Context, key string) (storage.Record, error) {
	g.n.Add(1)
	return g.Backend.Get(ctx, key)
}

// NS-07: a server remembers that a namespace exists, and each commit checks it. So a namespace that
// another server has deleted takes no object, whatever else is wrong with the request.
func TestNS_07_AnotherServerHasDeletedTheNamespace(t *testing.T) {
	b := &gets{Backend: memory.New()}
	one, _ := start(t, b)
	other, _ := start(t, b)
	makeNamespace(t, one, "team")
	require.NoError(t, makeNote(t.Context(), other, "team", "first"))
	before := b.n.Load()
	require.NoError(t, makeNote(t.Context(), other, "team", "second"))
	require.Equal(t, before, b.n.Load(), "nobody has read the phase again")

	_, err := one.Delete(t.Context(), registry.Target{Resource: namespaces, Name: "team"}, registry.DeleteOptions{})
	require.NoError(t, err)
	gone(t, one, "team")
	require.True(t, status.IsNotFound(makeNote(t.Context(), other, "team", "third")))
	makeNamespace(t, one, "team")
	require.NoError(t, makeNote(t.Context(), other, "team", "fourth"), "a new one of that name")
	_, err = one.Delete(t.Context(), registry.Target{Resource: namespaces, Name: "team"}, registry.DeleteOptions{})
	require.NoError(t, err)
	gone(t, one, "team")
	require.True(t, status.IsNotFound(makeNote(t.Context(), other, "team", "not/a name")))
}
