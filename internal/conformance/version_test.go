package conformance

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kindwright/kindwright"
	"github.com/kindwright/kindwright/meta"
	"github.com/kindwright/kindwright/registry"
	"github.com/kindwright/kindwright/storage"
	"github.com/kindwright/kindwright/storage/memory"
)

// The collections of motors in each version.
const (
	motorPath  = "/apis/drive.example.com/v1/namespaces/default/motors"
	motorBeta  = "/apis/drive.example.com/v1beta1/namespaces/default/motors"
	motorAlpha = "/apis/drive.example.com/v1alpha1/namespaces/default/motors"
)

// Motor is stored as v1.
type Motor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            MotorSpec   `json:"spec,omitzero"`
	Status          MotorStatus `json:"status,omitzero"`
}

type MotorSpec struct {
	Power  int32    `json:"power" minimum:"1" column:"Power"`
	Fuel   string   `json:"fuel,omitempty" default:"electricity" selectable:""`
	Serial string   `json:"serial,omitempty"` // missing in v1beta1
	Parts  []string `json:"parts,omitempty" list:"set"`
	Count  int32    `json:"count,omitempty"` // missing in v1beta1
}

type MotorStatus struct {
	Phase string `json:"phase,omitempty"`
	Count int32  `json:"count,omitempty"`
}

// Horn is the body of the action horn.
type Horn struct {
	meta.TypeMeta `json:",inline"`
	Tone          string `json:"tone"`
}

// OldMotor is Motor in v1beta1 and v1alpha1.
type OldMotor struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Watts           int32       `json:"watts" column:"Watts"`
	Drink           string      `json:"drink,omitempty" default:"electricity" selectable:""`
	Parts           []string    `json:"parts,omitempty" list:"set"`
	Status          MotorStatus `json:"status,omitzero"`
}

func toMotor(o *OldMotor) (*Motor, error) {
	switch o.Drink {
	case "panic":
		panic("no such fuel")
	case "error":
		return nil, errors.New("no such fuel")
	}
	return &Motor{Spec: MotorSpec{Power: o.Watts / 1000, Fuel: o.Drink, Parts: o.Parts}, Status: o.Status}, nil
}

func fromMotor(m *Motor) (*OldMotor, error) {
	switch m.Spec.Fuel {
	case "antimatter":
		return nil, errors.New("not representable in this version")
	case "patience":
		return nil, fmt.Errorf("ask somebody else: %w", context.DeadlineExceeded)
	}
	return &OldMotor{Watts: m.Spec.Power * 1000, Drink: m.Spec.Fuel, Parts: m.Spec.Parts, Status: m.Status}, nil
}

func oldMotors(version string) registry.Kind[OldMotor] {
	return registry.Kind[OldMotor]{Group: "drive.example.com", Version: version, Plural: "motors", Names: registry.Names{Kind: "Motor"}}
}

// motors serves v1, a deprecated v1beta1, and v1alpha1 for servers that enable it.
func motors() registry.Kind[Motor] {
	fields := map[string]string{"drink": "spec.fuel"}
	beta, alpha := oldMotors("v1beta1"), oldMotors("v1alpha1")
	beta.Serving.Deprecated = &registry.Deprecation{Since: "1.30", Removed: "1.40", Instead: meta.GroupVersionKind{Version: "v1"}}
	alpha.Serving.Optional = true
	return registry.Kind[Motor]{
		Group: "drive.example.com", Version: "v1", Plural: "motors",
		Subresources: []registry.Endpoint{
			registry.ScaleSubresource{SpecReplicasPath: ".spec.count", StatusReplicasPath: ".status.count"},
			registry.Action[Motor, Horn, Horn]{Name: "horn", Run: func(_ context.Context, call *registry.Call[Motor], h *Horn) (*Horn, error) {
				return &Horn{Tone: h.Tone + " of " + call.Object.Spec.Serial}, nil
			}},
		},
		Also: []registry.Form{registry.As(beta, toMotor, fromMotor, fields), registry.As(alpha, toMotor, fromMotor, fields)},
	}
}

// lawnmowers returns a kind of the same group with only alpha and beta versions.
func lawnmowers(version string) registry.Kind[OldMotor] {
	return registry.Kind[OldMotor]{Group: "drive.example.com", Version: version, Plural: "lawnmowers", Names: registry.Names{Kind: "Lawnmower"}, StorageName: "lawnmowers/" + version}
}

func motorised(t *testing.T, test func(t *testing.T, s *server), opts ...kindwright.Option) {
	t.Helper()
	onEach(t, test, append([]kindwright.Option{kindwright.Serve(motors())}, opts...)...)
}

