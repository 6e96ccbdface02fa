package health_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func get(r *health.Registry, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.Handler("").ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

// says checks status and body of an answer, byte for byte, and the headers that every answer has.
func says(t *testing.T, r *health.Registry, target string, code int, body string) {
	t.Helper()
	w := get(r, target)
	require.Equal(t, body, w.Body.String(), target)
	require.Equal(t, code, w.Code, target)
	require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, "no-cache, private", w.Header().Get("Cache-Control"))
}

func failing(name, reason string) health.Check {
	return health.Check{Name: name, Check: func(context.Context) error { return errors.New(reason) }}
}

func add(t *testing.T, r *health.Registry, to health.Endpoint, checks ...health.Check) {
	t.Helper()
	require.NoError(t, r.Add(to, checks...))
}

func TestHEALTH_01_02_04_22_HealthyBody(t *testing.T) {
	r := health.New()
	for _, path := range []string{"/healthz", "/livez", "/readyz", "/livez?foo=bar"} {
		says(t, r, path, 200, "ok")
	}
}

func TestHEALTH_09_11_14_25_Verbose(t *testing.T) {
	r := health.New()
	for _, q := range []string{"?verbose", "?verbose=true", "?verbose=0"} {
		says(t, r, "/healthz"+q, 200, "[+]ping ok\n[+]log ok\nhealthz check passed\n")
		says(t, r, "/livez"+q, 200, "[+]ping ok\n[+]log ok\nlivez check passed\n")
		says(t, r, "/readyz"+q, 200, "[+]ping ok\n[+]log ok\n[+]shutdown ok\nreadyz check passed\n")
	}
}

func TestHEALTH_10_15_20_22_UnhealthyBody(t *testing.T) {
	r := health.New()
	add(t, r, health.All, failing("etcd", "s3cret reason"), health.Check{Name: "informer-sync", Check: func(context.Context) error { return nil }})
	body := "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n[+]informer-sync ok\n"
	for _, q := range []string{"", "?verbose"} {
		says(t, r, "/healthz"+q, 500, body+"healthz check failed\n")
		says(t, r, "/readyz"+q, 500, body+"[+]shutdown ok\nreadyz check failed\n")
	}
}

// STORE-01: a warning is shown and logged, and takes nobody out of service.
func TestAdvisoryChecksWarn(t *testing.T) {
	var lines []string
	r := health.New(health.WithLogger(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})))
	warning := failing("records", "one is lost")
	warning.Advisory = true
	add(t, r, health.Ready, warning)
	says(t, r, "/readyz", 200, "ok")
	says(t, r, "/readyz?verbose", 200, "[+]ping ok\n[+]log ok\n[!]records warning: reason withheld\n[+]shutdown ok\nreadyz check passed\n")
	says(t, r, "/readyz/records", 500, "internal server error: one is lost\n")
	require.Len(t, lines, 1, "%q", lines)
	require.Contains(t, lines[0], "one is lost")
	add(t, r, health.Ready, failing("a", "b"))
	says(t, r, "/readyz", 500, "[+]ping ok\n[+]log ok\n[!]records warning: reason withheld\n[-]a failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n")
}

func TestHEALTH_12_13_Exclude(t *testing.T) {
	r := health.New()
	add(t, r, health.Live, failing("etcd", "down"), failing("poststarthook/a", "down"))
	says(t, r, "/livez?exclude=etcd&exclude=poststarthook/a", 200, "ok")
	says(t, r, "/livez?verbose&exclude=etcd&exclude=poststarthook%2Fa", 200,
		"[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[+]poststarthook/a excluded: ok\nlivez check passed\n")
	says(t, r, "/livez?exclude=etcd", 500,
		"[+]ping ok\n[+]log ok\n[+]etcd excluded: ok\n[-]poststarthook/a failed: reason withheld\nlivez check failed\n")
}

