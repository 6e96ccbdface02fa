package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright/internal/config"
	"github.com/kindwright/kindwright/internal/metrics"
	"github.com/kindwright/kindwright/meta"
)

var kind = config.Kind{Name: "LampConfiguration", Group: "lamps.k8s.io", AnyDomain: "lamps", Versions: []string{"v1", "v1beta1"}}

const head = "apiVersion: lamps.k8s.io/v1\nkind: LampConfiguration\n"

type color string

type lamp struct {
	Color  color             `json:"color"`
	Bright *bool             `json:"bright"`
	After  meta.Duration     `json:"after"`
	Watts  int32             `json:"watts"`
	Share  float64           `json:"share"`
	Labels map[string]string `json:"labels"`
	Code   string            `json:"code" config:"secret"`
	Any    any               `json:"any"`
}

type document struct {
	Lamps []lamp `json:"lamps"`
	Main  *lamp  `json:"main"`
}

func decode(text string) (out document, version string, err error) {
	d, err := config.Read([]byte(text), kind)
	if err != nil {
		return out, "", err
	}
	return out, d.Version, d.Decode(&out)
}

func TestCFG_03_YAMLAndJSONAreTheSame(t *testing.T) {
	yes := true
	want := document{
		Lamps: []lamp{{
			Color: "red", Bright: &yes, After: meta.NewDuration(90 * time.Second), Watts: 5, Share: 1,
			Labels: map[string]string{"a": "b"}, Code: "x", Any: []any{int64(1)},
		}, {}},
		Main: &lamp{Share: 0.5},
	}
	for _, text := range []string{
		head + `
lamps:
- {color: red, bright: true, after: 1m30s, watts: 5, share: 1, labels: {a: b}, code: x, any: [1]}
- {color: null, bright: null}
main: {share: 0.5}
`,
		`{"apiVersion":"lamps.example.dev/v1beta1","kind":"LampConfiguration","lamps":[{"color":"red","bright":true,"after":"1m30s","watts":5,"share":1,"labels":{"a":"b"},"code":"x","any":[1]},{}],"main":{"share":0.5}}`,
	} {
		got, _, err := decode(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestCFG_01_AnotherKindGroupOrVersionIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"":                        `Invalid value: null: must be an object`,
		"[]":                      `must be an object`,
		"kind: [":                 `yaml`,
		"{}":                      `kind: Required value: must be LampConfiguration`,
		"kind: 3":                 `kind: Invalid value: 3: must be a string`,
		"kind: Lamp":              `kind: Required value`,
		"apiVersion: v1":          `kind: Required value: must be LampConfiguration`,
		"kind: LampConfiguration": `apiVersion: Required value: must be lamps.k8s.io/v1 or lamps.k8s.io/v1beta1`,
		"kind: LampConfiguration\napiVersion: v1":                 `apiVersion: Invalid value: "v1": must be lamps.k8s.io/v1 or lamps.k8s.io/v1beta1 for the kind "LampConfiguration"`,
		"kind: LampConfiguration\napiVersion: lamps.k8s.io/v2":    `apiVersion: Invalid value: "lamps.k8s.io/v2"`,
		"kind: LampConfiguration\napiVersion: other.k8s.io/v1":    `apiVersion: Invalid value: "other.k8s.io/v1"`,
		"kind: LampConfiguration\napiVersion: lamps.K8s/v1":       `apiVersion: Invalid value`,
		"kind: LampConfiguration\napiVersion: lamps./v1":          `apiVersion: Invalid value`,
		"kind: LampConfiguration\napiVersion: lamps.k8s.io/v1/v1": `apiVersion: Invalid value`,
		"kind: lampConfiguration\napiVersion: lamps.k8s.io/v1":    `kind: Invalid value: "lampConfiguration": must be LampConfiguration, in apiVersion "lamps.k8s.io/v1"`,
	} {
		if text == "kind: Lamp" {
			want = `apiVersion: Required value`
		}
		_, _, err := decode(text)
		require.ErrorContains(t, err, want, text)
	}
	_, version, err := decode(head)
	require.NoError(t, err)
	require.Equal(t, "v1", version)
}

func TestCFG_04_ADocumentIsReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		"lamp: []":                        `lamp: Forbidden: unknown field, did you mean "lamps"?`,
		"Lamps: []":                       `Lamps: Forbidden: unknown field, did you mean "lamps"?`,
		"zzz: 1":                          `zzz: Forbidden: unknown field`,
		"lamps: []\nlamps: []":            `lamps: Forbidden: duplicate field`,
		"lamps: [{color: a, color: a}]":   `lamps[0].color: Forbidden: duplicate field`,
		"lamps: {}":                       `lamps: Invalid value: {}: must be a list`,
		"lamps: [1]":                      `lamps[0]: Invalid value: 1: must be an object`,
		"lamps: [null]":                   `lamps[0]: Invalid value: null: must be an object`,
		"lamps: [{color: 1}]":             `lamps[0].color: Invalid value: 1: must be a string`,
		"lamps: [{bright: 1}]":            `lamps[0].bright: Invalid value: 1: must be true or false`,
		"lamps: [{after: 1}]":             `lamps[0].after: Invalid value: 1: `,
		"lamps: [{after: soon}]":          `lamps[0].after: Invalid value: "soon": `,
		"lamps: [{watts: 1.5}]":           `lamps[0].watts: Invalid value: 1.5: must be a whole number`,
		"lamps: [{watts: 3000000000}]":    `lamps[0].watts: Invalid value: 3000000000: must be a whole number`,
		"lamps: [{share: x}]":             `lamps[0].share: Invalid value: "x": must be a number`,
		"lamps: [{labels: [a]}]":          `lamps[0].labels: Invalid value: ["a"]: must be an object`,
		"lamps: [{labels: {a: 1}}]":       `lamps[0].labels[a]: Invalid value: 1: must be a string`,
		"main: {main: {}}":                `main.main: Forbidden: unknown field`,
		"lamps: [{colour: 1}]\nzzz: true": `[lamps[0].colour: Forbidden: unknown field, did you mean "color"?, zzz: Forbidden: unknown field]`,
	} {
		_, _, err := decode(head + text)
		require.ErrorContains(t, err, want, text)
	}
	_, _, err := decode(head + "main: {code: [s3cret]}")
	require.ErrorContains(t, err, `main.code: Invalid value: "<secret>": must be a string`)
	require.NotContains(t, err.Error(), "s3cret")
}

