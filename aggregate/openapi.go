package aggregate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// maxSchemaBytes is the longest OpenAPI v3 document that is read from a back end.
const maxSchemaBytes = 16 << 20

// maxSwaggerBytes is the longest OpenAPI v2 document that is read from a back end. It describes all
// group versions of that server.
const maxSwaggerBytes = 8 << 20

// maxKept is how much the documents of all back ends take. Whoever comes later goes without.
const maxKept = 128 << 20

// documents are the entity tags of the documents that were read last.
type documents struct {
	schemaTag, swaggerTag string
	swaggerSum            [sha256.Size]byte
	size                  int64         // what the kept documents take
	due                   time.Time     // when they are asked for again
	wait                  time.Duration // from the last time until then
}

// readDocuments reads the OpenAPI documents of the back end, if they have changed. A back end without
// them is none the worse for it, and one that fails keeps those that it had.
func (b *backend) readDocuments(ctx context.Context, now view) {
	d, began, every := &b.openapi, time.Now(), b.of.cfg.ProbeEvery
	schema, first := b.readSchema(ctx, now.schema)
	if first == nil {
		now.schema = schema
	}
	swagger, second := b.readSwagger(ctx, now.swagger)
	if second == nil {
		now.swagger = swagger
	}
	full := b.hold(int64(len(now.schema) + now.swagger.Size()))
	for _, err := range [...]error{first, second, full} {
		if err != nil {
			b.of.engine.Logger().V(1).Info("an OpenAPI document of a back end cannot be read", "apiservice", b.service.Name, "reason", err.Error())
		}
	}
	if errors.Is(first, errBusy) || errors.Is(second, errBusy) {
		d.wait = min(max(2*d.wait, shortestWait), every)
	} else {
		d.wait = every
	}
	d.due = began.Add(d.wait)
	if full != nil {
		d.schemaTag, d.swaggerTag = "", "" // asked for as a whole again
		return
	}
	b.show(now)
}

// hold reserves room for the documents of the back end in place of what it has.
func (b *backend) hold(size int64) error {
	more := size - b.openapi.size
	if more > 0 && b.of.kept.Add(more) > maxKept {
		b.of.kept.Add(-more)
		return errFull
	}
	if more < 0 {
		b.of.kept.Add(more)
	}
	b.openapi.size = size
	return nil
}

var errFull = fmt.Errorf("the documents of all back ends take more than %d bytes", maxKept)

// readSchema reads the OpenAPI v3 document. It returns have if that is still current.
func (b *backend) readSchema(ctx context.Context, have []byte) (out []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.of.cfg.Timeout)
	defer cancel()
	d, path := &b.openapi, "/openapi/v3"+documentPath(b.service.groupVersion())
	err = b.fetch(ctx, question{path, d.schemaTag, reader(), maxSchemaBytes}, b.of.documents, func(got *answer) error {
		switch got.code {
		case http.StatusNotModified:
			out = have
			return nil
		case http.StatusNotFound:
			d.schemaTag = ""
			return nil
		case http.StatusOK:
		default:
			return b.badStatus(path, got.code)
		}
		body := bytes.TrimSpace(got.body)
		if !bytes.HasPrefix(body, []byte("{")) || json.Valid(body) != nil {
			return errNoDocument
		}
		if out = have; !bytes.Equal(body, have) {
			out = bytes.Clone(body)
		}
		d.schemaTag = got.tag
		return nil
	})
	return out, err
}

// readSwagger reads the part of the OpenAPI v2 document that is about the group version. It returns
// have if that is still current.
func (b *backend) readSwagger(ctx context.Context, have *openapi.SwaggerPart) (out *openapi.SwaggerPart, err error) {
	ctx, cancel := context.WithTimeout(ctx, b.of.cfg.Timeout)
	defer cancel()
	const path = "/openapi/v2"
	d := &b.openapi
	err = b.fetch(ctx, question{path, d.swaggerTag, reader(), maxSwaggerBytes}, b.of.documents, func(got *answer) (err error) {
		switch got.code {
		case http.StatusNotModified:
			out = have
			return nil
		case http.StatusNotFound:
			d.swaggerTag, d.swaggerSum = "", [sha256.Size]byte{}
			return nil
		case http.StatusOK:
		default:
			return b.badStatus(path, got.code)
		}
		sum := sha256.Sum256(got.body)
		if have != nil && sum == d.swaggerSum { // a server without entity tags
			out = have
			return nil
		}
		if out, err = openapi.ParseSwaggerPart(got.body, documentPath(b.service.groupVersion())); err == nil {
			d.swaggerTag, d.swaggerSum = got.tag, sum
		}
		return err
	})
	return out, err
}

// Swagger returns what back ends add to the OpenAPI v2 document, without the group versions that the
// server serves itself.
func (a *Aggregator) Swagger(served func(group, version string) bool) []*openapi.SwaggerPart {
	behind := a.table.Load().backends
	var out []*openapi.SwaggerPart
	for _, gv := range slices.SortedFunc(maps.Keys(behind), func(x, y meta.GroupVersion) int { return strings.Compare(x.String(), y.String()) }) {
		if part := behind[gv].now.Load().swagger; part != nil && !served(gv.Group, gv.Version) {
			out = append(out, part)
		}
	}
	return out
}
