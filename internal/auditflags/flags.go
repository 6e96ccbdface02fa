package auditflags

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/audit/log"
	"github.com/kindwright/kindwright/audit/webhook"
	"github.com/kindwright/kindwright/egress"
	"github.com/kindwright/kindwright/internal/files"
)

// Flags are the values of the flags.
type Flags struct {
	policy string

	path       string
	format     string
	maxAge     int
	maxBackups int
	maxSize    int
	compress   bool
	log        sink

	connection string
	backoff    time.Duration
	webhook    sink
}

// sink are the flags that both sinks have.
type sink struct {
	name     string
	mode     string
	version  string
	batch    audit.Batch
	truncate audit.Truncation
}

// apiVersion is the only version of records.
const apiVersion = "audit.k8s.io/v1"

// Add adds the flags to a set.
func (f *Flags) Add(set *flag.FlagSet) {
	set.StringVar(&f.policy, "audit-policy-file", "", "file with the policy that says what is recorded; without it nothing is")

	set.StringVar(&f.path, "audit-log-path", "", "file that audit records are appended to; - is the standard output")
	set.StringVar(&f.format, "audit-log-format", "json", "format of audit records: json or legacy")
	set.IntVar(&f.maxAge, "audit-log-maxage", 366, "days for which old audit files are kept; 0 is forever")
	set.IntVar(&f.maxBackups, "audit-log-maxbackup", 100, "how many old audit files are kept; 0 is all")
	set.IntVar(&f.maxSize, "audit-log-maxsize", 100, "size in MiB at which an audit file is replaced; 0 is never")
	set.BoolVar(&f.compress, "audit-log-compress", false, "whether old audit files are compressed")
	f.log = sink{name: "log", batch: audit.Batch{BufferSize: 10_000, MaxSize: 1}}
	f.log.add(set, audit.ModeBlocking)

	set.StringVar(&f.connection, "audit-webhook-config-file", "", "file in the form of a kubeconfig that says where audit records are sent")
	set.DurationVar(&f.backoff, "audit-webhook-initial-backoff", 10*time.Second, "pause before audit records are sent again")
	f.webhook = sink{name: "webhook", batch: audit.Batch{
		BufferSize: 10_000, MaxSize: 400, MaxWait: 30 * time.Second, ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 15,
	}}
	f.webhook.add(set, audit.ModeBatch)
}

func (s *sink) add(set *flag.FlagSet, mode audit.Mode) {
	at := "audit-" + s.name + "-"
	set.StringVar(&s.mode, at+"mode", string(mode),
		"when audit records are written: batch (later), blocking (before requests go on), blocking-strict (and no request goes on without)")
	set.StringVar(&s.version, at+"version", apiVersion, "version of audit records")
	set.IntVar(&s.batch.BufferSize, at+"batch-buffer-size", s.batch.BufferSize, "in mode batch: how many records wait; more are lost")
	set.IntVar(&s.batch.MaxSize, at+"batch-max-size", s.batch.MaxSize, "in mode batch: how many records are written at once")
	set.DurationVar(&s.batch.MaxWait, at+"batch-max-wait", s.batch.MaxWait, "in mode batch: how long a record waits for others")
	set.BoolVar(&s.batch.ThrottleEnable, at+"batch-throttle-enable", s.batch.ThrottleEnable, "in mode batch: whether batches are throttled")
	set.Float64Var(&s.batch.ThrottleQPS, at+"batch-throttle-qps", s.batch.ThrottleQPS, "in mode batch: batches a second, on average")
	set.IntVar(&s.batch.ThrottleBurst, at+"batch-throttle-burst", s.batch.ThrottleBurst, "in mode batch: batches at once after a pause")
	set.BoolVar(&s.truncate.Enabled, at+"truncate-enabled", false, "whether long records are cut")
	set.IntVar(&s.truncate.MaxEventBytes, at+"truncate-max-event-size", audit.DefaultMaxEventBytes, "bytes of one record; a longer one loses its bodies")
	set.IntVar(&s.truncate.MaxBatchBytes, at+"truncate-max-batch-size", audit.DefaultMaxBatchBytes, "bytes of the records that are written at once")
}