func TestADocumentIsBounded(t *testing.T) {
	_, _, err := decode(head + "main: {any: " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}")
	require.ErrorContains(t, err, "nest")
	_, _, err = decode(head + "# " + strings.Repeat("x", config.MaxBytes))
	require.ErrorContains(t, err, "too large")
	_, _, err = decode(`{"apiVersion":"lamps.k8s.io/v1","kind":"LampConfiguration","main":{"any":[` + strings.Repeat("[],", 1_000_000) + `1]}}`)
	require.Error(t, err)
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "unknown%03d: 1\n", i)
	}
	_, _, err = decode(head + text.String())
	require.ErrorContains(t, err, "and 150 more]")
	var invalid *config.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Fields, 200)
}

// A file is followed: what is in it counts a moment later, and a bad one does not count at all.
func TestCFG_05_ABadReloadKeepsTheOldValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lamps.yaml")
		write := func(text string) {
			require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
			require.NoError(t, os.Rename(path+".new", path))
			time.Sleep(2 * time.Second)
		}
		var mu sync.Mutex
		reads := 0
		open := func() (*config.Live[string], error) {
			return config.Follow(path, func(data []byte) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				reads++
				if strings.HasPrefix(string(data), "bad") {
					return "", errors.New("it is bad: " + string(data))
				}
				return string(data), nil
			}, config.LiveOptions{Name: "lamp", ServerID: "me"})
		}
		_, err := open()
		require.ErrorContains(t, err, "lamp configuration "+path)
		write("bad")
		_, err = open()
		require.ErrorContains(t, err, "it is bad")

		write("one")
		live, err := open()
		require.NoError(t, err)
		require.Equal(t, "one", live.Get())
		require.NoError(t, live.Healthy())
		var registry metrics.Registry
		live.CollectMetrics(&registry)
		values := func() map[string]float64 {
			out := map[string]float64{}
			for f := range registry.Families() {
				for _, s := range f.Samples {
					out[strings.TrimPrefix(f.Name, "apiserver_lamp_config_controller_")+"/"+s.Labels[len(s.Labels)-1]] = s.Value
				}
			}
			return out
		}
		require.Len(t, values(), 1, "there was no reload yet")

		write("two")
		require.Equal(t, "two", live.Get())
		before := reads
		write("two")
		require.Equal(t, "two", live.Get())
		require.Equal(t, before, reads, "it says the same")

		for range 3 { // the same bad file counts once
			write("bad one")
			require.Equal(t, "two", live.Get())
			require.ErrorContains(t, live.Healthy(), "bad one")
		}
		require.NoError(t, os.Rename(path, path+".gone"))
		for range 3 {
			time.Sleep(2 * time.Second)
			require.Equal(t, "two", live.Get())
			require.ErrorIs(t, live.Healthy(), os.ErrNotExist)
		}
		write("two")
		require.Equal(t, "two", live.Get())
		require.NoError(t, live.Healthy())
		write("three")
		require.Equal(t, "three", live.Get())
		got := values()
		require.InDelta(t, 2, got["automatic_reloads_total/success"], 0)
		require.InDelta(t, 2, got["automatic_reloads_total/failure"], 0)
		require.Greater(t, got["automatic_reload_last_timestamp_seconds/success"], got["automatic_reload_last_timestamp_seconds/failure"])
	})
}

