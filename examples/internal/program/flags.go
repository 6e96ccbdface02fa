package program

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/internal/accessflags"
	"github.com/kindwright/kindwright/internal/auditflags"
	"github.com/kindwright/kindwright/internal/authnflags"
	"github.com/kindwright/kindwright/internal/encryptionflags"
	"github.com/kindwright/kindwright/kinds"
)

// flags holds the command line of the server.
type flags struct {
	store         Store
	listen        string
	dataDir       string
	kubeconfig    string
	tokenAuthFile string
	bootstrap     bool
	clientCAFile  string
	proxyCAFile   string
	proxyHeaders  map[string]*string // by flag
	authorization accessflags.Authorization
	tokenWebhook  accessflags.TokenWebhook
	collect       bool
	verbosity     int
	version       bool

	livezGrace    time.Duration
	shutdownDelay time.Duration
	goawayChance  float64
	crds          bool
	documented    bool
	eventTTL      time.Duration
	reads, writes int // in flight at once
	backup        bool

	audit      auditflags.Flags
	tunnels    tunnels
	encryption encryptionflags.Flags

	authn    authnflags.Flags
	accounts authnflags.ServiceAccounts
	features texts
	versions texts
	emulated string
}

// parseFlags parses the command line. Usage and syntax errors are written to out. Every error names
// its flag.
func parseFlags(args []string, out io.Writer, store Store) (*flags, error) {
	f := &flags{store: store}
	set := flag.NewFlagSet(store.Name(), flag.ContinueOnError)
	set.SetOutput(out)
	set.StringVar(&f.listen, "listen", "127.0.0.1:6443", "address to serve HTTPS on; port 0 picks a free one")
	set.StringVar(&f.dataDir, "data-dir", "./kindwright-data", "directory of the store, certificates and kubeconfig; made if absent")
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"file to write the administrator's kubeconfig to (default kubeconfig in the data directory)")
	set.StringVar(&f.tokenAuthFile, "token-auth-file", "", `CSV file of bearer tokens: token,user,uid,"group,group"`)
	set.BoolVar(&f.bootstrap, "enable-bootstrap-token-auth", false, "accept the tokens in Secrets of the type bootstrap.kubernetes.io/token in the namespace kube-system")
	set.StringVar(&f.proxyCAFile, "requestheader-client-ca-file", "", "PEM file of the authorities of front proxies, which name users in headers")
	f.proxyHeaders = map[string]*string{
		"requestheader-allowed-names":        set.String("requestheader-allowed-names", "", "comma-separated common names of the front proxies"),
		"requestheader-username-headers":     set.String("requestheader-username-headers", "X-Remote-User", "headers with the name of the user"),
		"requestheader-uid-headers":          set.String("requestheader-uid-headers", "X-Remote-Uid", "headers with the uid of the user"),
		"requestheader-group-headers":        set.String("requestheader-group-headers", "X-Remote-Group", "headers with groups of the user"),
		"requestheader-extra-headers-prefix": set.String("requestheader-extra-headers-prefix", "X-Remote-Extra-", "prefixes of headers with further facts"),
	}
	set.StringVar(&f.clientCAFile, "client-ca-file", "", "PEM file of further authorities whose client certificates are accepted")
	f.authorization.Default = modeRBAC
	f.authorization.Add(set, modes()...)
	f.tokenWebhook.Add(set)
	set.BoolVar(&f.collect, "garbage-collection", true,
		"delete objects whose owners are gone, and carry out --cascade=foreground and orphan")
	set.Var(&f.features, "feature-gates", "features to switch, such as WatchList=false,AllAlpha=true")
	set.StringVar(&f.emulated, "emulated-version", "",
		"release of Kubernetes whose features and defaults the server has, such as 1.31 (default the newest it knows)")
	set.Var(&f.versions, "runtime-config", "API versions and resources to serve, such as api/beta=false,example.dev/v1/gadgets=true")
	set.DurationVar(&f.livezGrace, "livez-grace-period", 0, "how long /livez passes although the start has not finished")
	set.DurationVar(&f.shutdownDelay, "shutdown-delay-duration", 0, "how long to go on serving, unready, before stopping")
	set.Float64Var(&f.goawayChance, "goaway-chance", 0, "fraction of HTTP/2 requests, up to 0.02, whose client is asked to connect anew")
	set.DurationVar(&f.eventTTL, "event-ttl", kinds.DefaultEventTTL, "how long events are kept")
	set.IntVar(&f.reads, "max-requests-inflight", 400, "how many requests that read may be in flight, half of them of one user; 0 is no limit")
	set.IntVar(&f.writes, "max-mutating-requests-inflight", 200, "how many requests that write may be in flight, half of them of one user; 0 is no limit")
	set.BoolVar(&f.crds, "crds", true, "serve CustomResourceDefinitions, by which clients add kinds")
	set.BoolVar(&f.documented, "documented-expression-prices", false,
		"count rules in schemas with the prices of the API's documentation; they refuse definitions that kube-apiserver accepts, such as those of Gateway API")
	f.authn.Add(set)
	f.accounts.Add(set)
	f.audit.Add(set)
	f.tunnels.add(set)
	f.encryption.Add(set)
	store.AddFlags(set)
	set.BoolVar(&f.version, "version", false, "print the version of the program, and end")
	set.BoolVar(&f.backup, "serve-backup", false, "serve a copy of the store at /debug/backup; it has all data, secrets included")
	set.IntVar(&f.verbosity, "v", 0, "how much to log; 0 logs problems alone")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: the server takes flags only", set.Arg(0))
	}
	if f.kubeconfig == "" {
		f.kubeconfig = filepath.Join(f.dataDir, "kubeconfig")
	}
	return f, f.check()
}

