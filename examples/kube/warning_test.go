package kube

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A warnedCase is an object of any kind, and how kube-apiserver answers it.
type warnedCase struct {
	Name, Path string
	Object     json.RawMessage
	Verdict    string
	Warnings   []string `json:",omitempty"`
}

func (c *warnedCase) ask(t *testing.T, s *target) warnedCase {
	answer, body := s.answer(t, "POST", c.Path+"?dryRun=All", string(c.Object))
	out := *c
	out.Verdict = strings.Join(refusal(answer.StatusCode, body), ", ")
	out.Warnings = warningsOf(answer.Header.Values("Warning"))
	return out
}

// Clients are warned of objects as by kube-apiserver: of what has no effect, and of what will go.
func TestCREATE_WarningsAreThoseOfKubernetes(t *testing.T) {
	cases := recorded(t, "testdata/warnings.json", func(peer *target) func(*warnedCase) warnedCase {
		return func(c *warnedCase) warnedCase { return c.ask(t, peer) }
	})
	s := serve(t, Options{})
	for _, want := range cases {
		t.Run(want.Name, func(t *testing.T) {
			got := want.ask(t, s)
			require.Equal(t, want.Verdict, got.Verdict)
			if len(want.Warnings)+len(got.Warnings) > 0 {
				require.Equal(t, want.Warnings, got.Warnings)
			}
		})
	}
}

// Pods of a job stay unless the client says otherwise, which may be a surprise.
func TestDEL_10_DeletedJobsLeavePods(t *testing.T) {
	s := serve(t, Options{})
	const jobs = "/apis/batch/v1/namespaces/default/jobs"
	for _, path := range []string{jobs + "/j", jobs} {
		s.must(t, 201, "POST", jobs, `{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
		for _, policy := range []string{"propagationPolicy=Orphan", "propagationPolicy=Background", "orphanDependents=true"} {
			answer, _ := s.answer(t, "DELETE", path+"?dryRun=All&"+policy, "")
			require.Equal(t, 200, answer.StatusCode)
			require.Empty(t, answer.Header.Values("Warning"), policy)
		}
		answer, _ := s.answer(t, "DELETE", path, "")
		require.Equal(t, 200, answer.StatusCode)
		require.Contains(t, answer.Header.Get("Warning"), "the pods of a job stay")
		answer, _ = s.answer(t, "DELETE", jobs+"/j", `{"propagationPolicy":"Background"}`)
		require.Empty(t, answer.Header.Values("Warning"))
	}
}
