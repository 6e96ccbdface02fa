package limit

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Faults are errors made on purpose. The zero value has none.
type Faults struct {
	DropEvery int // lose every nth event of a watch
	SwapEvery int // send every nth event of a watch after its successor
}

// Handler is the server. It may be used concurrently.
type Handler struct {
	faults Faults

	mu          sync.RWMutex
	version     uint64
	collections map[string]*collection // by path
}

// collection holds the objects at one path. The handler's mutex guards it.
type collection struct {
	objects  map[string][]byte // by name; the slices never change
	joined   []byte            // all of them as a list; nil after a change
	watchers map[*watcher]struct{}
}

// watcher receives frames until it is full.
type watcher struct {
	frames chan []byte
	full   chan struct{} // closed when a frame does not fit; the collection then forgets the watcher
}

// backlog is the number of frames that a watcher may fall behind.
const backlog = 4096

// New returns an empty server.
func New(faults Faults) *Handler {
	return &Handler{faults: faults, collections: map[string]*collection{}}
}

// ServeHTTP answers a request for a collection or an object at the paths of a resource API. It
// accepts any kind.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if accept := r.Header.Get("Accept"); accept != "" && accept != "application/json" && accept != "*/*" {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	at, name := split(r.URL.Path)
	w.Header()["Content-Type"] = []string{"application/json"}
	switch {
	case r.Method != http.MethodGet:
		h.write(w, r, at, name)
	case name != "":
		h.get(w, at, name)
	case strings.Contains(r.URL.RawQuery, "watch=true"):
		h.watch(w, r, at)
	default:
		h.list(w, r, at)
	}
}

// split returns the path of the collection, which ends with a plural, and the name that may follow.
func split(path string) (at, name string) {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	scope := 2 // api/v1
	if segments[0] == "apis" {
		scope = 3
	}
	if len(segments) > scope+2 && segments[scope] == "namespaces" {
		scope += 2
	}
	if len(segments) <= scope+1 {
		return path, ""
	}
	return "/" + strings.Join(segments[:scope+1], "/"), segments[scope+1]
}

func (h *Handler) get(w http.ResponseWriter, at, name string) {
	h.mu.RLock()
	var object []byte
	if c := h.collections[at]; c != nil {
		object = c.objects[name]
	}
	h.mu.RUnlock()
	if object == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer(w, http.StatusOK, object)
}

func (h *Handler) list(w http.ResponseWriter, r *http.Request, at string) {
	switch r.URL.RawQuery {
	case "limit=1": // a request for the current version
		h.mu.RLock()
		version := h.version
		h.mu.RUnlock()
		answer(w, http.StatusOK, head(version, 2))
	case "", "resourceVersion=0":
		answer(w, http.StatusOK, h.join(at))
	default:
		w.WriteHeader(http.StatusBadRequest)
	}
}

// head returns the beginning of a list, or a list without objects.
func head(version uint64, brackets int) []byte {
	b := append([]byte(`{"kind":"List","metadata":{"resourceVersion":"`), strconv.FormatUint(version, 10)...)
	b = append(b, `"},"items":[]}`...)
	return b[:len(b)-2+brackets]
}

// join returns the encoded list of a collection.
func (h *Handler) join(at string) []byte {
	h.mu.RLock()
	c := h.collections[at]
	if c != nil && c.joined != nil {
		defer h.mu.RUnlock()
		return c.joined
	}
	h.mu.RUnlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	c = h.collection(at)
	names := make([]string, 0, len(c.objects))
	for name := range c.objects {
		names = append(names, name)
	}
	slices.Sort(names)
	list := head(h.version, 0)
	for i, name := range names {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, c.objects[name]...)
	}
	c.joined = slices.Clip(append(list, "]}"...))
	return c.joined
}

// collection returns the collection at a path. The caller holds h.mu.
func (h *Handler) collection(at string) *collection {
	c := h.collections[at]
	if c == nil {
		c = &collection{objects: map[string][]byte{}, watchers: map[*watcher]struct{}{}}
		h.collections[at] = c
	}
	return c
}

// write stores an object as sent. A patch only changes the version.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, at, name string) {
	if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	code, object := h.change(r.Method, at, name, body)
	answer(w, code, object)
}

// change applies a write and returns the response.
func (h *Handler) change(method, at, name string, body []byte) (code int, object []byte) {
	code, event := http.StatusOK, "MODIFIED"
	if method == http.MethodPost {
		code, event = http.StatusCreated, "ADDED"
		name = between(body, `"name":"`)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.collection(at)
	before, exists := c.objects[name]
	switch {
	case exists && method == http.MethodPost:
		return http.StatusConflict, nil
	case !exists && method != http.MethodPost:
		return http.StatusNotFound, nil
	case method == http.MethodPatch:
		body = before
	case method == http.MethodDelete:
		body, event = before, "DELETED"
	}
	h.version++
	object = versioned(body, h.version)
	c.joined = nil
	if c.objects[name] = object; event == "DELETED" {
		delete(c.objects, name)
	}
	c.publish(event, object)
	return code, object
}

func answer(w http.ResponseWriter, code int, body []byte) {
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have gone
}

// versioned returns an object with a new version at the front of its metadata.
func versioned(object []byte, version uint64) []byte {
	const metadata, mark = `"metadata":{`, `"resourceVersion":"`
	before, after, found := bytes.Cut(object, []byte(metadata))
	if !found {
		return object
	}
	if rest, had := bytes.CutPrefix(after, []byte(mark)); had {
		_, after, _ = bytes.Cut(rest, []byte(`",`))
	}
	out := make([]byte, 0, len(object)+40)
	out = append(append(append(out, before...), metadata...), mark...)
	out = append(strconv.AppendUint(out, version, 10), `",`...)
	return append(out, after...)
}

// between returns the text between mark and the next quotation mark.
func between(body []byte, mark string) string {
	_, after, _ := bytes.Cut(body, []byte(mark))
	value, _, _ := bytes.Cut(after, []byte(`"`))
	return string(value)
}

// publish sends an event to the watchers. The caller holds the handler's mutex, so all watchers see
// the same order.
func (c *collection) publish(event string, object []byte) {
	if len(c.watchers) == 0 {
		return
	}
	frame := append([]byte(`{"type":"`+event+`","object":`), object...)
	frame = append(frame, "}\n"...)
	for w := range c.watchers {
		select {
		case w.frames <- frame:
		default:
			close(w.full)
			delete(c.watchers, w)
		}
	}
}

func (h *Handler) watch(w http.ResponseWriter, r *http.Request, at string) {
	if q := r.URL.Query(); q.Has("sendInitialEvents") || q.Has("labelSelector") || q.Has("fieldSelector") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	me := &watcher{frames: make(chan []byte, backlog), full: make(chan struct{})}
	h.mu.Lock()
	c := h.collection(at)
	c.watchers[me] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(c.watchers, me)
	}()
	w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(w)
	if flusher.Flush() != nil {
		return
	}
	var kept []byte // sent after the next frame
	for n := 1; ; n++ {
		var frame []byte
		select {
		case frame = <-me.frames:
		case <-me.full:
			return
		case <-r.Context().Done():
			return
		}
		switch {
		case h.faults.DropEvery > 0 && n%h.faults.DropEvery == 0:
			continue
		case h.faults.SwapEvery > 0 && n%h.faults.SwapEvery == 0:
			kept = frame
			continue
		}
		if _, err := w.Write(frame); err != nil {
			return
		}
		if kept != nil {
			_, _ = w.Write(kept) // a later write reports that the client has gone
			kept = nil
		}
		if flusher.Flush() != nil {
			return
		}
	}
}
