package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/tracing"
)

// passage is a request on its way to something in the cluster.
type passage struct {
	to        *url.URL
	transport http.RoundTripper
	upgrade   bool   // the answer must be another protocol
	base      string // of a proxy: the path of the request without what lies below the proxy
}

// credentials are fields of requests that are for this server alone.
var credentials = []string{
	"Authorization", "Cookie", "Proxy-Authorization", "Audit-Id",
	"Impersonate-User", "Impersonate-Uid", "Impersonate-Group",
	"X-Remote-User", "X-Remote-Uid", "X-Remote-Group",
}

// credentialPrefixes begin the names of others.
var credentialPrefixes = []string{"Impersonate-Extra-", "X-Remote-Extra-"}

func withoutCredentials(h http.Header) {
	for _, name := range credentials {
		delete(h, name)
	}
	for name := range h {
		if slices.ContainsFunc(credentialPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			delete(h, name)
		}
	}
}

var errNotUpgraded = errors.New("invalid upgrade response")

// serve sends a request on and the answer back, and joins both connections if they change their protocol.
func (p *passage) serve(w http.ResponseWriter, r *http.Request) error {
	var failed error
	proxy := &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: tracing.Transport{Base: p.transport}, FlushInterval: -1, ModifyResponse: p.inspect,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // the client is told
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			failed = p.failure(r.Context(), err)
		},
	}
	proxy.ServeHTTP(w, r)
	return failed
}

func (p *passage) rewrite(on *httputil.ProxyRequest) {
	withoutCredentials(on.Out.Header)
	if host, _, err := net.SplitHostPort(on.In.RemoteAddr); err == nil {
		on.Out.Header["X-Forwarded-For"] = []string{host}
	}
	if p.base != "" {
		on.Out.Header["X-Forwarded-Uri"] = []string{on.In.URL.Path}
		on.Out.Header["X-Forwarded-Host"] = []string{on.In.Host}
		on.Out.Header["X-Forwarded-Proto"] = []string{"https"}
	}
	if _, ok := on.Out.Header["User-Agent"]; !ok {
		on.Out.Header["User-Agent"] = []string{""} // none, and not that of net/http
	}
	on.Out.URL, on.Out.Host = p.to, p.to.Host
}

// inspect judges an answer before its first byte is sent.
func (p *passage) inspect(res *http.Response) error {
	switch {
	case p.upgrade && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode < http.StatusBadRequest:
		return fmt.Errorf("%w: status code %d", errNotUpgraded, res.StatusCode)
	case p.base == "":
		return nil
	}
	res.Header.Del("Strict-Transport-Security") // this server's own, or none
	if at := res.Header.Get("Location"); at != "" {
		u, err := url.Parse(at)
		if err != nil {
			return fmt.Errorf("error trying to parse Location header %s: %w", at, err)
		}
		res.Header.Set("Location", p.below(u, res.Request.URL.Host))
	}
	return nil
}

// below returns where a redirect of the target leads, by way of the proxy.
func (p *passage) below(u *url.URL, host string) string {
	elsewhere := u.Host != "" && u.Host != host
	if elsewhere || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, p.base+"/") {
		return u.String()
	}
	slash := strings.HasSuffix(u.Path, "/")
	u.Scheme, u.Host, u.RawPath, u.Path = "", "", "", path.Join(p.base, u.Path)
	if slash {
		u.Path += "/"
	}
	return u.String()
}

// failure is the answer to a request that got none.
func (p *passage) failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.Timeout("the request was not answered in time", 0)
	case errors.Is(err, errNotGlobal):
		return status.BadRequest("%s", errNotGlobal.Error())
	case errors.Is(err, errNotUpgraded):
		return told(err.Error())
	case p.upgrade:
		return told("error dialing backend: " + err.Error())
	}
	return status.ServiceUnavailable("error trying to reach service: " + err.Error())
}

// proxied is what the name in the URL of a proxy says: web, web:80 or https:web:443.
type proxied struct{ scheme, name, port string }

func proxiedBy(what, id string) (out proxied, err error) {
	parts := strings.Split(id, ":")
	switch len(parts) {
	case 1:
		out.name = parts[0]
	case 2:
		out.name, out.port = parts[0], parts[1]
	case 3:
		out.scheme, out.name, out.port = parts[0], parts[1], parts[2]
	}
	if out.name == "" || !slices.Contains([]string{"", "http", "https"}, out.scheme) {
		return proxied{}, status.BadRequest("invalid %s request %q", what, id)
	}
	return out, nil
}

// objectOf finds the name of the object in the URL of a proxy.
func objectOf(what string) func(string) (string, error) {
	return func(id string) (string, error) {
		p, err := proxiedBy(what, id)
		return p.name, err
	}
}

