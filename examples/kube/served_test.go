package kube

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateServed = flag.Bool("update-served", false, "rewrite testdata/served.txt from what the peer serves")

const servedHead = `# What kube-apiserver 1.36 serves of the stable groups: resources with their subresources and the columns of their tables,
# a priority above 0 after a colon. make served PEER=... writes it.
`

// known are the intended differences, each with its reason.
func known() map[string]string {
	return map[string]string{
		"missing: apiextensions.k8s.io/v1 customresourcedefinitions": "kinds that are defined at run time come later",
		"missing: apiregistration.k8s.io/v1 apiservices":             "nothing is aggregated",
		"missing: v1 componentstatuses":                              "nobody reports them",
	}
}

// served describes a server's resources in the format of the file.
func served(t *testing.T, s *target) []string {
	var blocks [][]string
	for _, root := range []string{"/api", "/apis"} {
		doc := s.must(t, 200, "GET", root, "", "Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
		for _, g := range list(doc["items"]) {
			for _, v := range list(at(g, "versions")) {
				gv := strings.TrimPrefix(word(at(g, "metadata", "name"))+"/"+word(at(v, "version")), "/")
				for _, r := range list(at(v, "resources")) {
					blocks = append(blocks, describe(t, s, root+"/"+gv, gv, r))
				}
			}
		}
	}
	slices.SortFunc(blocks, func(a, b []string) int {
		x, y := strings.Fields(a[0]), strings.Fields(b[0])
		return cmp.Or(strings.Compare(x[0], y[0]), strings.Compare(x[1], y[1]))
	})
	return slices.Concat(blocks...)
}

func sortedWords(v any) string {
	out := words(v)
	slices.Sort(out)
	return strings.Join(out, ",")
}

func describe(t *testing.T, s *target, path, gv string, r any) []string {
	name := word(at(r, "resource"))
	out := []string{fmt.Sprintf("%s %s %s %s %s short=%s categories=%s verbs=%s", gv, name, word(at(r, "responseKind", "kind")), word(at(r, "scope")), word(at(r, "singularResource")),
		strings.Join(words(at(r, "shortNames")), ","), strings.Join(words(at(r, "categories")), ","), sortedWords(at(r, "verbs")))}
	var subs []string
	for _, sub := range list(at(r, "subresources")) {
		kind := word(at(sub, "responseKind", "kind"))
		if of := strings.TrimPrefix(word(at(sub, "responseKind", "group"))+"/"+word(at(sub, "responseKind", "version")), "/"); of != "" && of != gv {
			kind = of + "." + kind
		}
		subs = append(subs, "  /"+word(at(sub, "subresource"))+" "+kind+" "+sortedWords(at(sub, "verbs")))
	}
	slices.Sort(subs)
	out = append(out, subs...)
	if slices.Contains(words(at(r, "verbs")), "list") {
		table := s.must(t, 200, "GET", path+"/"+name, "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		var columns []string
		for _, c := range list(table["columnDefinitions"]) {
			column := word(at(c, "name"))
			if p, _ := at(c, "priority").(float64); p > 0 {
				column += fmt.Sprintf(":%d", int(p))
			}
			columns = append(columns, column)
		}
		out = append(out, "  | "+strings.Join(columns, " | "))
	}
	return out
}

// Resources, names, verbs, subresources and columns are those of kube-apiserver.
func TestDISC_WhatIsServedIsWhatKubernetesServes(t *testing.T) {
	if *updateServed {
		p := thePeer()
		require.NotNil(t, p, "-peer says which server to ask")
		require.NoError(t, os.WriteFile("testdata/served.txt", []byte(servedHead+strings.Join(served(t, p), "\n")+"\n"), 0o644))
	}
	text, err := os.ReadFile("testdata/served.txt")
	require.NoError(t, err)
	var want []string
	for line := range strings.Lines(strings.TrimPrefix(string(text), servedHead)) {
		want = append(want, strings.TrimSuffix(line, "\n"))
	}
	got := served(t, serve(t, Options{}))
	meant := known()
	for _, d := range difference(want, got) {
		if meant[d] == "" {
			t.Error(d)
		}
		delete(meant, d)
	}
	require.Empty(t, meant, "these are no differences any more")
}

// difference compares two descriptions block by block.
func difference(want, got []string) (out []string) {
	theirs, ours := inBlocks(want), inBlocks(got)
	for _, name := range sortedNames(theirs) {
		if _, ok := ours[name]; !ok {
			out = append(out, "missing: "+name)
			continue
		}
		for _, line := range theirs[name] {
			if !slices.Contains(ours[name], line) {
				out = append(out, "missing: "+name+": "+line)
			}
		}
		for _, line := range ours[name] {
			if !slices.Contains(theirs[name], line) {
				out = append(out, "unexpected: "+name+": "+line)
			}
		}
	}
	for _, name := range sortedNames(ours) {
		if _, ok := theirs[name]; !ok {
			out = append(out, "unexpected: "+name)
		}
	}
	return out
}

func inBlocks(lines []string) map[string][]string {
	out, name := map[string][]string{}, ""
	for _, line := range lines {
		if !strings.HasPrefix(line, " ") {
			f := strings.Fields(line)
			name = f[0] + " " + f[1]
		}
		out[name] = append(out[name], line)
	}
	return out
}
