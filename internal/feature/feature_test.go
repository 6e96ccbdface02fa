package feature_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/feature"
	"github.com/kindwright/kindwright/meta"
)

func TestVER_13_Releases(t *testing.T) {
	for text, want := range map[string]string{"": "1.37", "1.30": "1.30", "v1.30": "1.30", "kube=1.31": "1.31"} {
		r, err := feature.ParseRelease(text)
		require.NoError(t, err)
		require.Equal(t, want, r.String())
	}
	for text, want := range map[string]string{
		"1.26": "not between [1.27, 1.37]", "1.38": "not between [1.27, 1.37]", "2.0": "not between", "0.30": "not between",
		"1": "not a release", "1.30.2": "not a release", "x": "not a release", "1.": "not a release", "-1.30": "not a release",
		"etcd=1.30": "component", "kube=": "not a release", strings.Repeat("9", 5000): "not a release",
	} {
		_, err := feature.ParseRelease(text)
		require.ErrorContains(t, err, want, text)
		require.Less(t, len(err.Error()), 300)
	}
}

func TestReleasesThatAreReached(t *testing.T) {
	for text, want := range map[string]bool{"1.30": true, "1.29": true, "1.1": true, "1.31": false, "2.0": false, "": true, "soon": true} {
		require.Equal(t, want, feature.Release{Major: 1, Minor: 30}.Reached(text), text)
	}
}

func gates(t *testing.T, release string, settings ...string) *feature.Gates {
	t.Helper()
	r, err := feature.ParseRelease(release)
	require.NoError(t, err)
	g, err := feature.NewGates(r, settings...)
	require.NoError(t, err)
	return g
}

func TestVER_05_StagesDefaultsAndReleases(t *testing.T) {
	states := map[string]feature.State{}
	for _, s := range gates(t, "1.31").All() {
		states[s.Name] = s
		require.NotEmpty(t, s.Doc)
	}
	for name, want := range map[string]struct {
		stage   feature.Stage
		minor   int
		enabled bool
	}{
		"WatchList": {feature.Alpha, 27, false}, "APIResponseCompression": {feature.Beta, 16, true}, "APIListChunking": {feature.Stable, 29, true},
		"ServerSideApply": {feature.Stable, 22, true}, "IndividualHealthChecks": {feature.Alpha, 31, true},
		"HealthzEndpoint": {feature.Deprecated, 16, true}, "ResourceVersionMatch": {feature.Stable, 19, true},
	} {
		s := states[name]
		require.Equal(t, want.stage, s.Stage, name)
		require.Equal(t, want.enabled, s.Enabled, name)
		require.Equal(t, feature.Release{Major: 1, Minor: want.minor}, s.Since, name)
	}
}

func TestVER_05_OfTheNewestRelease(t *testing.T) {
	for _, s := range gates(t, "").All() {
		require.NotEmpty(t, s.Stage, s.Name)
		require.Negative(t, s.Since.Compare(feature.Newest()), s.Name)
		if s.Name == feature.WatchList {
			require.Equal(t, feature.Release{Major: 1, Minor: 32}, s.Since, "beta, though it was off in between")
		}
	}
	for _, s := range gates(t, "1.30").All() {
		if s.Name == "IndividualHealthChecks" {
			require.Equal(t, feature.State{Feature: s.Feature}, s, "which 1.30 does not have")
		}
	}
}

func TestWLIST_09_DefaultsByRelease(t *testing.T) {
	for release, want := range map[string]bool{"1.27": false, "1.31": false, "1.32": true, "1.33": false, "1.34": true, "1.37": true, "": true} {
		require.Equal(t, want, gates(t, release).Enabled(feature.WatchList), release)
	}
}

func TestFLAG_01_Settings(t *testing.T) {
	require.True(t, gates(t, "1.31", "WatchList=true").Enabled("WatchList"))
	require.True(t, gates(t, "1.31", "kube:WatchList=true").Enabled("WatchList"))
	require.True(t, gates(t, "1.31", "AllAlpha=true").Enabled("WatchList"))
	require.False(t, gates(t, "1.31", "AllAlpha=true, WatchList=false").Enabled("WatchList"))
	require.False(t, gates(t, "1.34", "AllBeta=false").Enabled("WatchList"))
	require.True(t, gates(t, "1.34", "AllBeta=false").Enabled("ServerSideApply"), "what is stable is not beta")
	require.False(t, gates(t, "1.34", "WatchList=true", "WatchList=false").Enabled("WatchList"), "the last counts")
	require.True(t, gates(t, "1.34", "ServerSideApply=true", "").Enabled("ServerSideApply"))
	require.False(t, gates(t, "1.34").Enabled("NoSuch"))

	for setting, want := range map[string]string{
		"NoSuch=true": `unrecognized feature gate: "NoSuch"; known are AllAlpha, AllBeta, APIResponseCompression`, "WatchList": "no value",
		"WatchList=on": "neither true nor false", "ServerSideApply=false": "locked to true", "HealthzEndpoint=false": "unrecognized",
		"AnonymousAuthConfigurableEndpoints=true": "1.30 does not have it yet", "watchlist=true": "unrecognized",
	} {
		r, err := feature.ParseRelease("1.30")
		require.NoError(t, err)
		_, err = feature.NewGates(r, setting)
		require.ErrorContains(t, err, want, setting)
	}
	_, err := feature.NewGates(feature.Newest(), "A=true,B=true")
	require.ErrorContains(t, err, `"A"`)
	require.ErrorContains(t, err, `"B"`)
}

