package audit_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/audit"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/meta"
)

// whole is an event with every field.
func whole() *audit.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	return &audit.Event{
		APIVersion: "audit.k8s.io/v1", Kind: "Event", Level: audit.LevelRequestResponse, AuditID: "1", Stage: audit.StageResponseComplete,
		RequestURI: `/a?b="c"`, Verb: "create",
		User:                   audit.UserInfo{Username: "u", UID: "2", Groups: []string{"g", "h"}, Extra: map[string][]string{"y": {"1", "2"}, "x": {}}},
		ImpersonatedUser:       &audit.UserInfo{Groups: []string{"i"}},
		AuthenticationMetadata: &audit.AuthenticationMetadata{ImpersonationConstraint: "impersonate:user-info"},
		SourceIPs:              []string{"1.2.3.4", "::1"}, UserAgent: "curl\n",
		ObjectRef: &audit.ObjectReference{
			Resource: "pods", Namespace: "ns", Name: "n", UID: "3", APIGroup: "apps", APIVersion: "v1", ResourceVersion: "4", Subresource: "log",
		},
		ResponseStatus: &meta.Status{
			TypeMeta: meta.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: meta.StatusFailure, Code: 404, Reason: meta.ReasonNotFound, Message: "no",
			Details: &meta.StatusDetails{Name: "n"},
		},
		RequestObject: audit.Raw(`{"a":1}`), ResponseObject: audit.Raw(`[]`),
		RequestReceivedTimestamp: meta.NewMicroTime(at), StageTimestamp: meta.NewMicroTime(at.Add(time.Second)),
		Annotations: map[string]string{"b": "2", "a": "1"},
	}
}

func TestAnEventIsReadAsItWasWritten(t *testing.T) {
	for _, e := range []*audit.Event{whole(), {APIVersion: "audit.k8s.io/v1", Kind: "Event", ResponseStatus: &meta.Status{Code: 200}}} {
		line := e.AppendJSON(nil)
		require.NotContains(t, string(line), "\n")
		got, err := audit.ParseEvent(line)
		require.NoError(t, err, string(line))
		require.Equal(t, e, got)
	}
}

func TestTheTextOfAnEventIsStable(t *testing.T) {
	require.Equal(t, strings.Join([]string{
		`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"1","stage":"ResponseComplete"`,
		`"requestURI":"/a?b=\"c\"","verb":"create","user":{"username":"u","uid":"2","groups":["g","h"],"extra":{"x":[],"y":["1","2"]}}`,
		`"impersonatedUser":{"groups":["i"]},"authenticationMetadata":{"impersonationConstraint":"impersonate:user-info"}`,
		`"sourceIPs":["1.2.3.4","::1"],"userAgent":"curl\n"`,
		`"objectRef":{"resource":"pods","namespace":"ns","name":"n","uid":"3","apiGroup":"apps","apiVersion":"v1","resourceVersion":"4","subresource":"log"}`,
		`"responseStatus":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no","reason":"NotFound","details":{"name":"n"},"code":404}`,
		`"requestObject":{"a":1},"responseObject":[]`,
		`"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","stageTimestamp":"2026-01-02T03:04:06.000006Z","annotations":{"a":"1","b":"2"}}`,
	}, ","), string(whole().AppendJSON(nil)))
}

func TestTextThatIsNotUTF8DoesNotPreventARecord(t *testing.T) {
	e := whole()
	e.UserAgent, e.RequestURI, e.ResponseStatus.Message = "\xff", "/\xfe", "\xfd"
	got, err := audit.ParseEvent(e.AppendJSON(nil))
	require.NoError(t, err)
	require.Equal(t, "\uFFFD", got.UserAgent)
	require.Equal(t, "/\uFFFD", got.RequestURI)
	require.Equal(t, "\uFFFD", got.ResponseStatus.Message)
}

func TestABodyIsPutOnOneLine(t *testing.T) {
	one := audit.Raw(`{"a":"b"}`)
	require.Equal(t, one, one.Line())
	several := audit.Raw("{\r\n\"a\": \"\\n\"\n}")
	require.Equal(t, `{  "a": "\n" }`, string(several.Line()))
	require.Contains(t, string(several), "\n", "it is a copy")
}

func TestAUD_28_LIM_10_ALongEventLosesItsBodies(t *testing.T) {
	e := whole()
	e.RequestObject = audit.Raw(`"` + strings.Repeat("x", 5000) + `"`)
	line := e.AppendJSON(nil)
	same, ok := audit.Truncation{MaxEventBytes: 100}.Apply(line)
	require.True(t, ok)
	require.Equal(t, line, same, "truncation is off by default (AUD-34)")

	cut, ok := audit.Truncation{Enabled: true, MaxEventBytes: 2000}.Apply(line)
	require.True(t, ok)
	got, err := audit.ParseEvent(cut)
	require.NoError(t, err)
	require.Empty(t, got.RequestObject)
	require.Empty(t, got.ResponseObject)
	require.Equal(t, "true", got.Annotations["audit.k8s.io/truncated"])
	require.Equal(t, "1", got.Annotations["a"])

	_, ok = audit.Truncation{Enabled: true, MaxEventBytes: 200}.Apply(line)
	require.False(t, ok, "what is still too long is dropped")
	_, ok = audit.Truncation{Enabled: true, MaxEventBytes: 1}.Apply([]byte("no JSON"))
	require.False(t, ok)
	_, ok = audit.Truncation{Enabled: true}.Apply(line)
	require.True(t, ok)
}

func BenchmarkAppendJSON(b *testing.B) {
	e := whole()
	e.ResponseStatus = &meta.Status{Code: 200}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = e.AppendJSON(buf[:0])
	}
}

// The times of a record are what their layout says.
func TestAUD_05_TimesAreWrittenByTheirLayout(t *testing.T) {
	at := func(when time.Time) string {
		text := string((&audit.Event{RequestReceivedTimestamp: meta.NewMicroTime(when)}).AppendJSON(nil))
		_, text, _ = strings.Cut(text, `"requestReceivedTimestamp":"`)
		text, _, _ = strings.Cut(text, `"`)
		return text
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	for range effort.Of(100_000) {
		when := time.Unix(random.Int64N(1<<38)-1<<37, random.Int64N(1e9)).In(time.FixedZone("", random.IntN(80_000)-40_000))
		require.Equal(t, meta.NewMicroTime(when).UTC().Format("2006-01-02T15:04:05.000000Z"), at(when))
	}
}
