package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	podsecurity "k8s.io/pod-security-admission/admission/api"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/admission/ownerref"
	"github.com/kindwright/kindwright/admission/tolerationseconds"
	"github.com/kindwright/kindwright/admission/webhook"
	"github.com/kindwright/kindwright/examples/kube"
	"github.com/kindwright/kindwright/flowcontrol"
	"github.com/kindwright/kindwright/internal/accessflags"
	"github.com/kindwright/kindwright/internal/auditflags"
	"github.com/kindwright/kindwright/internal/authnflags"
	"github.com/kindwright/kindwright/internal/encryptionflags"
)

// options holds the parsed command line.
type options struct {
	bindAddress   net.IP
	securePort    int
	certDir       string
	tlsCertFile   string
	tlsKeyFile    string
	clientCAFile  string
	tokenFile     string
	bootstrap     bool
	proxy         frontProxy
	aggregation   aggregation
	kubelets      kubelets
	spans         spans
	tunnels       tunnels
	authn         authnflags.Flags
	accounts      authnflags.ServiceAccounts
	authorization accessflags.Authorization
	tokenWebhook  accessflags.TokenWebhook

	dataDir     string
	etcdServers []string
	etcdPrefix  string
	etcdCA      string
	etcdCert    string
	etcdKey     string

	serviceCIDR     string
	serviceRange    netip.Prefix
	secondRange     netip.Prefix
	nodePortRange   string
	nodePorts       [2]int32
	ownNodePort     int32 // of the service kubernetes
	allowPrivileged bool
	disabled        []string
	enabled         []string
	admissionConfig string
	manifests       []*manifestFolder
	limited         []kube.LimitedResource                // what needs a quota
	images          []byte                                // the configuration of ImagePolicyWebhook
	configured      kube.PluginConfiguration              // what other plugins are told
	webhookUsers    map[string]*webhook.Credentials       // by the plugin that asks webhooks
	staticWebhooks  *webhook.Statics                      // those of files; nil: there are none
	podSecurity     *podsecurity.PodSecurityConfiguration // nil: that of Kubernetes
	eventTTL        time.Duration
	tolerate        tolerationseconds.Options // of nodes in trouble

	requestTimeout        time.Duration
	minRequest            int
	minWatch              time.Duration
	shutdownDelay         time.Duration
	livezGrace            time.Duration
	gates                 []string
	runtimeConfig         []string
	emulated, compatible  []string
	forward, forwardNamed bool
	collect               bool
	controllers           []string
	advertise             net.IP
	verbosity             int
	logFormat             string
	version               versionFlag
	tlsMinVersion         string
	sniPairs              []string
	sni                   []kindwright.KeyPair
	curves                []tls.CurveID

	curvePreferences []int32
	cipherSuites     []string
	ciphers          []uint16
	transport        []string
	origins          []string
	goawayChance     float64
	streams          int
	onlyHTTP1        bool
	retryAfter       bool
	profiling        bool
	contention       bool   // is part of the profiles
	debugSocket      string // the path of a socket with the profiles
	fairness         bool
	reads, writes    int // in flight
	maxObject        int
	features         gates
	metrics          metricLimits
	audit            auditflags.Flags
	encryption       encryptionflags.Flags
	libraryGates     []string       // --feature-gates that the library knows
	libraryVersions  []string       // --runtime-config without what is not served here
	all              *pflag.FlagSet // the command line
	withoutEffect    []string       // flags that were given and have no effect here
	withoutEffectOf  []string       // the same for values of other flags, with the flag
}

