package kindwright

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/internal/clip"
	"github.com/kindwright/kindwright/internal/guard"
	"github.com/kindwright/kindwright/internal/json"
	"github.com/kindwright/kindwright/internal/metrics/apiserver"
	"github.com/kindwright/kindwright/internal/negotiate"
	"github.com/kindwright/kindwright/internal/request"
	"github.com/kindwright/kindwright/internal/rest"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/status"
)

// Audit records requests as a policy says, in each of the sinks. Without a sink it has no effect.
// The caller keeps the sinks and closes them after Wait or Run has returned. It may be given once.
//
// The answer to a request that changes something begins when its record is in all sinks. A sink that
// does not take the record of the stage RequestReceived prevents the request, and the client gets a
// 500. One that does not take a later record does not change the answer: what is done is not answered
// as failed. The server keeps that record until the sink takes it, and records RequestReceived for all
// requests meanwhile.
func Audit(p audit.Policy, sinks ...audit.Sink) Option {
	return optionFunc(func(c *config) error {
		if c.auditing != nil {
			return errors.New("Audit: there is a policy already, and a server has one")
		}
		if err := given("Audit", "sink", sinks); err != nil {
			return err
		}
		if len(sinks) == 0 {
			return nil
		}
		c.auditing = &auditing{p, sinks}
		return p.Validate()
	})
}

// auditing is what the option Audit says.
type auditing struct {
	policy audit.Policy
	sinks  []audit.Sink
}

// auditor makes the records of a server.
type auditor struct {
	rules      *audit.Rules
	sinks      []audit.Sink
	log        logr.Logger
	apiVersion string
	decision   string // the annotation of the authorizer's decision
	reason     string // and of what it said
	method     string // and of how the sender has proved who they are
	issuer     string // and of who vouches for the sender
	deprecated string // the annotation of deprecated versions
	removed    string // and of the release that no longer has them
	latency    string // the prefix of the annotations with the times of a slow request

	isDeprecated func(*registry.Deprecation) bool

	drafts   sync.Pool     // of *draft
	debts    *debts        // records that a sink has not taken yet
	lists    chan struct{} // holds a token for each record with a list that is being written
	events   atomic.Uint64
	rejected atomic.Uint64
	levels   [len(auditLevels)]atomic.Uint64
}

var auditLevels = [...]audit.Level{audit.LevelNone, audit.LevelMetadata, audit.LevelRequest, audit.LevelRequestResponse}

// buildAudit makes the auditor, if there is something to record to.
func (s *Server) buildAudit(domain string) error {
	on := s.cfg.auditing
	if on == nil {
		return nil
	}
	apiVersion := "audit." + domain + "/v1"
	if v := on.policy.APIVersion; v != "" && v != apiVersion {
		return fmt.Errorf("Audit: the policy has the apiVersion %q, which must be %q", v, apiVersion)
	}
	rules, err := audit.Compile(on.policy)
	if err != nil {
		return err
	}
	s.audit = &auditor{
		rules: rules, sinks: on.sinks, log: s.cfg.log, apiVersion: apiVersion,
		decision: "authorization." + domain + "/decision", reason: "authorization." + domain + "/reason",
		method: "authentication." + domain + "/method", issuer: "authentication." + domain + "/issuer",
		deprecated: domain + "/deprecated", removed: domain + "/removed-release", isDeprecated: s.deprecated,
		latency: "apiserver.latency." + domain + "/",
		lists:   make(chan struct{}, maxListRecords),
		debts:   newDebts(len(on.sinks)),
	}
	apiserver.CollectAudit(&s.meters.registry, s.audit.statistics)
	return nil
}

// statistics are the metrics of the audit log.
func (a *auditor) statistics() apiserver.Audit {
	out := apiserver.Audit{Events: a.events.Load(), Rejected: a.rejected.Load(), Levels: map[string]uint64{}, Lost: map[string]uint64{}}
	for i, level := range auditLevels {
		out.Levels[string(level)] = a.levels[i].Load()
	}
	for i, sink := range a.sinks {
		if l, ok := sink.(audit.Losses); ok {
			excused := a.debts.excused[i].n.Load()
			name, lost := l.Losses()
			out.Lost[name] += lost - min(excused, lost)
		}
	}
	return out
}