func TestHEALTH_23_UnknownExclusion(t *testing.T) {
	r := health.New()
	says(t, r, "/livez?verbose&exclude=x", 200,
		"[+]ping ok\n[+]log ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\nlivez check passed\n")
	says(t, r, "/livez?verbose&exclude=x&exclude=ping&exclude=%0A[%2B]&exclude=x", 200,
		"[+]ping excluded: ok\n[+]log ok\nwarn: some health checks cannot be excluded: no matches for \"x\",\"\\n[+]\"\nlivez check passed\n")
	says(t, r, "/livez?exclude=x", 200, "ok")
}

func TestUnreadableQueryIsRefused(t *testing.T) {
	says(t, health.New(), "/livez?exclude=a;b", 400, "unreadable query\n")
	says(t, health.New(), "/livez?exclude=%zz", 400, "unreadable query\n")
}

func TestHEALTH_06_07_24_25_SingleChecks(t *testing.T) {
	r := health.New()
	done, err := r.AddPostStartHook("start-gc")
	require.NoError(t, err)
	done()
	add(t, r, health.All, failing("etcd", "dial\n\x1b[31mrefused"))
	for _, endpoint := range []string{"healthz", "livez", "readyz"} {
		// Every printed name works as a path.
		names := 0
		for line := range strings.Lines(get(r, "/"+endpoint+"?verbose").Body.String()) {
			if name, ok := strings.CutPrefix(line, "[+]"); ok {
				names++
				says(t, r, "/"+endpoint+"/"+strings.TrimSuffix(name, " ok\n"), 200, "ok")
			}
		}
		require.GreaterOrEqual(t, names, 3)
		says(t, r, "/"+endpoint+"/etcd", 500, "internal server error: dial  [31mrefused\n")
		for _, unknown := range []string{"/x", "/", "/ping/", "/ping/x", "/../ping", "/poststarthook", "/Ping", "//ping"} {
			require.Equal(t, 404, get(r, "/"+endpoint+unknown).Code, unknown)
		}
	}
	require.Equal(t, 404, get(r, "/livez/shutdown").Code)
	require.Equal(t, 404, get(r, "/healthz/shutdown").Code)
	require.Equal(t, 404, get(r, "/healthzz").Code)
	require.Equal(t, 404, get(r, "/").Code)
}

func TestHEALTH_03_16_PostStartHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := health.New(health.WithLivezGrace(10 * time.Second))
		done, err := r.AddPostStartHook("slow")
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.Equal(t, 200, get(r, "/livez").Code, "grace begins with the start, not with the making")
		r.Start()
		for _, c := range []struct {
			after time.Duration
			live  int
		}{{0, 200}, {9 * time.Second, 200}, {time.Second, 500}, {time.Hour, 500}} {
			time.Sleep(c.after)
			r.Start() // only the first counts
			require.Equal(t, c.live, get(r, "/livez").Code)
			require.Equal(t, 500, get(r, "/readyz").Code)
			require.Equal(t, 500, get(r, "/healthz").Code)
		}
		says(t, r, "/readyz?verbose", 500, "[+]ping ok\n[+]log ok\n[-]poststarthook/slow failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n")
		done()
		done()
		for _, path := range []string{"/livez", "/readyz", "/healthz", "/livez/poststarthook/slow"} {
			says(t, r, path, 200, "ok")
		}
	})
}

func TestHEALTH_03_NoGraceByDefault(t *testing.T) {
	r := health.New()
	_, err := r.AddPostStartHook("slow")
	require.NoError(t, err)
	require.Equal(t, 500, get(r, "/livez").Code)
}

func TestHEALTH_05_18_Shutdown(t *testing.T) {
	r := health.New()
	r.ShutDown()
	says(t, r, "/readyz", 500, "[+]ping ok\n[+]log ok\n[-]shutdown failed: reason withheld\nreadyz check failed\n")
	says(t, r, "/readyz?exclude=shutdown", 200, "ok")
	says(t, r, "/livez", 200, "ok")
	says(t, r, "/healthz", 200, "ok")
}

func TestHangingCheckHangsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := health.New()
		release := make(chan struct{})
		var mu sync.Mutex
		running, most := 0, 0
		add(t, r, health.Live,
			health.Check{Name: "deaf", Check: func(context.Context) error { // ignores its context
				mu.Lock()
				running++
				most = max(most, running)
				mu.Unlock()
				<-release
				mu.Lock()
				running--
				mu.Unlock()
				return nil
			}},
			health.Check{Name: "patient", Check: func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}})
		begin := time.Now()
		for range 3 {
			says(t, r, "/livez", 500, "[+]ping ok\n[+]log ok\n[-]deaf failed: reason withheld\n[-]patient failed: reason withheld\nlivez check failed\n")
		}
		require.Equal(t, 3*health.DefaultTimeout, time.Since(begin), "checks are waited for side by side")
		says(t, r, "/livez/deaf", 500, "internal server error: no answer in time\n")
		mu.Lock()
		require.Equal(t, 1, most, "one goroutine for a check that hangs, however often it is asked")
		mu.Unlock()

		// The prober's own deadline counts too, and costs nobody else the answer.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		begin = time.Now()
		r.Handler("").ServeHTTP(w, httptest.NewRequest("GET", "/livez", nil).WithContext(ctx))
		require.Equal(t, 500, w.Code)
		require.Equal(t, time.Second, time.Since(begin))

		close(release)
		r.Wait()
		says(t, r, "/livez/deaf", 200, "ok")
	})
}

func TestWithTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for given, want := range map[time.Duration]time.Duration{time.Second: time.Second, 0: health.DefaultTimeout, -1: health.DefaultTimeout} {
			r := health.New(health.WithTimeout(given))
			add(t, r, health.Ready, health.Check{Name: "slow", Check: func(ctx context.Context) error { <-ctx.Done(); return nil }})
			begin := time.Now()
			get(r, "/readyz")
			require.Equal(t, want, time.Since(begin))
			r.Wait()
		}
	})
}

func TestPanickingCheckFails(t *testing.T) {
	r := health.New()
	add(t, r, health.All, health.Check{Name: "bad", Check: func(context.Context) error { panic("boom") }})
	require.Equal(t, 500, get(r, "/livez").Code)
	says(t, r, "/livez/bad", 500, "internal server error: check panicked: boom\n")
	says(t, r, "/livez?exclude=bad", 200, "ok")
}

func TestPrefixAndServe(t *testing.T) {
	r := health.New()
	for prefix, paths := range map[string]map[string]int{
		"/shop":  {"/shop/livez": 200, "/shop/readyz/ping": 200, "/livez": 404, "/shoplivez": 404, "/shop/shop/livez": 404},
		"/shop/": {"/shop/livez": 200},
		"":       {"/livez": 200, "/shop/livez": 404},
		"/livez": {"/livez/livez": 200, "/livez": 404, "/livez/ping": 404},
	} {
		for path, code := range paths {
			w := httptest.NewRecorder()
			r.Handler(prefix).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			require.Equal(t, code, w.Code, "%s below %q", path, prefix)
		}
	}
	// A server that has parsed the path already passes what it authorized.
	for path, code := range map[string]int{"/livez/ping": 200, "/livez": 200, "livez": 404, "": 404, "/": 404} {
		w := httptest.NewRecorder()
		r.Serve(w, httptest.NewRequest("GET", "/whatever", nil), path)
		require.Equal(t, code, w.Code, path)
	}
}

func TestMethods(t *testing.T) {
	for method, code := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405, "get": 405} {
		w := httptest.NewRecorder()
		health.New().Handler("").ServeHTTP(w, httptest.NewRequest(method, "/livez", nil))
		require.Equal(t, code, w.Code, method)
	}
}

