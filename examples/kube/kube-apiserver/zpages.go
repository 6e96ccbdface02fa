package main

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// zpageWarning is what Kubernetes says of these pages.
const zpageWarning = `Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.`

// zpages serves /statusz, /flagz and /configz to those who may read these paths. Gates switch the
// first two off.
func (o *options) zpages(next http.Handler) http.Handler {
	started := time.Now()
	pages := map[string]func(io.Writer){"/configz": func(w io.Writer) { _, _ = io.WriteString(w, "{}\n") }}
	if o.features[gateStatusz].on {
		pages["/statusz"] = func(w io.Writer) { writeStatus(w, started, time.Now()) }
	}
	if o.features[gateFlagz].on {
		pages["/flagz"] = o.writeFlags
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, known := pages[r.URL.Path]
		if !known {
			next.ServeHTTP(w, r)
			return
		}
		kind := "text/plain; charset=utf-8"
		if r.URL.Path == "/configz" {
			kind = "application/json"
		}
		switch accept := r.Header.Get("Accept"); {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		case accept != "" && !strings.Contains(accept, "*/*") && !strings.Contains(accept, strings.Split(kind, ";")[0]):
			http.Error(w, "only "+kind+" is served here", http.StatusNotAcceptable)
		default:
			w.Header().Set("Content-Type", kind)
			page(w)
		}
	})
}

func writeStatus(w io.Writer, started, now time.Time) {
	up := now.Sub(started).Truncate(time.Second)
	_, _ = fmt.Fprintf(w, "\nkube-apiserver statusz\n%s\n\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
		zpageWarning, started.UTC().Format(time.RFC1123), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
		runtime.Version(), strings.TrimPrefix(gitVersion, "v"), "1.36", "/configz /healthz /livez /readyz") // the reader may be gone
}

// writeFlags lists the flags with their values. None of them is a secret.
func (o *options) writeFlags(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\nkube-apiserver flagz\n%s\n\n", zpageWarning) // the reader may be gone
	o.all.VisitAll(func(f *pflag.Flag) {
		_, _ = fmt.Fprintf(w, "%s=%s\n", f.Name, f.Value)
	})
}