func motor(name, spec string) string {
	return `{"apiVersion":"drive.example.com/v1","kind":"Motor","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

func TestVER_01_TheCoreGroup(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		a := s.get("/api/v1/namespaces/default").is(200)
		require.Equal(t, "v1", a.text("apiVersion"))
		require.Equal(t, "v1", s.get("/api/v1/namespaces").text("apiVersion"))
		require.Equal(t, []any{"v1"}, s.get("/api").at("versions"))
		s.get("/apis/v1/namespaces").is(404)
		s.get("/apis//v1/namespaces").is(404)
	})
}

func TestVER_02_NamedGroups(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		s.create(motorPath, motor("a", `{"power":4}`))
		for path, want := range map[string]string{motorPath: "drive.example.com/v1", motorBeta: "drive.example.com/v1beta1"} {
			require.Equal(t, want, s.get(path+"/a").is(200).text("apiVersion"))
			require.Equal(t, want, s.get(path).is(200).text("apiVersion"))
			require.Equal(t, "MotorList", s.get(path).text("kind"))
			s.do("PUT", path+"/a", motor("a", `{"power":4}`)).is(map[bool]int{true: 200, false: 400}[path == motorPath])
		}
	})
}

// A protobuf client can read an object and send it back without changing what JSON clients see.
func TestVER_03_OneSchemaInEveryEncoding(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
		made := s.create(leases, `{"metadata":{"name":"l"},"spec":{"holderIdentity":"me","leaseDurationSeconds":15,"renewTime":"2024-01-01T00:00:00.123456Z"}}`)
		const protobuf = "application/vnd.kubernetes.protobuf"
		read := s.get(leases+"/l", "Accept", protobuf).is(200)
		require.Equal(t, protobuf, read.header.Get("Content-Type"))
		s.do("PUT", leases+"/l", string(read.body), "Content-Type", protobuf).is(200)
		require.Equal(t, made.doc, s.get(leases+"/l").doc, "nothing changes, not even the version")
	})
}

func TestVER_04_NamesShowTheStability(t *testing.T) {
	names := []string{"v1alpha1", "v1beta1", "v1", "v2alpha1", "v1beta2", "foo1", "v10", "v2beta1", "v2"}
	slices.SortFunc(names, meta.CompareVersions)
	require.Equal(t, []string{"v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1", "foo1"}, names)
}

func TestVER_05_FeaturesAndTheirStages(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		found := map[string]kindwright.Feature{}
		for _, f := range s.api.Features() {
			found[f.Name] = f
		}
		for name, want := range map[string]string{
			"WatchList": "Alpha 1.27", "APIResponseCompression": "Beta 1.16", "APIListChunking": "Stable 1.29", "ServerSideApply": "Stable 1.22",
			"IndividualHealthChecks": "Alpha 1.31", "HealthzEndpoint": "Deprecated 1.16", "ResourceVersionMatch": "Stable 1.19",
		} {
			var history []string
			for _, c := range found[name].History {
				history = append(history, fmt.Sprintf("%s %s", c.Stage, c.Since))
			}
			require.Contains(t, history, want, name)
			require.True(t, found[name].Enabled, name)
		}
	})
}

// selected runs a test on servers with a runtime config.
func selected(t *testing.T, config string, test func(t *testing.T, s *server)) {
	t.Helper()
	onEach(t, test, kindwright.Serve(motors(), lawnmowers("v1alpha1"), lawnmowers("v1beta1")), kindwright.Kubernetes{RuntimeConfig: config})
}

func TestVER_06_KeysWithoutAValueMeanTrue(t *testing.T) {
	for _, config := range []string{"drive.example.com/v1alpha1", "drive.example.com/v1alpha1=", "drive.example.com/v1alpha1=true", "drive.example.com/v1=true,drive.example.com/v1alpha1/motors"} {
		selected(t, config, func(_ *testing.T, s *server) {
			s.create(motorAlpha, `{"metadata":{"name":"a"},"watts":1000}`)
			s.get(motorPath + "/a").is(200)
		})
	}
	onEach(t, func(_ *testing.T, s *server) { s.get(motorAlpha).is(404) }, kindwright.Serve(motors()))
}

func TestVER_07_AVersionIsDisabled(t *testing.T) {
	selected(t, "drive.example.com/v1beta1=false", func(t *testing.T, s *server) {
		s.get(motorBeta).refused(404, "NotFound", "could not find the requested resource")
		s.get("/apis/drive.example.com/v1beta1").is(404)
		s.create(motorPath, motor("a", `{"power":4}`))
		var versions []string
		for _, v := range s.get("/apis/drive.example.com").is(200).at("versions").([]any) {
			versions = append(versions, at(v, "version").(string))
		}
		require.Equal(t, []string{"v1", "v1alpha1"}, versions)
		require.NotContains(t, string(s.get("/openapi/v3").body), "drive.example.com/v1beta1")
		require.NotContains(t, string(s.get("/apis", "Accept", aggregated).body), "v1beta1\",\"resources\":[{\"resource\":\"motors")
	})
}

// aggregated requests all of discovery in one document.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// Even the stored version can be disabled: the objects stay and are served in the others.
func TestVER_07_TheStoredVersionIsDisabled(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open, kindwright.Serve(motors()))
		s.namespace("team")
		s.create(strings.Replace(motorPath, "default", "team", 1), motor("b", `{"power":4}`))
		s.create(motorPath, motor("a", `{"power":4,"serial":"s1"}`))
		s.stop()

		s = start(t, open, kindwright.Serve(motors()), kindwright.Kubernetes{RuntimeConfig: "drive.example.com/v1=false"})
		s.get(motorPath + "/a").is(404)
		s.get("/apis/drive.example.com/v1").is(404)
		require.Equal(t, "v1beta1", s.get("/apis/drive.example.com").text("preferredVersion", "version"))
		s.patch(motorBeta+"/a", `{"watts":5000}`)
		w := s.watch(motorBeta + "?watch=1&resourceVersion=" + s.now())
		s.delete("/api/v1/namespaces/team")
		require.Eventually(t, func() bool { return s.get("/api/v1/namespaces/team").code == 404 }, time.Minute, time.Second)
		s.get(strings.Replace(motorBeta, "default", "team", 1) + "/b").is(404)
		s.patch(motorBeta+"/a", `{"watts":6000}`)
		w.expect("MODIFIED", "a")
		s.stop()

		s = start(t, open, kindwright.Serve(motors()))
		require.Equal(t, map[string]any{"power": 6.0, "serial": "s1", "fuel": "electricity"}, s.get(motorPath+"/a").is(200).at("spec"))
	})
}

func TestVER_08_AVersionIsEnabled(t *testing.T) {
	selected(t, "drive.example.com/v1alpha1=true", func(t *testing.T, s *server) {
		s.create(motorAlpha, `{"metadata":{"name":"a"},"watts":1000}`)
		require.Contains(t, string(s.get("/apis/drive.example.com/v1alpha1").is(200).body), `"motors"`)
	})
}

func TestVER_09_OneResourceOfAVersion(t *testing.T) {
	selected(t, "drive.example.com/v1beta1=false,drive.example.com/v1beta1/lawnmowers=true", func(t *testing.T, s *server) {
		s.get(strings.Replace(motorBeta, "motors", "lawnmowers", 1)).is(200)
		s.get(motorBeta).is(404)
		resources := s.get("/apis/drive.example.com/v1beta1").is(200).at("resources").([]any)
		for _, r := range resources {
			require.Contains(t, at(r, "name"), "lawnmowers")
		}
	})
	selected(t, "drive.example.com/v1beta1/motors=false", func(_ *testing.T, s *server) {
		s.get(strings.Replace(motorBeta, "motors", "lawnmowers", 1)).is(200)
		s.get(motorBeta).is(404)
	})
}

// The served versions are fixed when the server is created. Changing them takes a restart.
func TestVER_10_ARestartChangesWhatIsServed(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open, kindwright.Serve(motors()))
		s.create(motorBeta, `{"metadata":{"name":"a"},"watts":1000}`)
		time.Sleep(time.Hour)
		s.get(motorBeta + "/a").is(200)
		s.stop()
		s = start(t, open, kindwright.Serve(motors()), kindwright.Kubernetes{RuntimeConfig: "drive.example.com/v1beta1=false"})
		s.get(motorBeta + "/a").is(404)
		s.get(motorPath + "/a").is(200)
	})
}

func TestVER_13_AnEmulatedVersion(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		version := s.get("/version").is(200)
		require.Equal(t, "30", version.text("emulationMinor"))
		require.Equal(t, "1", version.text("emulationMajor"))
		require.Equal(t, "29", version.text("minCompatibilityMinor"))
		for _, f := range s.api.Features() {
			switch f.Name {
			case "AnonymousAuthConfigurableEndpoints", "IndividualHealthChecks": // since 1.31
				require.False(t, f.Enabled, f.Name)
			case "APIResponseCompression", "ServerSideApply":
				require.True(t, f.Enabled, f.Name)
			}
		}
		s.get(widgetPath+streamed).refused(422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	}, kindwright.Kubernetes{EmulatedVersion: "1.30"})
	for _, bad := range []string{"1.99", "1", "one", "1.2"} {
		_, err := kindwright.New(memory.New(), kindwright.Kubernetes{EmulatedVersion: bad})
		require.ErrorContains(t, err, "Kubernetes.EmulatedVersion", bad)
	}
}

func TestFLAG_01_FeatureGates(t *testing.T) {
	const accept = "Accept-Encoding"
	onEach(t, func(t *testing.T, s *server) {
		require.Empty(t, s.get(widgetPath, accept, "gzip").is(200).header.Get("Content-Encoding"))
		s.get(widgetPath + streamed).is(422)
		s.get(widgetPath + "?watch=1&timeoutSeconds=1").is(200)
	}, kindwright.Kubernetes{FeatureGates: "APIResponseCompression=false,WatchList=false"})
	onEach(t, func(t *testing.T, s *server) {
		require.Equal(t, "gzip", s.get(widgetPath, accept, "gzip").is(200).header.Get("Content-Encoding"))
		s.watch(widgetPath + streamed + "&allowWatchBookmarks=true").endMark()
	})
	_, err := kindwright.New(memory.New(), kindwright.Kubernetes{FeatureGates: "NoSuchGate=true"})
	require.ErrorContains(t, err, `Kubernetes.FeatureGates: unrecognized feature gate: "NoSuchGate"`)
}

// An object written in one version is visible in all others, in every encoding.
func TestVER_15_EveryVerbInEveryVersion(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		w, b := s.watch(motorPath+"?watch=1"), s.watch(motorBeta+"?watch=1")
		seen := func(kind, name string, power float64) {
			t.Helper()
			one, other := w.expect(kind, name), b.expect(kind, name)
			require.Equal(t, power, one.at("spec", "power"))
			require.Equal(t, power*1000, other.at("watts"))
			require.Equal(t, one.at("metadata"), other.at("metadata"))
		}
		dry := s.do("POST", motorBeta+"?dryRun=All", `{"metadata":{"name":"a"},"watts":7000}`).is(201)
		require.Equal(t, 7000.0, dry.at("watts"))
		s.get(motorPath + "/a").is(404)

		s.create(motorBeta, `{"metadata":{"name":"a","labels":{"l":"1"}},"watts":7000,"parts":["p"]}`)
		seen("ADDED", "a", 7)
		s.patch(motorPath+"/a", `{"spec":{"serial":"s1"}}`)
		seen("MODIFIED", "a", 7)

		s.patch(motorBeta+"/a", `{"watts":8000}`)
		seen("MODIFIED", "a", 8)
		s.do("PATCH", motorBeta+"/a", `[{"op":"test","path":"/watts","value":8000},{"op":"replace","path":"/watts","value":9000}]`, "Content-Type", "application/json-patch+json").is(200)
		seen("MODIFIED", "a", 9)
		s.do("PATCH", motorBeta+"/a", `{"watts":10000}`, "Content-Type", "application/strategic-merge-patch+json").is(200)
		seen("MODIFIED", "a", 10)
		s.do("PATCH", motorBeta+"/a?fieldManager=m", `{"apiVersion":"drive.example.com/v1beta1","kind":"Motor","parts":["q"]}`, "Content-Type", "application/apply-patch+yaml").is(200)
		seen("MODIFIED", "a", 10)
		put := s.get(motorBeta + "/a").doc
		put["watts"] = 11000
		s.do("PUT", motorBeta+"/a", jsonOf(t, put)).is(200)
		seen("MODIFIED", "a", 11)
		s.do("PATCH", motorBeta+"/a/status", `{"status":{"phase":"on"},"watts":1000}`, "Content-Type", "application/merge-patch+json").is(200)
		seen("MODIFIED", "a", 11)
		s.patch(motorBeta+"/a", `{"status":{"phase":"off"}}`) // ignored on this path

		now := s.get(motorPath + "/a").is(200)
		require.Equal(t, map[string]any{"power": 11.0, "fuel": "electricity", "serial": "s1", "parts": []any{"p", "q"}}, now.at("spec"), "fields missing in v1beta1 are kept")
		require.Equal(t, map[string]any{"phase": "on"}, now.at("status"))
		require.Equal(t, now.version(), s.get(motorBeta+"/a").version())
		s.do("PUT", motorBeta+"/a", string(s.get(motorBeta+"/a").body)).is(200)
		require.Equal(t, now.version(), s.get(motorBeta+"/a").version(), "a no-op does not write")

		s.do("PUT", motorBeta+"/a", strings.Replace(jsonOf(t, put), `"resourceVersion":"`, `"resourceVersion":"1`, 1)).refused(409, "Conflict", "the object has been modified")
		s.do("PATCH", motorBeta+"/a", `{"watts":"many"}`, "Content-Type", "application/merge-patch+json").refused(422, "Invalid", "watts")
		s.do("DELETE", motorBeta+"/a", `{"propagationPolicy":"Background","preconditions":{"uid":"other"}}`).refused(409, "Conflict", "UID")
		s.delete(motorBeta + "/a")
		seen("DELETED", "a", 11)
	})
}

// Subresources of the stored kind exist in every version, and change only what they would in their
// own.
func TestVER_15_SubresourcesInEveryVersion(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		s.create(motorPath, motor("a", `{"power":4,"serial":"s1","parts":["p"]}`))
		for i, path := range []string{motorPath, motorBeta} {
			scale := s.get(path + "/a/scale").is(200)
			require.Equal(t, "autoscaling/v1", scale.text("apiVersion"))
			s.do("PUT", path+"/a/scale", fmt.Sprintf(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a"},"spec":{"replicas":%d}}`, i+2)).is(200)
			now := s.get(motorPath + "/a")
			require.Equal(t, map[string]any{"power": 4.0, "serial": "s1", "parts": []any{"p"}, "count": float64(i + 2), "fuel": "electricity"}, now.at("spec"))
			s.do("PATCH", path+"/a/scale", `{"spec":{"replicas":9}}`, "Content-Type", "application/merge-patch+json").is(200)
			require.Equal(t, 9.0, s.get(motorPath+"/a").at("spec", "count"))
			horn := s.do("POST", path+"/a/horn", `{"tone":"low"}`).is(201)
			require.Equal(t, "low of s1", horn.text("tone"))
			s.do("PATCH", path+"/a/status", `{"status":{"phase":"`+path+`"}}`, "Content-Type", "application/merge-patch+json").is(200)
			require.Equal(t, path, s.get(motorPath+"/a").text("status", "phase"))
			require.Equal(t, "s1", s.get(motorPath+"/a").text("spec", "serial"))
		}
	})
}

