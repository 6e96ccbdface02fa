package interop

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kindwright/kindwright/storage"
)

// call is one call of client-go that writes, with what the caller wanted and was told.
type call struct {
	verb  string
	name  string // "" if the server makes it
	note  string // the annotation that this call adds, and no other; "" for deletions
	seen  string // the resourceVersion that must be replaced; "" if any may be
	uid   types.UID
	label string // what a deletion of many selects

	attempts []*attempt
	from, to storage.Revision // the newest one on record before and after
	err      error
	told     struct { // of a success
		name, version string
		uid           types.UID
		noted         bool
	}
}

func (c *call) String() string {
	return fmt.Sprintf("%s of %q (%s, saw %q, %d attempts)", c.verb, c.name, c.note, c.seen, len(c.attempts))
}

// attempt is one HTTP request of a call. client-go makes several if it repeats one by itself.
type attempt struct {
	*call
	code       int // of the answer; 0 if there was none
	retryAfter string
	unsure     atomic.Bool // the server was told that the outcome is unknown
}

func (a *attempt) String() string {
	return fmt.Sprintf("%v, answered %d, Retry-After %q", a.call, a.code, a.retryAfter)
}

type (
	callKey    struct{}
	attemptKey struct{}
)

// attemptOf returns the attempt that a request on the server belongs to; nil for the server's own
// work.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// attemptHeader names an attempt on its way to the server.
const attemptHeader = "X-Attempt"

// wire is between the clients and a server that may be replaced. It loses requests and answers, and
// records the attempts of each call.
type wire struct {
	to   atomic.Pointer[http.RoundTripper] // nil while there is no server
	calm atomic.Bool                       // loses nothing any more
	lost atomic.Int64

	mu       sync.Mutex // guards the fields below
	dice     *rand.Rand
	attempts []*attempt
}

// Of a thousand requests, so many are lost, and so many answers.
const (
	lostRequests = 10
	lostAnswers  = 20
)

func (w *wire) loses(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm.Load() || w.dice.IntN(1000) >= n {
		return false
	}
	w.lost.Add(1)
	return true
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	to := w.to.Load()
	switch {
	case to == nil:
		return nil, syscall.ECONNREFUSED
	case w.loses(lostRequests):
		return nil, syscall.ECONNRESET
	}
	a := &attempt{}
	if c, ok := r.Context().Value(callKey{}).(*call); ok {
		a.call = c
		c.attempts = append(c.attempts, a)
		r = r.Clone(r.Context())
		r.Header.Set(attemptHeader, w.number(a))
	}
	answer, err := (*to).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.code, a.retryAfter = answer.StatusCode, answer.Header.Get("Retry-After")
	if w.loses(lostAnswers) {
		_ = answer.Body.Close() // nobody reads it
		return nil, io.ErrUnexpectedEOF
	}
	return answer, nil
}

func (w *wire) number(a *attempt) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts = append(w.attempts, a)
	return strconv.Itoa(len(w.attempts) - 1)
}

// handle is the server's side: it puts the attempt into the context of the request.
func (w *wire) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if i, err := strconv.Atoi(r.Header.Get(attemptHeader)); err == nil {
			w.mu.Lock()
			a := w.attempts[i]
			w.mu.Unlock()
			r = r.WithContext(context.WithValue(r.Context(), attemptKey{}, a))
		}
		next.ServeHTTP(rw, r)
	})
}