// proxy sends a request on to a place that locate knows.
func proxy[T any](r *http.Request, w http.ResponseWriter, call *registry.Call[T], to *url.URL, transport http.RoundTripper) error {
	if to.Scheme == "" {
		to.Scheme = "http"
	}
	full := r.URL.Path
	base := strings.TrimSuffix(strings.TrimSuffix(full, "/"), "/"+strings.Trim(call.Path, "/"))
	if call.Path == "" {
		base = strings.TrimSuffix(full, "/")
	}
	below := strings.TrimPrefix(full, base)
	if below == "" && r.Header.Get("Upgrade") == "" {
		// Relative links of the page would lead beside the proxy.
		u := url.URL{Path: full + "/", RawQuery: r.URL.RawQuery}
		w.Header().Set("Location", u.String())
		w.WriteHeader(http.StatusMovedPermanently)
		return nil
	}
	to.Path, to.RawQuery = below, r.URL.RawQuery
	return (&passage{to: to, transport: transport, base: base}).serve(w, r)
}

// proxyNode sends a request to the kubelet of a node, or to another port of the node.
func (c *cluster) proxyNode(w http.ResponseWriter, r *http.Request, call *registry.Call[corev1.Node], _ *corev1.NodeProxyOptions) error {
	if c.reach == nil {
		return unreachable("node", call.Target.Name)
	}
	p, err := proxiedBy("node", call.Target.Name)
	if err != nil {
		return err
	}
	to, err := c.reach.kubeletOf(call.Object)
	if err != nil {
		return err
	}
	if a, err := netip.ParseAddr(to.Hostname()); err == nil && !isGlobal(a) {
		return status.BadRequest("%s", errNotGlobal.Error())
	}
	if p.port == "" || p.port == to.Port() {
		return proxy(r, w, call, to, c.reach.nodes)
	}
	to.Scheme, to.Host = p.scheme, net.JoinHostPort(to.Hostname(), p.port)
	return proxy(r, w, call, to, c.reach.others)
}

// proxyPod sends a request to a port of a pod, by default the first that it names.
func (c *cluster) proxyPod(w http.ResponseWriter, r *http.Request, call *registry.Call[corev1.Pod], _ *corev1.PodProxyOptions) error {
	if c.reach == nil {
		return noKubelet(call.Object, "a port of")
	}
	p, err := proxiedBy("pod", call.Target.Name)
	if err != nil {
		return err
	}
	for i := range call.Object.Spec.Containers {
		if ports := call.Object.Spec.Containers[i].Ports; p.port == "" && len(ports) > 0 {
			p.port = strconv.Itoa(int(ports[0].ContainerPort))
		}
	}
	var ip string
	if ips := call.Object.Status.PodIPs; len(ips) > 0 {
		ip = ips[0].IP
	}
	if a, err := netip.ParseAddr(ip); err != nil || !isGlobal(a) {
		return status.BadRequest("%s", errNotGlobal.Error())
	}
	host := ip
	switch {
	case p.port != "":
		host = net.JoinHostPort(ip, p.port)
	case strings.Contains(ip, ":"):
		host = "[" + ip + "]"
	}
	return proxy(r, w, call, &url.URL{Scheme: p.scheme, Host: host}, c.reach.others)
}

// proxyService sends a request to a pod that is an endpoint of a service.
func (c *cluster) proxyService(w http.ResponseWriter, r *http.Request, call *registry.Call[corev1.Service], _ *corev1.ServiceProxyOptions) error {
	if c.reach == nil {
		return unreachable("service", call.Target.Name)
	}
	p, err := proxiedBy("service", call.Target.Name)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(p.port, 10, 64); err == nil {
		at := slices.IndexFunc(call.Object.Spec.Ports, func(s corev1.ServicePort) bool { return int64(s.Port) == n })
		if at < 0 {
			return status.ServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", n, p.name))
		}
		p.port = call.Object.Spec.Ports[at].Name
	}
	host, err := endpointOf(r.Context(), call.Object, p.port)
	if err != nil {
		return err
	}
	return proxy(r, w, call, &url.URL{Scheme: p.scheme, Host: host}, c.reach.others)
}

// endpointOf returns the address of a pod behind a service, for the port of a name. Addresses that are not
// those of a pod are not used: whoever writes endpoints would say where the server connects to.
func endpointOf(ctx context.Context, s *corev1.Service, port string) (string, error) {
	e, err := registry.For[corev1.Endpoints](ctx).AsSystem().Get(ctx, s.Namespace, s.Name) //nolint:staticcheck // what kube-apiserver reads
	if err != nil {
		return "", err
	}
	for _, i := range rand.Perm(len(e.Subsets)) {
		set := &e.Subsets[i]
		at := slices.IndexFunc(set.Ports, func(p corev1.EndpointPort) bool { return p.Name == port })
		if at < 0 {
			continue
		}
		for _, j := range rand.Perm(len(set.Addresses)) {
			if isOfPod(ctx, s.Namespace, &set.Addresses[j]) {
				return net.JoinHostPort(set.Addresses[j].IP, strconv.Itoa(int(set.Ports[at].Port))), nil
			}
		}
	}
	return "", status.ServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", s.Name))
}

func isOfPod(ctx context.Context, namespace string, a *corev1.EndpointAddress) bool {
	if a.TargetRef == nil || a.TargetRef.Namespace != namespace {
		return false
	}
	p, err := registry.For[corev1.Pod](ctx).AsSystem().Get(ctx, namespace, a.TargetRef.Name)
	return err == nil && slices.ContainsFunc(p.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == a.IP })
}
