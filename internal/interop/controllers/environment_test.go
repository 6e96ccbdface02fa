package controllers

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/registry"
)

var assets = flag.String("assets", "", "a directory with kube-apiserver and etcd: run the controllers against those, too")

// spent is the real time of each scenario in each place.
var spent struct {
	sync.Mutex
	by map[string]map[string]time.Duration
}

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard()) // recorders log events that arrive after the end of a test
	// The last error handler sleeps when errors come fast. It remembers the time of the last error
	// for the whole process. A bubble's clock begins in the year 2000, so there it would sleep for
	// decades, together with the goroutine that met the error.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	spent.by = map[string]map[string]time.Duration{}
	code := m.Run()
	if testing.Verbose() {
		_, _ = fmt.Fprintln(os.Stdout, tell())
	}
	os.Exit(code)
}

// tell returns the times of the scenarios as a table.
func tell() string {
	var out strings.Builder
	row := func(name string, cell func(place string) string) {
		_, _ = fmt.Fprintf(&out, "\n%-16s", name)
		for _, place := range []string{"in process", "bubble", "TLS", "envtest"} {
			_, _ = fmt.Fprintf(&out, "%12s", cell(place))
		}
	}
	row("milliseconds", func(place string) string { return place })
	total := map[string]time.Duration{}
	in := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d.Microseconds())/1000) }
	for _, scenario := range slices.Sorted(maps.Keys(spent.by)) {
		row(scenario, func(place string) string {
			took := spent.by[scenario][place]
			total[place] += took
			return in(took)
		})
	}
	row("all", func(place string) string { return in(total[place]) })
	return out.String() + "\n"
}

func spend(scenario, place string, since time.Time) {
	spent.Lock()
	defer spent.Unlock()
	if spent.by[scenario] == nil {
		spent.by[scenario] = map[string]time.Duration{}
	}
	spent.by[scenario][place] += time.Since(since)
}

// place is the environment of a scenario: a server, and the way in which time passes.
type place struct {
	t             *testing.T
	scheme        *runtime.Scheme
	config        *rest.Config
	client.Client // of the test: it always asks the server

	// hour is the controllers' hour. With real time it is a moment.
	hour time.Duration

	// virtual says that time passes only while every goroutine waits, so the time of each event is
	// exact.
	virtual bool

	// whole says that garbage is collected and namespaces end. With a lone kube-apiserver they do
	// not.
	whole bool

	namespace string // for this scenario only
	counts    *tally
}

// everywhere runs a scenario in every place.
func everywhere(t *testing.T, scenario string, test func(t *testing.T, p *place)) {
	t.Helper()
	in := func(name string, run func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			defer func() { spend(scenario, name, began) }()
			run(t)
		})
	}
	in("in process", func(t *testing.T) { test(t, newPlace(t, scenario, inProcess(t))) })
	in("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := newPlace(t, scenario, inProcess(t))
			p.hour, p.virtual = time.Hour, true
			test(t, p)
		})
	})
	in("TLS", func(t *testing.T) {
		e := apitest.New(t, definitions()...).ListenTLS()
		test(t, newPlace(t, scenario, &rest.Config{Host: e.URL, TLSClientConfig: rest.TLSClientConfig{CAData: e.CA, CertData: e.Cert, KeyData: e.Key}}))
	})
	if *assets == "" {
		return
	}
	t.Run("envtest", func(t *testing.T) {
		began := time.Now()
		env := &envtest.Environment{BinaryAssetsDirectory: *assets, CRDDirectoryPaths: []string{"testdata"}, ErrorIfCRDPathMissing: true}
		config, err := env.Start()
		require.NoError(t, err)
		defer func() { require.NoError(t, env.Stop()) }()
		spend("(its start)", "envtest", began)
		began = time.Now()
		t.Run(scenario, func(t *testing.T) {
			p := newPlace(t, scenario, config)
			p.whole = false
			test(t, p)
		})
		spend(scenario, "envtest", began)
	})
}

// inProcess starts a server and returns client-go's configuration for it.
func inProcess(t *testing.T) *rest.Config {
	srv := apitest.New(t, definitions()...)
	return &rest.Config{Host: srv.URL, Transport: srv.Transport()}
}

