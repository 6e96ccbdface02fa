package rest

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
	"github.com/kindwright/kindwright/watch"
)

// record is what the audit log gets to know of the request. It is nil if nothing is recorded.
func (c *call) record() *request.Record { return request.ExchangeFrom(c.r.Context()).Record }

// asRecorded is the form in which an answer of another form is recorded.
func asRecorded(form negotiate.Result) negotiate.Result {
	form.MediaType, form.Pretty, form.Name = negotiate.JSON, false, ""
	return form
}

// keepDocument records an answer, in JSON.
func (c *call) keepDocument(document []byte) {
	if r := c.record(); r != nil && r.KeepsAnswer {
		r.Answer = document
	}
}

// keepStatus records an answer that is a Status, of which a record has the facts whatever its level is.
func (c *call) keepStatus(document []byte) {
	if r := c.record(); r != nil {
		var s meta.Status
		if json.Unmarshal(document, &s) == nil {
			r.KeepStatus(s)
		}
	}
}

// keepObject records an answer that is one stored object.
func (c *call) keepObject(form negotiate.Result, entry *watch.Entry) error {
	if r := c.record(); r == nil || !r.KeepsAnswer {
		return nil
	}
	document, err := c.written(asRecorded(form), entry)
	if err == nil {
		c.keepDocument(document)
	}
	return err
}

// maxKeptList bounds the list that a record has. It is what a whole batch of records may take by
// default, and a longer one would be cut out of the record anyway.
const maxKeptList = 10 << 20

// maxRecordTime bounds how long the rows of a record are made: the columns of a definition can take long.
const maxRecordTime = 10 * time.Second

// keepList records an answer that is a list. It is written a second time for that, because the
// answer is compressed or not JSON for many clients, and when the record is written: a client that
// reads slowly must not make the server hold it. A list that is too long is not recorded.
func (c *call) keepList(form negotiate.Result, l *engine.Listed) error {
	r := c.record()
	if r == nil || !r.KeepsAnswer {
		return nil
	}
	items, ok := c.renderer(asRecorded(form)).(itemRenderer)
	if !ok {
		return nil
	}
	ctx := context.WithoutCancel(c.r.Context())
	if again, ok := l.Again(ctx); ok {
		r.Later = func() []byte {
			if t, ok := items.(*tables); ok { // its own request has ended by then
				var end context.CancelFunc
				t.ctx, end = context.WithTimeout(ctx, maxRecordTime)
				defer end()
			}
			document, err := listDocument(items, l, again)
			if err != nil {
				c.opts.Logger.Error(err, "a list could not be written for its audit record", guard.WithStack(err, "resource", l.Served.Resource.GroupResource().String())...)
			}
			return document
		}
		return nil
	}
	document, err := listDocument(items, l, l.Items)
	if err == nil {
		c.keepDocument(document)
	}
	return err
}

// listDocument writes a list as a whole. It is nil if that would be too long.
func listDocument(form itemRenderer, l *engine.Listed, entries iter.Seq2[*watch.Entry, error]) ([]byte, error) {
	buf, err := form.head(nil, l)
	if err != nil {
		return nil, status.Internal(err)
	}
	for entry, err := range entries {
		if err != nil {
			return nil, listError(err)
		}
		if buf, err = form.item(buf, entry); err != nil {
			return nil, status.Internal(fmt.Errorf("write %s: %w", entry.Key(), err))
		}
		if len(buf) > maxKeptList {
			return nil, nil
		}
	}
	if buf, err = form.tail(buf, l); err != nil {
		return nil, status.Internal(err)
	}
	return buf, nil
}
