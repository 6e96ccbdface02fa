package rest

import (
	"fmt"

	"github.com/kindwright/kindwright/internal/engine"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
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

// keepList records an answer that is a list. It is written a second time for that, because the
// answer is compressed or not JSON for many clients. A list that is too long is not recorded.
func (c *call) keepList(form negotiate.Result, l *engine.Listed) error {
	if r := c.record(); r == nil || !r.KeepsAnswer {
		return nil
	}
	items, ok := c.renderer(asRecorded(form)).(itemRenderer)
	if !ok {
		return nil
	}
	buf, err := items.head(nil, l)
	if err != nil {
		return status.Internal(err)
	}
	for entry, err := range l.Items {
		if err != nil {
			return listError(err)
		}
		if buf, err = items.item(buf, entry); err != nil {
			return status.Internal(fmt.Errorf("write %s: %w", entry.Key(), err))
		}
		if len(buf) > maxKeptList {
			return nil
		}
	}
	if buf, err = items.tail(buf, l); err != nil {
		return status.Internal(err)
	}
	c.keepDocument(buf)
	return nil
}
