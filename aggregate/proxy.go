package aggregate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// retrySeconds is when clients ask again for what is not available.
const retrySeconds = 1

// buffers are what answers are copied with.
type buffers struct{ pool sync.Pool }

const bufferBytes = 32 << 10

// Get returns a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return p[:]
	}
	return new([bufferBytes]byte)[:]
}

// Put takes a buffer back.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferBytes]byte)(p)) }

// newProxy makes what sends requests on. It flushes answers without a length, such as watches, with
// each part that arrives.
func (b *backend) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: b.rewrite, Transport: b, BufferPool: &b.of.buffers, ModifyResponse: b.inspect, ErrorHandler: b.fail,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // the client is told
	}
}

// Streams reports whether a request for a back end may last as long as it likes: a watch, a subresource
// that streams, or another protocol for a subresource. Whoever only names a protocol, or asks for one
// where objects are, sends an ordinary request: the back end answers it as one.
func (a *Aggregator) Streams(info *request.Info, r *http.Request) bool {
	return info.Verb == request.VerbWatch ||
		slices.Contains([]string{"attach", "exec", "log", "portforward", "proxy"}, info.Subresource) ||
		!slices.Contains([]string{"", "status", "scale"}, info.Subresource) && request.AsksUpgrade(r)
}

// serve sends a request on, unless the back end is known not to answer or the user cannot be named.
func (b *backend) serve(w http.ResponseWriter, r *http.Request) {
	if v := b.now.Load(); !v.available {
		b.hurry() // it may be back
		negotiate.WriteError(w, r, b.known(r, v.reason))
		return
	}
	if b.circles(r) {
		b.hurry()
		negotiate.WriteError(w, r, b.unavailable("").WithCode(http.StatusLoopDetected).WithMessage(
			"the APIService "+b.service.Name+" leads back to this server"))
		return
	}
	u, ok := authn.UserFrom(r.Context())
	if !ok {
		negotiate.WriteError(w, r, status.Internal(errors.New("a request without a user was about to be sent on")))
		return
	}
	identity := http.Header{}
	if err := identify(identity, u); err != nil {
		negotiate.WriteError(w, r, status.Forbidden(meta.GroupResource{}, "", "").WithMessage(err.Error()))
		return
	}
	x := request.ExchangeFrom(r.Context())
	leave, ok := b.enter(r.Context(), r, x, &u)
	if !ok {
		negotiate.Linger(w, r)
		negotiate.WriteError(w, r, status.TooManyRequests("too many requests wait for the server behind the APIService "+
			b.service.Name+", please try again later", retrySeconds))
		return
	}
	defer leave()
	if x.Ended != nil {
		r = r.WithContext(x.Ended)
	}
	if isDocument(x) {
		ctx, cancel := context.WithTimeout(r.Context(), b.of.cfg.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	b.proxy.ServeHTTP(w, r.WithContext(passing{r.Context(), &passage{context: r.Context(), exchange: x, identity: identity}}))
}

// known answers a request for a back end that is known not to answer. Clients read the documents of all groups
// before they do anything: with Retry-After, client-go would ask for these ten times, a second apart, and
// every command of a kubectl without aggregated discovery would wait for a group that it does not use.
func (b *backend) known(r *http.Request, reason string) *status.Error {
	err := b.unavailable(reason)
	if isDocument(request.ExchangeFrom(r.Context())) {
		return err
	}
	return err.WithRetryAfter(retrySeconds)
}

// isDocument reports whether a request is for the description of the group version. It has the time of a
// check, as in Kubernetes, because clients ask for all of them before they do anything.
func isDocument(x *request.Exchange) bool {
	if x == nil {
		return false
	}
	info := x.Info.Load()
	return info != nil && !info.IsResource
}

// circles reports whether this server, or another with its client certificate, has sent a request on
// already. To send it on again would be the same once more, until all requests in flight are this one.
func (b *backend) circles(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	c, err := b.connected()
	if err != nil {
		return false // nothing is sent
	}
	own := c.certificate
	return own != nil && len(own.Certificate) > 0 &&
		bytes.Equal(r.TLS.PeerCertificates[0].Raw, own.Certificate[0])
}

// passage is what is known about a request on its way.
type passage struct {
	context  context.Context //nolint:containedctx // of the request, before the proxy adds to it
	exchange *request.Exchange
	identity http.Header
}

// passing is the context of a request on its way.
type passing struct {
	context.Context
	passage *passage
}

type passageKey struct{}

// Value returns the passage.
func (p passing) Value(key any) any {
	if _, ok := key.(passageKey); ok {
		return p.passage
	}
	return p.Context.Value(key)
}

// rewrite addresses a request to the back end and names the user.
func (b *backend) rewrite(p *httputil.ProxyRequest) {
	on, _ := p.In.Context().Value(passageKey{}).(*passage)
	strip(p.Out.Header)
	for name, values := range on.identity {
		p.Out.Header[name] = values
	}
	p.Out.Header["Audit-Id"] = []string{on.exchange.ID}
	if host, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		p.Out.Header["X-Forwarded-For"] = []string{host}
	}
	if _, ok := p.Out.Header["User-Agent"]; !ok {
		p.Out.Header["User-Agent"] = []string{""} // none, and not that of net/http
	}
	u := p.Out.URL
	u.Scheme, u.Host = "https", b.host()
	u.Path, u.RawPath = on.exchange.Info.Load().Path, "" // what was authorized, without the prefix of this server
	p.Out.Host = u.Host
	p.Out.Trailer = nil // announced names of fields after the body, which this server does not pass on
	if p.Out.Body == nil && !reads(p.Out.Method) && len(p.Out.Header["Upgrade"]) == 0 {
		p.Out.Body = once{}
	}
}

func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// once is the empty body of a write. net/http sends a request without a body again after an error of
// the protocol, when the back end may have carried it out. With a body it does not.
type once struct{}

// Read returns the end of the body.
func (once) Read([]byte) (int, error) { return 0, io.EOF }

// Close does nothing.
func (once) Close() error { return nil }

// notTheirs are fields of answers that end at this server: it has set its own, or they tell a browser
// something about the origin, which is this server and not the back end.
var notTheirs = [...]string{
	"Audit-Id", "Cache-Control", "X-Content-Type-Options", "X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid",
	"Set-Cookie", "Strict-Transport-Security", "Alt-Svc", "Clear-Site-Data",
	"Service-Worker-Allowed", "Refresh", "Nel", "Report-To", "Reporting-Endpoints",
	"Accept-Ch", "Expect-Ct", "Origin-Agent-Cluster", "Public-Key-Pins", "Speculation-Rules",
	"Www-Authenticate", "Proxy-Authenticate", "Authentication-Info", // a browser would ask for a password of ours
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Headers",
	"Access-Control-Allow-Methods", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
}

// isolated lets a browser show a page of a back end as one of no origin. Its scripts do not run: they
// would act at this server with the client certificate of whoever looks at the page.
const isolated = "sandbox; default-src 'none'; frame-ancestors 'none'"

// inspect judges an answer before its first byte is sent.
func (b *backend) inspect(res *http.Response) error {
	switch code := res.StatusCode; {
	case code == http.StatusSwitchingProtocols:
		// The proxy of the standard library looks, too, but then leaves the connection open.
		if asked := res.Request.Header.Get("Upgrade"); asked == "" || !strings.EqualFold(asked, res.Header.Get("Upgrade")) {
			return errSwitch
		}
	case code == http.StatusNotModified:
	case code/100 == 3:
		return errRedirect
	case code < http.StatusOK || code > maxCode:
		return errCode
	}
	for _, name := range notTheirs {
		delete(res.Header, name)
	}
	res.Header["Content-Security-Policy"] = []string{isolated}
	return nil
}

// maxCode is the largest code that HTTP has.
const maxCode = 599

var (
	errRedirect = errors.New("the backend attempted to redirect this request, which is not permitted")
	errSwitch   = errors.New("the backend switched to a protocol that was not asked for")
	errCode     = errors.New("the backend answered with a code that HTTP does not have")
)

// fail answers a request that got no answer. The log has the reason.
func (b *backend) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil || errors.Is(err, context.DeadlineExceeded) {
		b.of.engine.Logger().V(1).Info("a request could not be sent to a back end", "apiservice", b.service.Name, "reason", err.Error())
	}
	negotiate.WriteError(w, r, b.failure(r, err))
}

