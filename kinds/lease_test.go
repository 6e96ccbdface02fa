package kinds_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

const (
	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

	lease = `{"metadata":{"name":"boss"},"spec":{
		"holderIdentity":"host_1","leaseDurationSeconds":15,"acquireTime":"2024-05-01T10:00:00.000001Z",
		"renewTime":"2024-05-01T10:00:10.500000Z","leaseTransitions":0,"strategy":"OldestEmulationVersion","preferredHolder":"host_2"}}`
)

func TestLEASE_01_TheVerbsOfLeases(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		out := h.must(201, "POST", leasesPath, lease)
		require.Equal(t, "coordination.k8s.io/v1", out["apiVersion"])
		require.Equal(t, "Lease", out["kind"])
		require.Equal(t, map[string]any{
			"holderIdentity": "host_1", "leaseDurationSeconds": 15.0, "acquireTime": "2024-05-01T10:00:00.000001Z",
			"renewTime": "2024-05-01T10:00:10.500000Z", "leaseTransitions": 0.0, "strategy": "OldestEmulationVersion", "preferredHolder": "host_2",
		}, out["spec"])
		require.Equal(t, out, h.must(200, "GET", leasesPath+"/boss", ""))
		require.Equal(t, "LeaseList", h.must(200, "GET", "/apis/coordination.k8s.io/v1/leases", "")["kind"])
		out = h.must(200, "PATCH", leasesPath+"/boss", `{"spec":{"holderIdentity":""}}`, "Content-Type", "application/merge-patch+json")
		require.Empty(t, at(out, "spec", "holderIdentity"))
		require.NotNil(t, at(out, "spec", "holderIdentity"), "given back is not the same as never held")

		fresh := merged(t, lease, `{"metadata":{"name":"fresh"}}`)
		h.must(201, "PUT", leasesPath+"/fresh", fresh)
		same := h.must(200, "PUT", leasesPath+"/fresh", fresh)
		bare := h.must(201, "PUT", leasesPath+"/bare", `{"metadata":{"name":"bare"}}`)
		require.Equal(t, bare, h.must(200, "PUT", leasesPath+"/bare", `{"metadata":{"name":"bare","creationTimestamp":null},"spec":{}}`), "as client-go sends it")

		table := h.must(200, "GET", leasesPath+"/fresh", "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		var names []any
		for _, c := range table["columnDefinitions"].([]any) {
			names = append(names, at(c, "name"))
		}
		require.Equal(t, []any{"Name", "Holder", "Age"}, names)
		require.Equal(t, []any{"fresh", "host_1"}, at(table["rows"].([]any)[0], "cells").([]any)[:2])

		h.must(409, "PUT", leasesPath+"/boss", merged(t, lease, fmt.Sprintf(`{"metadata":{"name":"boss","resourceVersion":%q}}`, at(same, "metadata", "resourceVersion"))))
		h.must(200, "DELETE", leasesPath+"/fresh", "")
		h.must(404, "GET", leasesPath+"/fresh", "")
	})
}

func TestLEASE_01_BadLeases(t *testing.T) {
	h := serve(t, memory.New(), nil)
	for i, c := range []struct {
		spec   string
		fields []string
	}{
		{`{}`, nil},
		{`{"leaseDurationSeconds":1,"leaseTransitions":2147483647}`, nil},
		{`{"leaseDurationSeconds":0}`, []string{"spec.leaseDurationSeconds"}},
		{`{"leaseDurationSeconds":-1,"leaseTransitions":-1}`, []string{"spec.leaseDurationSeconds", "spec.leaseTransitions"}},
		{`{"leaseDurationSeconds":2147483648}`, []string{"spec.leaseDurationSeconds"}},
		{`{"leaseDurationSeconds":1.5}`, []string{"spec.leaseDurationSeconds"}},
		{`{"holderIdentity":7}`, []string{"spec.holderIdentity"}},
		{`{"renewTime":"soon","acquireTime":"2024-05-01"}`, []string{"spec.renewTime", "spec.acquireTime"}},
		{`{"strategy":"Youngest"}`, []string{"spec.strategy"}},
		{`{"strategy":""}`, []string{"spec.strategy"}},
		{`{"strategy":"/youngest"}`, []string{"spec.strategy"}},
		{`{"strategy":"example.dev/a b"}`, []string{"spec.strategy"}},
		{`{"strategy":"` + strings.Repeat("x", 1<<20) + `"}`, []string{"spec.strategy"}},
		{`{"strategy":"example.dev/youngest"}`, nil},
		{`{"preferredHolder":"host_2"}`, []string{"spec.preferredHolder"}},
		{`{"preferredHolder":""}`, nil},
	} {
		body := fmt.Sprintf(`{"metadata":{"name":"l%d"},"spec":%s}`, i, c.spec)
		if len(c.fields) > 0 {
			h.refused("POST", leasesPath, body, c.fields...)
		} else {
			h.must(201, "POST", leasesPath, body)
		}
	}
	h.refused("POST", leasesPath, `{"metadata":{"name":"A"},"spec":"x"}`, "spec")
}

