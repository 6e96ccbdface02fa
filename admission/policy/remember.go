package policy

import (
	"context"

	"github.com/kindwright/kindwright/admission"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// remembering is a server that is asked about an object once for each request. All policies about a
// write have the same namespace, and many have the same parameters; where other processes write to
// the store, each answer is a question to the store. So one write is judged by one state of them.
// It belongs to one goroutine.
type remembering struct {
	admission.Server
	objects map[objectName]remembered[map[string]any]
	labels  map[objectName]remembered[meta.LabelSet]
}

type objectName struct {
	of              meta.GroupVersionResource
	namespace, name string
}

// remembered is an answer. Its error says that there is no such object.
type remembered[T any] struct {
	value T
	err   error
}

// rememberingFor returns a request whose server remembers.
func rememberingFor(r *admission.Request) *admission.Request {
	if r.Server == nil {
		return r
	}
	own := *r
	own.Server = &remembering{Server: r.Server}
	return &own
}

// Get returns an object.
func (s *remembering) Get(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (map[string]any, error) {
	return remember(&s.objects, objectName{of, namespace, name}, func() (map[string]any, error) {
		return s.Server.Get(ctx, of, namespace, name)
	})
}

// Labels returns the labels of an object.
func (s *remembering) Labels(ctx context.Context, of meta.GroupVersionResource, namespace, name string) (meta.LabelSet, error) {
	return remember(&s.labels, objectName{of, namespace, name}, func() (meta.LabelSet, error) {
		return s.Server.Labels(ctx, of, namespace, name)
	})
}

func remember[T any](known *map[objectName]remembered[T], of objectName, ask func() (T, error)) (T, error) {
	if have, ok := (*known)[of]; ok {
		return have.value, have.err
	}
	value, err := ask()
	if err == nil || status.IsNotFound(err) {
		if *known == nil {
			*known = map[objectName]remembered[T]{}
		}
		(*known)[of] = remembered[T]{value, err}
	}
	return value, err
}
