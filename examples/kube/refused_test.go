package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refusal is the error for a rejected object: the code, and each cause with its field.
func refusal(code int, answer map[string]any) []string {
	out := []string{fmt.Sprintf("%d %s", code, word(answer["reason"]))}
	for _, c := range list(at(answer, "details", "causes")) {
		out = append(out, word(at(c, "field"))+" "+word(at(c, "reason")))
	}
	slices.Sort(out[1:])
	return slices.Compact(out)
}

// Invalid objects are rejected with the codes and fields of kube-apiserver.
func TestCREATE_RefusesWhatKubernetesRefuses(t *testing.T) {
	s := serve(t, Options{})
	all := manifests(t, s, "testdata/refused.yaml")
	if *updateStored {
		p := thePeer()
		require.NotNil(t, p, "-peer says which server to ask")
		out := map[string][]string{}
		for _, m := range all {
			out[m.name] = refusal(p.do(t, "POST", m.path+"?dryRun=All", m.text))
			if strings.HasPrefix(out[m.name][0], "201") {
				t.Errorf("%s is not rejected", m.name)
			}
		}
		require.False(t, t.Failed())
		require.NoError(t, os.WriteFile("testdata/refused.json", []byte(pretty(t, out)), 0o644))
	}
	var want map[string][]string
	text, err := os.ReadFile("testdata/refused.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	require.Len(t, want, len(all))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			require.Equal(t, want[m.name], refusal(s.do(t, "POST", m.path, m.text)))
		})
	}
}