// Events have protobuf messages in both forms. Reading one form and sending it back changes
// nothing.
func TestVER_15_ProtobufInEveryForm(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		const events, core = "/apis/events.k8s.io/v1/namespaces/default/events", "/api/v1/namespaces/default/events"
		made := s.create(core, `{"metadata":{"name":"e"},"involvedObject":{"kind":"Pod","name":"p","namespace":"default"},"reason":"Because","message":"it is","source":{"component":"me"},"count":3,"type":"Normal"}`)
		const protobuf = "application/vnd.kubernetes.protobuf"
		for _, path := range []string{events, core} {
			read := s.get(path+"/e", "Accept", protobuf).is(200)
			s.do("PUT", path+"/e", string(read.body), "Content-Type", protobuf).is(200)
			require.Equal(t, made.version(), s.get(path+"/e").version(), path)
			require.Equal(t, s.get(path, "Accept", protobuf).is(200).body, s.get(path, "Accept", protobuf).body)
		}
		require.Equal(t, "it is", s.get(events+"/e").text("note"))
	})
}

func TestVER_15_ListsInEveryVersionAndForm(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		for i := range 30 {
			s.create(motorPath, motor(fmt.Sprintf("m%02d", i), fmt.Sprintf(`{"power":%d,"fuel":%q}`, i+1, []string{"steam", "diesel"}[i%2])))
		}
		for round := range 4 { // created, cached, and read again
			list := s.get(motorBeta).is(200)
			require.Len(t, list.items(), 30, round)
			for i, item := range list.items() {
				require.Equal(t, "drive.example.com/v1beta1", at(item, "apiVersion"))
				require.Equal(t, float64(i+1)*1000, at(item, "watts"))
			}
			require.Equal(t, list.body, unzipped(t, s.get(motorBeta, "Accept-Encoding", "gzip").is(200)))
			table := s.get(motorBeta, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").is(200)
			require.Equal(t, []any{"m04", 5000.0}, at(table.at("rows").([]any)[4], "cells").([]any)[:2])
			partial := s.get(motorBeta, "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").is(200)
			require.Equal(t, s.get(motorPath, "Accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").body, partial.body, "partial metadata is the same in every version")
			require.Len(t, s.get(motorBeta, "Accept", "application/yaml").is(200).body, len(s.get(motorBeta, "Accept", "application/yaml").body))
		}
		require.Len(t, s.get(motorBeta+"?fieldSelector=drink%3Dsteam").items(), 15)
		require.Len(t, s.get(motorPath+"?fieldSelector=spec.fuel%3Dsteam").items(), 15)
		s.get(motorBeta+"?fieldSelector=spec.fuel%3Dsteam").refused(400, "BadRequest", "spec.fuel")

		// The pages of a list may have different versions (PAGE-09).
		first := s.get(motorPath + "?limit=20").is(200)
		rest := s.get(motorBeta + "?limit=20&continue=" + first.next()).is(200)
		require.Len(t, rest.items(), 10)
		require.Equal(t, 21000.0, at(rest.items()[0], "watts"))

		s.do("DELETE", motorBeta+"?fieldSelector=drink%3Dsteam", "").is(200)
		require.Len(t, s.get(motorPath).items(), 15)
		s.patch(motorPath+"/m01", `{"spec":{"power":77}}`)
		require.Equal(t, 77000.0, at(s.get(motorBeta).items()[0], "watts"), "the cache shows the change")
	})
}

