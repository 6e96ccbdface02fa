package aggregate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kindwright/kindwright/authn"
)

// question is what a back end is asked for.
type question struct {
	path, tag string
	as        authn.User
	limit     int64 // of bytes
}

// answer is what a back end has said about itself.
type answer struct {
	code int
	body []byte
	tag  string // of the entity; may be empty
}

// fetch asks the back end for a document and gives it to use. It reads at most limit bytes and follows
// no redirect. What is longer than freeBytes waits for a place of room, and has it until use returns.
func (b *backend) fetch(ctx context.Context, q question, room room, use func(*answer) error) error {
	u := &url.URL{Scheme: "https", Host: b.host(), Path: q.path}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if q.tag != "" {
		r.Header.Set("If-None-Match", q.tag)
	}
	if err := identify(r.Header, q.as); err != nil {
		return err
	}
	res, err := b.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // what was not read is not wanted
	if res.StatusCode != http.StatusOK {
		return use(&answer{code: res.StatusCode})
	}
	body, done, err := room.read(ctx, res.Body, q.limit)
	if err != nil {
		return err
	}
	defer done()
	return use(&answer{code: http.StatusOK, body: body, tag: res.Header.Get("Etag")})
}

// badStatus is the error for an answer that is no document.
func (b *backend) badStatus(path string, code int) error {
	return fmt.Errorf("bad status from %s: %d", b.address(path), code)
}

// host is the host of requests to the back end.
func (b *backend) host() string {
	if port := portOf(b.service.Spec.Service); port != defaultPort {
		return b.serverName() + ":" + strconv.Itoa(int(port))
	}
	return b.serverName()
}

// The users under which this server asks for itself. OpenAPI is asked for by a user without groups, as
// kube-aggregator does.
func prober() authn.User {
	return authn.User{Name: "system:kube-aggregator", Groups: []string{authn.GroupMasters}}
}

func reader() authn.User { return authn.User{Name: "system:aggregator"} }

var errNoDocument = errors.New("the answer is no OpenAPI document")
