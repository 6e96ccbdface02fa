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

// List is a collection, or a page of one.
type List[T any] struct {
	// Version is that of the collection: a Watch After it misses nothing and repeats nothing.
	Version string

	Items []*T // in the order of the server

	// Remaining is how many objects follow a page, nil when the server does not say.
	Remaining *int64

	// Restarted says of a page that the list had to begin anew: the pages before are void.
	Restarted bool
}

// List reads a whole collection, in pages that together show one state of it.
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

// Pages reads a collection page by page. All pages show the state of the first (PAGE-04), unless
// that is no longer retained when the next is asked for: then one page with everything, marked
// Restarted, takes the place of all before it (ERR-10). It ends after the last page or with an
// error.
//
// A page NotOlderThan a version that the server cannot serve is asked for again without the version
// (LIST-31). A server that does not understand Exactly is recognised by the version of its answer
// and asked in the older way, by version and limit; if that does not help either, the list fails
// (LIST-32).
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

// next reads the next page, by whatever way there is to it.
func (p *pager[T]) next(ctx context.Context) (*List[T], error) {
	for {
		page, token, err := p.ask(ctx)
		switch {
		case err == nil && p.mistaken(page):
			if p.pageSize > 0 {
				return nil, fmt.Errorf("client: list %s: the server showed version %q, and %q was asked for", p.client.resource, page.Version, p.version)
			}
			p.pageSize = defaultPageSize // a server that knows no resourceVersionMatch takes version and limit for it
			continue
		case err == nil:
			page.Restarted = p.restarted && p.token == ""
			p.token = token
			return page, nil
		case !status.IsExpired(err):
			return nil, err
		case p.token != "" && p.match != exact: // begin anew, all at once: there is no next page to be late for
			p.token, p.pageSize, p.restarted, p.match = "", 0, true, newest
		case p.token == "" && p.match == notOlderThan: // the newest state is not older either
			p.match = newest
		default:
			return nil, err
		}
		p.client.log.V(1).Info("a list begins anew", "resource", p.client.resource.String(), "reason", err.Error())
	}
}

// mistaken reports whether a page shows another version than the only one that was wanted.
func (p *pager[T]) mistaken(page *List[T]) bool {
	return p.match == exact && p.token == "" && page.Version != p.version
}

// ask reads one page.
func (p *pager[T]) ask(ctx context.Context) (*List[T], string, error) {
	q := p.selection.query()
	p.setLimit(q)
	if p.token != "" {
		q.Set("continue", p.token) // the token brings the version with it (LIST-09)
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
		return nil, "", unusable{fmt.Errorf("client: %s sent something that is no list of %s: %w", c.server(), c.resource, err)}
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