// Many candidates see a free lease and write their name with the version they read. Exactly one
// succeeds.
func TestLEASE_02_OneOfManyTakesTheLease(t *testing.T) {
	backends(t, func(t *testing.T, b storage.Backend) {
		h := serve(t, b, nil)
		for round := range 5 {
			name := fmt.Sprint("boss", round)
			free := h.must(201, "POST", leasesPath, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"holderIdentity":"","leaseTransitions":1}}`, name))
			var winners atomic.Int32
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					code, out := h.do("PUT", leasesPath+"/"+name, fmt.Sprintf(`{"metadata":{"name":%q,"resourceVersion":%q},"spec":{"holderIdentity":"c%d","leaseTransitions":2}}`,
						name, at(free, "metadata", "resourceVersion"), i))
					switch code {
					case 200:
						winners.Add(1)
					case 409:
					default:
						t.Errorf("%d: %v", code, out)
					}
				})
			}
			group.Wait()
			require.EqualValues(t, 1, winners.Load())
		}
	})
}

// candidate is one of several processes that compete for a lease by the rules of LEASE-02, using
// its own clock.
type candidate struct {
	*host
	name    string
	seen    string // the version of the lease last seen, and when it first was
	seenAt  time.Time
	running bool
}

const leaseSeconds = 15

// step reads the lease once and acquires or renews it if due.
func (c *candidate) step() {
	c.running = false
	code, now := c.do("GET", leasesPath+"/boss", "")
	spec := fmt.Sprintf(`{"holderIdentity":%q,"leaseDurationSeconds":%d,"renewTime":%q}`, c.name, leaseSeconds, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	if code == 404 {
		code, _ = c.do("POST", leasesPath, `{"metadata":{"name":"boss"},"spec":`+spec+`}`)
		c.running = code == 201
		return
	}
	version := at(now, "metadata", "resourceVersion").(string)
	if version != c.seen {
		c.seen, c.seenAt = version, time.Now()
	}
	holder := at(now, "spec", "holderIdentity")
	if holder != c.name && holder != "" && time.Since(c.seenAt) < leaseSeconds*time.Second {
		return
	}
	code, _ = c.do("PUT", leasesPath+"/boss", fmt.Sprintf(`{"metadata":{"name":"boss","resourceVersion":%q},"spec":%s}`, version, spec))
	c.running = code == 200
}

func TestLEASE_02_TheNextCandidateTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := memory.New()
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		h := serve(t, b, nil)
		first, second := &candidate{host: h, name: "first"}, &candidate{host: h, name: "second"}
		for range 1000 { // 2000 seconds of virtual time
			first.step()
			second.step()
			require.True(t, first.running)
			require.False(t, second.running)
			time.Sleep(2 * time.Second)
		}
		lost := time.Now() // the first candidate stops
		for !second.running {
			time.Sleep(2 * time.Second)
			second.step()
		}
		require.InDelta(t, leaseSeconds, time.Since(lost).Seconds(), 2)
		first.step()
		require.False(t, first.running, "must not run again")

		h.must(200, "PATCH", leasesPath+"/boss", `{"spec":{"holderIdentity":"","leaseDurationSeconds":1}}`, "Content-Type", "application/merge-patch+json")
		first.step()
		require.True(t, first.running, "a released lease is free at once")
	})
}