// flags returns the flags of the program. Those of the original that have no effect here record
// that they were given.
func (o *options) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	f.SortFlags, f.Usage = true, func() {}
	f.IPVar(&o.bindAddress, "bind-address", net.IPv4zero, "the address to serve HTTPS on")
	f.IntVar(&o.securePort, "secure-port", 6443, "the port to serve HTTPS on; 0 picks a free one")
	f.StringVar(&o.certDir, "cert-dir", "", "where apiserver.crt and apiserver.key are, unless the next two flags name files; made if absent. Default: in the directory of the data")
	f.StringVar(&o.tlsCertFile, "tls-cert-file", "", "the serving certificate, in PEM, with its intermediates")
	f.StringArrayVar(&o.sniPairs, "tls-sni-cert-key", nil, "certificate,key or certificate,key:name,name: another serving certificate, for clients that ask for one of its names (may be given several times)")
	f.Int32SliceVar(&o.curvePreferences, "tls-curve-preferences", nil, "the key exchanges of TLS, by Go's numbers (default Go's own)")
	f.StringVar(&o.tlsKeyFile, "tls-private-key-file", "", "the key of --tls-cert-file")
	f.StringVar(&o.clientCAFile, "client-ca-file", "",
		"PEM file of the authorities whose client certificates are accepted: the common name is the user, organizations are groups")
	o.proxy.flags(f)
	o.aggregation.flags(f)
	o.kubelets.flags(f)
	o.tunnels.flags(f)
	o.observeFlags(f)
	o.metrics.flags(f)
	f.StringVar(&o.tokenFile, "token-auth-file", "", `CSV file of bearer tokens: token,user,uid,"group,group"`)
	f.BoolVar(&o.bootstrap, "enable-bootstrap-token-auth", false, "accept the tokens in Secrets of the type bootstrap.kubernetes.io/token in the namespace kube-system")
	f.StringVar(&o.dataDir, "data-dir", "", "where objects are kept when there is no --etcd-servers (default ./kube-apiserver-data)")
	f.StringSliceVar(&o.etcdServers, "etcd-servers", nil, "URLs of etcd, or of the stand-in for it, whose directory the objects are kept in")
	f.StringVar(&o.etcdCA, "etcd-cafile", "", "PEM file of the authorities of etcd's certificates")
	f.StringVar(&o.etcdCert, "etcd-certfile", "", "PEM file of the certificate to show to etcd")
	f.StringVar(&o.etcdKey, "etcd-keyfile", "", "the key of --etcd-certfile")
	f.StringVar(&o.etcdPrefix, "etcd-prefix", "/registry", "names the objects of this server among those of others that share a directory")
	f.StringVar(&o.serviceCIDR, "service-cluster-ip-range", "10.0.0.0/24", "where services get their addresses from: a range, or one of each family, separated by a comma")
	f.StringVar(&o.nodePortRange, "service-node-port-range", "30000-32767", "the ports that services are given on nodes")
	f.Int32Var(&o.ownNodePort, "kubernetes-service-node-port", 0, "the port of nodes under which the service kubernetes can be reached; 0: none")
	f.BoolVar(&o.allowPrivileged, "allow-privileged", false, "whether containers may be privileged")
	f.StringSliceVar(&o.disabled, "disable-admission-plugins", nil,
		"plugins that are not asked; without NamespaceLifecycle objects may be in namespaces that do not exist")
	f.StringSliceVar(&o.enabled, "enable-admission-plugins", nil, "plugins that are asked")
	f.StringVar(&o.admissionConfig, "admission-control-config-file", "", "names the directories with the manifests of admission policies and webhooks, and configures PodSecurity")
	f.DurationVar(&o.eventTTL, "event-ttl", time.Hour, "how long events are kept")
	f.DurationVar(&o.requestTimeout, "request-timeout", time.Minute, "how long a request may take that is no watch")
	f.IntVar(&o.minRequest, "min-request-timeout", 1800, "after how many seconds watches end at the earliest")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay-duration", 0, "how long to go on serving, unready, before stopping")
	f.DurationVar(&o.livezGrace, "livez-grace-period", 0, "how long /livez passes although the start has not finished")
	f.StringArrayVar(&o.gates, "feature-gates", nil, "features to switch on or off, such as WatchList=false")
	f.StringArrayVar(&o.runtimeConfig, "runtime-config", nil, "versions to serve or not, such as autoscaling/v1=false")
	f.StringSliceVar(&o.emulated, "emulated-version", nil, "the release of Kubernetes to behave like, such as 1.35 or kube=1.35")
	f.StringSliceVar(&o.compatible, "min-compatibility-version", nil, "the oldest release that what is stored should be fit for, such as 1.34 or kube=1.34")
	f.BoolVar(&o.forward, "emulation-forward-compatible", false, "whether stable versions of APIs later than --emulated-version are served too")
	f.BoolVar(&o.forwardNamed, "runtime-config-emulation-forward-compatible", false,
		"whether versions that --runtime-config names are served though they are later than --emulated-version")
	f.BoolVar(&o.collect, "enable-garbage-collector", true, "whether --controllers may name garbage-collector")
	f.StringSliceVar(&o.controllers, "controllers", nil,
		"controllers of kube-controller-manager that run here: namespace ends namespaces, garbage-collector deletes what has lost its owners, clusterrole-aggregation unites roles (default none)")
	f.IPVar(&o.advertise, "advertise-address", nil,
		"the address of the server for those inside the cluster, at the service `kubernetes`. Default: --bind-address")
	f.StringVar(&o.tlsMinVersion, "tls-min-version", "", "the lowest version of TLS: VersionTLS12 (the default) or VersionTLS13")
	f.StringSliceVar(&o.cipherSuites, "tls-cipher-suites", nil, "the cipher suites of TLS 1.2, by Go's names (default Go's own)")
	f.StringSliceVar(&o.origins, "cors-allowed-origins", nil, "regular expressions of the origins whose web pages may use the server")
	f.IntVar(&o.streams, "http2-max-streams-per-connection", 0, "requests that one HTTP/2 connection may have open at a time, at most 10000; 0 is the default")
	f.Float64Var(&o.goawayChance, "goaway-chance", 0, "fraction of HTTP/2 requests, up to 0.02, whose client is asked to connect anew")
	f.BoolVar(&o.retryAfter, "shutdown-send-retry-after", false, "whether requests that come while the server stops are told to retry, on a port that stays open")
	f.IntVar(&o.reads, "max-requests-inflight", 400, "how many requests that read may be in flight, half of them of one user; 0 is no limit")
	f.IntVar(&o.writes, "max-mutating-requests-inflight", 200, "how many requests that write may be in flight, half of them of one user; 0 is no limit")
	f.BoolVar(&o.fairness, "enable-priority-and-fairness", true, "whether flow schemas and priority levels share what is served at once")
	f.BoolVar(&o.profiling, "profiling", true, "whether /debug/pprof is served, to those who may read it")
	f.StringSliceVar(&o.transport, "strict-transport-security-directives", nil,
		"directives of the header Strict-Transport-Security of every answer: max-age=<seconds>, includeSubDomains, preload (default no header)")
	f.IntVar(&o.maxObject, "max-object-bytes", 3<<19,
		"how large an object may be, as JSON; larger ones lose their managedFields, or are refused with 413. The default is etcd's limit")
	f.BoolVar(&o.onlyHTTP1, "disable-http2-serving", false, "whether to speak HTTP/1.1 alone")
	f.Var(&o.version, "version", "print the version and exit, raw for all of it; or the version to report, vX.Y.Z-… of the same release")
	f.Lookup("version").NoOptDefVal = "true"
	own := flag.NewFlagSet("", flag.ContinueOnError)
	o.audit.Add(own)
	o.encryption.Add(own)
	o.authorization.Add(own, modes()...)
	o.authorization.Given(f.Changed)
	o.tokenWebhook.Add(own)
	o.authn.Add(own)
	o.accounts.Add(own)
	o.tolerate.AddFlags(own)
	f.AddGoFlagSet(own)
	o.addInert(f)
	return f
}

