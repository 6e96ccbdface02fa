package server

import (
	"bytes"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"sync"
)

// recorder takes CPU profiles of its process, one at a time.
type recorder struct {
	mu      sync.Mutex
	profile bytes.Buffer
}

// handler serves what Child asks for.
func (r *recorder) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /profile/start", r.start)
	mux.HandleFunc("POST /profile/stop", r.stop)
	mux.HandleFunc("POST /collect", collect)
	return mux
}

func (r *recorder) start(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.profile.Reset()
	if err := pprof.StartCPUProfile(&r.profile); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

func (r *recorder) stop(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pprof.StopCPUProfile()
	_, _ = w.Write(r.profile.Bytes()) // a client that has gone is not news
}

// collect collects garbage, gives memory back to the operating system and answers how many bytes of the heap are in use.
func collect(w http.ResponseWriter, _ *http.Request) {
	debug.FreeOSMemory()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	_, _ = w.Write(strconv.AppendUint(nil, sample[0].Value.Uint64(), 10)) // a client that has gone is not news
}