// proxyList returns the elements of a flag about front proxies.
func (f *flags) proxyList(name string) []string {
	if text := *f.proxyHeaders[name]; text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// texts is a flag that may be given several times.
type texts []string

// String joins the values.
func (t *texts) String() string { return strings.Join(*t, ",") }

// Set adds a value.
func (t *texts) Set(text string) error { *t = append(*t, text); return nil }

func (f *flags) check() error {
	var problems []error
	if _, port, err := net.SplitHostPort(f.listen); err != nil {
		problems = append(problems, fmt.Errorf("--listen %q: %w", f.listen, err))
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		problems = append(problems, fmt.Errorf("--listen %q: the port must be a number from 0 to 65535", f.listen))
	}
	if f.dataDir == "" {
		problems = append(problems, errors.New("--data-dir must not be empty"))
	}
	problems = append(problems, f.store.CheckFlags()...)
	problems = append(problems, f.authorization.Check(modes()...)...)
	problems = append(problems, f.tokenWebhook.Check()...)
	if f.eventTTL <= 0 {
		problems = append(problems, fmt.Errorf("--event-ttl %v: must be above 0", f.eventTTL))
	}
	for name, n := range map[string]int{"max-requests-inflight": f.reads, "max-mutating-requests-inflight": f.writes} {
		if n < 0 {
			problems = append(problems, fmt.Errorf("--%s %d: must not be negative; 0 is no limit", name, n))
		}
	}
	problems = append(problems, f.authn.Check()...)
	problems = append(problems, f.accounts.Check()...)
	problems = append(problems, f.audit.Check()...)
	problems = append(problems, f.encryption.Check()...)
	if f.verbosity < 0 {
		problems = append(problems, fmt.Errorf("--v %d: must not be negative", f.verbosity))
	}
	return errors.Join(problems...)
}

// limits are the bounds of what is in flight at once. To the flags 0 is none, as in Kubernetes.
// Source: APF-01.
func (f *flags) limits() kindwright.Limits {
	bound := func(n int) int {
		if n == 0 {
			return math.MaxInt32
		}
		return n
	}
	return kindwright.Limits{Reads: bound(f.reads), Writes: bound(f.writes)}
}