// parse reads the command line. Every error names the flag, and all errors are reported at once.
func parse(args []string) (*options, error) {
	o := &options{}
	f := o.flags()
	o.all = f
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	for _, arg := range f.Args() {
		if arg != "" { // scripts leave empty ones where a variable is empty, and kube-apiserver takes them
			return nil, fmt.Errorf("unexpected argument %q: only flags are accepted", arg)
		}
	}
	f.Visit(func(given *pflag.Flag) {
		if _, ok := given.Value.(*inert); ok {
			o.withoutEffect = append(o.withoutEffect, given.Name)
		}
	})
	return o, o.check(f)
}

// usage lists the flags, first those that have an effect.
func usage() string {
	o := &options{}
	all := o.flags()
	honoured, rest := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Value.(*inert); ok {
			rest.AddFlag(f)
		} else {
			honoured.AddFlag(f)
		}
	})
	return "kube-apiserver serves Kubernetes' own kinds from a store in one file.\n\nUsage:\n  kube-apiserver [flags]\n\nFlags:\n\n" + honoured.FlagUsagesWrapped(120) +
		"\nFlags that are accepted and have no effect:\n\n" + rest.FlagUsagesWrapped(120)
}

// check rejects invalid values, and flags that contradict each other.
func (o *options) check(f *pflag.FlagSet) error {
	problems := []error{o.aggregation.check(), o.kubelets.check(), o.tunnels.check(), o.proxy.check(), checkOrigins(o.origins)}
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.securePort < 0 || o.securePort > 65535 {
		refuse("--secure-port %d: must be from 0 to 65535", o.securePort)
	}
	if (o.tlsCertFile == "") != (o.tlsKeyFile == "") {
		refuse("--tls-cert-file and --tls-private-key-file belong together: one of them is missing")
	}
	if f.Changed("data-dir") && len(o.etcdServers) > 0 {
		refuse("--data-dir and --etcd-servers contradict each other: with the latter, objects are kept in etcd, or where the stand-in for it keeps them")
	}
	if err := checkPrefix(o.etcdPrefix); err != nil {
		refuse("--etcd-prefix %q: %w", o.etcdPrefix, err)
	}
	problems = append(problems, o.checkRanges()...)
	problems = append(problems, o.checkLog())
	problems = append(problems, o.authorization.Check(modes()...)...)
	problems = append(problems, o.tokenWebhook.Check()...)
	problems = append(problems, o.checkPlugins()...)
	problems = append(problems, o.checkControllers()...)
	problems = append(problems, o.checkTLS()...)
	problems = append(problems, o.checkGates()...)
	problems = append(problems, o.spans.read(o.features))
	problems = append(problems, o.checkAdmissionConfig()...)
	problems = append(problems, o.checkRuntimeConfig()...)
	problems = append(problems, o.metrics.check()...)
	problems = append(problems, o.audit.Check()...)
	problems = append(problems, o.encryption.Check()...)
	problems = append(problems, o.authn.Check()...)
	problems = append(problems, o.accounts.Check()...)
	if o.maxObject < 1<<10 || o.maxObject > 64<<20 {
		refuse("--max-object-bytes %d: must be from 1024 to 67108864", o.maxObject)
	}
	for _, d := range []struct {
		flag string
		is   time.Duration
	}{{"request-timeout", o.requestTimeout}, {"event-ttl", o.eventTTL}} {
		if d.is <= 0 {
			refuse("--%s %s: must be positive", d.flag, d.is)
		}
	}
	for _, d := range []struct {
		flag string
		is   time.Duration
	}{{"shutdown-delay-duration", o.shutdownDelay}, {"livez-grace-period", o.livezGrace}} {
		if d.is < 0 {
			refuse("--%s %s: must not be negative", d.flag, d.is)
		}
	}
	if o.minRequest <= 0 {
		refuse("--min-request-timeout %d: must be positive", o.minRequest)
	}
	o.minWatch = time.Duration(o.minRequest) * time.Second
	return errors.Join(problems...)
}

