package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/health"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// healthEndpoints are those of every server.
var healthEndpoints = []string{"/healthz", "/livez", "/readyz"}

// healthy asks a health path, and compares all that a prober sees.
func healthy(s *server, path string, code int, body string) {
	s.t.Helper()
	a := s.get(path).is(code)
	require.Equal(s.t, body, string(a.body), path)
	require.Equal(s.t, "text/plain; charset=utf-8", a.header.Get("Content-Type"), path)
	require.Equal(s.t, "nosniff", a.header.Get("X-Content-Type-Options"), path)
}

// part is a check of a program, which fails with a reason that says too much.
func part(reason *string) health.Check {
	return health.Check{Name: "part", Check: func(context.Context) error {
		if *reason == "" {
			return nil
		}
		return errors.New(*reason)
	}}
}

// A started server is healthy, live and ready, and says just that.
func TestHEALTH_01_02_04_22_MODEL_13_AStartedServerIsWell(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range healthEndpoints {
			healthy(s, path, 200, "ok")
			require.Empty(t, s.do("HEAD", path, "").is(200).body, path)
			s.do("POST", path, "").is(405)
		}
	})
}

// READ-35: the code is 500. Reasons are for the log, and for those who ask for the single check.
func TestHEALTH_10_20_22_24_25_WhatAFailedCheckTells(t *testing.T) {
	var reason string
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range healthEndpoints {
			reason = ""
			healthy(s, path+"/part", 200, "ok")
			before := string(s.get(path + "?verbose").is(200).body)
			reason = "the disk at /s3cret"
			after := strings.Replace(before, "[+]part ok\n", "[-]part failed: reason withheld\n", 1)
			after = strings.Replace(after, " check passed\n", " check failed\n", 1)
			require.NotEqual(t, before, after)
			healthy(s, path, 500, after)
			healthy(s, path+"?verbose", 500, after)
			healthy(s, path+"/part", 500, "internal server error: the disk at /s3cret\n")
			s.get(path + "/other").is(404)
			require.True(t, strings.HasSuffix(after, "\n"+path[1:]+" check failed\n"), after)
		}
	}, kindwright.CheckHealth(health.All, part(&reason)))
}

// Each name in the text of ?verbose is a path, and the last line sums the text up.
func TestHEALTH_06_07_09_11_14_18_25_26_TheTextNamesEachCheck(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range healthEndpoints {
			lines := strings.Split(strings.TrimSuffix(string(s.get(path+"?verbose").is(200).body), "\n"), "\n")
			last := len(lines) - 1
			require.Equal(t, path[1:]+" check passed", lines[last])
			var names []string
			for _, line := range lines[:last] {
				name, ok := strings.CutPrefix(line, "[+]")
				require.True(t, ok, line)
				name, ok = strings.CutSuffix(name, " ok")
				require.True(t, ok, line)
				healthy(s, path+"/"+name, 200, "ok")
				names = append(names, name)
			}
			require.Subset(t, names, []string{"ping", "log"})
			require.Equal(t, path == "/readyz", slices.Contains(names, "shutdown"), "HEALTH-18, HEALTH-25: of %s", path)
			require.Equal(t, path == "/readyz", slices.Contains(names, "informer-sync"), "HEALTH-26: of %s", path)
		}
	})
}

func TestHEALTH_12_13_23_ChecksAreExcluded(t *testing.T) {
	reason := "none left"
	other := part(&reason)
	other.Name = "group/other"
	onEach(t, func(t *testing.T, s *server) {
		for _, path := range healthEndpoints {
			const both = "exclude=part&exclude=group/other"
			s.get(path + "?exclude=part").is(500)
			s.get(path + "?exclude=group%2Fother").is(500)
			healthy(s, path+"?"+both, 200, "ok")
			text := string(s.get(path + "?verbose&" + both).is(200).body)
			require.Equal(t, text, string(s.get(path+"?"+both+"&verbose").is(200).body))
			require.Contains(t, text, "\n[+]part excluded: ok\n[+]group/other excluded: ok\n")
			require.NotContains(t, text, "[-]")
			text = string(s.get(path + "?verbose&exclude=x&" + both).is(200).body)
			require.Contains(t, text, "\nwarn: some health checks cannot be excluded: no matches for \"x\"\n")
		}
	}, kindwright.CheckHealth(health.All, part(&reason), other))
}

// ailing is a store that can break.
type ailing struct {
	storage.Backend
	broken *error
}

func (a ailing) Unwrap() storage.Backend { return a.Backend }

func (a ailing) Healthy() error { return *a.broken }

// STORE-08: a restart does not mend a store, so the server stays live. READ-35: the name of the check is
// Kubernetes' unless the program has another one.
func TestHEALTH_15_ABrokenStoreIsNoticed(t *testing.T) {
	for name, opts := range map[string][]kindwright.Option{"etcd": nil, "ledger": {kindwright.HTTP{StoreCheck: "ledger"}}} {
		t.Run(name, func(t *testing.T) {
			onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
				var broken error
				s := start(t, func() storage.Backend { return ailing{open(), &broken} }, opts...)
				for _, path := range []string{"/healthz", "/readyz"} {
					broken = nil
					require.Contains(t, string(s.get(path+"?verbose").is(200).body), "[+]"+name+" ok\n")
					broken = errors.New("the file is gone")
					require.Contains(t, string(s.get(path).is(500).body), "[-]"+name+" failed: reason withheld\n")
					healthy(s, path+"/"+name, 500, "internal server error: the file is gone\n")
					healthy(s, path+"?exclude="+name, 200, "ok")
				}
				healthy(s, "/livez", 200, "ok")
			})
		})
	}
	_, err := kindwright.New(memory.New(), kindwright.HTTP{StoreCheck: "../x"})
	require.ErrorContains(t, err, `health: check "../x"`)
}

// begun is a definition with a hook that has nothing to do.
type begun struct{}

func (begun) Define(registry.Env) (registry.Bundle, error) {
	return registry.Bundle{Hooks: []registry.Hook{{Name: "fill/shelves", Start: func(context.Context, registry.Objects) error { return nil }}}}, nil
}

// What a hook that has not finished means is TestHEALTH_03_16 of the root package.
func TestHEALTH_16_EachStartHookHasACheck(t *testing.T) {
	onEach(t, func(_ *testing.T, s *server) {
		for _, path := range healthEndpoints {
			healthy(s, path+"/poststarthook/fill/shelves", 200, "ok")
			s.get(path + "/poststarthook/fill").is(404)
		}
	}, kindwright.Serve(begun{}))
}
