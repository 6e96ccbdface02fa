package kube

import (
	"encoding/json"
	"os"
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
	const file = "testdata/warnings.json"
	var cases []warnedCase
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &cases))
	if *updateStored {
		p := thePeer()
		require.NotNil(t, p, "-peer says which server to ask")
		lines := make([]string, len(cases))
		for i := range cases {
			cases[i] = cases[i].ask(t, p)
			line, err := json.Marshal(cases[i])
			require.NoError(t, err)
			lines[i] = string(line)
		}
		require.NoError(t, os.WriteFile(file, []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644))
	}
	s := serve(t, Options{})
	require.NotEmpty(t, cases)
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
