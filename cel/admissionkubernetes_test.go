package cel_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/authn"
	"github.com/kindwright/kindwright/authz"
	"github.com/kindwright/kindwright/cel"
	"github.com/kindwright/kindwright/internal/json"
)

// told is an authorizer whose answers say what it was asked, like that of internal/celoracle.
func told(a authz.Attributes) (authz.Decision, string, error) {
	reason := strings.Join([]string{a.User.Name, a.Path, a.Group, a.Version, a.Resource, a.Subresource, a.Namespace, a.Name, a.Verb}, "|")
	switch a.Verb {
	case "get", "list":
		return authz.Allow, reason, nil
	case "fail":
		return authz.NoOpinion, reason, errors.New("out of order")
	case "deny":
		return authz.Deny, reason, nil
	}
	return authz.NoOpinion, reason, nil
}

// otherForm are results that Kubernetes' recorder cannot write: null, objects in lists and maps, and
// what only has functions.
var otherForm = regexp.MustCompile(`^Object\{a: (authorizer|object\.spec\.nothing|oldObject|variables)\}$|\}\.a$|^\[Object|^\{'a': Object`)

// What policies compute, and what it costs, is recorded by internal/celoracle.
func TestPOL_04_05_CEL_09_27_AsKubernetes(t *testing.T) {
	text, err := os.ReadFile("testdata/admission.jsonl")
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	var a *cel.Admission
	var in cel.AdmissionInput
	count := 0
	for lines.Scan() {
		v, err := json.DecodeTree(lines.Bytes(), json.TreeOptions{})
		require.NoError(t, err)
		line := v.(map[string]any)
		if a == nil {
			a, in = recordedWrite(t, line)
			continue
		}
		count++
		rule := line["rule"].(string)
		want := recorded{Rule: rule}
		want.Problem, _ = line["problem"].(string)
		want.Result, _ = line["result"].(string)
		cost, _ := line["cost"].(string)
		want.Cost, _ = strconv.ParseUint(cost, 10, 64)

		problem, result, spent := cel.AskAdmission(t.Context(), a, in, rule)
		got := recorded{Rule: rule, Problem: problem, Result: result, Cost: spent}
		if strings.HasPrefix(want.Result, "failed: ") {
			got.Cost = want.Cost // the step that fails is not counted
		}
		if otherForm.MatchString(rule) || strings.HasPrefix(want.Result, "kubernetes.authorization.") {
			want.Result, _, _ = strings.Cut(want.Result, " ")
			got.Result, _, _ = strings.Cut(got.Result, " ")
		}
		if strings.Contains(rule, "variables.") { // a variable that is proved to be cheap is not counted
			require.InDelta(t, want.Cost, got.Cost, 4, rule)
			got.Cost = want.Cost
		}
		require.Equal(t, want, got)
	}
	require.Greater(t, count, 800)
}

// recordedWrite returns what the recorded expressions see.
func recordedWrite(t *testing.T, line map[string]any) (*cel.Admission, cel.AdmissionInput) {
	t.Helper()
	object := func(name string) map[string]any {
		v, _ := line[name].(map[string]any)
		return v
	}
	a, err := cel.NewAdmission(cel.AdmissionOptions{Stored: true, Params: true, Prices: cel.KubernetesPrices()})
	require.NoError(t, err)
	for _, name := range []string{"n", "twice", "names", "broken", "wrong", "label"} {
		_ = a.Define(name, object("variables")[name].(string)) // one of them does not compile
	}
	return a, cel.AdmissionInput{
		Object: object("object"), OldObject: object("oldObject"), Params: object("params"),
		Request:   func() map[string]any { return object("request") },
		Namespace: func(context.Context) (map[string]any, error) { return object("namespaceObject"), nil },
		Ask:       told,
		About:     authz.Attributes{User: authn.User{Name: "alice"}, ResourceRequest: true, Resource: "pods", Namespace: "ns", Name: "p"},
	}
}