func TestVER_15_OwnersInEveryVersion(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		apply := func(path, manager, version, fields string) *answer {
			return s.do("PATCH", path+"/a?fieldManager="+manager, `{"apiVersion":"drive.example.com/`+version+`","kind":"Motor","metadata":{"name":"a"},`+fields+`}`, "Content-Type", "application/apply-patch+yaml")
		}
		apply(motorPath, "one", "v1", `"spec":{"power":4,"fuel":"steam"}`).is(201)
		apply(motorBeta, "two", "v1beta1", `"watts":5000`).refused(409, "Conflict", `conflict with "one"`)
		apply(motorBeta, "two", "v1beta1", `"watts":4000`).is(200)
		apply(motorPath, "one", "v1", `"spec":{"power":5,"fuel":"steam"}`).refused(409, "Conflict", `conflict with "two"`)
		var versions []any
		for _, m := range s.get(motorPath+"/a").at("metadata", "managedFields").([]any) {
			versions = append(versions, at(m, "apiVersion"))
		}
		require.ElementsMatch(t, []any{"drive.example.com/v1", "drive.example.com/v1beta1"}, versions)

		// Each version has its own reset fields (rule 22).
		apply(motorBeta, "three", "v1beta1", `"parts":["p"],"status":{"phase":"on"}`).is(200)
		a := s.get(motorPath + "/a")
		require.Nil(t, a.at("status"))
		require.NotContains(t, string(a.body), `"f:phase"`)
		apply(motorBeta, "three", "v1beta1", `"watts":4000`).is(200)
		require.Nil(t, s.get(motorPath+"/a").at("spec", "parts"), "fields that an applier drops are removed, in every version")
		s.do("PATCH", motorBeta+"/a?fieldManager=two", `{"apiVersion":"drive.example.com/v1","kind":"Motor"}`, "Content-Type", "application/apply-patch+yaml").
			refused(400, "BadRequest", "drive.example.com/v1beta1")
	})
}

