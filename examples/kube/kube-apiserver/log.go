package main

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

// The values of --logging-format.
const (
	logText = "text"
	logJSON = "json"
)

// observeFlags adds the flags about what the server tells of itself.
func (o *options) observeFlags(f *pflag.FlagSet) {
	f.StringVar(&o.logFormat, "logging-format", logText, "how to log: text or json")
	f.BoolVar(&o.contention, "contention-profiling", false, "whether the profiles have where goroutines wait for each other")
	f.StringVar(&o.debugSocket, "debug-socket-path", "", "a Unix socket with the profiles, for whoever may open it")
	f.IntVarP(&o.verbosity, "v", "v", 0, "how much to log; 0 logs problems alone")
	f.StringVar(&o.spans.file, "tracing-config-file", "", "a TracingConfiguration: where the spans of requests are sent, and which requests have one")
}

// checkLog rejects other formats.
func (o *options) checkLog() error {
	if o.logFormat != logText && o.logFormat != logJSON {
		return fmt.Errorf("--logging-format %q: must be %s or %s", o.logFormat, logText, logJSON)
	}
	return nil
}

// log returns the log of the server.
func (o *options) log(to io.Writer) logr.Logger {
	level := slog.Level(1 - o.verbosity) // logr's V(n) is level -n, its errors are far above
	if o.logFormat == logJSON {
		return logr.FromSlogHandler(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: asComponents}))
	}
	return logr.FromSlogHandler(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
}

// asComponents names what every line has as the components of Kubernetes do: the time is ts, in
// milliseconds, and v is how unimportant the line is, which errors do not have.
func asComponents(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.Float64("ts", float64(a.Value.Time().UnixMicro())/float64(time.Millisecond/time.Microsecond))
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		if level >= slog.LevelError {
			return slog.Attr{}
		}
		return slog.Int("v", -int(min(level, 0)))
	}
	return a
}
