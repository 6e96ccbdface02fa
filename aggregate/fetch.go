package aggregate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kindwright/kindwright/authn"
)

// answer is what a back end has said about itself.
type answer struct {
	code int
	body []byte
	tag  string // of the entity; may be empty
}

// fetch asks the back end for a document. It reads at most limit bytes and follows no redirect.
func (b *backend) fetch(ctx context.Context, path, tag string, as authn.User, limit int64) (*answer, error) {
	u := &url.URL{Scheme: "https", Host: b.host(), Path: path}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	if err := identify(r.Header, as); err != nil {
		return nil, err
	}
	res, err := b.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }() // what was not read is not wanted
	if res.StatusCode != http.StatusOK {
		return &answer{code: res.StatusCode}, nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("the answer is longer than %d bytes", limit)
	}
	return &answer{code: http.StatusOK, body: body, tag: res.Header.Get("Etag")}, nil
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