// definitions are the kinds of the server, from the types of the controllers.
func definitions() []registry.Definition {
	group, version := GroupVersion.Group, GroupVersion.Version
	return []registry.Definition{
		registry.Kind[corev1.ConfigMap]{Version: "v1", Plural: "configmaps"},
		registry.Kind[Bucket]{Group: group, Version: version, Plural: "buckets"},
		registry.Kind[Site]{Group: group, Version: version, Plural: "sites"},
		registry.Kind[Certificate]{Group: group, Version: version, Plural: "certificates"},
		registry.Kind[Fleet]{Group: group, Version: version, Plural: "fleets", Subresources: []registry.Endpoint{registry.ScaleSubresource{
			SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: ".status.selector",
		}}},
		registry.Kind[Route]{Group: group, Version: version, Plural: "routes"},
		registry.Kind[Placement]{Group: group, Version: version, Plural: "placements"},
	}
}

func newPlace(t *testing.T, scenario string, c *rest.Config) *place {
	t.Helper()
	p := &place{t: t, scheme: runtime.NewScheme(), config: rest.CopyConfig(c), hour: 5 * time.Millisecond, whole: true, counts: &tally{}}
	require.NoError(t, clientscheme.AddToScheme(p.scheme))
	require.NoError(t, AddToScheme(p.scheme))
	p.config.QPS = -1
	p.config.Wrap(p.counts.wrap)
	var err error
	p.Client, err = client.New(p.config, client.Options{Scheme: p.scheme})
	require.NoError(t, err)
	p.namespace = strings.ReplaceAll(scenario, " ", "-")
	require.NoError(t, p.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}))
	return p
}

// tally counts requests.
type tally struct {
	mu sync.Mutex
	by map[string]int // method and path
}

func (c *tally) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		if c.by == nil {
			c.by = map[string]int{}
		}
		c.by[r.Method+" "+r.URL.Path]++
		c.mu.Unlock()
		return next.RoundTrip(r)
	})
}

func (c *tally) of(request string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[request]
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// meta returns the metadata of an object of the scenario.
func (p *place) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.namespace, Name: name}
}

// until waits for something that must happen.
func (p *place) until(what string, happened func() bool) {
	p.t.Helper()
	waitLimit, often := time.Minute, 2*time.Millisecond
	if p.virtual {
		waitLimit, often = 1_000*time.Hour, time.Minute
		synctest.Wait()
	}
	for deadline := time.Now().Add(waitLimit); !happened(); time.Sleep(often) {
		require.True(p.t, time.Now().Before(deadline), "in vain: %s", what)
	}
}

// rest waits until all immediate work is done. Where that cannot be known, it waits a moment. Tests
// that something does not happen use it.
func (p *place) rest() {
	if p.virtual {
		synctest.Wait()
		return
	}
	time.Sleep(50 * time.Millisecond)
}

// get reads an object, and reports whether it exists.
func (p *place) get(o client.Object) bool {
	p.t.Helper()
	err := p.Get(p.t.Context(), client.ObjectKeyFromObject(o), o)
	require.NoError(p.t, client.IgnoreNotFound(err))
	return err == nil
}

// gone waits for the end of an object.
func (p *place) gone(o client.Object) {
	p.t.Helper()
	p.until(fmt.Sprintf("%T %s goes", o, o.GetName()), func() bool { return !p.get(o) })
}

// options are those of every controller. The delay between retries grows from a minute to six
// hours.
func (p *place) options() controller.Options {
	return controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](p.hour/60, 6*p.hour)}
}

// manager returns a manager with the controllers that setUp adds. It is not started.
func (p *place) manager(o manager.Options, setUp func(m ctrl.Manager) error) ctrl.Manager {
	p.t.Helper()
	again := true
	o.Scheme, o.Logger, o.Metrics, o.Controller = p.scheme, logr.Discard(), metricsserver.Options{BindAddress: "0"}, config.Controller{SkipNameValidation: &again}
	m, err := manager.New(p.config, o)
	require.NoError(p.t, err)
	require.NoError(p.t, setUp(m))
	return m
}

// run starts controllers, which end before the server does. They learn of changes only by events:
// their resynchronisation is too rare to help.
func (p *place) run(setUp func(m ctrl.Manager) error) ctrl.Manager {
	p.t.Helper()
	rarely := 100_000 * p.hour
	m := p.manager(manager.Options{Cache: cache.Options{SyncPeriod: &rarely}}, setUp)
	p.start(m)
	return m
}

// start starts a manager, and returns a function that stops it and returns its error.
func (p *place) start(m ctrl.Manager) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	p.t.Cleanup(func() {
		_ = stop()
		if p.virtual {
			// After a manager has ended, its recorder still sends events. They must get through: a
			// client that waits for a retry when a bubble ends waits forever.
			synctest.Wait()
		}
	})
	return stop
}