// What a struct says about its fields beside their names.
func TestCFG_04_FieldsThatAreRequiredOrHaveTwoNames(t *testing.T) {
	type base struct {
		Volts *int32 `json:"volts" config:"required"`
	}
	type room struct {
		base
		Size  float32                   `json:"Size" config:"required,also=size"`
		Key   []byte                    `json:"key" config:"secret"`
		Lamps map[string]map[string]any `json:"-" config:"rest"`
	}
	read := func(text string) (out room, err error) {
		d, err := config.Read([]byte(head+text), kind)
		require.NoError(t, err)
		return out, d.Decode(&out)
	}
	got, err := read("volts: 230\nsize: 1.5\nkey: aGk=\nceiling: {watts: 5}\nfloor: {}")
	require.NoError(t, err)
	volts := int32(230)
	require.Equal(t, room{base{&volts}, 1.5, []byte("hi"), map[string]map[string]any{"ceiling": {"watts": int64(5)}, "floor": {}}}, got)
	_, err = read("volts: 230\nsize: 1.5\nSize: 1.5")
	require.NoError(t, err, "READ-10: both spellings may agree")
	for text, want := range map[string]string{
		"":                             "[volts: Required value, Size: Required value]",
		"volts: null\nSize: 1":         "volts: Required value",
		"volts: 1\nSize: 1\nsize: 2":   "size: Forbidden: says something else than Size",
		"volts: 1\nSize: 1\nkey: '!'":  `key: Invalid value: "<secret>": must be a string in base64`,
		"volts: 1\nSize: 1\nkey: 3":    `key: Invalid value: "<secret>": must be a string in base64`,
		"volts: 1\nSize: 1\ndoor: 1":   "door: Forbidden: unknown field",
		"volts: 1\nSize: 1\nsizes: {}": `sizes: Forbidden: unknown field, did you mean "Size"?`,
	} {
		_, err := read(text)
		require.EqualError(t, err, want, text)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(head + "lamps: [{color: red}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := config.Read(data, kind)
		if err != nil {
			return
		}
		var out document
		if d.Decode(&out) != nil {
			return
		}
		_, err = json.Marshal(out)
		require.NoError(t, err)
	})
}
