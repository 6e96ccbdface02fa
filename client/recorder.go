package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/pause"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/status"
)

// The types of a Report.
const (
	Normal  = "Normal"
	Warning = "Warning"
)

// Reference names the object, or a part of it, that a Report is about. Client.Reference returns
// one.
type Reference struct {
	Kind            string   `json:"kind,omitempty"`
	Namespace       string   `json:"namespace,omitempty"`
	Name            string   `json:"name,omitempty"`
	UID             meta.UID `json:"uid,omitempty"`
	APIVersion      string   `json:"apiVersion,omitempty"`
	ResourceVersion string   `json:"resourceVersion,omitempty"`
	FieldPath       string   `json:"fieldPath,omitempty"`
}

// Reference returns a Reference to an object of this client's kind.
func (c *Client[T]) Reference(obj *T) (Reference, error) {
	tree, err := c.encode(obj)
	if err != nil {
		return Reference{}, err
	}
	return Reference{
		Kind: c.kind, APIVersion: c.apiVersion(),
		Namespace: metadata(tree, "namespace"), Name: metadata(tree, "name"),
		UID: meta.UID(metadata(tree, "uid")), ResourceVersion: metadata(tree, "resourceVersion"),
	}, nil
}

// Report is something that happened to an object.
type Report struct {
	Regarding Reference  // the object
	Related   *Reference // another object involved, if any

	Type   string // Normal or Warning. Default: Normal
	Reason string // one word for why, such as ImagePulled; at most 128 characters
	Action string // one word for what was done or failed; at most 128 characters. Default: Reason
	Note   string // a sentence for people; truncated to 1024 bytes
}

// RecorderConfig configures a Recorder. Controller is required; the zero value of every other field
// means its default.
type RecorderConfig struct {
	// Controller is the name of the reporting controller, such as example.dev/widgets.
	Controller string

	// Instance distinguishes this process from others of the same controller. Default: the last
	// part of Controller and the host name.
	Instance string

	// Window is the quiet time after which a repeated report becomes a new event. Default 6
	// minutes.
	Window time.Duration

	// Every is how often the count of a repeating event is written, after its second occurrence.
	// Default 1 minute.
	Every time.Duration

	// Queue is how many reports can wait to be written. The recorder drops reports when it is full.
	// Default 1000.
	Queue int

	// GroupDomain is the domain of the system's groups on the server. Default: k8s.io.
	GroupDomain string
}

// The limits of a Recorder.
const (
	maxNote      = 1024             // bytes of a note (EVT-10)
	maxSeries    = 4096             // series that are remembered
	maxEventName = 253              // characters of a name
	eventTries   = 10               // attempts to write a report while the server does not respond
	firstWait    = time.Second      // the first pause between attempts
	maxWait      = 30 * time.Second // the longest pause between attempts
	drainTime    = 5 * time.Second  // how long Run keeps writing after its context has ended
)

// Recorder writes Events about objects, through the same operations as all clients. It counts a
// repeated event in the series of the first one instead of writing it again.
//
// Record never blocks: Run does the writing. Reports are lost when the queue is full, when the
// server rejects them, and when it does not respond for minutes. Events inform people; no work may
// depend on them. Source: EVT-31.
type Recorder struct {
	cfg     RecorderConfig
	events  *Client[event]
	wrong   error
	queue   chan occurrence
	dropped atomic.Int64

	mu   sync.Mutex
	last int64 // the time in the name of the last event, in nanoseconds

	series map[seriesKey]*series // used only by Run
}

// NewRecorder returns a Recorder over any http.Client, as For does. If the arguments are invalid,
// Run returns the error.
func NewRecorder(h *http.Client, cfg RecorderConfig, opts ...Option) *Recorder {
	cfg.Window = cmp.Or(cfg.Window, 6*time.Minute)
	cfg.Every = cmp.Or(cfg.Every, time.Minute)
	cfg.Queue = cmp.Or(cfg.Queue, 1000)
	cfg.GroupDomain = cmp.Or(cfg.GroupDomain, "k8s.io")
	if cfg.Instance == "" {
		host, _ := os.Hostname() // without a name all hosts look alike
		cfg.Instance = strings.TrimSuffix(cfg.Controller[strings.LastIndex(cfg.Controller, "/")+1:]+"-"+host, "-")
	}
	kind := Resource[event]{Group: "events." + cfg.GroupDomain, Version: "v1", Plural: "events", Kind: "Event"}
	r := &Recorder{cfg: cfg, events: For(h, kind, append(opts[:len(opts):len(opts)], WithMemory(0))...), series: map[seriesKey]*series{}}
	r.wrong = r.events.wrong
	if why := meta.CheckQualifiedName(cfg.Controller); why != "" {
		r.wrong = errors.Join(r.wrong, fmt.Errorf("client: recorder: the controller %q %s", cfg.Controller, why))
	}
	if cfg.Window < 0 || cfg.Every < 0 || cfg.Queue < 0 {
		r.wrong = errors.Join(r.wrong, errors.New("client: recorder: Window, Every and Queue must not be negative"))
		cfg.Queue = 0
	}
	r.queue = make(chan occurrence, max(cfg.Queue, 0))
	return r
}