// failure is the answer to a request that got none. Clients repeat whatever is answered with
// Retry-After, writes too, so it is there only if the back end cannot have seen the request, or if the
// request changes nothing.
func (b *backend) failure(r *http.Request, err error) *status.Error {
	_, unsent := errors.AsType[*unreachable](err)
	unsent = unsent || notLookedAt(err)
	switch x := request.ExchangeFrom(r.Context()); {
	case isEnded(x) && x.Info.Load().Verb == request.VerbWatch:
		return status.TooManyRequests("the watch has ended before it began, please try again", retrySeconds)
	case errors.Is(err, errRedirect) || errors.Is(err, errCode) || errors.Is(err, errSwitch):
		return b.unavailable("").WithCode(http.StatusBadGateway).WithMessage(err.Error())
	case unsent:
		b.hurry()
		return b.unavailable("").WithRetryAfter(retrySeconds)
	case errors.Is(err, context.DeadlineExceeded) || r.Context().Err() != nil:
		if errors.Is(err, context.DeadlineExceeded) && isDocument(request.ExchangeFrom(r.Context())) {
			b.hurry() // it fails its check, too
		}
		return status.Timeout("the server behind "+b.service.Name+" has not answered in time", 0)
	case reads(r.Method):
		b.hurry()
		return b.unavailable("").WithRetryAfter(retrySeconds)
	}
	b.hurry()
	return status.Timeout("the server behind "+b.service.Name+" has broken the request off; it may have carried it out", 0)
}

// notLookedAt reports whether a back end has said of a request that it has not looked at it: it goes
// away, or has too much to do. net/http repeats such requests itself unless they have a body, which it
// has not kept. Its errors have no type, so their texts count. If those change, a write is 504 again,
// and nothing is sent twice.
func notLookedAt(err error) bool {
	said := err.Error()
	return strings.Contains(said, "received Server's graceful shutdown GOAWAY") || strings.Contains(said, "REFUSED_STREAM")
}

func (b *backend) unavailable(reason string) *status.Error {
	why := fmt.Sprintf("service unavailable: the server behind the APIService %s does not answer", b.service.Name)
	if reason != "" {
		why += " (" + reason + ")"
	}
	return status.ServiceUnavailable(why)
}
