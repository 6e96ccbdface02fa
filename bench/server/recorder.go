package server

import (
	"bytes"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"sync"
)

// recorder takes CPU profiles of its process, one at a time.
type recorder struct {
	mu      sync.Mutex
	profile *bytes.Buffer // of the current or the last profile
}

// handler serves the requests of Child.
func (r *recorder) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /profile/start", r.start)
	mux.HandleFunc("POST /profile/stop", r.stop)
	mux.HandleFunc("POST /collect", collect)
	mux.HandleFunc("POST /heap", heap)
	return mux
}

func (r *recorder) start(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	into := new(bytes.Buffer) // a running profile keeps writing to its own buffer
	if err := pprof.StartCPUProfile(into); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	r.profile = into
}

func (r *recorder) stop(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pprof.StopCPUProfile()
	if r.profile == nil {
		http.Error(w, "no profile was started", http.StatusConflict)
		return
	}
	_, _ = w.Write(r.profile.Bytes()) // the client may have gone
}

// collect runs the garbage collector, returns memory to the operating system and responds with the
// bytes in use.
func collect(w http.ResponseWriter, _ *http.Request) {
	debug.FreeOSMemory()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	_, _ = w.Write(strconv.AppendUint(nil, sample[0].Value.Uint64(), 10)) // the client may have gone
}

// heap responds with a heap profile, after a collection.
func heap(w http.ResponseWriter, _ *http.Request) {
	runtime.GC()
	_ = pprof.Lookup("heap").WriteTo(w, 0) // the client may have gone
}
