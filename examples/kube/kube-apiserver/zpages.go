package main

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kindwright/kindwright/internal/cbor"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/yaml"
	"github.com/kindwright/kindwright/status"
)

const (
	// zpageWarning is what Kubernetes says of the pages as text.
	zpageWarning = `Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.`

	zpageGroup     = "config.k8s.io" // of the pages as objects
	zpageComponent = "apiserver"     // the name of these objects
)

// A zpage is a page about the program, as text and as an object.
type zpage struct {
	kind   string
	text   func(io.Writer)
	object func() map[string]any
}

// zpages serves /statusz and /flagz to those who may read these paths, unless gates switch them off.
func (o *options) zpages(next http.Handler) http.Handler {
	started := time.Now()
	pages := map[string]zpage{}
	if o.features[gateStatusz].on {
		pages["/statusz"] = zpage{
			"Statusz", func(w io.Writer) { o.writeStatus(w, started, time.Now()) },
			func() map[string]any { return o.statusObject(started, time.Now()) },
		}
	}
	if o.features[gateFlagz].on {
		pages["/flagz"] = zpage{"Flagz", o.writeFlags, o.flagsObject}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, known := pages[r.URL.Path]
		switch {
		case !known:
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		default:
			page.serve(w, r, o.features[gateCBOR].on)
		}
	})
}

// serve answers with the text, or with the object in the form and version that the client asks for.
func (p zpage) serve(w http.ResponseWriter, r *http.Request, cborToo bool) {
	mediaTypes := []string{"application/json", "application/yaml", "text/plain"}
	if cborToo {
		mediaTypes = append(mediaTypes, "application/cbor")
	}
	mediaType, version := p.choose(r.Header.Values("Accept"), mediaTypes)
	switch mediaType {
	case "":
		negotiate.WriteError(w, r, status.NotAcceptable(mediaTypes))
		return
	case "text/plain":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		p.text(w)
		return
	}
	object := p.object()
	object["apiVersion"], object["kind"] = zpageGroup+"/"+version, p.kind
	object["metadata"] = map[string]any{"name": zpageComponent}
	body, err := json.AppendTree(nil, object)
	switch {
	case err != nil:
	case mediaType == "application/yaml":
		body, err = yaml.FromJSON(body)
	case mediaType == "application/cbor":
		body, err = cbor.Append(nil, body)
	}
	if err != nil {
		negotiate.WriteError(w, r, status.Internal(err))
		return
	}
	if version == "v1alpha1" {
		w.Header().Set("Warning", `299 - "This version of the `+strings.ToLower(p.kind)+` endpoint is deprecated. Please use a newer version."`)
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write(body) // the reader may be gone
}

// choose returns the first form that a client accepts, and the version of an object. It returns "" for the
// form if the client accepts none.
func (p zpage) choose(accept, mediaTypes []string) (mediaType, version string) {
	var entries []string
	for _, line := range accept {
		for entry := range strings.SplitSeq(line, ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				entries = append(entries, entry)
			}
		}
	}
	if len(entries) == 0 {
		return "text/plain", ""
	}
	most := 0.0
	for _, entry := range entries {
		name, parameters, err := mime.ParseMediaType(entry)
		if err != nil {
			continue
		}
		quality := 1.0
		if text, has := parameters["q"]; has {
			if quality, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		if quality <= most {
			continue
		}
		asked := parameters["as"] != "" || parameters["g"] != "" || parameters["v"] != ""
		switch {
		case !asked && slices.Contains([]string{"text/plain", "text/*", "*/*"}, name):
			mediaType, version, most = "text/plain", "", quality
		case parameters["as"] == p.kind && parameters["g"] == zpageGroup && slices.Contains([]string{"v1beta1", "v1alpha1"}, parameters["v"]) &&
			name != "text/plain" && slices.Contains(mediaTypes, name):
			mediaType, version, most = name, parameters["v"], quality
		}
	}
	return mediaType, version
}

// pagesToLookAt are the paths for people who look for the cause of something.
func (o *options) pagesToLookAt() []string {
	out := []string{"/healthz", "/livez", "/metrics", "/readyz", "/statusz", "/version"}
	if o.features[gateFlagz].on {
		out = append([]string{"/flagz"}, out...)
	}
	return out
}

func (o *options) emulates() string { return fmt.Sprintf("1.%d", o.minor()) }

func (o *options) statusObject(started, now time.Time) map[string]any {
	var paths []any
	for _, path := range o.pagesToLookAt() {
		paths = append(paths, path)
	}
	return map[string]any{
		"startTime": started.UTC().Format(time.RFC3339), "uptimeSeconds": int64(now.Sub(started).Seconds()),
		"goVersion": runtime.Version(), "binaryVersion": strings.TrimPrefix(o.version.info().GitVersion, "v"), "emulationVersion": o.emulates(), "paths": paths,
	}
}

func (o *options) writeStatus(w io.Writer, started, now time.Time) {
	up := now.Sub(started).Truncate(time.Second)
	_, _ = fmt.Fprintf(w, "\n%s statusz\n%s\n\nStarted: %s\nUp: %d hr %02d min %02d sec\nGo version: %s\nBinary version: %s\nEmulation version: %s\nPaths: %s\n",
		zpageComponent, zpageWarning, started.UTC().Format(time.UnixDate), int(up.Hours()), int(up.Minutes())%60, int(up.Seconds())%60,
		runtime.Version(), strings.TrimPrefix(o.version.info().GitVersion, "v"), o.emulates(), strings.Join(o.pagesToLookAt(), " ")) // the reader may be gone
}

// flagsObject has the flags with their values. None of them is a secret.
func (o *options) flagsObject() map[string]any {
	flags := map[string]any{}
	o.all.VisitAll(func(f *pflag.Flag) { flags[f.Name] = f.Value.String() })
	return map[string]any{"flags": flags}
}

func (o *options) writeFlags(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\n%s flagz\n%s\n\n", zpageComponent, zpageWarning) // the reader may be gone
	o.all.VisitAll(func(f *pflag.Flag) {
		_, _ = fmt.Fprintf(w, "%s=%s\n", f.Name, f.Value)
	})
}