// A failing conversion is reported, and no data is lost.
func TestVER_15_ConversionsThatFail(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		for _, drink := range []string{"panic", "error"} {
			a := s.do("POST", motorBeta, `{"metadata":{"name":"a"},"watts":1000,"drink":"`+drink+`"}`).refused(500, "InternalError", `"default/a" cannot be stored as drive.example.com/v1`)
			require.NotContains(t, string(a.body), "no such fuel")
			require.NotEmpty(t, a.header.Get("Audit-Id"))
		}
		require.Empty(t, s.get(motorPath).items())
		s.do("POST", motorBeta, `{"metadata":{"name":"a"},"watts":100}`).refused(422, "Invalid", "spec.power: Invalid value: 0")

		s.create(motorPath, motor("fine", `{"power":1}`))
		version := s.now()
		s.create(motorPath, motor("odd", `{"power":1,"fuel":"antimatter"}`))
		const says = `"default/odd" cannot be shown as drive.example.com/v1beta1`
		s.get(motorBeta+"/odd").refused(500, "InternalError", says)
		s.get(motorBeta).refused(500, "InternalError", says)
		s.get(motorBeta, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").refused(500, "InternalError", says)
		s.get(motorBeta + "/fine").is(200)
		require.Len(t, s.get(motorBeta+"?fieldSelector=drink%3Delectricity").items(), 1)
		e := s.watch(motorBeta + "?watch=1&resourceVersion=" + version).next()
		require.Equal(t, "ERROR", e.kind)
		require.Contains(t, e.line, "cannot be shown as drive.example.com/v1beta1")
		require.Len(t, s.get(motorPath).items(), 2)
		s.delete(motorPath + "/odd")
		require.Len(t, s.get(motorBeta).items(), 1)
	})
}

