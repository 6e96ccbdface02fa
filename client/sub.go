package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Sub reads and writes a subresource that has a form of its own: requests are a Req, answers an
// Ans. The scale of a kind has one form for both:
//
//	scales := client.SubOf[Scale, Scale](widgets, "scale")
//	_, err := scales.Patch(ctx, key, client.MergePatch(map[string]any{"spec": map[string]any{"replicas": 3}}))
//
// What a subresource understands, of reading and writing, is up to the server: the rest is
// status.IsMethodNotAllowed. For subresources of the form of the object, such as status, the option
// Subresource does more: it keeps fields that the Go type does not know.
//
// The methods are safe for concurrent use.
type Sub[Req, Ans any] struct {
	*caller
	name       string
	parameters url.Values // of every call
	wrong      error      // what every call returns
}

// SubOf returns a client of a subresource of the objects that c reads and writes.
func SubOf[Req, Ans, T any](c *Client[T], name string) *Sub[Req, Ans] {
	s := &Sub[Req, Ans]{caller: &c.caller, name: name, wrong: c.wrong}
	if why := meta.CheckPathSegment(name); s.wrong == nil && (name == "" || why != "") {
		s.wrong = fmt.Errorf("client: %s: %q is not the name of a subresource", c.resource, name)
	}
	return s
}

// With returns a client whose requests have these parameters in their query, where a subresource
// knows some: how many lines of a log, say.
func (s *Sub[Req, Ans]) With(parameters url.Values) *Sub[Req, Ans] {
	out := *s
	out.parameters = parameters
	return &out
}

// Get reads the subresource of one object.
func (s *Sub[Req, Ans]) Get(ctx context.Context, key meta.Key, opts ...ReadOption) (*Ans, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, err
	}
	data, err := s.getAt(ctx, path, key, s.query(url.Values{}), opts)
	return s.answer(data, err)
}

// Create sends a request to the subresource of one object, by POST.
func (s *Sub[Req, Ans]) Create(ctx context.Context, key meta.Key, request *Req, opts ...WriteOption) (*Ans, error) {
	return s.write(ctx, http.MethodPost, key, request, opts)
}

// Update replaces the subresource of one object. A request that carries the version of an object is
// refused when that has changed, as status.IsConflict.
func (s *Sub[Req, Ans]) Update(ctx context.Context, key meta.Key, request *Req, opts ...WriteOption) (*Ans, error) {
	return s.write(ctx, http.MethodPut, key, request, opts)
}

// Patch changes the subresource of one object. What is applied has to say itself what kind it is
// of.
func (s *Sub[Req, Ans]) Patch(ctx context.Context, key meta.Key, p Patch, opts ...WriteOption) (*Ans, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, err
	}
	w := newWrite(opts)
	w.query = s.query(w.query)
	data, err := s.patchAt(ctx, path, key, p, w)
	return s.answer(data, err)
}

func (s *Sub[Req, Ans]) write(ctx context.Context, method string, key meta.Key, request *Req, opts []WriteOption) (*Ans, error) {
	path, err := s.path(key)
	if err != nil {
		return nil, err
	}
	if request == nil {
		return nil, fmt.Errorf("client: %s %q: the request to %s is nil", s.resource, key, s.name)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("client: encode %T: %w", request, err)
	}
	data, err := s.do(ctx, call{method: method, path: path, query: s.query(newWrite(opts).query), body: body})
	return s.answer(data, err)
}

// query adds the parameters to those of a call.
func (s *Sub[Req, Ans]) query(q url.Values) url.Values {
	for name, values := range s.parameters {
		q[name] = append(q[name], values...)
	}
	return q
}

func (s *Sub[Req, Ans]) path(key meta.Key) ([]string, error) {
	if s.wrong != nil {
		return nil, s.wrong
	}
	path, err := s.object(key)
	return append(path, s.name), err
}

// answer reads what the server sent.
func (s *Sub[Req, Ans]) answer(data []byte, err error) (*Ans, error) {
	if err != nil {
		return nil, err
	}
	out := new(Ans)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, unusable{fmt.Errorf("client: the answer of %s of %s does not fit into %T: %w", s.name, s.resource, out, err)}
	}
	return out, nil
}
