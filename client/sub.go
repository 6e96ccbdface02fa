package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
)

// Sub reads and writes a subresource that has its own types: requests are a Req, responses an Ans.
// The scale of a kind uses one type for both:
//
//	scales := client.SubOf[Scale, Scale](widgets, "scale")
//	_, err := scales.Patch(ctx, key, client.MergePatch(map[string]any{"spec": map[string]any{"replicas": 3}}))
//
// The server decides which verbs a subresource supports. For the others the error satisfies
// status.IsMethodNotAllowed. For subresources that have the type of the object, such as status,
// prefer the option Subresource: it keeps fields that the Go type does not know.
//
// The methods are safe for concurrent use.
type Sub[Req, Ans any] struct {
	*caller
	name       string
	parameters url.Values // of every call
	wrong      error      // the error of every call, or nil
}

// SubOf returns a client of a subresource of the objects that c reads and writes.
func SubOf[Req, Ans, T any](c *Client[T], name string) *Sub[Req, Ans] {
	s := &Sub[Req, Ans]{caller: &c.caller, name: name, wrong: c.wrong}
	if why := meta.CheckPathSegment(name); s.wrong == nil && (name == "" || why != "") {
		s.wrong = fmt.Errorf("client: %s: %q is not the name of a subresource", c.resource, name)
	}
	return s
}

// With returns a client that adds these parameters to the query of every request, such as the
// number of lines of a log.
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

// Create sends a POST request to the subresource of one object.
func (s *Sub[Req, Ans]) Create(ctx context.Context, key meta.Key, request *Req, opts ...WriteOption) (*Ans, error) {
	return s.write(ctx, http.MethodPost, key, request, opts)
}

// Update replaces the subresource of one object. If the request carries a version and the object
// has changed since, the error satisfies status.IsConflict.
func (s *Sub[Req, Ans]) Update(ctx context.Context, key meta.Key, request *Req, opts ...WriteOption) (*Ans, error) {
	return s.write(ctx, http.MethodPut, key, request, opts)
}

// Patch changes the subresource of one object. The content of an Apply must set kind and apiVersion
// itself.
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

// answer decodes a response.
func (s *Sub[Req, Ans]) answer(data []byte, err error) (*Ans, error) {
	if err != nil {
		return nil, err
	}
	out := new(Ans)
	if err := json.Unmarshal(data, out); err != nil {
		return nil, unusable{fmt.Errorf("client: the response of %s of %s does not fit into %T: %w", s.name, s.resource, out, err)}
	}
	return out, nil
}
