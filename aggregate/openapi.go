package aggregate

import (
	"bytes"
	"context"
	"net/http"

	"github.com/kindwright/kindwright/internal/json"
)

// maxSchemaBytes is the longest OpenAPI v3 document that is read from a back end.
const maxSchemaBytes = 16 << 20

// documents are the entity tags of the documents that were read last.
type documents struct{ schemaTag string }

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
