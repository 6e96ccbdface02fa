package registry

import (
	"context"
	"fmt"
	"io"

	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/typed"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// NoOptions is for endpoints without parameters of their own in the query.
type NoOptions struct{}

// Query is a subresource that answers a question about an object T: GET of `widgets/report`. The answer A is a document of
// its own, written as JSON, YAML or, where its Go type has protobuf tags, protobuf. O is a struct of the parameters that the
// query of the URL can have, by their JSON names: strings, booleans, whole numbers, pointers to them, and lists of strings. They
// are defaulted and validated by the tags of O, as objects are. Parameters that O does not know are ignored.
type Query[T, O, A any] struct {
	Name string                // the path segment
	Kind meta.GroupVersionKind // of A; default: the Go type's name, in the group and version of the kind

	// Run finds the answer. Errors are sent as those of other hooks are.
	Run func(ctx context.Context, call *Call[T], options *O) (*A, error)
}

// Describe makes the query a Subresource.
func (q Query[T, O, A]) Describe(of *Resource, env Env) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource %q: %w", q.Name, err)
	}
	if err := checkObject[T](q.Name, of); err != nil {
		return Subresource{}, err
	}
	if q.Run == nil {
		return fail(errNoFunction("Run"))
	}
	answer, err := describeDocument[A](q.Kind, of, env)
	if err != nil {
		return fail(err)
	}
	options, err := describeOptions[O](meta.GroupVersionKind{}, of)
	if err != nil {
		return fail(err)
	}
	run := func(ctx context.Context, in *Call[Tree], sent Tree) (Tree, error) {
		call, o, err := callWith[T, O](in, sent)
		if err != nil {
			return nil, err
		}
		out, err := q.Run(ctx, call, o)
		switch {
		case err != nil:
			return nil, err
		case out == nil:
			return nil, status.Internal(fmt.Errorf("subresource %q answered nothing", q.Name))
		}
		return typed.Encode(out)
	}
	return Subresource{Name: q.Name, Verbs: []string{"get"}, Handlers: map[string]*Handler{"get": {Answer: answer, Options: options, Run: run}}}, nil
}

// callWith makes a typed call and its typed options.
func callWith[T, O any](in *Call[Tree], sent Tree) (*Call[T], *O, error) {
	call, err := callOf[T](in)
	if err != nil {
		return nil, nil, err
	}
	o, err := typed.Decode[O](sent)
	if err != nil {
		return nil, nil, status.Internal(err)
	}
	return call, o, nil
}

// Stream is a subresource whose GET answers with text, or other bytes, rather than a document: the
// log of a pod. The answer may go on for as long as the client reads; the time-out of requests does
// not count, and the context ends with the client, and with the server. O is as for Query.
// Source: MODEL-08.
type Stream[T, O any] struct {
	Name      string // the path segment
	MediaType string // of the answer; default "text/plain"

	// Open begins. What it returns is sent as it is read, each read at once, until io.EOF; then it is closed. Reading waits while
	// the client does not take what is sent, and a client that takes nothing for some seconds loses its stream. An error of Open is sent
	// as those of other hooks are; an error of a later read can only break the answer off. Writing makes a stream of a function
	// that writes it.
	Open func(ctx context.Context, call *Call[T], options *O) (io.ReadCloser, error)
}

// Describe makes the stream a Subresource.
func (s Stream[T, O]) Describe(of *Resource, env Env) (Subresource, error) {
	fail := func(err error) (Subresource, error) {
		return Subresource{}, fmt.Errorf("subresource %q: %w", s.Name, err)
	}
	if err := checkObject[T](s.Name, of); err != nil {
		return Subresource{}, err
	}
	if s.Open == nil {
		return fail(errNoFunction("Open"))
	}
	options, err := describeOptions[O](meta.GroupVersionKind{}, of)
	if err != nil {
		return fail(err)
	}
	out := &Handler{MediaType: s.MediaType, Options: options, Open: func(ctx context.Context, in *Call[Tree], sent Tree) (io.ReadCloser, error) {
		call, o, err := callWith[T, O](in, sent)
		if err != nil {
			return nil, err
		}
		return s.Open(ctx, call, o)
	}}
	if out.MediaType == "" {
		out.MediaType = "text/plain"
	}
	return Subresource{Name: s.Name, Verbs: []string{"get"}, Handlers: map[string]*Handler{"get": out}}, nil
}

// Writing makes a stream of a function that writes it. Each write waits until the client has taken it; its error, or the end of the
// stream, says that nobody reads any more. The function runs on a goroutine of its own, which Close waits for.
func Writing(ctx context.Context, write func(ctx context.Context, w io.Writer) error) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	out := &writing{PipeReader: r, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(out.done)
		_ = w.CloseWithError(runWrite(ctx, w, write))
	}()
	return out
}

// runWrite calls write; a panic in it is an error, as no chain of handlers stands around its goroutine.
func runWrite(ctx context.Context, w io.Writer, write func(context.Context, io.Writer) error) (err error) {
	defer guard.Recover(&err, "the function that writes")
	return write(ctx, w)
}

type writing struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close ends the function and waits for it.
func (w *writing) Close() error {
	w.cancel()
	err := w.PipeReader.Close()
	<-w.done
	return err
}
