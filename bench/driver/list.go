package driver

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/kindwright/kindwright/bench/load"
)

// The media types of list requests.
const (
	asTable    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	asPartial  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	asYAML     = "application/yaml"
	asProtobuf = "application/vnd.kubernetes.protobuf"
)

// fewestLists is the minimum number of timed lists. A list causes about one garbage collection.
const fewestLists = 5

// watchList requests a list in the form of a watch.
const watchList = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=120"

// listForm is a way to request a list.
type listForm struct {
	name, doc string
	query     string
	accept    string
	gzip      bool
	percent   int // of the objects match
	field     bool
}

func listForms() []listForm {
	return []listForm{
		{name: "plain", doc: "the latest state"},
		{name: "rv0", doc: "any state at hand", query: "resourceVersion=0"},
		{name: "gzip", doc: "compressed", gzip: true},
		{name: "table", doc: "as a Table", accept: asTable},
		{name: "partial", doc: "as PartialObjectMetadataList", accept: asPartial},
		{name: "protobuf", doc: "as protobuf", accept: asProtobuf},
		{name: "paged", doc: "in pages of 500", query: "limit=500"},
		{name: "watchlist", doc: "as the initial events of a watch", query: watchList},
		{name: "label1pct", doc: "by a label that 1 % have", query: "labelSelector=" + url.QueryEscape("bucket=b7"), percent: 1},
		{name: "field1pct", doc: "by a field of the kind that has the value in 1 %", percent: 1, field: true},
	}
}

func listWorkloads() []Workload {
	var out []Workload
	for _, f := range listForms() {
		out = append(out, Workload{
			Name: "list/" + f.name,
			Doc:  "a collection of 1 KiB objects, one client: " + f.doc,
			run:  func(ctx context.Context, t *Target) (Result, error) { return t.lists(ctx, f) },
		})
	}
	return out
}

// lister reads a whole list in one form. Only the first read counts the objects.
type lister struct {
	t       *Target
	request request
	buffer  bytes.Buffer
}

// lists reads lists one after the other. It counts the objects of the first; the others must have
// the same length.
func (t *Target) lists(ctx context.Context, f listForm) (Result, error) {
	if f.field {
		if t.Shape.Field == "" {
			return Result{}, unable(t.Shape.Name + " have no field to select by")
		}
		f.query = "fieldSelector=" + url.QueryEscape(t.Shape.Field)
	}
	coll, err := t.fill(ctx, "list", t.scale.Objects)
	if err != nil {
		return Result{}, err
	}
	want := t.scale.Objects
	if f.percent > 0 {
		want = want * f.percent / 100
	}
	l := &lister{t: t, request: request{path: coll, accept: f.accept, gzip: f.gzip}}
	if f.query != "" {
		l.request.path += "?" + f.query
	}
	read := l.whole
	switch f.name {
	case "paged":
		read = l.pages
	case "watchlist":
		read = l.initial
	}
	size, n, err := read(ctx, true)
	if err != nil {
		return Result{}, err
	}
	if n != want {
		return Result{}, fmt.Errorf("GET %s: %d objects, want %d", l.request.path, n, want)
	}
	loop := load.Loop{Workers: 1, Operations: t.scale.ListOperations, Time: t.scale.Time, AtLeast: fewestLists}
	r, err := t.loop(ctx, loop, func(ctx context.Context, _, _ int) (int64, error) {
		got, _, err := read(ctx, false)
		// Versions, tokens and compression vary in length, but objects do not.
		if err == nil && (got < size-size/50-512 || got > size+size/50+512) {
			err = fmt.Errorf("GET %s: %d bytes, want about %d as in the first list", l.request.path, got, size)
		}
		return got, err
	})
	if r.Operations > 0 {
		mib := mebibytes(r.Bytes) / float64(r.Operations)
		r = r.with(map[string]float64{"size_MiB": mib, "serverCPU_us_per_MiB": r.ServerCPU / mib})
	}
	return r, err
}

// whole reads a list in one response.
func (l *lister) whole(ctx context.Context, count bool) (size int64, n int, err error) {
	if !count {
		size, err = l.t.drain(ctx, l.t.clients[0], l.request)
		return size, 0, err
	}
	res, err := l.t.send(ctx, l.t.clients[0], l.request)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	l.buffer.Reset()
	if size, err = l.buffer.ReadFrom(res.Body); err != nil {
		return 0, 0, err
	}
	n, err = l.count(res)
	return size, n, err
}

