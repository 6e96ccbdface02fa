package aggregate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/flow"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// backend is another server that answers for one group version. One goroutine asks it for what the
// documents say and whether it is there. Requests of clients are sent on by ServeHTTP.
type backend struct {
	of      *Aggregator
	service *APIService // as it was when the work began; only its spec and its identity count
	cancel  context.CancelFunc
	proxy   *httputil.ReverseProxy
	places  *flow.Limiter // of requests that wait for an answer

	connections atomic.Pointer[connections] // nil before the first request
	shared      atomic.Int64                // connections over HTTP/2
	now         atomic.Pointer[view]
	again       chan struct{} // asks for a probe before its time
	openapi     documents
	listed      int64 // resources that count among those of all back ends; of run
	endpoints   endpoints
}

// view is what is known of a back end. It does not change; a change is another view.
type view struct {
	available bool
	reason    string
	resources []resource
	schema    []byte               // its OpenAPI v3 document; nil if there is none
	swagger   *openapi.SwaggerPart // of its OpenAPI v2 document; nil if there is none
}

// The waits between two questions to a back end that does not answer.
const (
	shortestWait = time.Second
	maxMessage   = 1024
)

// begin starts the work for an object, or leaves it to run at the start of the server. before is what
// was known of the same server until now, nil if nothing was. The caller holds mu.
func (a *Aggregator) begin(s *APIService, before *view) *backend {
	b := &backend{of: a, service: s, again: make(chan struct{}, 1), cancel: func() {}, places: a.newPlaces()}
	first := view{available: true} // until the first probe, requests are tried
	if before != nil {
		first.resources, first.schema, first.swagger = before.resources, before.schema, before.swagger
	}
	b.now.Store(&first)
	b.proxy = b.newProxy()
	if a.ctx != nil {
		b.work(a.ctx)
	}
	return b
}

// work asks the back end in the background until ctx ends or somebody cancels. The caller holds mu of
// the Aggregator.
func (b *backend) work(ctx context.Context) {
	ctx, b.cancel = context.WithCancel(ctx)
	b.of.workers.Go(func() { b.run(ctx) })
}

// run asks the back end until ctx ends.
func (b *backend) run(ctx context.Context) {
	defer func() {
		if c, err := b.connected(); err == nil {
			c.retire() // a request that has found the back end before may still come
		}
		b.of.kept.Add(-b.openapi.size)
		b.of.listed.Add(-b.listed)
	}()
	wait, passed := shortestWait, false
	for ctx.Err() == nil {
		next := *b.now.Load()
		resources, err := b.check(ctx)
		if ctx.Err() != nil {
			return
		}
		every := b.of.cfg.ProbeEvery
		if errors.Is(err, errBusy) { // nothing is known that was not known before
			b.wait(ctx, min(wait, every))
			wait = min(2*wait, every)
			continue
		}
		if err == nil {
			err = b.list(resources)
		}
		c := conditionOf(err)
		if next.available = err == nil; next.available {
			next.resources = resources
		}
		if next.available || next.reason != c.Reason { // what changes may soon change again
			wait = shortestWait
		}
		next.reason = c.Reason
		b.show(next)
		if passed && !next.available {
			b.of.counts.Lost(b.service.Name, c.Reason)
		}
		passed = next.available
		b.of.store(ctx, b.service.Name, b.service.UID, c)
		if !next.available {
			every, wait = min(wait, every), min(2*wait, every)
		} else if due := time.Until(b.openapi.due); due <= 0 {
			b.readDocuments(ctx, next)
			every = min(every, b.openapi.wait)
		} else {
			every = min(every, due)
		}
		if next.available {
			b.wait(ctx, every)
		} else {
			b.waitForService(ctx, every, err)
		}
	}
}