// recording is the audit of one request. It belongs to the goroutine that serves the request.
type recording struct {
	request.Record

	auditor  *auditor
	x        *request.Exchange
	verdict  audit.Verdict
	judged   bool
	received bool        // the request may be carried out
	latest   audit.Stage // of the records so far
}

// begin begins the audit of a request.
func (a *auditor) begin(r *recording, x *request.Exchange) {
	r.auditor, r.x, r.Of = a, x, r
	x.Record = &r.Record
}

// withReceipt asks the policy about a request whose sender is known, and records that it has come
// in. If a sink needs the record and cannot store it, the request ends here (AUD-20).
func (s *Server) withReceipt(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec, _ := request.ExchangeFrom(r.Context()).Record.Of.(*recording)
		rec.judge()
		if !rec.emit(r.Context(), audit.StageRequestReceived) {
			s.audit.rejected.Add(1)
			negotiate.WriteError(w, r, status.Internal(errAuditSink).WithMessage(errAuditSink.Error()))
			return
		}
		rec.received = true
		s.audit.repay(r.Context(), true)
		next.ServeHTTP(w, r)
	})
}

// errAuditSink is what clients are told about a record that could not be stored.
var errAuditSink = errors.New("failed to store audit event")

// judge asks the policy. A request that could not be parsed, or whose sender is not known, has less
// to match.
func (r *recording) judge() {
	if r.judged {
		return
	}
	r.judged = true
	a := r.attributes()
	if u := r.x.User.Load(); u != nil {
		a.User = *u
	}
	r.verdict = r.auditor.rules.Evaluate(&a)
	r.KeepsRequest = r.verdict.Level.Keeps(audit.LevelRequest)
	r.KeepsAnswer = a.ResourceRequest && r.verdict.Level.Keeps(audit.LevelRequestResponse)
	r.auditor.levels[max(slices.Index(auditLevels[:], r.verdict.Level), 0)].Add(1)
}

// asks reports whether the record, if there is one, shows how long the parts of the request take.
func (r *recording) asks() bool {
	return r != nil && (!r.judged || r.verdict.Level != audit.LevelNone)
}

func (r *recording) attributes() authz.Attributes {
	if info := r.x.Info.Load(); info != nil {
		return attributesOf(info)
	}
	return authz.Attributes{Verb: strings.ToLower(r.x.Received.Method), Path: r.x.Received.URL.Path}
}

// begins records that the answer begins, before its first byte leaves.
//
// A request that changes something has ended then for its record. Its answer tells the client that
// the change is made, so the record must not come after it.
func (r *recording) begins() {
	r.judge()
	info := r.x.Info.Load()
	switch {
	case info == nil || r.verdict.Level == audit.LevelNone:
	case r.x.Streams:
		r.emit(context.WithoutCancel(r.x), audit.StageResponseStarted) // its beginning is recorded already
	case !info.IsResource || info.Verb == request.VerbGet || info.Verb == request.VerbList || info.Verb == request.VerbWatch:
	default:
		r.emit(context.WithoutCancel(r.x), r.last())
	}
}

// ends records that the request has ended, unless that was recorded before its answer began.
func (r *recording) ends() {
	r.judge()
	stage := r.last()
	if r.verdict.Level == audit.LevelNone || r.latest == stage || r.latest == audit.StageResponseComplete && stage != audit.StagePanic {
		return
	}
	r.emit(context.WithoutCancel(r.x), stage)
}

// last is the last stage of the request.
func (r *recording) last() audit.Stage {
	if r.Panicked {
		return audit.StagePanic
	}
	return audit.StageResponseComplete
}