// Record reports something that happened now. It never blocks and is safe for concurrent use.
func (r *Recorder) Record(report Report) {
	select {
	case r.queue <- occurrence{report, r.now()}:
	default:
		if r.dropped.Add(1) == 1 {
			r.events.log.Info("the queue is full: events are dropped until Run catches up")
		}
	}
}

// Dropped returns how many reports were lost because the queue was full.
func (r *Recorder) Dropped() int64 { return r.dropped.Load() }

// now returns the current time, made unique: events are named after it.
func (r *Recorder) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if now.UnixNano() <= r.last {
		now = now.Add(time.Duration(r.last + 1 - now.UnixNano()))
	}
	r.last = now.UnixNano()
	return now
}

// Run writes reports until ctx ends. It then spends up to five seconds on those already recorded
// and returns the cause of ctx. Call it once.
func (r *Recorder) Run(ctx context.Context) error {
	if r.wrong != nil {
		return r.wrong
	}
	working, done := outlasting(ctx, drainTime)
	defer done()
	every := time.NewTicker(r.cfg.Every)
	defer every.Stop()
	for ctx.Err() == nil {
		select {
		case o := <-r.queue:
			r.write(working, o)
		case <-every.C:
			r.flush(working, time.Now())
		case <-ctx.Done():
		}
	}
	for working.Err() == nil && len(r.queue) > 0 {
		r.write(working, <-r.queue)
	}
	r.flush(working, time.Now())
	return context.Cause(ctx)
}

// outlasting returns a context that ends some time after ctx, or when done is called.
func outlasting(ctx context.Context, while time.Duration) (longer context.Context, done func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var joined sync.WaitGroup
	joined.Go(func() {
		select {
		case <-longer.Done():
			return
		case <-ctx.Done():
		}
		_ = pause.For(longer, while)
		cancel()
	})
	return longer, func() { cancel(); joined.Wait() }
}

// event is an Event with the fields that a recorder writes.
type event struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata,omitzero"`

	EventTime           meta.MicroTime `json:"eventTime"`
	Series              *eventSeries   `json:"series,omitempty"`
	ReportingController string         `json:"reportingController"`
	ReportingInstance   string         `json:"reportingInstance"`
	Action              string         `json:"action"`
	Reason              string         `json:"reason"`
	Regarding           Reference      `json:"regarding,omitzero"`
	Related             *Reference     `json:"related,omitempty"`
	Note                string         `json:"note,omitempty"`
	Type                string         `json:"type"`
}

type eventSeries struct {
	Count            int32          `json:"count"`
	LastObservedTime meta.MicroTime `json:"lastObservedTime"`
}

// occurrence is a report and its time.
type occurrence struct {
	Report
	at time.Time
}

// seriesKey is equal for reports of the same thing. It leaves out the version of the object, and
// the note, which often contains a count.
type seriesKey struct {
	kind, reason, action string
	regarding, related   Reference
}

func (o *occurrence) key() seriesKey {
	s := seriesKey{kind: o.Type, reason: o.Reason, action: o.Action, regarding: o.Regarding}
	if o.Related != nil {
		s.related = *o.Related
	}
	s.regarding.ResourceVersion, s.related.ResourceVersion = "", ""
	return s
}

// series is an event that may repeat.
type series struct {
	event   *event
	last    time.Time // the last occurrence
	count   int32
	written int32 // the count that the server has
}

// write creates an event for one report, or counts it.
func (r *Recorder) write(ctx context.Context, o occurrence) {
	o.Type, o.Action = cmp.Or(o.Type, Normal), cmp.Or(o.Action, o.Reason)
	same := o.key()
	if s := r.series[same]; s != nil && o.at.Sub(s.last) <= r.cfg.Window {
		s.last = o.at
		if s.count < 1<<31-1 {
			s.count++
		}
		if s.count == 2 { // the first repetition is worth a write
			r.repeat(ctx, same, s)
		}
		return
	}
	s := &series{event: r.event(o), last: o.at, count: 1, written: 1}
	if !r.try(ctx, s.event, func(ctx context.Context) error { return r.create(ctx, s.event) }) {
		return
	}
	if len(r.series) >= maxSeries {
		r.forget(ctx)
	}
	r.series[same] = s
}