func resource(text string) meta.GroupVersionResource {
	words := strings.Split(text, "/")
	if len(words) == 2 {
		words = append([]string{""}, words...)
	}
	return meta.GroupVersionResource{Group: words[0], Version: words[1], Resource: words[2]}
}

func TestVER_06_07_08_09_16_Selections(t *testing.T) {
	const optional = "?"
	for config, want := range map[string]map[string]bool{
		"":                                     {"g/v1/a": true, "g/v1/a?": false},
		"g/v1":                                 {"g/v1/a": true, "g/v1/a?": true, "g/v2/a?": false},
		"g/v1=":                                {"g/v1/a?": true},
		"g/v1=false":                           {"g/v1/a": false, "g/v2/a": true, "h/v1/a": true},
		"g/v1=false,g/v1/a=true":               {"g/v1/a": true, "g/v1/b": false},
		"g/v1/a=true,g/v1=false":               {"g/v1/a": true, "g/v1/b": false},
		"g/v1/a":                               {"g/v1/a?": true, "g/v1/b?": false, "g/v1/b": true},
		"g/v1/a=false":                         {"g/v1/a": false, "g/v1/b": true},
		"v1=false":                             {"v1/a": false, "g/v1/a": true},
		"api/v1=false":                         {"v1/a": false, "g/v1/a": true},
		"v1/a=false":                           {"v1/a": false, "v1/b": true},
		"api/v1/a=false":                       {"v1/a": false, "v1/b": true},
		"api/all=false,v1=true":                {"v1/a": true, "g/v1/a": false},
		"v1,api/all=false":                     {"v1/a": true, "g/v1/a": false},
		"api/all":                              {"g/v1alpha1/a?": true},
		"api/all=true,api/alpha=false":         {"g/v1alpha1/a?": false, "g/v1beta1/a?": true, "g/v1/a?": true},
		"api/beta=false":                       {"g/v1beta1/a": false, "g/v1/a": true, "g/v1alpha1/a": true, "g/v1beta/a": true},
		"api/ga=false,g/v1=true":               {"g/v1/a": true, "h/v1/a": false, "h/v1beta1/a": true},
		"api/beta=false,api/beta=true":         {"g/v1beta1/a": true},
		" api/beta=false , ,api/alpha=false, ": {"g/v1beta1/a": false, "g/v1alpha1/a": false},
	} {
		s, err := feature.ParseSelection(config)
		require.NoError(t, err, config)
		for name, served := range want {
			bare := strings.TrimSuffix(name, optional)
			require.Equal(t, served, s.Serves(resource(bare), bare != name), "%q: %s", config, name)
		}
	}
	s, err := feature.ParseSelection("g/v1=false", "g/v1=true")
	require.NoError(t, err)
	require.True(t, s.Serves(resource("g/v1/a"), false), "the last counts")

	for config, want := range map[string]string{
		"g/v1=maybe": "neither true nor false", "g": "neither a version", "g/v1/a/status": "neither a version", "g/v1/A": "lower case",
		"g/v1/": "lower case", "api/gamma": "after api/", "=true": "neither a version", "g//a": "neither a version", "api/all=false": "nothing to serve",
		"api": "neither a version", "api/": "after api/",
	} {
		_, err := feature.ParseSelection(config)
		require.ErrorContains(t, err, want, config)
	}
}

func TestVER_16_WhatIsNotThere(t *testing.T) {
	known := []meta.GroupVersionResource{resource("g/v1/a"), resource("g/v2/a")}
	s, err := feature.ParseSelection("g/v1,g/v2/b,h/v1,h/v1/c")
	require.NoError(t, err)
	absent, err := s.Check(known)
	require.NoError(t, err)
	require.Equal(t, []string{`group "h"`, `resource "b" of g/v2`}, absent)

	s, err = feature.ParseSelection("g/v3=false,g/v4/a")
	require.NoError(t, err)
	_, err = s.Check(known)
	require.ErrorContains(t, err, `no version "v3" of group "g"`)
	require.ErrorContains(t, err, `no version "v4" of group "g"`)
}