// checkRanges reads the ranges of addresses and ports.
func (o *options) checkRanges() (problems []error) {
	const flag = "--service-cluster-ip-range"
	texts := strings.Split(o.serviceCIDR, ",")
	if len(texts) > 2 {
		problems = append(problems, errors.New(flag+": must not have more than two ranges"))
		texts = texts[:2]
	}
	for i, into := range []*netip.Prefix{&o.serviceRange, &o.secondRange}[:len(texts)] {
		p, err := netip.ParsePrefix(texts[i])
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", flag, err))
		case p.Addr().BitLen()-p.Bits() < 3:
			problems = append(problems, fmt.Errorf("%s %s: holds fewer than 8 addresses", flag, texts[i]))
		}
		*into = p
	}
	if first, second := o.serviceRange, o.secondRange; first.IsValid() && second.IsValid() && first.Addr().Is4() == second.Addr().Is4() {
		problems = append(problems, fmt.Errorf("%s %s: the second range must be of the other family of addresses", flag, o.serviceCIDR))
	}
	low, high, found := strings.Cut(o.nodePortRange, "-")
	a, errLow := strconv.ParseUint(low, 10, 16)
	b, errHigh := strconv.ParseUint(high, 10, 16)
	if !found || errLow != nil || errHigh != nil || a == 0 || a > b {
		return append(problems, fmt.Errorf("--service-node-port-range %q: must be two ports with a hyphen between them, such as 30000-32767", o.nodePortRange))
	}
	o.nodePorts = [2]int32{int32(a), int32(b)}
	if o.securePort != 0 && o.securePort >= int(a) && o.securePort <= int(b) && o.bindAddress.IsUnspecified() {
		problems = append(problems, fmt.Errorf("--secure-port %d is one of the ports of --service-node-port-range %s",
			o.securePort, o.nodePortRange))
	}
	if o.ownNodePort != 0 && (o.ownNodePort < o.nodePorts[0] || o.ownNodePort > o.nodePorts[1]) {
		problems = append(problems, fmt.Errorf("--kubernetes-service-node-port %d: must be 0 or a port of --service-node-port-range %s", o.ownNodePort, o.nodePortRange))
	}
	return problems
}

