package conformance

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/audit"
)

// ledger is a sink that keeps the lines of records.
type ledger struct {
	mu    sync.Mutex
	lines []map[string]any
}

func (l *ledger) Write(_ context.Context, line []byte) error {
	var record map[string]any
	if err := json.Unmarshal(line, &record); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, record)
	return nil
}

func (l *ledger) Close() error { return nil }

func (l *ledger) count() int { l.mu.Lock(); defer l.mu.Unlock(); return len(l.lines) }

// of returns the records of the request that was answered with a.
func (l *ledger) of(a *answer) []map[string]any {
	a.t.Helper()
	time.Sleep(time.Second) // what comes after the answer
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []map[string]any
	for _, r := range l.lines {
		if r["auditID"] == a.header.Get("Audit-Id") {
			out = append(out, r)
		}
	}
	require.NotEmpty(a.t, out, "%s", a)
	return out
}

// audited runs a test on servers that record what a policy says.
func audited(t *testing.T, rules []audit.Rule, test func(t *testing.T, s *server, l *ledger), opts ...kindwright.Option) {
	t.Helper()
	l := &ledger{}
	onEach(t, func(t *testing.T, s *server) { test(t, s, l) }, append(opts, kindwright.Serve(motors()), kindwright.Audit(audit.Policy{Rules: rules}, l))...)
}

var everything = []audit.Rule{{Level: audit.LevelRequestResponse}}

// READ-17: what is required is in every record that is written.
func TestAUD_01_03_04_07_15_16_WhatEachRecordHas(t *testing.T) {
	audited(t, everything, func(t *testing.T, s *server, l *ledger) {
		requests := map[string]bool{}
		for _, a := range []*answer{
			s.widget("a", ""), s.get(widgetPath + "/a"), s.get(widgetPath + "/none"), s.get("/healthz"), s.get(widgetPath),
			s.get(widgetPath, "X-User", ""), s.do("DELETE", widgetPath+"/a", "", "X-User", "eve", "X-Groups", ""),
		} {
			records := l.of(a)
			stages := []any{}
			for _, r := range records {
				stages = append(stages, r["stage"])
				require.Equal(t, "audit.k8s.io/v1", r["apiVersion"])
				require.Equal(t, "Event", r["kind"])
				require.Equal(t, "RequestResponse", r["level"])
				require.NotEmpty(t, r["verb"])
				require.NotEmpty(t, r["requestURI"])
				require.NotEmpty(t, at(r, "user", "username"))
				const micro = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`
				require.Regexp(t, micro, r["requestReceivedTimestamp"], "AUD-15")
				require.Regexp(t, micro, r["stageTimestamp"], "AUD-16")
				require.GreaterOrEqual(t, r["stageTimestamp"], r["requestReceivedTimestamp"], "AUD-16")
				require.Equal(t, records[0]["requestReceivedTimestamp"], r["requestReceivedTimestamp"], "AUD-15: that of the request")
			}
			require.Equal(t, []any{"RequestReceived", "ResponseComplete"}, stages)
			id, _ := records[0]["auditID"].(string)
			require.False(t, requests[id], "AUD-03: each request has one of its own")
			requests[id] = true
		}
		require.Equal(t, "eve", at(l.of(s.get(widgetPath, "X-User", "eve"))[0], "user", "username"), "AUD-07")
		anonymous := l.of(s.get("/healthz", "X-User", ""))[0]
		require.Equal(t, map[string]any{"username": "system:anonymous", "groups": []any{"system:unauthenticated"}}, anonymous["user"], "AUTHN-02")
	})
}

func TestAUD_02_30_EachRequestHasTheLevelOfItsRule(t *testing.T) {
	rules := []audit.Rule{
		{Level: audit.LevelNone, Users: []string{"nobody"}},
		{Level: audit.LevelRequest, Verbs: []string{"create"}},
		{Level: audit.LevelRequestResponse, Verbs: []string{"update"}},
		{Level: audit.LevelMetadata},
	}
	audited(t, rules, func(t *testing.T, s *server, l *ledger) {
		level := func(a *answer) any { return l.of(a)[0]["level"] }
		require.Equal(t, "Request", level(s.widget("a", "")))
		require.Equal(t, "RequestResponse", level(s.do("PUT", widgetPath+"/a", widgetJSON("a", "", "red", 2))))
		require.Equal(t, "Metadata", level(s.get(widgetPath+"/a")))
		require.Equal(t, "Metadata", level(s.get("/healthz")))
		before := l.count()
		s.get(widgetPath, "X-User", "nobody").is(200)
		time.Sleep(time.Second)
		require.Equal(t, before, l.count(), "None")
	})
}

func TestAUD_09_10_WhereARequestComesFrom(t *testing.T) {
	audited(t, everything, func(t *testing.T, s *server, l *ledger) {
		long := strings.Repeat("x", 2000)
		for _, r := range l.of(s.get("/version", "X-Forwarded-For", "10.0.0.1, 10.0.0.2", "X-Real-Ip", "10.0.0.3", "User-Agent", "me/1 (a \"b\")")) {
			require.Equal(t, []any{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, r["sourceIPs"], "and a pipe has no address")
			require.Equal(t, `me/1 (a "b")`, r["userAgent"])
		}
		require.Equal(t, long[:1024]+"...TRUNCATED", l.of(s.get("/version", "User-Agent", long))[0]["userAgent"], "AUD-35")
	})
}

// The bodies of requests are as they were sent, and those of responses as they were answered: in the version
// of the request, with defaults and all that the server sets. READ-16: at the level RequestResponse alone.
func TestAUD_13_14_BodiesAreThoseOfTheVersionAsked(t *testing.T) {
	audited(t, everything, func(t *testing.T, s *server, l *ledger) {
		last := func(a *answer) map[string]any {
			all := l.of(a)
			return all[len(all)-1]
		}
		const sent = `{"apiVersion":"drive.example.com/v1beta1","kind":"Motor","metadata":{"name":"m"},"watts":4000}`
		made := s.create(motorBeta, sent)
		r := last(made)
		text, err := json.Marshal(r["requestObject"])
		require.NoError(t, err)
		require.JSONEq(t, sent, string(text))
		require.Equal(t, made.doc, r["responseObject"])
		require.InDelta(t, 4000, at(r, "responseObject", "watts"), 0)
		got := s.get(motorPath + "/m")
		require.Equal(t, got.doc, last(got)["responseObject"])
		require.InDelta(t, 4, at(last(got), "responseObject", "spec", "power"), 0)
		require.Equal(t, s.get(motorBeta).doc, last(s.get(motorBeta))["responseObject"])
		for _, path := range []string{"/healthz", "/version", "/apis"} {
			require.NotContains(t, last(s.get(path)), "responseObject", path)
			require.NotContains(t, last(s.get(path)), "objectRef", "AUD-11: "+path)
		}
	})
}
