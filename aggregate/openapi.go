package aggregate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/openapi"
)

// maxSchemaBytes is the longest OpenAPI v3 document that is read from a back end.
const maxSchemaBytes = 16 << 20

// maxSwaggerBytes is the longest OpenAPI v2 document that is read from a back end. It describes all
// group versions of that server.
const maxSwaggerBytes = 8 << 20

// documents are the entity tags of the documents that were read last.
type documents struct {
	schemaTag, swaggerTag string
	swaggerSum            [sha256.Size]byte
}

// readDocuments reads the OpenAPI documents of the back end, if they have changed. A back end without
// them is none the worse for it, and one that fails keeps those that it had.
func (b *backend) readDocuments(ctx context.Context, now view) {
	select {
	case b.of.reading <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-b.of.reading }()
	schema, err := b.readSchema(ctx, now.schema)
	if err != nil {
		b.of.engine.Logger().V(1).Info("the OpenAPI document of a back end cannot be read", "apiservice", b.service.Name, "reason", err.Error())
	} else {
		now.schema = schema
	}
	swagger, err := b.readSwagger(ctx, now.swagger)
	if err != nil {
		b.of.engine.Logger().V(1).Info("the OpenAPI v2 document of a back end cannot be read", "apiservice", b.service.Name, "reason", err.Error())
	} else {
		now.swagger = swagger
	}
	b.show(now)
}

// readSchema reads the OpenAPI v3 document. It returns have if that is still current.
func (b *backend) readSchema(ctx context.Context, have []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, b.of.cfg.Timeout)
	defer cancel()
	path := "/openapi/v3" + documentPath(b.service.groupVersion())
	got, err := b.fetch(ctx, path, b.openapi.schemaTag, reader(), maxSchemaBytes)
	switch {
	case err != nil:
		return nil, err
	case got.code == http.StatusNotModified:
		return have, nil
	case got.code == http.StatusNotFound:
		b.openapi.schemaTag = ""
		return nil, nil
	case got.code != http.StatusOK:
		return nil, b.badStatus(path, got.code)
	}
	body := bytes.TrimSpace(got.body)
	if !bytes.HasPrefix(body, []byte("{")) || json.Valid(body) != nil {
		return nil, errNoDocument
	}
	b.openapi.schemaTag = got.tag
	return body, nil
}

// readSwagger reads the part of the OpenAPI v2 document that is about the group version. It returns
// have if that is still current.
func (b *backend) readSwagger(ctx context.Context, have *openapi.SwaggerPart) (*openapi.SwaggerPart, error) {
	ctx, cancel := context.WithTimeout(ctx, b.of.cfg.Timeout)
	defer cancel()
	const path = "/openapi/v2"
	got, err := b.fetch(ctx, path, b.openapi.swaggerTag, reader(), maxSwaggerBytes)
	switch {
	case err != nil:
		return nil, err
	case got.code == http.StatusNotModified:
		return have, nil
	case got.code == http.StatusNotFound:
		b.openapi.swaggerTag, b.openapi.swaggerSum = "", [sha256.Size]byte{}
		return nil, nil
	case got.code != http.StatusOK:
		return nil, b.badStatus(path, got.code)
	}
	sum := sha256.Sum256(got.body)
	if have != nil && sum == b.openapi.swaggerSum { // a server without entity tags
		return have, nil
	}
	part, err := openapi.ParseSwaggerPart(got.body, documentPath(b.service.groupVersion()))
	if err != nil {
		return nil, err
	}
	b.openapi.swaggerTag, b.openapi.swaggerSum = got.tag, sum
	return part, nil
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
