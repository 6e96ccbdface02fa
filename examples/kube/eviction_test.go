package kube

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A budget says why no pod may be evicted, and whether one more may.
func TestExhaustedBudgetsSayWhy(t *testing.T) {
	s := serve(t, Options{})
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	s.must(t, 201, "POST", budgets, `{"metadata":{"name":"web"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}`)
	state := func(text string) {
		s.must(t, 200, "PATCH", budgets+"/web/status", `{"status":{"observedGeneration":1,"expectedPods":2,`+text+`}}`, "Content-Type", merge)
	}
	evict := func(code int, name string) map[string]any {
		return s.must(t, code, "POST", podsPath+"/"+name+"/eviction", `{"metadata":{"name":"`+name+`"}}`)
	}
	for _, name := range []string{"a", "b"} {
		s.must(t, 201, "POST", podsPath, podNamed(name, `"nodeName":"n1",`))
		s.must(t, 200, "PATCH", podsPath+"/"+name+"/status", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "Content-Type", merge)
	}
	said := func(reason, message string) string {
		return `"disruptionsAllowed":0,"conditions":[{"type":"DisruptionAllowed","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"` +
			reason + `","message":"` + message + `"}],`
	}
	for _, c := range []struct{ state, why string }{
		{said("SyncFailed", "no controller") + `"currentHealthy":0,"desiredHealthy":1`, "does not allow evicting pods currently because it failed sync: no controller"},
		{said("InsufficientPods", "x") + `"currentHealthy":1,"desiredHealthy":1`, "needs 1 healthy pods and has 1 currently"},
		{said("Frozen", "an upgrade") + `"currentHealthy":2,"desiredHealthy":1`, "does not allow evicting pods currently (Frozen): an upgrade"},
		{said("InsufficientPods", "") + `"currentHealthy":2,"desiredHealthy":1`, "does not allow evicting pods currently"},
	} {
		state(c.state)
		refused := evict(429, "a")
		require.Equal(t, "The disruption budget web "+c.why, at(list(at(refused, "details", "causes"))[0], "message"))
	}

	state(`"disruptionsAllowed":1,"currentHealthy":2,"desiredHealthy":1,"conditions":[{"type":"DisruptionAllowed","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"SufficientPods","message":""}]`)
	evict(201, "a")
	now := condition(at(s.must(t, 200, "GET", budgets+"/web", ""), "status", "conditions"), "DisruptionAllowed")
	require.Equal(t, []any{"False", "InsufficientPods"}, []any{at(now, "status"), at(now, "reason")})
	require.NotEqual(t, "2026-01-01T00:00:00Z", at(now, "lastTransitionTime"))
}

// The delete options of an eviction are checked as those of a deletion.
func TestEvictionsHaveValidOptions(t *testing.T) {
	s := serve(t, Options{})
	s.must(t, 201, "POST", podsPath, podNamed("p", `"nodeName":"n1",`))
	for options, want := range map[string]string{
		`"propagationPolicy":"Sideways"`:                           "422 Invalid, propagationPolicy FieldValueNotSupported",
		`"propagationPolicy":"Orphan","orphanDependents":true`:     "422 Invalid, propagationPolicy FieldValueInvalid",
		`"preconditions":{"uid":"other"},"gracePeriodSeconds":100`: "409 Conflict",
	} {
		code, answer := s.do(t, "POST", podsPath+"/p/eviction", `{"metadata":{"name":"p"},"deleteOptions":{`+options+`}}`)
		require.Equal(t, want, verdictOf(code, answer), options)
	}
	uid := at(s.must(t, 200, "GET", podsPath+"/p", ""), "metadata", "uid").(string)
	const maps = "/api/v1/namespaces/default/configmaps"
	s.must(t, 201, "POST", maps, `{"metadata":{"name":"m","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"`+uid+`"}]}}`)
	s.must(t, 201, "POST", podsPath+"/p/eviction", `{"metadata":{"name":"p"},"deleteOptions":{"orphanDependents":true}}`)
	require.Eventually(t, func() bool {
		return at(s.must(t, 200, "GET", maps+"/m", ""), "metadata", "ownerReferences") == nil
	}, time.Minute, time.Millisecond)
}

// A budget does not count a pod that is not ready, so such a pod may go. It may not if it has become ready meanwhile.
func TestPodsThatBecomeReadyAreNotEvicted(t *testing.T) {
	s := serve(t, Options{})
	const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
	s.must(t, 201, "POST", budgets, `{"metadata":{"name":"web"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}`)
	s.must(t, 200, "PATCH", budgets+"/web/status", `{"status":{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":1,"desiredHealthy":1,"expectedPods":2}}`, "Content-Type", merge)
	for i := range 60 {
		name := fmt.Sprintf("p%d", i)
		s.must(t, 201, "POST", podsPath, podNamed(name, `"nodeName":"n1",`))
		s.must(t, 200, "PATCH", podsPath+"/"+name+"/status", `{"status":{"phase":"Running"}}`, "Content-Type", merge)
		code, ready := 0, map[string]any{}
		var group sync.WaitGroup
		group.Go(func() { code, _ = s.do(t, "POST", podsPath+"/"+name+"/eviction", `{"metadata":{"name":"`+name+`"}}`) })
		group.Go(func() {
			_, ready = s.do(t, "PATCH", podsPath+"/"+name+"/status", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "Content-Type", merge)
		})
		group.Wait()
		first := at(ready, "metadata", "deletionTimestamp") == nil && condition(at(ready, "status", "conditions"), "DisruptionTarget") == nil
		if code == 201 && first {
			t.Fatalf("%s was ready, and was evicted", name)
		}
		s.do(t, "DELETE", podsPath+"/"+name, `{"gracePeriodSeconds":0}`)
	}
}
