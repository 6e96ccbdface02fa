package rest

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/protobuf"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/watch"
)

// messages knows the documents that every kind shares, in their protobuf form. Each is described when it is first needed:
// many a server, of a test above all, never is asked for protobuf.
type messages struct {
	status, partial, deleteOptions func() *protobuf.Descriptor

	turns chan struct{} // of those who encode a long segment of a list
}

func describeMessages() messages {
	return messages{
		status:        sync.OnceValue(mustDescribe[meta.Status]),
		partial:       sync.OnceValue(mustDescribe[meta.PartialObjectMetadata]),
		deleteOptions: sync.OnceValue(describeDeleteOptions),
		turns:         make(chan struct{}, runtime.GOMAXPROCS(0)),
	}
}

// describeDeleteOptions is exact: a deletion that loses an option deletes more than was meant (S2).
func describeDeleteOptions() *protobuf.Descriptor {
	d := mustDescribe[meta.DeleteOptions]()
	d.Exact = true
	return d
}

// mustDescribe is for types of our own, whose tags do not change at run time.
func mustDescribe[T any]() *protobuf.Descriptor {
	d, ok, err := protobuf.Describe(reflect.TypeFor[T]())
	if err != nil || !ok {
		panic(fmt.Sprintf("rest: %s has no protobuf form: %v", reflect.TypeFor[T](), err))
	}
	return d
}

// protobufs writes objects, or their metadata, as protobuf. json writes the JSON that it is made of.
type protobufs struct {
	proto                      *messages
	descriptor                 *protobuf.Descriptor
	apiVersion, kind, listKind string
	json                       renderer

	scratch []byte
}

func (f *protobufs) object(dst []byte, e *watch.Entry) (_ []byte, err error) {
	if f.scratch, err = f.json.object(f.scratch[:0], e); err != nil {
		return dst, err
	}
	return f.descriptor.AppendObject(dst, f.apiVersion, f.kind, f.scratch)
}

// event and bookmark append JSON: frame makes a message of it.
func (f *protobufs) event(dst []byte, e *watch.Event) ([]byte, error) { return f.json.event(dst, e) }

func (f *protobufs) bookmark(dst []byte, rev storage.Revision, end bool) ([]byte, error) {
	return f.json.bookmark(dst, rev, end)
}

func (f *protobufs) frame(dst []byte, event meta.EventType, object func([]byte) ([]byte, error)) (_ []byte, err error) {
	if f.scratch, err = object(f.scratch[:0]); err != nil {
		return dst, err
	}
	if event == meta.Error {
		return f.proto.status().AppendEvent(dst, event, "v1", "Status", f.scratch)
	}
	return f.descriptor.AppendEvent(dst, event, f.apiVersion, f.kind, f.scratch)
}

// document sends a JSON document that is not a stored object, in the form that was agreed on.
func (c *call) document(form negotiate.Result, code int, d *protobuf.Descriptor, apiVersion, kind string, document []byte) error {
	form.As = negotiate.Object
	if form.Unmanaged {
		document = unmanaged(document)
	}
	c.keepDocument(document)
	if form.MediaType == negotiate.Protobuf {
		if d == nil {
			form.MediaType = negotiate.JSON // metadata were asked for, of a kind that has no protobuf form
		} else {
			message, err := d.AppendObject(make([]byte, 0, len(document)), apiVersion, kind, document)
			if err != nil {
				return status.Internal(fmt.Errorf("write a %s as protobuf: %w", kind, err))
			}
			document = message
		}
	}
	return c.send(c.output().Write(c.w, c.r, form, code, document))
}

// unmanaged is the document of an object without its managed fields.
func unmanaged(document []byte) []byte {
	t, err := json.DecodeTree(document, json.TreeOptions{})
	if err != nil {
		return document // which no object of ours is
	}
	object, _ := t.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	if _, ok := metadata["managedFields"]; !ok {
		return document
	}
	delete(metadata, "managedFields")
	if out, err := json.AppendTree(make([]byte, 0, len(document)), t); err == nil {
		return out
	}
	return document
}

// readProtobuf reads a body that was announced as protobuf, as JSON.
func (c *call) readProtobuf(limit int64, d *protobuf.Descriptor) ([]byte, error) {
	if d == nil {
		return nil, status.UnsupportedMediaType([]string{negotiate.JSON.String(), negotiate.YAML.String()})
	}
	raw, err := negotiate.ReadRaw(c.w, c.r, limit)
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	out, err := d.AppendDocument(nil, raw, negotiate.MaxBodyBytes)
	if failure, ok := errors.AsType[*protobuf.Error](err); ok && failure.TooLarge {
		return nil, status.TooLarge(negotiate.MaxBodyBytes).WithMessage("the body of the request cannot be read: " + failure.Error())
	}
	if err != nil {
		return nil, status.BadRequest("the body of the request%s cannot be read: %v", claimed(raw), err)
	}
	return out, nil
}

// claimed names what a document says it is: one of another kind is told by that, and not by the first field that does not
// fit.
func claimed(document []byte) string {
	e, err := protobuf.Open(document)
	if err != nil || e.Kind == "" {
		return ""
	}
	return fmt.Sprintf(", %.100q of %.100q,", e.Kind, e.APIVersion)
}

// isProtobuf tells whether the body was announced as protobuf.
func (c *call) isProtobuf() bool {
	fields := c.r.Header["Content-Type"]
	if len(fields) != 1 {
		return false
	}
	mediaType, ok := negotiate.ContentType(fields[0])
	return ok && negotiate.IsProtobuf(mediaType, c.domain)
}