// settings are the options of the server that flags set directly.
func (o *options) settings() []kindwright.Option {
	like := kindwright.Kubernetes{
		Version:       o.version.info(),
		FeatureGates:  strings.Join(o.libraryGates, ","),
		RuntimeConfig: strings.Join(slices.Concat(o.libraryVersions, o.absent()), ","),

		WrongTypeIsBadRequest: true,
		DeletionIsImmutable:   true,
		LenientPatches:        true,
		ExpressionPrices:      true,
		ResetByEmptyList:      true,
	}
	like.EmulatedVersion, like.MinCompatibilityVersion = o.release(), last(o.compatible)
	if o.securePort != 0 {
		like.ServerAddress = o.externalAddress()
	}
	return []kindwright.Option{
		like,
		kindwright.Before("body", o.zpages),
		kindwright.Watches{MinDuration: o.minWatch, OldPaths: true, WebSockets: true},
		kindwright.HTTP{
			RequestTimeout: o.requestTimeout, ShutdownDelay: o.shutdownDelay, LivezGrace: o.livezGrace,
			RetryAfterShutdown: o.retryAfter, GoawayChance: o.goawayChance, MaxStreams: o.streams, StrictTransport: o.transport,
			OnlyHTTP1: o.onlyHTTP1,
		},
		kindwright.Access{Origins: anywhere(o.origins), CheckOwnerReferences: slices.Contains(o.enabled, ownerref.Name)},
		kindwright.Debug{Profiles: o.profiling},
		kindwright.Limits{Reads: limit(o.reads), Writes: limit(o.writes)},
		kindwright.Housekeeping{NoGarbageCollection: !o.runs(garbageCollector)},
	}
}

// sharing is how requests share what is served at once, if they do.
func (o *options) sharing() (out []kindwright.Option) {
	if o.fairness {
		out = append(out, kindwright.Fairness(flowcontrol.New("")))
	}
	return out
}

// release is the release of Kubernetes to behave like; empty is the newest.
func (o *options) release() string {
	return last(o.emulated)
}

// last returns the last of the values of a flag, "" if there is none.
func last(values []string) string {
	if n := len(values); n > 0 {
		return values[n-1]
	}
	return ""
}

// limit is a limit of the library for one of kube-apiserver's, where 0 is none.
func limit(n int) int {
	if n == 0 {
		return math.MaxInt32
	}
	return n
}

// endpoint returns the server's address inside the cluster. There is none as long as no port is
// chosen, or if only this machine can reach the server.
func (o *options) endpoint() netip.AddrPort {
	ip := o.advertise
	if ip == nil {
		ip = o.bindAddress
	}
	a, ok := netip.AddrFromSlice(ip)
	if a = a.Unmap(); !ok || a.IsUnspecified() || a.IsLoopback() || o.securePort == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, uint16(o.securePort))
}

// externalAddress is where clients outside of the cluster find the server: --advertise-address, or else
// the name of this machine, and --secure-port.
func (o *options) externalAddress() string {
	host := o.advertise.String()
	if len(o.advertise) == 0 {
		host = o.bindAddress.String()
		if name, err := os.Hostname(); err == nil && o.bindAddress.IsUnspecified() {
			host = name
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(o.securePort))
}

// warnings lists the parts of the command line that have no effect.
func (o *options) warnings() []string {
	var out []string
	for _, name := range o.withoutEffect {
		out = append(out, "--"+name+" is accepted and has no effect")
	}
	out = append(out, o.withoutEffectOf...)
	out = append(out, o.proxy.warnings()...)
	if o.clientCAFile == "" && o.tokenFile == "" && !o.authn.Given() && !o.tokenWebhook.Given() {
		out = append(out, "neither --client-ca-file nor --token-auth-file nor an issuer of tokens is given: nobody can log in")
	}
	return out
}