// A conversion that runs out of time is not the time of the watch: events that could not be shown are
// neither lost nor tried without end.
func TestVER_15_WATCH_27_AConversionThatTakesTooLongEndsTheWatch(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		version := s.now()
		s.create(motorPath, motor("late", `{"power":1,"fuel":"patience"}`))
		w := s.watch(motorBeta + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + version)
		e := w.next()
		require.Equal(t, "ERROR", e.kind)
		require.Contains(t, e.line, "cannot be shown as drive.example.com/v1beta1")
		require.Equal(t, 500.0, e.at("code"))
		w.ended(time.Second)
	})
}

// If a long list meets a broken object after its first bytes were sent, the connection is aborted,
// so that no client mistakes the part for the whole. The next request gets the reason.
func TestVER_15_ALongListIsAborted(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		text := strings.Repeat("x", 240_000)
		for i := range 40 {
			s.create(motorPath, fmt.Sprintf(`{"metadata":{"name":"m%03d","annotations":{"a":%q}},"spec":{"power":1}}`, i, text))
		}
		s.create(motorPath, motor("odd", `{"power":1,"fuel":"antimatter"}`))
		res := s.send("GET", motorBeta, "")
		require.Equal(t, 200, res.StatusCode)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, res.Body.Close())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.NotEmpty(t, body)
		s.get(motorBeta).refused(500, "InternalError", `"default/odd" cannot be shown`)
		s.get(motorBeta + "?limit=10").is(200)
		s.get(motorBeta+"?limit=50").refused(500, "InternalError", `"default/odd" cannot be shown`)
	})
}