// event returns the Event for a report.
func (r *Recorder) event(o occurrence) *event {
	return &event{
		ObjectMeta:          meta.Named(cmp.Or(o.Regarding.Namespace, "default"), eventName(o.Regarding, o.at)),
		EventTime:           meta.NewMicroTime(o.at),
		ReportingController: r.cfg.Controller, ReportingInstance: r.cfg.Instance,
		Action: o.Action, Reason: o.Reason, Type: o.Type, Note: clip.Prefix(o.Note, maxNote),
		Regarding: o.Regarding, Related: o.Related,
	}
}

// eventName is the object's name and the time, as in other recorders. If that is not a valid name
// for an event, the kind replaces the object's name.
func eventName(of Reference, at time.Time) string {
	end := "." + strconv.FormatInt(at.UnixNano(), 16)
	for _, name := range []string{of.Name, strings.ToLower(of.Kind)} {
		name = strings.TrimRight(name[:min(len(name), maxEventName-len(end))], "-.")
		if meta.CheckDNSSubdomain(name) == "" {
			return name + end
		}
	}
	return "object" + end
}

// create stores an event. If the name is taken, it belongs to another recorder, or to this event if
// the response to an earlier attempt was lost.
func (r *Recorder) create(ctx context.Context, e *event) error {
	_, err := r.events.Create(ctx, e)
	if !status.IsAlreadyExists(err) {
		return err
	}
	have, err := r.events.Get(ctx, e.Key())
	switch {
	case err == nil && have.ReportingInstance == e.ReportingInstance && have.EventTime.Equal(&e.EventTime) && have.Reason == e.Reason && have.Action == e.Action:
		return nil
	case err != nil && !status.IsNotFound(err):
		return err
	}
	e.Name = eventName(e.Regarding, r.now())
	_, err = r.events.Create(ctx, e)
	return err
}

// repeat writes the count of a series. If the event no longer exists, it creates a new one.
func (r *Recorder) repeat(ctx context.Context, same seriesKey, s *series) {
	s.event.Series = &eventSeries{Count: s.count, LastObservedTime: meta.NewMicroTime(s.last)}
	if r.try(ctx, s.event, func(ctx context.Context) error {
		_, err := r.events.Patch(ctx, s.event.Key(), MergePatch(map[string]any{"series": s.event.Series}))
		if status.IsNotFound(err) {
			return r.create(ctx, s.event)
		}
		return err
	}) {
		s.written = s.count
		return
	}
	delete(r.series, same)
}

// flush writes counts that the server does not have, and forgets series that have been quiet for a
// while.
func (r *Recorder) flush(ctx context.Context, now time.Time) {
	known := slices.SortedFunc(maps.Keys(r.series), func(a, b seriesKey) int {
		return strings.Compare(r.series[a].event.Name, r.series[b].event.Name)
	})
	for _, same := range known {
		if ctx.Err() != nil {
			return
		}
		s := r.series[same]
		if s.count > s.written {
			r.repeat(ctx, same, s)
		}
		if now.Sub(s.last) > r.cfg.Window {
			delete(r.series, same)
		}
	}
}

// forget evicts the series that has been quiet the longest.
func (r *Recorder) forget(ctx context.Context) {
	var oldest seriesKey
	for same, s := range r.series {
		if at, ok := r.series[oldest]; !ok || s.last.Before(at.last) {
			oldest = same
		}
	}
	if s := r.series[oldest]; s.count > s.written {
		r.repeat(ctx, oldest, s)
	}
	delete(r.series, oldest)
}

// try calls write until the server has decided, and reports whether it accepted the event.
func (r *Recorder) try(ctx context.Context, e *event, write func(context.Context) error) bool {
	wait := firstWait
	for n := 1; ; n++ {
		err := write(ctx)
		if err == nil {
			return true
		}
		if final(err) || n == eventTries || ctx.Err() != nil {
			r.events.log.Info("an event was not recorded", "event", e.Key().String(), "reason", e.Reason, "error", err.Error())
			return false
		}
		if pause.For(ctx, wait/2+rand.N(wait)) != nil {
			continue // one last attempt
		}
		wait = min(2*wait, maxWait)
	}
}
