package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// failed is an answer with causes, each a field and a sentence about it.
func failed(causes ...string) answer {
	a := answer{Code: http.StatusUnprocessableEntity}
	for i := 0; i < len(causes); i += 2 {
		a.Causes = append(a.Causes, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: causes[i], Message: causes[i+1]})
	}
	return a
}

func stored(object map[string]any, warnings ...string) answer {
	return answer{Code: http.StatusOK, Object: object, Warnings: warnings}
}

func TestDifferences(t *testing.T) {
	job := func(uid, generation any, more map[string]any) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"name": "j", "uid": uid, "generation": generation, "resourceVersion": uid, "creationTimestamp": uid, "labels": map[string]any{"u": uid}},
			"spec":     more,
		}
	}
	containers := func(images ...any) map[string]any {
		var all []any
		for _, image := range images {
			all = append(all, map[string]any{"image": image})
		}
		return map[string]any{"template": map[string]any{"spec": map[string]any{"containers": all}}}
	}
	for name, c := range map[string]struct {
		theirs, ours answer
		want         []string
	}{
		"the same causes":        {failed("a", "x", "b", "y"), failed("b", "z", "a", "x"), nil},
		"a cause is missing":     {failed("a[0].b", "x", "c", "y"), failed("c", "y"), []string{"MISSING FieldValueInvalid a[].b"}},
		"a cause more":           {failed("c", "y"), failed("c", "y", "d[k e]", "z"), []string{"EXTRA FieldValueInvalid d[]"}},
		"refused there alone":    {failed("a", "x"), stored(nil), []string{"MISSING FieldValueInvalid a"}},
		"refused here alone":     {stored(nil), failed("a", "x"), []string{"EXTRA FieldValueInvalid a"}},
		"bodies that are wrong":  {answer{Code: 400, Message: "a"}, answer{Code: 400, Message: "b"}, nil},
		"another code":           {stored(nil), answer{Code: 409}, []string{"CODE there 200, here 409"}},
		"a panic":                {answer{Message: "nil pointer"}, failed("a", "x"), []string{"PANIC"}},
		"what no servers share":  {stored(job("u1", 1., nil)), stored(job("u2", 1., nil)), nil},
		"a number":               {stored(job("u1", 1., nil)), stored(job("u2", 2., nil)), []string{"OBJECT .metadata.generation"}},
		"null there":             {stored(job("u", 1., map[string]any{"startTime": nil})), stored(job("u", 1., map[string]any{})), nil},
		"null here":              {stored(job("u", 1., map[string]any{})), stored(job("u", 1., map[string]any{"suspend": nil})), []string{"OBJECT .spec.suspend"}},
		"null in a place":        {stored(job("u", 1., map[string]any{"template": nil})), stored(job("u", 1., containers())), []string{"OBJECT .spec.template NULL"}},
		"a field is missing":     {stored(job("u", 1., map[string]any{"suspend": true})), stored(job("u", 1., map[string]any{})), []string{"OBJECT .spec.suspend"}},
		"an element":             {stored(job("u", 1., containers("a", "b"))), stored(job("u", 1., containers("a", "c"))), []string{"OBJECT .spec.template.spec.containers[].image"}},
		"more elements":          {stored(job("u", 1., containers("a"))), stored(job("u", 1., containers("a", "c"))), []string{"OBJECT .spec.template.spec.containers"}},
		"a warning is missing":   {stored(nil, `spec.a[1]: "x" is old`), stored(nil), []string{`WARNING MISSING spec.a[]: "" is old`}},
		"a warning more":         {stored(nil, "a"), stored(nil, "a", "b"), []string{"WARNING EXTRA b"}},
		"warnings of two bodies": {stored(nil, "a", "not\x00sent"), stored(nil, "a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range differences(reflect.TypeFor[batchv1.Job](), c.theirs, c.ours, false) {
				got = append(got, d.what)
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestKeysOfMapsAreNoNames(t *testing.T) {
	left := map[string]any{"data": map[string]any{"a": "b", "c": "d"}, "immutable": true}
	right := map[string]any{"data": map[string]any{"a": "x"}, "unknown": 1.}
	require.Equal(t, []change{
		{".data[a]", `"b"`, `"x"`}, {".data[c]", `"d"`, missing}, {".immutable", "true", missing}, {"[unknown]", missing, "1"},
	}, changes(left, right, reflect.TypeFor[corev1.ConfigMap](), ""))
}

func TestTimesOfTwoProgramsAreNear(t *testing.T) {
	started := func(at any) map[string]any { return map[string]any{"status": map[string]any{"startTime": at}} }
	of := reflect.TypeFor[batchv1.Job]()
	require.Empty(t, changes(started("2026-01-01T00:00:59Z"), started("2026-01-01T00:01:00Z"), of, ""))
	require.Len(t, changes(started("2026-01-01T00:00:00Z"), started("2026-01-01T00:01:00Z"), of, ""), 1)
	require.Len(t, changes(started("2026-01-01T00:00:00Z"), started("later"), of, ""), 1)
	require.Len(t, changes(started(nil), started("2026-01-01T00:01:00Z"), of, ""), 1)
}

func TestSentencesAreComparedOnDemand(t *testing.T) {
	theirs, ours := failed("a", "x", "a", "y", "a", "x", "b", "z").Causes, failed("a", "y", "a", "x", "b", "other").Causes
	require.Empty(t, differentCauses(theirs, ours, false))
	require.Equal(t, []difference{{"MESSAGE FieldValueInvalid b", `FieldValueInvalid b: there ["z"], here ["other"]`}}, differentCauses(theirs, ours, true))
}

// asked is an oracle in this process.
type asked func(question) (answer, error)

func (a asked) ask(q question) (answer, error) { return a(q) }

// obliging accepts every write as it is.
func obliging(q question) (answer, error) { return stored(q.New), nil }

// compared compares writes of config maps, of which the server here refuses some.
func compared(t *testing.T, there oracle, known string) (string, error) {
	t.Helper()
	api := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(api, "core/v1"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(api, "core/v1/types.go"), []byte("package v1"), 0o600))
	o := options{api: api, kinds: "^ConfigMap$", writes: 200, seed: 1}
	if known != "" {
		o.known = filepath.Join(t.TempDir(), "known.txt")
		require.NoError(t, os.WriteFile(o.known, []byte(known), 0o600))
	}
	var out bytes.Buffer
	err := o.compare(t.Context(), there, &out)
	return out.String(), err
}

func TestDifferencesAreReportedUnlessTheyAreKnown(t *testing.T) {
	out, err := compared(t, asked(obliging), "")
	require.ErrorContains(t, err, "are not known")
	require.Regexp(t, `(?m)^ +\d+  ConfigMap (create|update) EXTRA FieldValueInvalid data\[\]\n {10}FieldValueInvalid data\[.*\n {10}cm\d?: .*\n {10}there: 200\n {10}here: 422 ConfigMap`, out)
	require.Regexp(t, `(?m)^all +200 writes +[1-9]\d* kinds of differences +0 of them known$`, out)

	out, err = compared(t, asked(obliging), "# all of them\n^ConfigMap .* (EXTRA|OBJECT) \ttheir oracle checks nothing\n")
	require.NoError(t, err)
	require.NotContains(t, out, "EXTRA")
	require.Regexp(t, `^ConfigMap +200 writes +([1-9]\d*) kinds of differences +[1-9]\d* of them known\nall .*\n$`, out)
}

func TestTheOracleMustAcceptTheObjects(t *testing.T) {
	_, err := compared(t, asked(func(q question) (answer, error) { return answer{Code: 422, Message: "no"}, nil }), "")
	require.ErrorContains(t, err, "ConfigMap cm: there 422 no")
	_, err = compared(t, asked(func(q question) (answer, error) { return answer{}, io.ErrUnexpectedEOF }), "")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestEveryObjectIsServed stores all objects.
func TestEveryObjectIsServed(t *testing.T) {
	s, err := startServer(t.Context())
	require.NoError(t, err)
	defer s.stop()
	all, err := s.store(t.Context(), objects, regexp.MustCompile(""))
	require.NoError(t, err)
	require.Len(t, all, strings.Count(string(objects), "\nkind: "))
	_, err = s.store(t.Context(), []byte("{apiVersion: v1, kind: Pod, metadata: {name: A, namespace: default}}"), regexp.MustCompile(""))
	require.ErrorContains(t, err, "Pod A: 422")
	_, err = s.store(t.Context(), objects, regexp.MustCompile("^None$"))
	require.ErrorContains(t, err, "no object")
}

func TestKnownDifferencesHaveReasons(t *testing.T) {
	for text, want := range map[string]string{"a": "known.txt:1: no reason", "#\n(\tb": "known.txt:2: error parsing"} {
		name := filepath.Join(t.TempDir(), "known.txt")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := readKnown(name)
		require.ErrorContains(t, err, want)
	}
	known, err := readKnown("../../../scripts/kube-validation/known.txt")
	require.NoError(t, err)
	require.NotEmpty(t, known)
}

func TestTheCommandLine(t *testing.T) {
	fails := func(args ...string) error { return command(t.Context(), args, io.Discard, io.Discard) }
	require.ErrorContains(t, fails(), "usage")
	require.ErrorContains(t, fails("-oracle=a"), "usage")
	require.ErrorContains(t, fails("-oracle=a", "-api=b", "c"), "usage")
	require.ErrorIs(t, fails("-oracle=/no/such/file", "-api=b"), os.ErrNotExist)
	o := options{kinds: "("}
	require.ErrorContains(t, o.compare(t.Context(), asked(obliging), io.Discard), "-kinds")
	o = options{known: "/no/such/file"}
	require.ErrorContains(t, o.compare(t.Context(), asked(obliging), io.Discard), "-known")
	o = options{api: t.TempDir()}
	require.ErrorContains(t, o.compare(t.Context(), asked(obliging), io.Discard), "-api")
}

// TestMain lets the test binary be an oracle.
func TestMain(m *testing.M) {
	if os.Getenv("COMPAREWRITES_TEST_ORACLE") == "" {
		os.Exit(m.Run())
	}
	if _, err := io.WriteString(os.Stdout, `{"Code":200,"Warnings":["a"]}`+"\n"); err != nil {
		os.Exit(1)
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	if err != nil {
		os.Exit(1)
	}
}

func TestAnOracleIsAProcess(t *testing.T) {
	t.Setenv("COMPAREWRITES_TEST_ORACLE", "1")
	self, err := os.Executable()
	require.NoError(t, err)
	p, err := startProcess(t.Context(), self, io.Discard)
	require.NoError(t, err)
	a, err := p.ask(question{Op: opCreate})
	require.NoError(t, err)
	require.Equal(t, stored(nil, "a"), a)
	require.NoError(t, p.stop())
	_, err = p.ask(question{})
	require.Error(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	p, err = startProcess(ctx, self, io.Discard)
	require.NoError(t, err)
	cancel()
	require.ErrorContains(t, p.stop(), "killed")
}