// emit writes the record of a stage to all sinks, if the policy keeps it. It returns false if one of
// them needs it and could not store it. The server owes a sink the later records of a request that was
// carried out.
func (r *recording) emit(ctx context.Context, stage audit.Stage) bool {
	r.latest = stage
	a := r.auditor
	proof := stage == audit.StageRequestReceived && r.verdict.Level != audit.LevelNone && a.debts.open.Load() > 0
	if !r.verdict.Keeps(stage) && !proof {
		return true
	}
	if r.Later != nil && stage != audit.StageRequestReceived {
		a.lists <- struct{}{}
		defer func() { <-a.lists }()
	}
	d, _ := a.drafts.Get().(*draft)
	if d == nil {
		d = &draft{annotations: map[string]string{}}
	}
	defer a.keep(d)
	r.fill(d, stage)
	d.line = d.event.AppendJSON(d.line[:0])
	a.events.Add(1)
	stored := true
	for i, sink := range a.sinks {
		if err := write(ctx, sink, d.line); err != nil {
			if stored = false; r.received {
				a.owe(i, r.x.ID, d.line)
			}
			a.log.Error(err, "an audit record could not be stored", guard.WithStack(err, "auditID", r.x.ID, "stage", string(stage))...)
		}
	}
	return stored
}

// maxListRecords bounds how many records with lists are written at once. Each takes some times the
// length of its list, up to 10 MiB, while it is made.
const maxListRecords = 2

// draft is the memory of a record while it is made and written.
type draft struct {
	line        []byte
	event       audit.Event
	as          audit.UserInfo
	ref         audit.ObjectReference
	status      meta.Status
	ips         [2]string
	annotations map[string]string
}

// keep makes a draft empty and keeps it for another record.
func (a *auditor) keep(d *draft) {
	line := d.line[:0]
	if cap(line) > maxPooledLine {
		line = nil
	}
	clear(d.annotations)
	*d = draft{line: line, annotations: d.annotations}
	a.drafts.Put(d)
}

// maxPooledLine prevents one long record from keeping its memory forever.
const maxPooledLine = 64 << 10

// write is Write of a sink that may panic.
func write(ctx context.Context, sink audit.Sink, line []byte) (err error) {
	defer guard.Recover(&err, "audit sink")
	return sink.Write(ctx, line)
}

// fill makes the record of a stage.
func (r *recording) fill(d *draft, stage audit.Stage) {
	x, e := r.x, &d.event
	*e = audit.Event{
		APIVersion: r.auditor.apiVersion, Kind: "Event", Level: r.verdict.Level, AuditID: x.ID, Stage: stage,
		RequestURI: requestURI(x.Received), SourceIPs: sourceIPs(d.ips[:0], x.Received), UserAgent: userAgent(x.Received),
		RequestReceivedTimestamp: meta.NewMicroTime(x.Start),
		StageTimestamp:           meta.NewMicroTime(x.Start.Add(time.Since(x.Start))), // never before, whatever happens to the clock
	}
	if u := x.User.Load(); u != nil {
		e.User = audit.UserInfoOf(u)
	}
	if as := x.Impersonation.Load(); as != nil {
		d.as = audit.UserInfoOf(&as.User)
		e.ImpersonatedUser = &d.as
		if as.Constraint != "" {
			e.AuthenticationMetadata = &audit.AuthenticationMetadata{ImpersonationConstraint: as.Constraint}
		}
	}
	a := r.attributes()
	e.Verb = a.Verb
	if a.ResourceRequest {
		d.ref = audit.ObjectReference{
			Resource: a.Resource, Namespace: a.Namespace, Name: a.Name, APIGroup: a.Group, APIVersion: a.Version, Subresource: a.Subresource,
		}
		e.ObjectRef = &d.ref
		r.nameObject(e.ObjectRef)
		r.bodies(e)
	}
	switch stage {
	case audit.StageRequestReceived:
	case audit.StageResponseStarted:
		r.outcome(&d.status)
		e.ResponseStatus = &d.status
		if r.Status == nil { // a refusal is known whole
			e.ResponseObject = nil
		}
	default:
		r.outcome(&d.status)
		e.ResponseStatus = &d.status
	}
	e.Annotations = r.annotations(d.annotations)
	if stage == audit.StageResponseComplete {
		r.addDeprecation(e.Annotations)
		r.addLatency(e.Annotations, e.StageTimestamp.Sub(x.Start))
	}
}