// A list of less than 8 MiB has not begun when an object of it cannot be shown.
func TestVER_15_AListIsHeldUntilItIsConverted(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		text := strings.Repeat("x", 1000)
		for i := range 300 {
			s.create(motorPath, fmt.Sprintf(`{"metadata":{"name":"m%03d","annotations":{"a":%q}},"spec":{"power":1}}`, i, text))
		}
		s.create(motorPath, motor("odd", `{"power":1,"fuel":"antimatter"}`))
		s.get(motorBeta).refused(500, "InternalError", `"default/odd" cannot be shown`)
		s.get(motorPath).is(200)
	})
}

// A later program stores another version. It converts existing objects when they are read, and
// gradually rewrites them.
func TestVER_15_AnotherStoredVersion(t *testing.T) {
	onEachBackend(t, func(t *testing.T, open func() storage.Backend) {
		s := start(t, open, kindwright.Serve(oldMotors("v1beta1")))
		for i := range 20 {
			s.create(motorBeta, fmt.Sprintf(`{"metadata":{"name":"m%02d"},"watts":%d000}`, i, i+1))
		}
		before := s.get(motorBeta + "/m03").doc
		s.stop()

		alone := motors()
		alone.Also = nil
		backend := open()
		api, err := kindwright.New(backend, kindwright.Serve(alone))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		require.ErrorContains(t, api.Start(ctx), `the object "default/m00" was written as a "Motor" of "drive.example.com/v1beta1"`)
		cancel()
		api.Wait()
		require.NoError(t, backend.Close())

		s = start(t, open, kindwright.Serve(motors()), kindwright.Housekeeping{Migration: kindwright.MigrateNothing})
		require.Equal(t, 4.0, s.get(motorPath+"/m03").at("spec", "power"))
		require.Equal(t, before, s.get(motorBeta+"/m03").doc)
		s.stop()

		s = start(t, open, kindwright.Serve(motors()))
		w := s.watch(motorPath + "?watch=1&resourceVersion=" + at(before, "metadata", "resourceVersion").(string))
		require.Eventually(t, func() bool {
			m := s.api.Migrations()
			return len(m) == 1 && !m[0].Ended.IsZero()
		}, time.Minute, time.Second)
		require.Equal(t, 20, s.api.Migrations()[0].Done)
		require.Equal(t, "ADDED", w.next().kind, "m04, from before the migration")
		require.NotEqual(t, at(before, "metadata", "resourceVersion"), s.get(motorPath+"/m03").version())
		s.stop()

		s = start(t, open, kindwright.Serve(alone))
		require.Equal(t, 4.0, s.get(motorPath+"/m03").at("spec", "power"), "the old version is no longer needed")
	})
}

func TestVER_15_VersionsComeAndGo(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		s.create(motorPath, motor("a", `{"power":4}`))
		w := s.watch(motorBeta + "?watch=1&resourceVersion=" + s.now())
		v := s.watch(motorPath + "?watch=1&resourceVersion=" + s.now())
		s.api.RemoveVersions(meta.GroupVersionResource{Group: "drive.example.com", Version: "v1beta1", Resource: "motors"})
		w.ended(time.Minute)
		s.get(motorBeta).is(404)
		s.get("/apis/drive.example.com/v1beta1").is(404)
		s.patch(motorPath+"/a", `{"spec":{"power":5}}`)
		v.expect("MODIFIED", "a")
	})
}

// A reference names the same owner in any version, even one that is no longer served.
func TestVER_15_OwnersNamedInAnotherVersion(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		for _, version := range []string{"v1", "v1beta1"} {
			uid := s.create(motorPath, motor("owner", `{"power":4}`)).text("metadata", "uid")
			for _, path := range []string{motorPath, motorBeta} {
				s.create(path, fmt.Sprintf(`{"metadata":{"generateName":"owned-","ownerReferences":[{"apiVersion":"drive.example.com/%s","kind":"Motor","name":"owner","uid":%q}]},%s}`,
					version, uid, map[string]string{motorPath: `"spec":{"power":1}`, motorBeta: `"watts":1000`}[path]))
			}
			s.widget("free", "")
			s.delete(motorBeta + "/owner?propagationPolicy=Background")
			require.Eventually(t, func() bool { return len(s.get(motorPath).items()) == 0 }, time.Minute, time.Second, version)
			s.delete(widgetPath + "/free")
		}
	})
}

