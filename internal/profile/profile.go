package profile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// What is recorded if the request does not say for how long, and the longest record.
const (
	profileSeconds = 30
	traceSeconds   = 1
	maxSeconds     = 50 // below the deadline of a request
)

// Serve answers a request for the profile of a name: "" lists the profiles, "profile" records the
// processor time and "trace" what happens, for as many seconds as the query says; the others are those
// of [pprof.Lookup].
func Serve(w http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "":
		index(w)
		return
	case "profile":
		record(w, r, profileSeconds, pprof.StartCPUProfile, pprof.StopCPUProfile)
		return
	case "trace":
		record(w, r, traceSeconds, trace.Start, trace.Stop)
		return
	}
	p := pprof.Lookup(name)
	if p == nil {
		http.Error(w, "there is no such profile", http.StatusNotFound)
		return
	}
	if r.FormValue("gc") == "1" && name == "heap" {
		runtime.GC()
	}
	debug, err := strconv.Atoi(r.FormValue("debug"))
	if err != nil {
		debug = 0
	}
	if debug > 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	} else {
		binary(w, name)
	}
	_ = p.WriteTo(w, debug) // the client may have gone
}

func index(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range pprof.Profiles() {
		_, _ = fmt.Fprintf(w, "%s %d\n", p.Name(), p.Count()) // the client may have gone
	}
	_, _ = io.WriteString(w, "profile\ntrace\n")
}

// record runs a recorder for the time that the request asks for, or until its client has gone.
func record(w http.ResponseWriter, r *http.Request, seconds float64, start func(io.Writer) error, stop func()) {
	if text := r.FormValue("seconds"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0 && n <= maxSeconds) {
			http.Error(w, fmt.Sprintf("seconds must be a number up to %d", maxSeconds), http.StatusBadRequest)
			return
		}
		seconds = n
	}
	binary(w, "record")
	if err := start(w); err != nil {
		w.Header().Del("Content-Disposition")
		http.Error(w, "a record is being made already", http.StatusConflict)
		return
	}
	defer stop()
	wait(r.Context(), time.Duration(seconds*float64(time.Second)))
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func binary(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}