// count counts the objects in a response.
func (l *lister) count(res *http.Response) (int, error) {
	body := l.buffer.Bytes()
	if l.request.gzip {
		if res.Header.Get("Content-Encoding") != "gzip" {
			return 0, unable("the answer is not compressed")
		}
		z, err := gzip.NewReader(&l.buffer)
		if err != nil {
			return 0, err
		}
		if body, err = io.ReadAll(z); err != nil {
			return 0, err
		}
	}
	if l.request.accept == asProtobuf {
		return countMessages(body)
	}
	list, err := parseList(body)
	return len(list.Items) + len(list.Rows), err
}

// list holds the decoded part of a list.
type list struct {
	Metadata struct{ ResourceVersion, Continue string }
	Items    []json.RawMessage
	Rows     []json.RawMessage
}

func parseList(body []byte) (list, error) {
	var l list
	if err := json.Unmarshal(body, &l); err != nil {
		return l, fmt.Errorf("not a list: %w", err)
	}
	return l, nil
}

// pages follows the continue tokens to the end.
func (l *lister) pages(ctx context.Context, count bool) (size int64, n int, err error) {
	r := l.request
	for {
		if err := l.t.fetch(ctx, l.t.clients[0], r, &l.buffer); err != nil {
			return size, n, err
		}
		size += int64(l.buffer.Len())
		token := continueToken(l.buffer.Bytes())
		if count {
			page, err := parseList(l.buffer.Bytes())
			if err != nil {
				return size, n, err
			}
			if page.Metadata.Continue != token {
				return size, n, fmt.Errorf("GET %s: continue token not found", r.path)
			}
			n += len(page.Items)
		}
		if token == "" {
			return size, n, nil
		}
		r.path = l.request.path + "&continue=" + url.QueryEscape(token)
	}
}

// continueToken finds the token in the list's metadata, which comes before the items or after them.
// Objects have no such field, so it suffices to search the first and the last kilobyte.
func continueToken(page []byte) string {
	const mark = `"continue":"`
	for _, part := range [][]byte{page[:min(len(page), 1024)], page[max(0, len(page)-1024):]} {
		if _, after, found := bytes.Cut(part, []byte(mark)); found {
			token, _, _ := bytes.Cut(after, []byte(`"`))
			return string(token)
		}
	}
	return ""
}

// initialEnd marks the bookmark that follows the initial events of a watch.
const initialEnd = `"k8s.io/initial-events-end":"true"`

// initial reads the initial events of a watch.
func (l *lister) initial(ctx context.Context, _ bool) (size int64, n int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := l.t.send(ctx, l.t.clients[0], l.request)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	lines := newLines(bufio.NewReaderSize(res.Body, 64<<10))
	for {
		line, err := lines.next()
		if err != nil {
			return size, n, errors.Join(fmt.Errorf("the watch ended after %d objects", n), err)
		}
		size += int64(len(line))
		switch kindOf(line) {
		case "ADDED":
			n++
		case "BOOKMARK":
			if bytes.Contains(line, []byte(initialEnd)) {
				return size, n, nil
			}
		default:
			return size, n, fmt.Errorf("unexpected event %.200s", line)
		}
	}
}

// countMessages counts the items of a protobuf list: a magic number, an envelope with the list in
// field 2, and the items in its field 2.
func countMessages(body []byte) (int, error) {
	envelope, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		return 0, errors.New("the response is not protobuf")
	}
	raw, _, err := fieldTwo(envelope)
	if err != nil {
		return 0, err
	}
	_, n, err := fieldTwo(raw)
	return n, err
}

// fieldTwo returns the last value of field 2 and how often it occurs. All fields of the message
// must be length-delimited.
func fieldTwo(message []byte) (last []byte, n int, err error) {
	const lengthDelimited = 2
	for len(message) > 0 {
		tag, a := binary.Uvarint(message)
		if a <= 0 || tag&7 != lengthDelimited {
			return nil, 0, errors.New("the response is not a protobuf list")
		}
		size, b := binary.Uvarint(message[a:])
		if b <= 0 || size > uint64(len(message)-a-b) {
			return nil, 0, errors.New("the response is truncated")
		}
		if tag>>3 == 2 {
			last = message[a+b:][:size]
			n++
		}
		message = message[a+b+int(size):]
	}
	return last, n, nil
}
