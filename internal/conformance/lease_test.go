package conformance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

func TestLEASE_01_Leases(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const spec = `{"holderIdentity":"host_1","leaseDurationSeconds":15,"acquireTime":"2024-05-01T10:00:00.000001Z",
			"renewTime":"2024-05-01T10:00:10.500000Z","leaseTransitions":0,"strategy":"OldestEmulationVersion","preferredHolder":"host_2"}`
		a := s.create(leasePath, `{"metadata":{"name":"boss"},"spec":`+spec+`}`)
		require.Equal(t, "coordination.k8s.io/v1", a.at("apiVersion"))
		require.Equal(t, "Lease", a.at("kind"))
		require.Equal(t, map[string]any{
			"holderIdentity": "host_1", "leaseDurationSeconds": 15.0, "acquireTime": "2024-05-01T10:00:00.000001Z",
			"renewTime": "2024-05-01T10:00:10.500000Z", "leaseTransitions": 0.0, "strategy": "OldestEmulationVersion", "preferredHolder": "host_2",
		}, s.get(leasePath+"/boss").at("spec"))
		require.Equal(t, []string{"kube-system/boss"}, s.get("/apis/coordination.k8s.io/v1/leases").names())
		require.Equal(t, "LeaseList", s.get(leasePath).at("kind"))

		s.do("PUT", leasePath+"/fresh", `{"metadata":{"name":"fresh"}}`).is(201) // create on update
		stale := a.version()
		s.patch(leasePath+"/boss", `{"spec":{"holderIdentity":"host_2"}}`)
		s.do("PUT", leasePath+"/boss", `{"metadata":{"name":"boss","resourceVersion":"`+stale+`"},"spec":`+spec+`}`).
			refused(409, "Conflict", "the object has been modified")
		s.delete(leasePath + "/boss")
		s.get(leasePath + "/boss").is(404)

		a = s.create(leasePath, `{"metadata":{"name":"other"},"spec":{"holderIdentity":"","strategy":"example.dev/youngest","preferredHolder":"h","renewTime":"2024-05-01T12:00:00+02:00"}}`)
		require.Equal(t, map[string]any{"holderIdentity": "", "strategy": "example.dev/youngest", "preferredHolder": "h", "renewTime": "2024-05-01T10:00:00.000000Z"}, a.at("spec"))
		for spec, field := range map[string]string{
			`{"strategy":""}`:                       "spec.strategy",
			`{"strategy":"a/b/c"}`:                  "spec.strategy",
			`{"strategy":"/x"}`:                     "spec.strategy",
			`{"strategy":"","preferredHolder":"h"}`: "spec.preferredHolder",
			`{"leaseDurationSeconds":4294967296}`:   "spec.leaseDurationSeconds",
			`{"leaseTransitions":2147483648}`:       "spec.leaseTransitions",
			`{"holderIdentity":5}`:                  "spec.holderIdentity",
			`{"leaseDurationSeconds":0}`:            "spec.leaseDurationSeconds",
			`{"leaseDurationSeconds":-1}`:           "spec.leaseDurationSeconds",
			`{"leaseTransitions":-1}`:               "spec.leaseTransitions",
			`{"renewTime":"soon"}`:                  "spec.renewTime",
			`{"strategy":"Youngest"}`:               "spec.strategy",
			`{"preferredHolder":"h"}`:               "spec.preferredHolder",
		} {
			s.do("POST", leasePath, `{"metadata":{"name":"bad"},"spec":`+spec+`}`).refused(422, "Invalid", field)
		}
	})
}

// elector is one of the candidates of LEASE-02. It only knows the lease and its own clock, which
// may be wrong.
type elector struct {
	*server
	name   string
	offset time.Duration // of its clock
	seen   string        // the version of the lease last seen
	seenAt time.Time
	leads  bool
}

const leaseSeconds = 15

// try reads the lease once and acquires or renews it if due.
func (e *elector) try() {
	e.t.Helper()
	e.leads = false
	clock := time.Now().Add(e.offset)
	spec := fmt.Sprintf(`{"holderIdentity":%q,"leaseDurationSeconds":%d,"renewTime":%q}`, e.name, leaseSeconds, clock.UTC().Format("2006-01-02T15:04:05.000000Z"))
	now := e.get(leasePath + "/boss")
	if now.code == 404 {
		e.leads = e.do("POST", leasePath, `{"metadata":{"name":"boss"},"spec":`+spec+`}`).code == 201
		return
	}
	if now.version() != e.seen {
		e.seen, e.seenAt = now.version(), clock
	}
	holder := now.text("spec", "holderIdentity")
	if holder != e.name && holder != "" && clock.Sub(e.seenAt) < leaseSeconds*time.Second {
		return
	}
	e.leads = e.do("PUT", leasePath+"/boss", `{"metadata":{"name":"boss","resourceVersion":"`+now.version()+`"},"spec":`+spec+`}`).code == 200
}

func TestLEASE_02_Election(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		first, second := &elector{server: s, name: "first"}, &elector{server: s, name: "second", offset: 5 * time.Hour}
		for range 30 {
			first.try()
			second.try()
			require.True(t, first.leads)
			require.False(t, second.leads, "a wrong clock does not matter, only observed changes do")
			time.Sleep(2 * time.Second)
		}
		died := time.Now()
		for !second.leads {
			time.Sleep(2 * time.Second)
			second.try()
		}
		require.InDelta(t, leaseSeconds, time.Since(died).Seconds(), 4)
		first.try()
		require.False(t, first.leads, "must not lead again")
		s.patch(leasePath+"/boss", `{"spec":{"holderIdentity":"","leaseDurationSeconds":1}}`)
		first.try()
		require.True(t, first.leads, "a released lease is free at once")
	})
}
