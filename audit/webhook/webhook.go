package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/internal/batch"
	"github.com/kindwright/kindwright/internal/connection"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/pause"
)

// Connection is where records go, and how the sink proves who it is.
type Connection = connection.Connection

// ReadConnection reads a connection file, which has the form of a kubeconfig: its current context
// names a cluster and a user. Paths in it are relative to the file. It rejects what it does not
// know. It may name a credential plugin. Certificates and keys in files of their own are read again
// when they change; while that is not possible, the last good ones are used.
func ReadConnection(path string) (Connection, error) {
	return connection.Read(path, func(error) {})
}

// requestTimeout bounds all attempts to send a record that a request waits for.
const requestTimeout = 30 * time.Second

// Options says how records are sent. The zero value sends them in batches.
type Options struct {
	Mode audit.Mode // default audit.ModeBatch

	// Batch is for audit.ModeBatch. The defaults are a buffer of 10,000 records, batches of 400
	// after at most 30 seconds, and 10 of them a second after the first 15.
	Batch audit.Batch

	// NoThrottle turns the throttle off, which Batch cannot say for its zero value means the default.
	NoThrottle bool

	Truncate audit.Truncation

	InitialBackoff time.Duration // before the second attempt; default 10 seconds (AUD-27)
	APIVersion     string        // of the EventList; default audit.k8s.io/v1
	Logger         logr.Logger   // hears of records that are lost
}

// Webhook is the sink. It is safe for concurrent use.
type Webhook struct {
	to      Connection
	options Options
	queue   *batch.Queue // nil unless the mode is batch
	lost    atomic.Uint64
}

var (
	_ audit.Sink   = (*Webhook)(nil)
	_ audit.Losses = (*Webhook)(nil)
)

// The defaults of a batch, beside those of package audit.
const (
	defaultMaxWait = 30 * time.Second
	defaultBackoff = 10 * time.Second
)

// New makes a sink. It does not connect yet.
func New(to Connection, o Options) (*Webhook, error) {
	if o.Mode == "" {
		o.Mode = audit.ModeBatch
	}
	problems := []error{o.Mode.Validate("webhook"), o.Truncate.Validate("webhook")}
	if o.Mode == audit.ModeBatch {
		problems = append(problems, o.Batch.Validate("webhook"))
	}
	if to.URL == "" {
		problems = append(problems, errors.New("the connection has no URL"))
	}
	if o.InitialBackoff < 0 {
		problems = append(problems, fmt.Errorf("the initial backoff %v must be positive", o.InitialBackoff))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("audit webhook: %w", err)
	}
	if o.InitialBackoff == 0 {
		o.InitialBackoff = defaultBackoff
	}
	if o.APIVersion == "" {
		o.APIVersion = "audit.k8s.io/v1"
	}
	w := &Webhook{to: to.WithClient(), options: o}
	if o.Mode == audit.ModeBatch {
		w.begin()
	}
	return w, nil
}

// parallel is how many batches are sent at a time. One that is sent again waits for a minute and more, in which
// a busy server makes more records than the buffer holds.
const parallel = 8

// begin starts the queue.
func (w *Webhook) begin() {
	b := w.options.Batch
	if b.MaxWait == 0 {
		b.MaxWait = defaultMaxWait
	}
	most := w.options.Truncate.BatchBytes() // also if records are not cut: a body is made in memory
	w.queue = batch.New(batch.Options{
		Buffer: b.BufferSize, MaxSize: b.MaxSize, MaxWait: b.MaxWait, MaxBytes: most, Parallel: parallel,
		Throttle: !w.options.NoThrottle, QPS: b.ThrottleQPS, Burst: b.ThrottleBurst,
	}, func(ctx context.Context, records [][]byte) {
		if err := w.send(ctx, records...); err != nil {
			w.lose(err, len(records))
		}
	}, func(n int) { w.lose(errors.New("the buffer of audit records is full"), n) })
}

// Write sends a record, or gives it to the queue. It only fails in blocking-strict mode.
func (w *Webhook) Write(ctx context.Context, data []byte) error {
	data, ok := w.options.Truncate.Apply(data)
	if w.queue != nil && ok {
		w.queue.Add(data)
		return nil
	}
	err := errors.New("the audit record is too large")
	if ok {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout) // of all attempts, as a request waits for them
		err = w.send(ctx, data)
		cancel()
	}
	switch {
	case err == nil:
	case w.options.Mode == audit.ModeBlockingStrict:
		w.lost.Add(1)
		return err
	default:
		w.lose(err, 1)
	}
	return nil
}

// lose counts lost records and tells the log about them.
func (w *Webhook) lose(err error, n int) {
	w.lost.Add(uint64(n)) //nolint:gosec // not negative
	if w.options.Logger.GetSink() != nil {
		w.options.Logger.Error(err, "audit records are lost", "sink", "webhook", "records", n)
	}
}

// attempts is how often a batch is sent, at most.
const attempts = 5

// send sends records as one EventList, and again whatever the answer was. A receiver that is being replaced,
// or whose credentials are, answers 401, 403, 404 or anything else for a while, and a record that is given up
// is lost for ever. kube-apiserver does the same.
// Source: AUD-27.
func (w *Webhook) send(ctx context.Context, records ...[]byte) error {
	body := append([]byte(`{"kind":"EventList","apiVersion":`), json.AppendString(nil, w.options.APIVersion)...)
	body = append(body, `,"metadata":{},"items":[`...)
	for i, r := range records {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r...)
	}
	body = append(body, "]}"...)
	wait := w.options.InitialBackoff
	for n := 1; ; n++ {
		_, err := w.to.Post(ctx, body)
		if err == nil || errors.Is(err, connection.ErrLongAnswer) { // nothing in an answer matters
			return nil
		}
		if n == attempts {
			return fmt.Errorf("the audit webhook: %w", err)
		}
		if ctxErr := pause.For(ctx, wait); ctxErr != nil {
			return errors.Join(fmt.Errorf("the audit webhook: %w", err), ctxErr)
		}
		wait += wait / 2
	}
}

// Losses returns "webhook" and how many records are lost.
func (w *Webhook) Losses() (sink string, lost uint64) { return "webhook", w.lost.Load() }

// Close sends what is in the queue.
func (w *Webhook) Close() error {
	if w.queue != nil {
		w.queue.Close()
	}
	w.to.Client.CloseIdleConnections()
	return nil
}
