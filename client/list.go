package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// List is a collection or one page of it.
type List[T any] struct {
	// Version is the version of the collection. A Watch with After(Version) misses nothing and
	// repeats nothing.
	Version string

	Items []*T // in the order of the server

	// Remaining is the number of objects after this page, or nil if the server does not say.
	Remaining *int64

	// Restarted means that the list had to start over: discard the pages before this one.
	Restarted bool
}

// List reads a whole collection. It reads in pages that together show one state.
func (c *Client[T]) List(ctx context.Context, s Selection, opts ...ReadOption) (*List[T], error) {
	out := &List[T]{}
	for page, err := range c.Pages(ctx, s, opts...) {
		if err != nil {
			return nil, err
		}
		if page.Restarted {
			out.Items = nil
		}
		out.Version = page.Version
		out.Items = append(out.Items, page.Items...)
	}
	return out, nil
}

// Pages reads a collection page by page and stops after the last page or an error. All pages show
// the state of the first one. If the server no longer has that state, one page with the whole
// collection, marked Restarted, replaces all earlier ones.
//
// If the server cannot serve the version of NotOlderThan, Pages asks again without it. If the
// version of the response shows that the server does not understand Exactly, Pages asks in the
// older way, by version and limit; it fails if that does not help. Source: PAGE-04, ERR-10,
// LIST-31, LIST-32.
func (c *Client[T]) Pages(ctx context.Context, s Selection, opts ...ReadOption) iter.Seq2[*List[T], error] {
	return func(yield func(*List[T], error) bool) {
		p, err := c.pager(s, opts)
		if err != nil {
			yield(nil, err)
			return
		}
		for {
			page, err := p.next(ctx)
			if !yield(page, err) || err != nil || p.token == "" {
				return
			}
		}
	}
}

// pager walks one list.
type pager[T any] struct {
	client    *Client[T]
	path      []string
	selection Selection
	read
	token     string // of the next page; "" before the first and after the last
	restarted bool
}

func (c *Client[T]) pager(s Selection, opts []ReadOption) (*pager[T], error) {
	path, err := c.collectionPath(s.Namespace)
	if err != nil {
		return nil, err
	}
	r, err := newRead(c.pageSize, opts)
	return &pager[T]{client: c, path: path, selection: s, read: r}, err
}

// next reads the next page, with a fallback if the server cannot serve it as requested.
func (p *pager[T]) next(ctx context.Context) (*List[T], error) {
	for {
		page, token, err := p.ask(ctx)
		switch {
		case err == nil && p.mistaken(page):
			if p.pageSize > 0 {
				return nil, fmt.Errorf("client: list %s: the server returned version %q instead of %q",
					p.client.resource, page.Version, p.version)
			}
			p.pageSize = defaultPageSize // an older server ignores resourceVersionMatch but understands version and limit
			continue
		case err == nil:
			page.Restarted = p.restarted && p.token == ""
			p.token = token
			return page, nil
		case !status.IsExpired(err):
			return nil, err
		case p.token != "" && p.match != exact: // start over with a single page, whose token cannot expire
			p.token, p.pageSize, p.restarted, p.match = "", 0, true, newest
		case p.token == "" && p.match == notOlderThan: // the newest state is not older
			p.match = newest
		default:
			return nil, err
		}
		p.client.log.V(1).Info("a list starts over", "resource", p.client.resource.String(), "reason", err.Error())
	}
}

// mistaken reports whether a page shows a version other than the requested one.
func (p *pager[T]) mistaken(page *List[T]) bool {
	return p.match == exact && p.token == "" && page.Version != p.version
}

// ask requests one page.
func (p *pager[T]) ask(ctx context.Context) (*List[T], string, error) {
	q := p.selection.query()
	p.setLimit(q)
	if p.token != "" {
		q.Set("continue", p.token) // the token implies the version (LIST-09)
	} else {
		p.set(q)
	}
	data, err := p.client.do(ctx, call{method: http.MethodGet, path: p.path, query: q})
	if err != nil {
		return nil, "", err
	}
	return p.client.decodeList(data)
}

func (c *Client[T]) decodeList(data []byte) (*List[T], string, error) {
	var document struct {
		Metadata meta.ListMeta  `json:"metadata"`
		Items    []meta.RawJSON `json:"items"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, "", unusable{fmt.Errorf("client: %s sent something other than a list of %s: %w", c.server(), c.resource, err)}
	}
	out := &List[T]{
		Version:   document.Metadata.ResourceVersion,
		Remaining: document.Metadata.RemainingItemCount,
		Items:     make([]*T, len(document.Items)),
	}
	for i, item := range document.Items {
		var err error
		if out.Items[i], err = c.decode(item); err != nil {
			return nil, "", err
		}
	}
	return out, document.Metadata.Continue, nil
}
