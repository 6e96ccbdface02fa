package rest

import (
	"net/http"
	"sync"

	"github.com/kindwright/kindwright/internal/engine"
)

const (
	heldMost  = 8 << 20   // bytes of one list that are held
	heldFree  = heldChunk // of these, how many are not counted
	heldStep  = 1 << 20   // the others are reserved in such pieces
	heldChunk = 4 * pieceBytes
)

// heldList holds the beginning of a list whose objects are stored in another form: while nothing has been sent, the client
// can be told that a conversion has failed. A longer list, and one for which there is no room, can only break off.
type heldList struct {
	http.ResponseWriter
	served *engine.Served
	extend func() // gives the client time for one more piece

	header   http.Header
	code     int
	pool     *sync.Pool // of chunks
	chunks   []*[heldChunk]byte
	length   int // of what is in them
	reserved int
	sent     bool
}

func (h *heldList) Header() http.Header {
	if h.sent {
		return h.ResponseWriter.Header()
	}
	return h.header
}

func (h *heldList) WriteHeader(code int) {
	if h.sent {
		h.ResponseWriter.WriteHeader(code)
		return
	}
	h.code = code
}

func (h *heldList) Write(p []byte) (int, error) {
	if !h.sent && !h.room(h.length+len(p)) {
		if err := h.send(); err != nil {
			return 0, err
		}
	}
	if h.sent {
		return h.ResponseWriter.Write(p)
	}
	for rest := p; len(rest) > 0; {
		at := h.length % heldChunk
		if at == 0 {
			chunk, _ := h.pool.Get().(*[heldChunk]byte)
			if chunk == nil {
				chunk = new([heldChunk]byte)
			}
			h.chunks = append(h.chunks, chunk)
		}
		n := copy(h.chunks[len(h.chunks)-1][at:], rest)
		h.length, rest = h.length+n, rest[n:]
	}
	return len(p), nil
}

// room reports whether so many bytes may be held.
func (h *heldList) room(bytes int) bool {
	if bytes > heldMost {
		return false
	}
	for bytes > heldFree+h.reserved {
		if !h.served.Hold(heldStep) {
			return false
		}
		h.reserved += heldStep
	}
	return true
}

// send sends what is held, and holds nothing from then on.
func (h *heldList) send() error {
	if h.sent {
		return nil
	}
	defer h.letGo()
	h.sent = true
	to := h.ResponseWriter.Header()
	for name, values := range h.header {
		if name == "Vary" {
			values = append(to[name], values...)
		}
		to[name] = values
	}
	if h.code != 0 {
		h.ResponseWriter.WriteHeader(h.code)
	}
	for at := 0; at < h.length; at += pieceBytes {
		chunk := h.chunks[at/heldChunk]
		piece := chunk[at%heldChunk:][:min(pieceBytes, h.length-at)]
		h.extend()
		if _, err := h.ResponseWriter.Write(piece); err != nil {
			h.chunks = nil // net/http may still be writing from them, so nobody else gets them
			return err
		}
	}
	return nil
}

func (h *heldList) letGo() {
	h.served.LetGo(h.reserved)
	for _, chunk := range h.chunks {
		h.pool.Put(chunk)
	}
	h.reserved, h.chunks, h.length = 0, nil, 0
}