func TestAddRefuses(t *testing.T) {
	fine := func(context.Context) error { return nil }
	r := health.New()
	for name, c := range map[string]struct {
		to    health.Endpoint
		check health.Check
		want  string
	}{
		"no name":          {health.All, health.Check{Check: fine}, "must have a name"},
		"no function":      {health.All, health.Check{Name: "x"}, "no function"},
		"taken":            {health.All, health.Ping(), `/healthz has one of that name`},
		"taken shutdown":   {health.Ready, health.Check{Name: "shutdown", Check: fine}, "/readyz has one"},
		"dots":             {health.All, health.Check{Name: "a/../b", Check: fine}, "segment"},
		"dot":              {health.All, health.Check{Name: ".", Check: fine}, "segment"},
		"slash at the end": {health.All, health.Check{Name: "a/", Check: fine}, "segment"},
		"line break":       {health.All, health.Check{Name: "a\n[+]b", Check: fine}, "must consist of"},
		"question mark":    {health.All, health.Check{Name: "a?b", Check: fine}, "must consist of"},
		"no endpoint":      {0, health.Check{Name: "x", Check: fine}, "unknown endpoint"},
		"unknown endpoint": {8, health.Check{Name: "x", Check: fine}, "unknown endpoint"},
	} {
		require.ErrorContains(t, r.Add(c.to, health.Check{Name: "good", Check: fine}, c.check), c.want, name)
		require.Equal(t, 404, get(r, "/livez/good").Code, "%s: none is added when one is refused", name)
	}
	require.ErrorContains(t, r.Add(health.Live, health.Check{Name: "x", Check: fine}, health.Check{Name: "x", Check: fine}), "twice")
	require.NoError(t, r.Add(health.Live, health.Check{Name: "shutdown", Check: fine}), "only /readyz has that check by itself")
	_, err := r.AddPostStartHook("a b")
	require.Error(t, err)
	_, err = r.AddPostStartHook("a")
	require.NoError(t, err)
	_, err = r.AddPostStartHook("a")
	require.ErrorContains(t, err, "has one of that name")
}

func TestLogTellsChangesOnly(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	r := health.New(health.WithLogger(logger))
	reason := "disk full"
	add(t, r, health.Ready, health.Check{Name: "etcd", Check: func(context.Context) error {
		if reason == "" {
			return nil
		}
		return errors.New(reason)
	}})
	for range 3 {
		get(r, "/readyz")
	}
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "disk full")
	require.Contains(t, lines[0], `"endpoint"="readyz"`)
	reason = ""
	for range 3 {
		get(r, "/readyz")
	}
	require.Len(t, lines, 2)
	require.Contains(t, lines[1], "passes again")
}

func TestProberThatLeavesIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		r := health.New(health.WithLogger(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})))
		add(t, r, health.Live, health.Check{Name: "slow", Check: func(ctx context.Context) error { <-ctx.Done(); return nil }})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := httptest.NewRecorder()
		r.Handler("").ServeHTTP(w, httptest.NewRequest("GET", "/livez", nil).WithContext(ctx))
		require.Equal(t, 500, w.Code)
		require.Empty(t, lines)
		r.Wait()
	})
}

// sink is a log sink that can get stuck.
type sink struct {
	logr.LogSink
	err error
}

func (s *sink) Flush() error { return s.err }

func TestHEALTH_14_Log(t *testing.T) {
	s := &sink{LogSink: logr.Discard().GetSink()}
	if s.LogSink == nil { // Discard has no sink
		s.LogSink = funcr.New(func(string, string) {}, funcr.Options{}).GetSink()
	}
	r := health.New(health.WithLogger(logr.New(s)))
	says(t, r, "/livez/log", 200, "ok")
	s.err = errors.New("disk full")
	says(t, r, "/livez/log", 500, "internal server error: disk full\n")
}

func TestManyAtOnce(t *testing.T) {
	r := health.New()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			if err := r.Add(health.All, health.Check{Name: fmt.Sprintf("c%d", i), Check: func(context.Context) error { return nil }}); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			for range 50 {
				if w := get(r, "/readyz"); w.Code != 200 {
					t.Error(w.Body)
				}
			}
		})
	}
	wg.Wait()
	r.Wait()
	names := get(r, "/readyz?verbose").Body.String()
	require.Equal(t, 4, strings.Count(names, "[+]c"))
	require.True(t, strings.HasSuffix(names, "[+]shutdown ok\nreadyz check passed\n"))
}
