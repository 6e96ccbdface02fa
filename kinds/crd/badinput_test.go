package crd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/apitest"
	"github.com/kindwright/kindwright/internal/effort"
	"github.com/kindwright/kindwright/kinds/crd"
)

// defining returns a definition whose only version has a schema for spec, and columns.
func defining(spec, columns string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"bads.b0.example.com"},
		"spec":{"group":"b0.example.com","scope":"Cluster","names":{"plural":"bads","kind":"Bad"},"versions":[{"name":"v1","served":true,"storage":true,
		"additionalPrinterColumns":[%s],"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":%s}}}}]}}`, columns, spec)
}

// nested puts middle between n times before and n times after.
func nested(n int, before, middle, after string) string {
	return strings.Repeat(before, n) + middle + strings.Repeat(after, n)
}

// each joins n texts that differ in a number.
func each(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ",")
}

// ask sends a request, and returns its answer and the bytes that were allocated meanwhile.
func ask(t *testing.T, srv *apitest.Server, method, path, accept, body string) (code int, answer string, allocated uint64) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", accept)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response, err := srv.Client().Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	return response.StatusCode, string(data), after.TotalAlloc - before.TotalAlloc
}

// atOnce returns by how much the memory that is in use grows while f runs. The collector runs all the time, and what
// is allocated while it runs counts as in use, so the result is rather too high.
func atOnce(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	runtime.GC()
	runtime.GC() // what pools keep goes with the second one
	before := inUse()
	var peak atomic.Uint64
	var ended atomic.Bool
	var each func(*marker)
	each = func(m *marker) { // after each collection
		peak.Store(max(peak.Load(), inUse()))
		if !ended.Load() {
			runtime.SetFinalizer(m, each)
		}
	}
	runtime.SetFinalizer(&marker{new(int)}, each)
	f()
	ended.Store(true)
	runtime.GC()
	return max(before, peak.Load(), inUse()) - before
}

// marker is collected by each collection. It has a pointer, so that it is not allocated together with others.
type marker struct{ _ *int }

// inUse returns what the last collection found to be in use.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// What a definition takes at once is explained by its size, too, where its nodes and rules are as dense as can be.
// What one rule takes is free before the next one is compiled, but the tables of the language stay, once a process.
func TestCRD_07_WhatADefinitionTakesAtOnce(t *testing.T) {
	rules := func(properties, all string) string {
		return `{"type":"object",` + properties + `"x-kubernetes-validations":[` + all + `]}`
	}
	properties := `"properties":{` + each(100, `"b%d":{"type":"string","maxLength":5}`) + `},`
	for _, c := range []struct {
		name, schema string
		code         int
	}{
		{"100 rules", rules(properties, each(100, `{"rule":"self.b%d == 'x'"}`)), 201},
		{"100 short rules", rules("", each(100, `{"rule":"true||%d==1"}`)), 201},
		{"100 rules that do not compile", rules("", each(100, `{"rule":"self.b%d == 'x'"}`)), 422},
		{"900 branches", `{"type":"integer","allOf":[` + each(899, `{"maximum":%d}`) + `]}`, 201},
		{"20,000 nodes", `{"type":"object","properties":{` + each(20_000, `"p%d":{"type":"string"}`) + `}}`, 201},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := defining(c.schema, "")
			took := make([]uint64, max(3, effort.Of(5)))
			for i := range took {
				srv := start(t, crd.Kinds())
				took[i] = atOnce(func() {
					code, answer, _ := ask(t, srv, "POST", definitions, "application/json", body)
					require.Equal(t, c.code, code, "%.500s", answer)
				})
			}
			t.Logf("%d bytes at once for %d", took, len(body))
			slices.Sort(took) // a slow collection counts what is allocated while it runs
			require.LessOrEqual(t, took[len(took)/2], uint64(64*len(body)+1<<20))
		})
	}
}

// Definitions that are made to be expensive are refused, or cost what their size explains. The bytes
// for an accepted one include what its controller allocates, which the answer waits for.
func TestCRD_07_SchemasThatAreMadeToBeExpensive(t *testing.T) {
	defaults, doubled := `{"type":"string"}`, `{"maximum":5}`
	for range 8 {
		defaults = `{"type":"array","default":[` + strings.Repeat("{},", 9) + `{}],"items":{"type":"object","properties":{"a":` + defaults + `}}}`
	}
	for range 14 {
		doubled = `{"allOf":[` + doubled + `,` + doubled + `]}`
	}
	rules := func(all string) string { return `{"type":"object","x-kubernetes-validations":[` + all + `]}` }
	// The tables of the language for rules are made once in a process. They take a megabyte.
	_, _, _ = ask(t, start(t, crd.Kinds()), "POST", definitions, "application/json", defining(rules(`{"rule":"self.b == 'x'"}`), ""))
	const (
		refused = 64  // bytes for each byte of the request
		dense   = 200 // where each 26 bytes are a node, with all that its controller and its kind take
		fixed   = 1 << 20
	)
	for _, c := range []struct {
		name, schema string
		code         int
		each, fixed  uint64
	}{
		{"100,000 nodes", `{"type":"object","properties":{` + each(100_000, `"p%d":{"type":"string"}`) + `}}`, 413, refused, fixed},
		{"20,000 nodes", `{"type":"object","properties":{` + each(20_000, `"p%d":{"type":"string"}`) + `}}`, 201, refused, fixed},
		{"10,000 lists with unknown formats", `{"type":"object","properties":{` + each(10_000, `"p%d":{"type":"array","items":{"type":"string","format":"x"}}`) + `}}`, 201, refused, fixed},
		{"900 branches that differ", `{"type":"integer","allOf":[` + each(899, `{"maximum":%d}`) + `]}`, 201, refused, 4 * fixed},
		{"1,000 lists deep", nested(1000, `{"type":"array","items":`, `{"type":"string"}`, `}`), 400, refused, fixed},
		{"1,000 objects deep", nested(1000, `{"type":"object","properties":{"a":`, `{"type":"string"}`, `}}`), 400, refused, fixed},
		{"1,000 allOf deep", `{"type":"integer","allOf":[` + nested(1000, `{"allOf":[`, `{"maximum":4}`, `]}`) + `]}`, 400, refused, fixed},
		{"1,000 not deep", `{"type":"integer","not":` + nested(1000, `{"not":`, `{"maximum":4}`, `}`) + `}`, 400, refused, fixed},
		{"doubled allOf", `{"type":"integer","allOf":[` + doubled + `]}`, 413, refused, fixed},
		{"a pattern of 1 MB", `{"type":"string","pattern":"` + strings.Repeat("a", 1<<20) + `"}`, 422, refused, fixed},
		{"repetitions of 1 MB", `{"type":"string","pattern":"` + strings.Repeat("a{1000}", 1<<17) + `"}`, 422, refused, fixed},
		{"brackets of 1 MB", `{"type":"string","pattern":"` + nested(1<<19, "(", "", ")") + `"}`, 422, refused, fixed},
		{"repetitions in repetitions", `{"type":"string","pattern":"(((a{900}){900}){900}){900}"}`, 422, refused, fixed},
		{"20,000 patterns", `{"type":"object","properties":{` + each(20_000, `"p%d":{"type":"string","pattern":"^[a-z]{900}%[1]d$"}`) + `}}`, 422, refused, fixed},
		{"classes of characters", `{"type":"string","pattern":"` + strings.Repeat(`\\pL`, 1365) + `"}`, 422, refused, fixed},
		{"many classes of characters", `{"type":"object","properties":{` + each(10_000, `"p%d":{"type":"string","pattern":"\\PL%[1]d"}`) + `}}`, 422, dense, 8 * fixed},
		{"long ranges in any case", `{"type":"string","pattern":"(?i)` + strings.Repeat(`[a-\\x{1E943}]`, 270) + `"}`, 422, refused, fixed},
		{"defaults in defaults", defaults, 422, refused, fixed},
		{"an enum of 100,000", `{"type":"string","enum":[` + each(100_000, `"e%d"`) + `]}`, 422, refused, fixed},
		{"100,000 schemas of items", `{"type":"array","items":[` + strings.Repeat(`{},`, 100_000) + `{}]}`, 422, refused, fixed},
		{"10,000 definitions", `{"type":"object","definitions":{` + each(10_000, `"p%d":{}`) + `}}`, 422, refused, fixed},
		{"18,000 branches", `{"type":"object","properties":{` + each(20, `"p%d":{"type":"integer","allOf":[`+strings.Repeat(`{},`, 900)+`{}]}`) + `}}`, 422, refused, fixed},
		{"900 branches", `{"type":"integer","allOf":[` + strings.Repeat(`{},`, 899) + `{}]}`, 201, refused, fixed},
		{"1,000 rules", rules(each(1000, `{"rule":"true||%d==1"}`)), 422, refused, 2 * fixed},
		{"10,000 rules that cannot be read", rules(each(10_000, `{"rule":"(%d"}`)), 422, refused, fixed},
		{"100 rules that do not compile", rules(each(100, `{"rule":"self.b%d == 'x'"}`)), 422, refused, fixed},
		{"a list of 40,000 numbers", rules(`{"rule":"[` + strings.Repeat("1,", 40_000) + `1].size() > 0"}`), 422, refused, 2 * fixed},
		{"90 lists in each other", rules(`{"rule":"` + nested(90, "[", "", "]") + `.size() > 0"}`), 422, refused, 4 * fixed},
		{"90,000 signs", rules(`{"rule":"` + strings.Repeat("-", 90_000) + `1 > 0"}`), 422, refused, 2 * fixed},
		{"20,000 wrong types", `{"type":"object","properties":{` + each(20_000, `"p%d":{"type":"x"}`) + `}}`, 422, refused, fixed},
		{"100,000 required names", `{"type":"object","required":[` + each(100_000, `"e%d"`) + `]}`, 201, refused, fixed},
	} {
		t.Run(c.name, func(t *testing.T) { // on a server of its own, which does nothing else meanwhile
			srv := start(t, crd.Kinds())
			body := defining(c.schema, "")
			code, answer, allocated := ask(t, srv, "POST", definitions, "application/json", body)
			require.Equal(t, c.code, code, "%.500s", answer)
			t.Logf("%d bytes for each byte, and 1 MiB", max(int64(allocated)-fixed, 0)/int64(len(body)))
			limit := c.each*uint64(len(body)) + c.fixed
			if effort.Raced { // pools lose what they keep
				limit += limit / 4
			}
			require.LessOrEqual(t, allocated, limit, "bytes allocated for %d", len(body))
			if code >= http.StatusBadRequest {
				require.Less(t, len(answer), 64<<10)
			}
		})
	}
}

// A table costs what the size of its objects explains, whatever its columns select.
func TestCRD_18_ColumnsThatSelectFromLongLists(t *testing.T) {
	const items = 190_000
	srv := start(t, crd.Kinds())
	columns := each(8, `{"name":"c%d","type":"string","jsonPath":".spec.l[*]"}`) +
		`,{"name":"all","type":"string","jsonPath":"..l[*]"},{"name":"some","type":"string","jsonPath":".spec.l[?(@>1)]"},{"name":"step","type":"string","jsonPath":".spec.l[0:-1:2]"}`
	establish(t, srv, defining(`{"type":"object","properties":{"l":{"type":"array","items":{"type":"integer"}}}}`, columns))
	listOf := func(n int) string {
		return `{"apiVersion":"b0.example.com/v1","kind":"Bad","metadata":{"name":"a"},"spec":{"l":[` + strings.Repeat("1,", n-1) + `1]}}`
	}
	for _, n := range []int{1_000_000, items} { // a million small values are refused
		object := listOf(n)
		code, answer, allocated := ask(t, srv, "POST", "/apis/b0.example.com/v1/bads", "application/json", object)
		require.Equal(t, n == items, code == http.StatusCreated, "%.500s", answer)
		require.LessOrEqual(t, allocated, uint64(64*len(object)+1<<20))
		t.Logf("%d bytes for a request of %d", allocated, len(object))
	}
	object := listOf(items)
	code, answer, allocated := ask(t, srv, "GET", "/apis/b0.example.com/v1/bads?includeObject=None", "application/json;as=Table;g=meta.k8s.io;v=v1", "")
	require.Equal(t, http.StatusOK, code, "%.500s", answer)
	require.LessOrEqual(t, allocated, uint64(96*len(object)+1<<20), "eleven columns")
	require.Contains(t, answer, `"name":"step"`)
	t.Logf("%d bytes for an object of %d", allocated, len(object))
}

// FuzzUpdates replaces a definition by another. The server answers, and what it has stored is accepted
// again as it is, without being changed.
func FuzzUpdates(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"string"}}}`), []byte(`{"type":"object","properties":{"a":{"type":"integer","default":3}}}`))
	f.Add([]byte(`{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"}`), []byte(`{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"atomic"}`))
	f.Add([]byte(`{"x-kubernetes-int-or-string":true}`), []byte(`{"type":"object","additionalProperties":{"type":"string","nullable":true,"default":null}}`))
	f.Add([]byte(`{"type":"string","pattern":"^a","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}`), []byte(`{"type":"string","enum":["a",1],"format":"unheard-of","unknown":{}}`))
	f.Add([]byte(`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true}`), []byte(`{"type":"object","allOf":[{"required":["a"]}],"properties":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		if !json.Valid(first) || !json.Valid(second) {
			return
		}
		srv := start(t, crd.Kinds())
		code, answer, _ := ask(t, srv, "POST", definitions, "application/json", defining(string(first), ""))
		require.Less(t, code, http.StatusInternalServerError, "%.500s", answer)
		if code != http.StatusCreated {
			return
		}
		const at = definitions + "/bads.b0.example.com"
		var other tree
		require.NoError(t, json.Unmarshal([]byte(defining(string(second), "")), &other))
		code, replaced := replace(t, srv, at, func(now tree) { now["spec"] = other["spec"] })
		require.Less(t, code, http.StatusInternalServerError, "%v", replaced)
		var before any
		code, replaced = replace(t, srv, at, func(now tree) { before = now["metadata"].(tree)["generation"] })
		require.Equal(t, http.StatusOK, code, "%v", replaced)
		require.Equal(t, before, replaced["metadata"].(tree)["generation"])
		code, answer, _ = ask(t, srv, "DELETE", at, "application/json", "")
		require.Equal(t, http.StatusOK, code, "%.500s", answer)
	})
}

// replace changes an object, again if somebody else has changed it meanwhile.
func replace(t *testing.T, srv *apitest.Server, at string, change func(now tree)) (int, tree) {
	t.Helper()
	for {
		code, now := call(t, srv, "GET", at, "")
		require.Equal(t, http.StatusOK, code, "%v", now)
		change(now)
		code, answer := call(t, srv, "PUT", at, text(t, now))
		if code != http.StatusConflict {
			return code, answer
		}
	}
}