// nameObject completes the reference of a create or an update with what the body says.
func (r *recording) nameObject(ref *audit.ObjectReference) {
	info := r.x.Info.Load()
	if len(r.Request) == 0 || info.Verb != request.VerbCreate && info.Verb != request.VerbUpdate {
		return
	}
	var object struct {
		Metadata struct { // of any type: nothing is checked yet
			Name            any `json:"name"`
			Namespace       any `json:"namespace"`
			UID             any `json:"uid"`
			ResourceVersion any `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if json.Unmarshal(r.Request, &object) != nil {
		return
	}
	set := func(to *string, from any) {
		if text, ok := from.(string); ok && *to == "" {
			*to = clip.Text(text, maxReference)
		}
	}
	set(&ref.Name, object.Metadata.Name)
	set(&ref.Namespace, object.Metadata.Namespace)
	set(&ref.UID, object.Metadata.UID)
	set(&ref.ResourceVersion, object.Metadata.ResourceVersion)
}

// maxReference bounds what a body says about the name of its object.
const maxReference = 253

// bodies adds the bodies that the policy keeps. What is not JSON is left out: the record must be.
func (r *recording) bodies(e *audit.Event) {
	level := r.verdict.Level
	if level.Keeps(audit.LevelRequest) {
		e.RequestObject = r.body(r.Request)
	}
	if !r.KeepsAnswer {
		return
	}
	answer := r.Answer
	switch {
	case answer != nil:
	case r.Later != nil:
		answer = r.Later()
	default:
		answer = r.x.Answer()
	}
	e.ResponseObject = r.body(answer)
}

func (r *recording) body(data []byte) audit.Raw {
	if len(data) == 0 || json.Valid(data) != nil {
		return nil
	}
	if r.verdict.OmitManagedFields {
		data = withoutManagedFields(data)
	}
	return audit.Raw(data).Line()
}

// outcome says how the request has ended (AUD-12).
func (r *recording) outcome(out *meta.Status) {
	x := r.x
	code := x.Code.Load()
	*out = meta.Status{Code: code}
	switch {
	case r.Panicked:
		*out = meta.Status{Status: meta.StatusFailure, Code: http.StatusInternalServerError, Reason: meta.ReasonInternalError, Message: "a handler panicked"}
	case r.Status != nil:
		*out = *r.Status
		out.TypeMeta, out.Code = meta.TypeMeta{}, code // the field has one type
	case x.Aborted.Load() && code == 0:
		out.Status, out.Message = meta.StatusFailure, "the connection was broken off before the answer"
	case x.Aborted.Load():
		out.Status, out.Message = meta.StatusFailure, "the connection was broken off within the answer"
	}
}

// maxIssuer bounds the name of an issuer in a record: it may come from a certificate.
const maxIssuer = 256

// annotations returns what is known beside the fields of a record: how and by whom the sender was
// authenticated (D11), what the authorizer said, and what plugins annotated (AUD-32). It uses room if
// plugins have annotated nothing.
func (r *recording) annotations(room map[string]string) map[string]string {
	out := r.x.Annotations()
	d, u := r.x.Decision.Load(), r.x.User.Load()
	if out == nil {
		out = room
	}
	if u != nil && u.Method != "" {
		out[r.auditor.method] = u.Method
	}
	if u != nil && u.Issuer != "" {
		out[r.auditor.issuer] = clip.Text(u.Issuer, maxIssuer)
	}
	if d == nil {
		return out
	}
	out[r.auditor.decision] = "forbid"
	if d.Decision == authz.Allow {
		out[r.auditor.decision] = "allow"
	}
	out[r.auditor.reason] = d.Reason
	return out
}

// slowRequest is how long a request takes of which the log tells what took so long.
const slowRequest = 500 * time.Millisecond

// addDeprecation notes that a request that was let through is for a deprecated version.
func (r *recording) addDeprecation(to map[string]string) {
	kind, decision := rest.Kind(r.x), r.x.Decision.Load()
	if kind == nil || decision != nil && decision.Decision != authz.Allow {
		return
	}
	d := kind.Kind.Deprecated
	if d == nil || !r.auditor.isDeprecated(d) {
		return
	}
	to[r.auditor.deprecated] = "true"
	if d.Removed != "" {
		to[r.auditor.removed] = d.Removed
	}
}

// addLatency adds the times of the parts of a slow request, and of the whole so far. A watch is not slow:
// it lasts as long as its client likes.
func (r *recording) addLatency(to map[string]string, total time.Duration) {
	if info := r.x.Info.Load(); total <= slowRequest || info != nil && info.Verb == request.VerbWatch {
		return
	}
	for part, took := range r.x.Spent {
		to[r.auditor.latency+part.String()] = took.String()
	}
	to[r.auditor.latency+"total"] = total.String()
}

// requestURI is the URI as the client sent it (AUD-05), without credentials. The absolute form can have
// a password, and clients of other APIs put tokens into the query (A5, A6).
func requestURI(r *http.Request) string {
	uri := r.RequestURI
	if !strings.HasPrefix(uri, "/") {
		uri = r.URL.RequestURI()
	}
	path, query, ok := strings.Cut(uri, "?")
	if !ok || !hasTokens(query) {
		return uri
	}
	out := append([]byte(path), '?')
	for i, pair := range strings.Split(query, "&") {
		if i > 0 {
			out = append(out, '&')
		}
		if name, _, ok := strings.Cut(pair, "="); ok && holdsToken(name) {
			pair = name + "=<redacted>"
		}
		out = append(out, pair...)
	}
	return string(out)
}

func hasTokens(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, ok := strings.Cut(pair, "="); ok && holdsToken(name) {
			return true
		}
	}
	return false
}

// holdsToken reports whether a query parameter of this name is a place for credentials elsewhere. None is
// one here.
func holdsToken(name string) bool {
	if strings.IndexByte(name, '%') >= 0 {
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
	}
	switch strings.ToLower(name) {
	case "access_token", "id_token", "refresh_token", "token", "bearer_token", "auth_token", "jwt", "authorization",
		"password", "passwd", "secret", "client_secret", "client_assertion", "assertion",
		"api_key", "apikey", "api-key", "x-api-key", "x-amz-signature", "x-amz-security-token", "x-goog-signature":
		return true
	}
	return false
}

// maxUserAgent bounds what a client calls itself (AUD-35).
const maxUserAgent = 1024

func userAgent(r *http.Request) string {
	ua := r.UserAgent()
	if len(ua) > maxUserAgent {
		return clip.Prefix(ua, maxUserAgent) + "...TRUNCATED"
	}
	return ua
}

// sourceIPs are the addresses that a request came by (AUD-09): what proxies say about the client,
// then the other end of the connection. It appends to out.
func sourceIPs(out []string, r *http.Request) []string {
	if forwarded := r.Header["X-Forwarded-For"]; len(forwarded) > 0 {
		for part := range strings.SplitSeq(strings.Join(forwarded, ","), ",") {
			if ip := address(strings.TrimSpace(part)); ip != "" {
				out = append(out, ip)
			}
		}
	}
	if ip := address(r.Header.Get("X-Real-Ip")); ip != "" && !slices.Contains(out, ip) {
		out = append(out, ip)
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if ip := address(host); ip != "" && (len(out) == 0 || out[len(out)-1] != ip) {
		out = append(out, ip)
	}
	return out
}

// address returns an IP address as it is usually written, or "".
func address(text string) string {
	if text == "" {
		return ""
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return ""
	}
	var room [64]byte
	usual := ip.Unmap().WithZone("").AppendTo(room[:0])
	if string(usual) == text {
		return text // as most are
	}
	return string(usual)
}

// withoutManagedFields removes metadata.managedFields from an object, and from the items of a list.
func withoutManagedFields(document []byte) []byte {
	tree, err := json.DecodeTree(document, json.TreeOptions{Duplicates: func(string) {}})
	if err != nil {
		return nil
	}
	object, _ := tree.(map[string]any)
	unmanage(object)
	for _, name := range []string{"items", "rows"} {
		list, _ := object[name].([]any)
		for _, item := range list {
			item, _ := item.(map[string]any)
			unmanage(item)
			shown, _ := item["object"].(map[string]any) // of a row
			unmanage(shown)
		}
	}
	out, err := json.AppendTree(nil, tree)
	if err != nil {
		return nil
	}
	return out
}

func unmanage(object map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
}
