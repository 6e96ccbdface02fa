package kindwright

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// Recheck asks at once whether the clients of all open watches and connections may still have them,
// and ends in order those that may not. A program calls it after it has revoked something: a token,
// an authority, a role. Without it, the streams end within Access.RecheckEvery.
//
// A client whose credential cannot be checked at this moment loses its stream too. It comes back
// and is told why.
func (s *Server) Recheck() {
	for _, one := range s.standings.all() {
		one.check(true)
	}
}

// judge asks again who sends a request and whether they may. The error is the answer to a request
// that may not be served: 401, 403, or that of authz.Failure.
func (s *Server) judge(ctx context.Context, x *request.Exchange) error {
	before := x.User.Load()
	now, err := identify(s.authenticator, x.Claim.WithContext(ctx))
	if err == nil && (now.Name != before.Name || now.UID != before.UID) {
		err = errors.New("the credential stands for another user")
	}
	if err != nil {
		s.cfg.log.V(1).Info("a running request is no longer authenticated", "auditID", x.ID, "user", before.Name, "reason", err.Error())
		return status.Unauthorized()
	}
	a := attributesOf(x.Info.Load())
	if as := x.Impersonation.Load(); as != nil {
		if as.Sender.Name != before.Name {
			now = as.Sender // whom a middleware has named instead
		}
		id, err := s.impersonation(s.authorizer).As(ctx, now, as.Wanted, a)
		if err != nil {
			return err
		}
		now = id.User
	}
	if u, ok := authn.UserFrom(ctx); ok && u.Name != before.Name {
		now = u // whom a middleware has named instead
	}
	a.User = now
	return authz.Require(ctx, s.authorizer, a)
}

// identify is authn.Identify for an authenticator that may panic.
func identify(a authn.Authenticator, r *http.Request) (u authn.User, err error) {
	defer guard.Recover(&err, "authenticator")
	return authn.Identify(a, r)
}

// standings are the open streams, whose clients are judged again while they last.
type standings struct {
	every time.Duration // negative: never
	judge func(context.Context, *request.Exchange) error
	log   logr.Logger

	mu   sync.Mutex
	open map[*standing]struct{}
}

// One question about a stream has at most judgeTimeout, and less if the streams have to end sooner.
const (
	judgeTimeout    = 10 * time.Second
	minJudgeTimeout = time.Second
)

// standing is the right of a client to have one stream.
type standing struct {
	of     *standings
	x      *request.Exchange
	ctx    context.Context //nolint:containedctx // the context of a stream, which ends with the client's right to it
	cancel context.CancelFunc

	mu    sync.Mutex // held while the client is judged, so that leave waits for that
	timer *time.Timer
	doubt bool // the latest question had no answer
	over  bool
}

// enter begins a stream. The context is done when the stream has to end. The caller must call leave
// when it has ended.
func (l *standings) enter(ctx context.Context, x *request.Exchange) (ended context.Context, leave func()) {
	s := &standing{of: l, x: x}
	s.ctx, s.cancel = context.WithCancel(ctx)
	l.mu.Lock()
	if l.open == nil {
		l.open = map[*standing]struct{}{}
	}
	l.open[s] = struct{}{}
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait(7 * l.part())
	return s.ctx, s.leave
}

// part is a twelfth of the time within which a stream ends. A client whose right is lost just after it
// was judged waits seven parts for the next question, which takes one if nobody answers. Two parts
// later it is judged for the last time, which takes one more, and one is left for the last words of the
// handler of a connection.
func (l *standings) part() time.Duration { return l.every / 12 }

// patience is how long one question may take.
func (l *standings) patience() time.Duration {
	if l.every < 0 {
		return judgeTimeout // only Recheck asks
	}
	return min(max(l.part(), minJudgeTimeout), judgeTimeout)
}

func (l *standings) all() []*standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]*standing, 0, len(l.open))
	for s := range l.open {
		list = append(list, s)
	}
	return list
}

// wait sets the timer for the next question, after at most d, which the client's credential may bring
// forward. Streams that began together are not all judged at once.
func (s *standing) wait(d time.Duration) {
	next := time.Duration(-1)
	if d > 0 {
		next = d - rand.N(d/4+1)
	}
	if u := s.x.User.Load(); u != nil && !u.Expires.IsZero() {
		if left := max(time.Until(u.Expires)+time.Nanosecond, 0); next < 0 || left < next {
			next = left
		}
	}
	if next < 0 {
		return
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(next, func() { s.check(false) })
	} else {
		s.timer.Reset(next)
	}
}

// check judges the client and ends its stream if it may no longer have it. A question that has no
// answer is asked again soon, and the stream ends if there is still none; at once, if final is set.
func (s *standing) check(final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	err := s.ask()
	reason := status.ReasonOf(err)
	switch {
	case err == nil:
		s.doubt = false
		s.wait(7 * s.of.part())
	case final || s.doubt || reason == meta.ReasonForbidden || s.x.User.Load().Expired(time.Now()):
		s.of.log.V(1).Info("a stream ends because its client may no longer have it", "auditID", s.x.ID, "reason", string(reason))
		s.over = true
		s.cancel()
	default:
		s.doubt = true
		s.wait(2 * s.of.part())
	}
}

// ask returns why the client may not have the stream, or nil.
func (s *standing) ask() (err error) {
	if s.x.User.Load().Expired(time.Now()) {
		return status.Unauthorized()
	}
	defer guard.Recover(&err, "authorizer")
	ctx, cancel := context.WithTimeout(s.ctx, s.of.patience())
	defer cancel()
	if err := s.of.judge(ctx, s.x); err != nil {
		return fmt.Errorf("judge a stream: %w", err)
	}
	return nil
}

// leave ends the standing. It waits for a question that is being asked.
func (s *standing) leave() {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
}
