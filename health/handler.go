package health

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/guard"
)

// endpoints lists the endpoints; the index is that of Registry.probes.
var endpoints = [3]struct {
	set  Endpoint
	name string
}{{Health, "healthz"}, {Live, "livez"}, {Ready, "readyz"}}

// Handler serves /healthz, /livez and /readyz, and the single checks below them, under a prefix
// such as "/shop" or "" for the root. Other paths are 404. Responses are those of [Registry.Serve].
func (r *Registry) Handler(prefix string) http.Handler {
	prefix = strings.TrimSuffix(prefix, "/")
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path, ok := strings.CutPrefix(req.URL.Path, prefix)
		if !ok {
			http.NotFound(w, req)
			return
		}
		r.Serve(w, req, path)
	})
}

// Serve handles a request whose decoded path below the server's prefix is known: "/livez", or
// "/livez/ping" for a single check. It is for servers that parse the path themselves, so that the
// authorized path is the one that is served.
//
// An endpoint responds with 200 and "ok", or with 500, a line for each check and a summary. With
// ?verbose a passing response lists the checks, too, and the failures of advisory ones as
// warnings. A single check responds with 200 and "ok", or
// 500 and its reason. Unknown endpoints and checks are 404, methods other than GET and HEAD 405,
// and malformed queries 400.
// Source: HEALTH-22, HEALTH-24.
func (r *Registry) Serve(w http.ResponseWriter, req *http.Request, path string) {
	name, check, single := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	endpoint := -1
	for i, e := range endpoints {
		if e.name == name && strings.HasPrefix(path, "/") {
			endpoint = i
		}
	}
	switch {
	case endpoint < 0:
		http.NotFound(w, req)
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	case single:
		r.serveSingle(w, req, endpoint, check)
	default:
		r.serveAll(w, req, endpoint)
	}
}

func (r *Registry) serveSingle(w http.ResponseWriter, req *http.Request, endpoint int, name string) {
	r.mu.RLock()
	p := r.find(endpoint, name)
	r.mu.RUnlock()
	if p == nil {
		http.NotFound(w, req)
		return
	}
	ctx, cancel := context.WithTimeout(req.Context(), r.timeout)
	defer cancel()
	err := p.start(&r.running, r.timeout).wait(ctx)
	r.report(req.Context(), endpoint, p, err)
	if err != nil {
		answer(w, http.StatusInternalServerError, "internal server error: "+oneLine(err.Error())+"\n")
		return
	}
	answer(w, http.StatusOK, "ok")
}

func (r *Registry) serveAll(w http.ResponseWriter, req *http.Request, endpoint int) {
	query, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		// A dropped parameter could be an exclusion that the caller relies on.
		answer(w, http.StatusBadRequest, "unreadable query\n")
		return
	}
	r.mu.RLock()
	probes := r.probes[endpoint] // never changed in place
	r.mu.RUnlock()
	healthy, lines := r.ask(req.Context(), endpoint, probes, query["exclude"])

	name := endpoints[endpoint].name
	switch {
	case !healthy:
		answer(w, http.StatusInternalServerError, lines+name+" check failed\n")
	case query.Has("verbose"):
		answer(w, http.StatusOK, lines+name+" check passed\n")
	default:
		answer(w, http.StatusOK, "ok")
	}
}

// ask runs the checks concurrently, so that one that hangs costs the time-out only once, and
// returns a line for each.
func (r *Registry) ask(ctx context.Context, endpoint int, probes []*probe, exclude []string) (healthy bool, lines string) {
	bounded, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	runs := make([]*run, len(probes))
	for i, p := range probes {
		if !slices.Contains(exclude, p.Name) {
			runs[i] = p.start(&r.running, r.timeout)
		}
	}
	healthy = true
	var b strings.Builder
	for i, p := range probes {
		if runs[i] == nil {
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", p.Name)
			continue
		}
		err := runs[i].wait(bounded)
		r.report(ctx, endpoint, p, err)
		if err != nil && p.Advisory {
			fmt.Fprintf(&b, "[!]%s warning: reason withheld\n", p.Name)
			continue
		}
		if err != nil {
			healthy = false
			fmt.Fprintf(&b, "[-]%s failed: reason withheld\n", p.Name)
			continue
		}
		fmt.Fprintf(&b, "[+]%s ok\n", p.Name)
	}
	if unknown := unmatched(probes, exclude); len(unknown) > 0 {
		fmt.Fprintf(&b, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(unknown, ","))
	}
	return healthy, b.String()
}

// unmatched returns the exclusions that match no check, quoted, each once.
func unmatched(probes []*probe, exclude []string) []string {
	known := make(map[string]bool, len(probes)+len(exclude))
	for _, p := range probes {
		known[p.Name] = true
	}
	var out []string
	for _, name := range exclude {
		if !known[name] {
			known[name] = true
			out = append(out, fmt.Sprintf("%q", name))
		}
	}
	return out
}

// report logs a result that differs from the previous one. A canceled request says nothing about
// the check.
func (r *Registry) report(prober context.Context, endpoint int, p *probe, err error) {
	if errors.Is(err, errNoAnswer) && prober.Err() != nil {
		return
	}
	r.told(p.Name, endpoints[endpoint].name, err == nil)
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	switch {
	case !p.changed(reason):
	case err != nil:
		r.log.Info("health check failed", guard.WithStack(err, "endpoint", endpoints[endpoint].name, "check", p.Name, "reason", reason)...)
	default:
		r.log.Info("health check passes again", "endpoint", endpoints[endpoint].name, "check", p.Name)
	}
}

// answer writes plain text that browsers do not reinterpret and caches do not store.
func answer(w http.ResponseWriter, code int, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache, private")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body)) // the prober may be gone
}