// Check reports values that kube-apiserver rejects. It does not look at the flags of a sink that is
// not used.
func (f *Flags) Check() (problems []error) {
	if f.path != "" {
		problems = append(problems, f.log.check()...)
		for _, n := range []struct {
			name  string
			value int
		}{{"maxage", f.maxAge}, {"maxbackup", f.maxBackups}, {"maxsize", f.maxSize}} {
			if n.value < 0 {
				problems = append(problems, fmt.Errorf("--audit-log-%s %d can't be a negative number", n.name, n.value))
			}
		}
		if !slices.Contains([]string{"legacy", "json"}, f.format) {
			problems = append(problems, fmt.Errorf("invalid audit log format %s, allowed formats are %q", f.format, "legacy,json"))
		}
	}
	if f.connection != "" {
		problems = append(problems, f.webhook.check()...)
		if f.backoff <= 0 {
			problems = append(problems, fmt.Errorf("--audit-webhook-initial-backoff %v must be positive", f.backoff))
		}
	}
	return problems
}

func (s *sink) check() (problems []error) {
	mode := audit.Mode(s.mode)
	if mode == "" {
		mode = "\"\""
	}
	if err := mode.Validate(s.name); err != nil {
		problems = append(problems, err)
	}
	if mode == audit.ModeBatch {
		must := func(ok bool, what string, value any) {
			if !ok {
				problems = append(problems, fmt.Errorf("invalid audit batch %s %s %v, must be a positive number", s.name, what, value))
			}
		}
		must(s.batch.BufferSize > 0, "buffer size", s.batch.BufferSize)
		must(s.batch.MaxSize > 0, "max batch size", s.batch.MaxSize)
		must(s.batch.MaxWait >= 0, "max wait", s.batch.MaxWait)
		if s.batch.ThrottleEnable {
			must(s.batch.ThrottleQPS > 0, "throttle QPS", s.batch.ThrottleQPS)
			must(s.batch.ThrottleBurst > 0, "throttle burst", s.batch.ThrottleBurst)
		}
	}
	if s.truncate.Enabled {
		if s.truncate.MaxEventBytes <= 0 {
			problems = append(problems, fmt.Errorf("invalid audit truncate %s max event size %v, must be a positive number", s.name, s.truncate.MaxEventBytes))
		} else if s.truncate.MaxBatchBytes < s.truncate.MaxEventBytes {
			problems = append(problems, fmt.Errorf("invalid audit truncate %s max batch size %v, must be greater than max event size (%v)",
				s.name, s.truncate.MaxBatchBytes, s.truncate.MaxEventBytes))
		}
	}
	if s.version != apiVersion {
		problems = append(problems, fmt.Errorf("invalid group version, allowed versions are %q", []string{apiVersion}))
	}
	return problems
}

// Open reads the policy and opens the sinks. Without a policy there are no sinks, as nothing would
// be recorded. The caller closes them, which Close does. through says how the webhook is reached, nil:
// directly.
func (f *Flags) Open(logger logr.Logger, through *egress.Selector) (policy audit.Policy, sinks []audit.Sink, err error) {
	if f.policy == "" {
		if f.path != "" || f.connection != "" {
			logger.Info("no audit policy file provided, so no events are recorded")
		}
		return policy, nil, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, Close(sinks))
			sinks = nil
		}
	}()
	document, err := files.Read(f.policy)
	if err == nil {
		policy, err = audit.ParsePolicy(document)
	}
	if err != nil {
		return policy, nil, fmt.Errorf("loading audit policy file: %w: from file %s", err, f.policy)
	}
	if f.path != "" {
		l, err := log.Open(f.path, log.Options{
			Format: log.Format(f.format), Mode: audit.Mode(f.log.mode), Batch: f.log.batch, Truncate: f.log.truncate,
			MaxSize: f.maxSize, MaxBackups: f.maxBackups, MaxAge: f.maxAge, Compress: f.compress, Logger: logger,
		})
		if err != nil {
			return policy, nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		sinks = append(sinks, l)
	}
	if f.connection != "" {
		to, err := webhook.ReadConnection(f.connection)
		if err == nil {
			to, err = to.Through(through.Dialer(egress.ControlPlane))
		}
		if err != nil {
			return policy, sinks, fmt.Errorf("--audit-webhook-config-file: %w", err)
		}
		w, err := webhook.New(to, webhook.Options{
			Mode: audit.Mode(f.webhook.mode), Batch: f.webhook.batch, NoThrottle: !f.webhook.batch.ThrottleEnable, Truncate: f.webhook.truncate,
			InitialBackoff: f.backoff, APIVersion: f.webhook.version, Logger: logger,
		})
		if err != nil {
			return policy, sinks, err
		}
		sinks = append(sinks, w)
	}
	return policy, sinks, nil
}

// Close closes sinks.
func Close(sinks []audit.Sink) error {
	var problems []error
	for _, s := range sinks {
		problems = append(problems, s.Close())
	}
	return errors.Join(problems...)
}