// waitForService is wait for a back end that failed its check. While its service is not there or has no endpoints, it
// looks for that each second, which takes no question to anybody else: whoever installs a server waits for it.
func (b *backend) waitForService(ctx context.Context, d time.Duration, failure error) {
	was, ok := errors.AsType[*Problem](failure)
	for ok && d > shortestWait {
		if pause.For(ctx, shortestWait) != nil {
			return
		}
		d -= shortestWait
		short, cancel := context.WithTimeout(ctx, b.of.cfg.Timeout)
		_, err := b.resolve(short)
		cancel()
		if now, same := errors.AsType[*Problem](err); !same || now.Reason != was.Reason {
			return
		}
	}
	b.wait(ctx, d)
}

// list counts what a back end has described among what all have, in place of what it has described before. A
// short description does not count: it is bounded by the number of back ends.
func (b *backend) list(resources []resource) error {
	n := int64(len(resources))
	for i := range resources {
		n += int64(len(resources[i].Subresources))
	}
	if n <= fewResources {
		n = 0
	}
	if more := n - b.listed; b.of.listed.Add(more) > maxListed && more > 0 {
		b.of.listed.Add(-more)
		return errListed
	}
	b.listed = n
	return nil
}

var errListed = fmt.Errorf("the long descriptions of all back ends have more than %d resources", maxListed)

// wait returns after a time, or when somebody has found that the back end does not answer. It does not
// return at once: a back end that passes its check and answers nothing else would be asked without end.
func (b *backend) wait(ctx context.Context, d time.Duration) {
	if pause.For(ctx, min(d, shortestWait)) != nil || d <= shortestWait {
		return
	}
	timer := time.NewTimer(d - shortestWait)
	defer timer.Stop()
	select {
	case <-b.again:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// hurry asks for a probe soon.
func (b *backend) hurry() {
	select {
	case b.again <- struct{}{}:
	default:
	}
}

// show exchanges the view if it says something else than the present one.
func (b *backend) show(next view) {
	have := b.now.Load()
	if have.available == next.available && have.reason == next.reason && sameResources(have.resources, next.resources) &&
		string(have.schema) == string(next.schema) && have.swagger == next.swagger {
		return
	}
	b.now.Store(&next)
	b.of.generation.Add(1)
}

// Problem is why a back end cannot be asked, in the words of the condition Available. A Resolver may
// return one.
type Problem struct {
	Reason, Message string
	Unknown         bool // the condition is Unknown and not False
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

func conditionOf(err error) APIServiceCondition {
	if err == nil {
		return APIServiceCondition{Type: Available, Status: "True", Reason: "Passed", Message: "all checks passed"}
	}
	c := APIServiceCondition{Type: Available, Status: "False", Reason: "FailedDiscoveryCheck", Message: clip.Text(err.Error(), maxMessage)}
	if p, ok := errors.AsType[*Problem](err); ok {
		c.Reason, c.Message = p.Reason, clip.Text(p.Message, maxMessage)
		if p.Unknown {
			c.Status = "Unknown"
		}
	}
	return c
}

// probes is how many questions are asked at once: a service may have servers of which some are there.
const probes = 5

// check asks whether the back end is there and what it serves. The error says why not.
func (b *backend) check(ctx context.Context) ([]resource, error) {
	ctx, cancel := context.WithTimeout(ctx, b.of.cfg.Timeout)
	defer cancel()
	if err := b.reconnect(ctx); err != nil {
		return nil, err
	}
	type answer struct {
		resources []resource
		err       error
	}
	answers := make(chan answer, probes)
	for range probes {
		go func() {
			resources, err := b.readResources(ctx)
			answers <- answer{resources, err}
		}()
	}
	var last error
	for range probes {
		one := <-answers // each is bounded by ctx
		if one.err == nil {
			return one.resources, nil
		}
		if _, lies := errors.AsType[*tooLong](one.err); lies {
			cancel() // the others have no need to read as much
		}
		if last == nil || !errors.Is(one.err, context.Canceled) && !errors.Is(one.err, errBusy) {
			last = one.err
		}
	}
	return nil, fmt.Errorf("failing or missing response from %s: %w", b.address(documentPath(b.service.groupVersion())), last)
}

// documentPath is where a server describes the resources of a group version.
func documentPath(gv meta.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// ServeHTTP sends a request on.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.serve(w, r) }