func TestVER_16_KeywordsForVersions(t *testing.T) {
	lawn := func(version string) string {
		return "/apis/drive.example.com/" + version + "/namespaces/default/lawnmowers"
	}
	for config, want := range map[string][]int{ // motors in v1, v1beta1, v1alpha1, lawnmowers in v1beta1, v1alpha1, namespaces
		"":                                      {200, 200, 404, 200, 200, 200},
		"api/all=true":                          {200, 200, 200, 200, 200, 200},
		"api/beta=false":                        {200, 404, 404, 404, 200, 200},
		"api/alpha=false,api/beta=true":         {200, 200, 404, 200, 404, 200},
		"api/alpha":                             {200, 200, 200, 200, 200, 200},
		"api/ga=false,v1=true":                  {404, 200, 404, 200, 200, 200},
		"api/all=false,v1,drive.example.com/v1": {200, 404, 404, 404, 404, 200},
	} {
		selected(t, config, func(t *testing.T, s *server) {
			for i, path := range []string{motorPath, motorBeta, motorAlpha, lawn("v1beta1"), lawn("v1alpha1"), "/api/v1/namespaces"} {
				require.Equal(t, want[i], s.get(path).code, "%s: %s", config, path)
			}
		})
	}
	for config, want := range map[string]string{
		"drive.example.com/v3=false": `no version "v3" of group "drive.example.com"`, "drive.example.com/v1/Motors": "lower case", "v1=perhaps": "neither true nor false",
	} {
		_, err := kindwright.New(memory.New(), kindwright.Serve(motors()), kindwright.Kubernetes{RuntimeConfig: config})
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "Kubernetes.RuntimeConfig")
	}
	_, err := kindwright.New(memory.New(), kindwright.Serve(motors()), kindwright.Kubernetes{RuntimeConfig: "unknown.example.com/v1=false"})
	require.NoError(t, err, "of an unknown group nothing is known")
}

func TestVER_17_DeprecatedVersionsWarn(t *testing.T) {
	motorised(t, func(t *testing.T, s *server) {
		const warning = `299 - "drive.example.com/v1beta1 Motor is deprecated in v1.30+, unavailable in v1.40+; use drive.example.com/v1 Motor"`
		for _, request := range [][]string{
			{"POST", motorBeta, `{"metadata":{"name":"a"},"watts":1000}`},
			{"GET", motorBeta + "/a", ""},
			{"GET", motorBeta, ""},
			{"GET", motorBeta + "?watch=1&timeoutSeconds=1", ""},
			{"GET", motorBeta + "/none", ""},
			{"GET", motorBeta + "/a/status", ""},
			{"PUT", motorBeta + "/a", `{"metadata":{"name":"a"},"watts":2000}`},
			{"PATCH", motorBeta + "/a", `{"watts":3000}`, "Content-Type", "application/merge-patch+json"},
			{"DELETE", motorBeta + "/a", ""},
			{"DELETE", motorBeta, ""},
		} {
			a := s.do(request[0], request[1], request[2], request[3:]...)
			require.Equal(t, []string{warning}, a.header.Values("Warning"), "%s", a)
		}
		require.Empty(t, s.get(motorPath).header.Values("Warning"))
	})
	motorised(t, func(t *testing.T, s *server) {
		require.Empty(t, s.get(motorBeta).is(200).header.Values("Warning"), "it is not deprecated yet")
	}, kindwright.Kubernetes{EmulatedVersion: "1.29"})
}

func TestVER_18_PrioritiesAndPreferredVersions(t *testing.T) {
	onEach(t, func(t *testing.T, s *server) {
		g := s.get("/apis/order.example.com").is(200)
		var versions []string
		for _, v := range g.at("versions").([]any) {
			versions = append(versions, at(v, "version").(string))
		}
		want := []string{"v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1"}
		require.Equal(t, want, versions)
		require.Equal(t, "v10", g.text("preferredVersion", "version"))
		for _, item := range s.get("/apis", "Accept", aggregated).at("items").([]any) {
			if at(item, "metadata", "name") != "order.example.com" {
				continue
			}
			versions = nil
			for _, v := range at(item, "versions").([]any) {
				versions = append(versions, at(v, "version").(string))
			}
			require.Equal(t, want, versions)
		}
	}, kindwright.Serve(ordered("v1alpha1"), ordered("v2"), ordered("v1beta2"), ordered("v10"), ordered("v2beta1"), ordered("v1")))

	motorised(t, func(t *testing.T, s *server) {
		hashes := map[any]bool{}
		for _, version := range []string{"v1", "v1beta1"} {
			for _, r := range s.get("/apis/drive.example.com/" + version).is(200).at("resources").([]any) {
				if at(r, "name") == "motors" {
					hashes[at(r, "storageVersionHash")] = true
				}
			}
		}
		require.Len(t, hashes, 1, "all versions are stored as one")
		require.NotContains(t, hashes, nil)
		require.NotContains(t, hashes, "")
	})
}

func ordered(version string) registry.Kind[Zone] {
	return registry.Kind[Zone]{Group: "order.example.com", Version: version, Plural: "things", Names: registry.Names{Kind: "Thing"}, StorageName: "order/" + version, Scope: registry.ClusterScoped}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return string(out)
}

func unzipped(t *testing.T, a *answer) []byte {
	t.Helper()
	require.Equal(t, "gzip", cmp.Or(a.header.Get("Content-Encoding"), http.StatusText(a.code)))
	r, err := gzip.NewReader(bytes.NewReader(a.body))
	require.NoError(t, err)
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	return out
}
