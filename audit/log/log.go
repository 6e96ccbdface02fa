package log

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/internal/batch"
)

// Format says how a record is written.
// Source: AUD-19.
type Format string

// The formats.
const (
	JSON   Format = "json"   // the document Event
	Legacy Format = "legacy" // one line of text with the most important facts
)

// Options says how records are written. The zero value writes JSON before requests go on, to a file
// that is never replaced.
type Options struct {
	Format Format     // default JSON
	Mode   audit.Mode // default audit.ModeBlocking

	// Batch is for audit.ModeBatch. The defaults are a buffer of 10,000 records, batches of one and
	// no throttle.
	Batch audit.Batch

	Truncate audit.Truncation

	MaxSize    int  // of a file in MiB before it is replaced; 0: never
	MaxBackups int  // replaced files that are kept; 0: all
	MaxAge     int  // days for which replaced files are kept; 0: forever
	Compress   bool // compresses replaced files with gzip

	Logger logr.Logger // hears of records that are lost
}

// Log is the sink. It is safe for concurrent use.
type Log struct {
	options Options
	file    *writer
	queue   *batch.Queue // nil unless the mode is batch
	lost    atomic.Uint64
}

var (
	_ audit.Sink   = (*Log)(nil)
	_ audit.Losses = (*Log)(nil)
)

// Open opens or makes the file. The path "-" is the standard output of the process.
// Source: AUD-18.
func Open(path string, o Options) (*Log, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	l := &Log{options: o}
	if path == "-" {
		l.file = newWriter(&stream{os.Stdout})
	} else {
		f, err := openRotating(path, o)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		l.file = newWriter(f)
	}
	l.begin()
	return l, nil
}

// begin starts the queue, if there is one.
func (l *Log) begin() {
	if l.options.Mode != audit.ModeBatch {
		return
	}
	b := l.options.Batch
	if b.MaxSize == 0 {
		b.MaxSize = 1
	}
	most := 0
	if l.options.Truncate.Enabled {
		most = l.options.Truncate.BatchBytes()
	}
	l.queue = batch.New(batch.Options{
		Buffer: b.BufferSize, MaxSize: b.MaxSize, MaxWait: b.MaxWait, MaxBytes: most,
		Throttle: b.ThrottleEnable, QPS: b.ThrottleQPS, Burst: b.ThrottleBurst,
	}, func(_ context.Context, records [][]byte) {
		for i, r := range records {
			if err := l.file.write(r); err != nil {
				l.lose(err, len(records)-i)
				return
			}
		}
	}, func(n int) { l.lose(errors.New("the buffer of audit records is full"), n) })
}

func (o *Options) check() error {
	var problems []error
	if o.Format == "" {
		o.Format = JSON
	}
	if o.Format != JSON && o.Format != Legacy {
		problems = append(problems, fmt.Errorf("invalid audit log format %s, allowed formats are %q", o.Format, "legacy,json"))
	}
	if o.Mode == "" {
		o.Mode = audit.ModeBlocking
	}
	problems = append(problems, o.Mode.Validate("log"))
	if o.Mode == audit.ModeBatch {
		problems = append(problems, o.Batch.Validate("log"))
	}
	problems = append(problems, o.Truncate.Validate("log"))
	for name, n := range map[string]int{"maxage": o.MaxAge, "maxbackup": o.MaxBackups, "maxsize": o.MaxSize} {
		if n < 0 {
			problems = append(problems, fmt.Errorf("--audit-log-%s %d can't be a negative number", name, n))
		}
	}
	return errors.Join(problems...)
}

// Write writes a record, or gives it to the queue. It only fails in blocking-strict mode.
func (l *Log) Write(_ context.Context, data []byte) error {
	data, ok := l.options.Truncate.Apply(data)
	if !ok {
		return l.failed(errors.New("the audit record is too large"))
	}
	line, err := l.line(data)
	if err != nil {
		return l.failed(err)
	}
	if l.queue != nil {
		l.queue.Add(line)
		return nil
	}
	if err := l.file.write(line); err != nil {
		return l.failed(err)
	}
	return nil
}

// failed counts a lost record and returns the error if the request must not go on.
func (l *Log) failed(err error) error {
	if l.options.Mode == audit.ModeBlockingStrict {
		l.lost.Add(1)
		return err
	}
	l.lose(err, 1)
	return nil
}

// lose counts lost records and tells the log about them.
func (l *Log) lose(err error, n int) {
	l.lost.Add(uint64(n)) //nolint:gosec // not negative
	if l.options.Logger.GetSink() != nil {
		l.options.Logger.Error(err, "audit records are lost", "sink", "log", "records", n)
	}
}

// line is a record as it is written, without the line break.
func (l *Log) line(data []byte) ([]byte, error) {
	if l.options.Format == JSON {
		return data, nil
	}
	e, err := audit.ParseEvent(data)
	if err != nil {
		return nil, err
	}
	return legacy(e), nil
}

// Losses returns "log" and how many records are lost.
func (l *Log) Losses() (sink string, lost uint64) { return "log", l.lost.Load() }

// Close writes what is in the queue and closes the file.
func (l *Log) Close() error {
	if l.queue != nil {
		l.queue.Close()
	}
	return l.file.close()
}
